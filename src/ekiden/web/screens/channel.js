// One channel: the talk or one of its threads, its threads, status, leases and members.

import { html, useCallback, useComputed, useEffect, useRef, useState } from "../lib.js";
import { ask, place, remove } from "../door.js";
import { ack, channels, olderTalk, openChannel, openName, openThread, readOlderTalk, readTalk, resourceOf, talk, talkProblem, talkState, threadPage } from "../state/channels.js";
import { allowed, me } from "../state/live.js";
import { outbox } from "../state/outbox.js";
import { address, back, route } from "../state/route.js";
import { placedByNumber, shownIn } from "../state/talk.js";
import { t } from "../words/index.js";
import { compareKeys } from "../parts/compare.js";
import { Dialog, showDialog } from "../parts/dialog.js";
import { MessageView } from "../parts/message.js";
import { PostComposer } from "../parts/post_composer.js";
import { Unsent } from "../parts/receipt.js";
import { Failed, Loading } from "../parts/states.js";
import { said } from "../parts/talk_words.js";
import { Text } from "../parts/text.js";
import { VirtualList } from "../parts/virtual.js";
import { Admin } from "./channel_admin.js";
import { Leases, Statuses } from "./channel_state.js";
import { Marks } from "./channels.js";
import { Ago } from "../parts/when.js";

const TABS = Object.freeze(["talk", "threads", "status", "leases", "members", "admin"]);

/** @param {{wide: boolean}} props */
export function ChannelScreen({ wide }) {
  const { id, query } = route.value;
  const thread = query.get("thread") ?? "";
  useEffect(() => {
    openChannel(id, thread);
  }, [id, thread]);
  useEffect(() => () => {
    openChannel("", "");
  }, []);
  const bar = useRef(/** @type {HTMLElement | null} */ (null));
  const now = talk.value;
  useEffect(() => bar.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }), [query.get("tab"), now?.channel.name]);
  if (!now || openName.value !== id) {
    return html`<div class="screen"><header><${Back} wide=${wide} /><h1 class="title grow cut"># <${Text} of=${id} /></h1></header><div class="scroll">
      ${talkState.value === "gone" ? html`<div class="state"><p>${t("channel.gone")}</p><a class="button" href=${address("channels")}>${t("channel.to_list")}</a></div>`
        : talkProblem.value ? html`<${Failed} problem=${talkProblem.value} retry=${readTalk} />` : html`<${Loading} text=${t("loading.channel")} />`}</div></div>`;
  }
  const tabs = TABS.filter((one) => one !== "admin" || allowed("admin", resourceOf(now.channel)));
  const tab = tabs.includes(query.get("tab") ?? "") ? query.get("tab") : "talk";
  return html`<div class="session"><div class="screen">
      <${Head} wide=${wide} channel=${now.channel} thread=${thread} />
      ${thread ? null : html`<nav class="tabs" ref=${bar} aria-label=${t("channel.parts")}>${tabs.map((one) => html`<a href=${address("channel", id, one === "talk" ? {} : { tab: one })}
        aria-current=${one === tab ? "page" : undefined}>${t(`channel.tab.${one}`)}${count(one, now)}</a>`)}</nav>`}
      ${talkProblem.value ? html`<${Failed} problem=${talkProblem.value} inline />` : null}
      <${Part} tab=${thread ? "talk" : tab} thread=${thread} key=${`${tab} ${thread}`} />
    </div>
    <aside class="right" aria-label=${t("truth.label")}><${About} now=${now} /></aside></div>`;
}

/** @param {string} tab @param {any} now */
function count(tab, now) {
  const size = { threads: now.threads.size, status: now.statuses.size, leases: now.leases.size, members: now.members.size }[tab];
  return size ? html` <small class="soft">${size}</small>` : null;
}

/** @param {{wide: boolean}} props */
const Back = ({ wide }) => (wide ? null : html`<button type="button" class="quiet back" onClick=${back} aria-label=${t("do.back")}><span aria-hidden="true">‹</span></button>`);

