// One session: its items, what is growing, what waits, and the composer.

import { effect, html, useCallback, useComputed, useEffect, useRef, useSignal, useState } from "../lib.js";
import { get, place } from "../door.js";
import { ECHO_LOOK_BACK, FIND_PAGES_MAX } from "../state/limits.js";
import { items, joined, olderLoading, openId, pageProblem, readOlder, readView, view, viewKeptAt, viewProblem, viewState } from "../state/live.js";
import { outbox } from "../state/outbox.js";
import { address, back, route } from "../state/route.js";
import { echoes, rowsOf } from "../state/rows.js";
import { forgetThreads } from "../state/threads.js";
import { t } from "../words/index.js";
import { ApprovalCard } from "../parts/approval.js";
import { Bars, StatePill, folderName, levelWord, titleOf, vendorName } from "../parts/badge.js";
import { Composer } from "../parts/composer.js";
import { Dialog, showDialog } from "../parts/dialog.js";
import { forgetFolds } from "../parts/folds.js";
import { noticeOf } from "../parts/from_host.js";
import { GrowingView, RowView } from "../parts/item.js";
import { Pending, Unsent } from "../parts/receipt.js";
import { Failed, Loading } from "../parts/states.js";
import { Text } from "../parts/text.js";
import { VirtualList } from "../parts/virtual.js";
import { visibleText } from "../parts/visible.js";
import { Ago } from "../parts/when.js";
import { RawLines } from "./raw.js";
import { Truth } from "./truth.js";
import { carriedNote } from "./verbs.js";

/** @param {{wide: boolean}} props */
export function SessionScreen({ wide }) {
  useEffect(() => () => {
    forgetFolds();
    forgetThreads();
  }, []);
  const now = view.value;
  if (!now) {
    return html`<div class="screen">
      <header><${Back} wide=${wide} /><span class="grow"></span></header>
      <div class="scroll">${viewState.value === "gone"
        ? html`<div class="state"><p>${t("session.gone")}</p><a class="button" href=${address("sessions")}>${t("session.to_list")}</a></div>`
        : viewState.value === "failed" || viewProblem.value
          ? html`<${Failed} problem=${viewProblem.value} retry=${() => readView(openId.value)} />`
          : html`<${Loading} text=${t("loading.session")} />`}</div></div>`;
  }
  return html`<div class="session">
    <div class="screen">
      <${Head} wide=${wide} session=${now.session} />
      <${Conversation} />
    </div>
    <aside class="right" aria-label=${t("truth.label")}><${Truth} session=${now.session} /></aside>
  </div>`;
}

/** @param {{wide: boolean}} props */
const Back = ({ wide }) => (wide ? null : html`<button type="button" class="quiet back" onClick=${back} aria-label=${t("do.back")}><span aria-hidden="true">‹</span></button>`);

/** @param {{wide: boolean, session: any}} props */
function Head({ wide, session }) {
  const { report } = session;
  const open = [...(view.value?.approvals.values() ?? [])].filter((approval) => (approval.state ?? "open") === "open");
  const details = () => showDialog(() => html`<${Dialog} title=${levelWord(view.value?.session ?? session)} side><${Truth} session=${view.value?.session ?? session} bare /><//>`);
  return html`<header class="session-head"><${Back} wide=${wide} />
    <div class="grow"><h1 class="title cut"><${Text} of=${titleOf(session)} /></h1>
      <small class="soft row"><${Bars} session=${session} silent /><span class="cut">${levelWord(session)} · ${vendorName(report.vendor)} · <${Text} of=${session.host_name} /> ·${" "}
        <span title=${visibleText(report.cwd ?? "")}><${Text} of=${folderName(report.cwd)} /></span>${report.git_branch ? html` · <${Text} of=${report.git_branch} />` : null}</span></small></div>
    <${StatePill} session=${session} asks=${open.length} />
    <button type="button" class="quiet details" onClick=${details}>${t("truth.open")}</button>
  </header>`;
}

function Conversation() {
  const [bottom, setBottom] = useState(true);
  const fresh = useSignal(false);
  const away = useRef(false);
  away.current = !bottom;
  const list = useRef(/** @type {any} */ (null));
  const conversation = useComputed(() => rowsOf(items.value));
  const growingIds = useComputed(() => {
    const last = new Set(items.value.slice(-300).map((item) => item.id));
    return [...(view.value?.growing.keys() ?? [])].filter((id) => !last.has(id)).join(" ");
  });
  const echo = useComputed(() => echoes(items.value, view.value?.messages ?? new Map(), ECHO_LOOK_BACK));
  const tail = useComputed(() => tailRows(growingIds.value, echo.value));
  const head = useComputed(() => [{ key: "head", kind: "head", items: [], more: view.value?.before ?? "", version: headVersion() }]);
  const rows = useComputed(() => [...head.value, ...conversation.value.rows, ...tail.value]);
  const threads = conversation.value.threads;
  const marks = echo.value;
  const draw = useCallback((/** @type {any} */ row) => drawRow(row, conversation.value.threads, echo.value), [threads, marks]);
  useEffect(() => {
    // What comes while the person reads further up is marked; this runs with every piece and draws nothing itself.
    let had = newest();
    return effect(() => {
      const now = newest();
      if (now !== had && away.current) fresh.value = true;
      had = now;
    });
  }, []);
  useFind(list, conversation);
  const session = view.value?.session;
  if (!session) return null;
  const toBottom = () => {
    fresh.value = false;
    list.current?.toBottom();
  };
  return html`
    ${viewState.value === "kept" ? html`<p class="banner" role="status">${t("fresh.kept")} <${Ago} at=${viewKeptAt.value} />.</p>` : null}
    <div class="conversation" data-area>
      <${VirtualList} rows=${rows.value} draw=${draw} version=${tail.value} handle=${list} label=${t("session.items")}
        onNearTop=${readOlder} onBottom=${(/** @type {boolean} */ is) => { setBottom(is); if (is) fresh.value = false; }} />
      ${bottom ? null : html`<button type="button" class="below" onClick=${toBottom}>${t(fresh.value ? "session.new_below" : "session.to_end")} <span aria-hidden="true">↓</span></button>`}
    </div>
    <${Announce} rows=${conversation.value.rows} />
    <${Composer} key=${session.report.session_id} session=${session} onSent=${toBottom} />`;
}

/** @returns {string} changes with whatever comes at the end of the conversation */
const newest = () =>
  [items.value.at(-1)?.id, ...[...(view.value?.growing.values() ?? [])].map((growing) => `${growing.item_id}:${growing.count}`)].join(" ");

/** @returns {string} changes with whatever the first row shows */
const headVersion = () => [view.value?.before, olderLoading.value, pageProblem.value?.code, view.value?.fromCopy].join("|");

/**
 * The rows after the conversation: what grows, who asks, what waits.
 * @param {string} growing @param {Map<string, any>} echo
 */
function tailRows(growing, echo) {
  const now = view.value;
  if (!now) return [];
  const shown = new Set([...echo.values()].map((message) => message.message_id));
  const rows = growing.split(" ").filter(Boolean).map((id) => ({ key: id, kind: "growing", items: [id] }));
  const inMotion = now.session.state === "running" || now.session.state === "waiting";
  if (joined.value && inMotion && joined.value === (now.session.report.turn_id || "?")) rows.push({ key: "joined", kind: "joined", items: [] });
  for (const approval of now.approvals.values()) if (isShown(approval, now)) rows.push({ key: approval.approval_id, kind: "approval", items: [approval] });
  for (const message of now.messages.values()) {
    if (shown.has(message.message_id) || message.state === "seen") continue;
    rows.push({ key: message.message_id, kind: "message", items: [message] });
  }
  for (const entry of outbox.value) {
    if (entry.session_id !== now.session.report.session_id || now.messages.has(entry.message_id)) continue;
    rows.push({ key: `out:${entry.message_id}`, kind: "unsent", items: [entry] });
  }
  if (now.session.state === "lost") rows.push({ key: "lost", kind: "lost", items: [] });
  rows.push({ key: "end", kind: "end", items: [] });
  return rows;
}

/** An approval that was decided stays until its turn ends. @param {any} approval @param {any} now */
const isShown = (approval, now) =>
  (approval.state ?? "open") === "open" || (approval.turn_id === now.session.report.turn_id && now.session.state !== "idle");

/** @param {any} row @param {Map<string, any[]>} threads @param {Map<string, any>} echo */
function drawRow(row, threads, echo) {
  switch (row.kind) {
    case "head":
      return html`<${Beginning} />`;
    case "growing":
      return html`<${GrowingView} id=${row.items[0]} />`;
    case "joined":
      return html`<p class="say-note">${t("session.joined")}</p>`;
    case "approval":
      return html`<${ApprovalCard} approval=${row.items[0]} here />`;
    case "message":
      return html`<${Pending} message=${row.items[0]} />`;
    case "unsent":
      return html`<${Unsent} entry=${row.items[0]} />`;
    case "lost":
      return html`<p class="say-note">${t("inbox.lost")} ${t("inbox.lost_next")}</p>`;
    case "end":
      return html`<${End} />`;
    default:
      return html`<${RowView} row=${row} threads=${threads} echo=${echo} />`;
  }
}