/** @param {{wide: boolean, channel: any, thread: string}} props */
function Head({ wide, channel, thread }) {
  const about = () => showDialog(() => html`<${Dialog} title=${`# ${channel.name}`} side><${About} now=${talk.value} /><//>`);
  const unread = channels.value.get(channel.name)?.unread;
  return html`<header class="session-head"><${Back} wide=${wide} />
    <div class="grow"><h1 class="title cut"># <${Text} of=${channel.name} />${thread ? html` · ${t("thread.title")}` : null}</h1>
      <small class="soft row"><${Marks} channel=${channel} /><span class="cut"><${Text} of=${channel.topic ?? ""} /></span></small></div>
    ${thread ? html`<${ThreadVerbs} channel=${channel} thread=${thread} />`
      : unread ? html`<button type="button" onClick=${() => ack(channel.name, { upto: talk.value?.channel.last_number })}>${t("channel.seen_all")}</button>` : null}
    <button type="button" class="quiet details" onClick=${about}>${t("truth.open")}</button></header>`;
}

/** @param {{channel: any, thread: string}} props */
function ThreadVerbs({ channel, thread }) {
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const known = talk.value?.threads.get(thread);
  const finish = async () => {
    try {
      await ask("PATCH", place(["channels", channel.name, "threads", thread]), { body: { done: known?.state !== "done" } });
      setProblem(null);
    } catch (failed) {
      setProblem(failed);
    }
  };
  return html`<a class="quiet-link small" href=${address("channel", channel.name)}>${t("thread.to_channel")}</a>
    ${known ? html`<button type="button" onClick=${finish}>${t(known.state === "done" ? "thread.reopen" : "thread.finish")}</button>` : null}
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}`;
}

/** @param {{tab: string | null, thread: string}} props */
function Part({ tab, thread }) {
  switch (tab) {
    case "threads":
      return html`<${Area}><${Threads} /><//>`;
    case "status":
      return html`<${Area}><${Statuses} /><//>`;
    case "leases":
      return html`<${Area}><${Leases} /><//>`;
    case "admin":
      return html`<${Area}><${Admin} /><//>`;
    case "members":
      return html`<${Area}><${Members} /><//>`;
    default:
      return html`<${Conversation} thread=${thread} />`;
  }
}

/** @param {{children?: any}} props */
const Area = ({ children }) => html`<div class="scroll" data-area><div class="col">${children}</div></div>`;

/** @param {{thread: string}} props */
function Conversation({ thread }) {
  const [answering, setAnswering] = useState(/** @type {any} */ (null));
  const [bottom, setBottom] = useState(true);
  const list = useRef(/** @type {any} */ (null));
  const rows = useComputed(() => rowsOf(openThread.value));
  const draw = useCallback((/** @type {any} */ row) => {
    if (row.kind === "head") return html`<${Beginning} thread=${thread} />`;
    if (row.kind === "unsent") return html`<${Unsent} entry=${row.entry} />`;
    return html`<${MessageView} message=${row.message} thread=${thread} onAnswer=${setAnswering} />`;
  }, [thread, talk.value?.threads]);
  const wanted = route.value.query.get("message") ?? "";
  useEffect(() => {
    if (wanted) requestAnimationFrame(() => list.current?.toKey(wanted));
  }, [wanted]);
  const sent = () => {
    setAnswering(null);
    list.current?.toBottom();
  };
  return html`<div class="conversation" data-area>
      <${VirtualList} rows=${rows.value} draw=${draw} version=${talk.value?.threads} handle=${list} label=${t("channel.messages")}
        onNearTop=${thread ? undefined : readOlderTalk} onBottom=${setBottom} />
      ${bottom ? null : html`<button type="button" class="below" onClick=${() => list.current?.toBottom()}>${t("session.to_end")} <span aria-hidden="true">↓</span></button>`}
    </div>
    <${Announce} rows=${rows.value} />
    <${PostComposer} key=${thread} thread=${thread} answering=${answering} onSent=${sent} />`;
}

/** @param {string} thread */
function rowsOf(thread) {
  const now = talk.value;
  if (!now) return [];
  const all = thread ? placedByNumber(threadPage.value, now.messages.filter((message) => message.thread_id === thread || message.message_id === thread), false) : now.messages;
  const messages = shownIn(all, thread);
  const there = new Set(messages.map((message) => message.message_id));
  const waiting = outbox.value.filter((entry) => entry.channel === now.channel.name && (entry.body?.thread_id ?? "") === thread && !there.has(entry.message_id));
  return [
    { key: "head", kind: "head", version: `${now.before} ${olderTalk.value}` },
    ...messages.map((message) => ({ key: message.message_id, kind: "message", message })),
    ...waiting.map((entry) => ({ key: `out:${entry.message_id}`, kind: "unsent", entry })),
  ];
}

/** @param {{thread: string}} props */
function Beginning({ thread }) {
  const now = talk.value;
  if (!now) return null;
  if (!thread && (olderTalk.value || now.before)) return html`<p class="soft small centre" role="status">${t("loading.older")}</p>`;
  return html`${now.missing ? html`<p class="say-note">${t("channel.purged", { count: now.missing })}</p>` : null}
    ${now.messages.length ? null : html`<div class="state"><p>${t("channel.empty")}</p></div>`}`;
}

/** New messages are read out politely; only those that came while the screen was open. @param {{rows: any[]}} props */
function Announce({ rows }) {
  const last = rows.findLast((/** @type {any} */ row) => row.kind === "message");
  const first = useRef(last?.key);
  const news = last && last.key !== first.current && last.message.sender_id !== me.value?.principal_id;
  return html`<div class="sr" role="log" aria-live="polite" aria-atomic="true">${news ? html`<${Text} of=${`${last.message.sender}: ${(last.message.text ?? "").slice(0, 300)}`} />` : ""}</div>`;
}

function Threads() {
  const now = talk.value;
  const list = [...(now?.threads.values() ?? [])].sort((one, other) => other.last_number - one.last_number);
  if (!list.length) return html`<div class="state"><p>${t("threads.empty")}</p></div>`;
  return list.map((thread) => html`<a class="card session-card" key=${thread.thread_id} data-row href=${address("channel", now?.channel.name, { thread: thread.thread_id })}>
    <span class="row"><span class="title grow cut"><${Text} of=${thread.title || t("thread.untitled")} /></span>
      ${thread.stopped ? html`<span class="pill">${said("why", thread.stopped)}</span>` : null}
      <span class=${`pill ${thread.state === "done" ? "run" : ""}`}>${t(`thread_state.${thread.state}`)}</span></span>
    <small class="soft">${t("message.replies", { count: thread.replies })} · <${Ago} at=${thread.last_at} />${thread.done_by ? html` · ${t("thread.done_by")} <${Text} of=${thread.done_by} />` : null}</small></a>`);
}

function Members() {
  const now = talk.value;
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  if (!now) return null;
  const here = now.members.has(me.value?.principal_id);
  const turn = async () => {
    try {
      const where = place(["channels", now.channel.name, "members", "me"]);
      if (here) await remove(where);
      else await ask("PUT", where, { body: {} });
      await readTalk();
    } catch (failed) {
      setProblem(failed);
    }
  };
  const invite = now.channel.state !== "archived" && allowed("invite", resourceOf(now.channel));
  return html`<div class="row wrap"><p class="grow soft small">${t("members.what")}</p>
      ${invite ? html`<a class="button" href=${address("invites", "", { channel: now.channel.name })}>${t("invites.open")}</a>` : null}<button type="button" onClick=${turn}>${t(here ? "members.leave" : "members.join")}</button></div>
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}
    ${[...now.members.values()].map((member) => html`<article class="card" key=${member.principal_id} data-row tabindex="-1"><div class="row">
      <span class="title grow"><${Text} of=${member.name} /></span>${member.role ? html`<span class="pill"><${Text} of=${member.role} /></span>` : null}<span class="pill">${said("kind", member.kind)}</span></div>
      <small class="soft">${t("members.seen", { number: member.acked_to ?? 0, last: now.channel.last_number ?? 0 })}</small>
      ${member.principal_id === me.value?.principal_id ? null : html`<p><button type="button" class="link small" onClick=${() => compareKeys(member.principal_id, member.name)}>${t("trust.open")}</button></p>`}</article>`)}`;
}

/** What is true of this channel. @param {{now: any}} props */
function About({ now }) {
  if (!now) return null;
  const { channel } = now;
  const retention = channel.retention ?? {};
  return html`<div class="truth">
    <p>${t(channel.encrypted ? "about.encrypted" : "about.plain")}</p>
    <p class="soft small">${t(channel.private ? "about.private" : "about.open")}</p>
    ${channel.signed ? html`<p class="soft small">${t("about.signed")}</p>` : null}
    ${channel.epoch_stale ? html`<p class="say-note">${t("about.stale")}</p>` : null}
    <p class="soft small">${retention.held ? t("about.held") : retention.count || retention.age_s ? t("about.kept", { days: Math.round((retention.age_s ?? 0) / 86_400), messages: retention.count ?? 0 }) : t("about.for_ever")}</p>
    <p class="soft small">${t("about.messages", { count: channel.last_number ?? 0 })}</p>
    <h2>${t("channel.tab.members")}</h2>
    <ul class="bare">${[...now.members.values()].slice(0, 12).map((member) => html`<li class="small"><${Text} of=${member.name} /> <span class="soft">${t("members.seen", { number: member.acked_to ?? 0, last: channel.last_number ?? 0 })}</span></li>`)}</ul>
    ${allowed("admin", resourceOf(channel)) ? html`<${Archive} channel=${channel} />` : null}
  </div>`;
}

/** @param {{channel: any}} props */
function Archive({ channel }) {
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const turn = async () => {
    try {
      await ask("PATCH", place(["channels", channel.name]), { body: { archived: channel.state !== "archived" } });
      setProblem(null);
    } catch (failed) {
      setProblem(failed);
    }
  };
  return html`<p><button type="button" onClick=${turn}>${t(channel.state === "archived" ? "channel.unarchive" : "channel.archive")}</button></p>
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}`;
}