/** Above the first item: more, the beginning, or why there is nothing. */
function Beginning() {
  const now = view.value;
  if (!now) return null;
  if (pageProblem.value) return html`<${Failed} problem=${pageProblem.value} retry=${() => (items.value.length && now.before ? readOlder() : readView(openId.value))} inline />`;
  if (olderLoading.value || now.before) return html`<p class="soft small centre" role="status">${t("loading.older")}</p>`;
  const drift = now.session.report.drift && now.session.report.drift !== "none";
  return html`<div>
    ${viewState.value === "kept" ? html`<p class="soft small centre">${t("session.kept_part")}</p>`
      : items.value.length ? html`<p class="soft small centre">${t("session.beginning")}</p>`
      : html`<${Nothing} report=${now.session.report} />`}
    ${now.fromCopy ? html`<p class="say-note">${t("session.from_copy")}</p>` : null}
    ${drift || (!items.value.length && now.session.report.rows) ? html`<${RawLines} id=${now.session.report.session_id} open=${!items.value.length} />` : null}
    ${now.notices.filter((word) => word !== "source_gone" || !now.fromCopy).map((word) => html`<p class="say-note"><${Text} of=${noticeOf(word)} /></p>`)}
  </div>`;
}

/** Why there is no item. @param {{report: any}} props */
function Nothing({ report }) {
  if (report.origin === "fork" && report.parent_session_id && !report.rows) {
    return html`<div class="state"><p>${t("session.fork_empty")}</p>
      <a class="button" href=${address("session", report.parent_session_id)}>${t("session.fork_source")}</a></div>`;
  }
  return html`<div class="state"><p>${t(report.rows ? "session.unread" : "session.empty")}</p></div>`;
}

/** Below the last item: what came with a verb. */
function End() {
  const note = carriedNote(openId.value);
  return html`<div class="end">${note ? html`<p class="say-note">${note}</p>` : null}</div>`;
}

/** New items are read out politely; only those that came while the screen was open. @param {{rows: any[]}} props */
function Announce({ rows }) {
  const last = rows[rows.length - 1];
  const first = useRef(last?.key);
  const text = last && last.key !== first.current && last.kind === "item" ? announcement(last.items[0]) : "";
  return html`<div class="sr" role="log" aria-live="polite" aria-atomic="true">${text}</div>`;
}

/** @param {any} item */
function announcement(item) {
  const said = (item.content ?? []).find((/** @type {any} */ block) => block.type === "text")?.text ?? "";
  if (item.kind === "message" && item.role !== "user") return html`${t("item.agent")} <${Text} of=${said.slice(0, 300)} />`;
  if (item.kind === "tool") return html`${t(`tool.${item.tool?.state ?? "completed"}`)} <${Text} of=${(item.tool?.command || item.tool?.title || item.tool?.name || "").slice(0, 120)} />`;
  return "";
}

/**
 * Goes to the item that the address names: loads older pages until it is there, within a bound; else shows it alone.
 * @param {any} list @param {any} conversation
 */
function useFind(list, conversation) {
  const wanted = route.value.query.get("item") ?? "";
  useEffect(() => {
    if (!wanted || viewState.value !== "live") return undefined;
    let stopped = false;
    const keyOf = () => conversation.value.rows.find((/** @type {any} */ row) => row.items.some((/** @type {any} */ item) => item.id === wanted))?.key;
    (async () => {
      for (let pages = 0; pages < FIND_PAGES_MAX && !stopped && !keyOf() && view.value?.before; pages += 1) await readOlder();
      if (stopped) return;
      const key = keyOf();
      if (key) requestAnimationFrame(() => list.current?.toKey(key));
      else showAlone(wanted);
    })();
    return () => {
      stopped = true;
    };
  }, [wanted, viewState.value]);
}

/** @param {string} itemId */
async function showAlone(itemId) {
  try {
    const item = await get(place(["sessions", openId.value, "items", itemId]));
    const row = { key: item.id, kind: /** @type {const} */ ("item"), items: [item] };
    showDialog(() => html`<${Dialog} title=${t("search.found")} side><${RowView} row=${row} threads=${new Map()} echo=${new Map()} /><//>`);
  } catch {
    showDialog(() => html`<${Dialog} title=${t("search.found")}><p>${t("search.gone")}</p><//>`);
  }
}
