// All sessions, newest first, grouped by project; filters, and a search in titles and in the text.

import { html, signal, useEffect } from "../lib.js";
import { get, place } from "../door.js";
import { SEARCH_HITS_PAGE, SEARCH_WAIT_MS } from "../state/limits.js";
import { asks, newestFirst } from "../state/inbox.js";
import { listNext, openId, readSessions, readTeam, team, teamProblem, teamState } from "../state/live.js";
import { address } from "../state/route.js";
import { percent, t } from "../words/index.js";
import { Bars, StatePill, folderName, levelWord, titleOf, vendorName } from "../parts/badge.js";
import { Empty, Failed, Loading } from "../parts/states.js";
import { Text, textNodes } from "../parts/text.js";
import { visibleText } from "../parts/visible.js";
import { Ago } from "../parts/when.js";

// One search for the whole page: the list at the left and the screen show the same.
const text = signal("");
const vendor = signal("");
const state = signal("");
const matched = signal(/** @type {{text: string, ids: Set<string>}} */ ({ text: "", ids: new Set() }));
const found = signal(/** @type {any} */ (null));
const foundProblem = signal(/** @type {any} */ (null));
const nextOf = signal(/** @type {Map<string, string>} */ (new Map()));

/** @type {any} */
let timer = 0;

const filter = () => {
  /** @type {Record<string, string>} */
  const chosen = {};
  if (vendor.value) chosen.vendor = vendor.value;
  if (state.value) chosen.state = state.value;
  if (text.value.trim()) chosen.text = text.value.trim();
  return chosen;
};

/** Asks the door for what the filters name, and for the text where there is any. */
function changed() {
  clearTimeout(timer);
  foundProblem.value = null;
  if (!text.value.trim()) found.value = null;
  timer = setTimeout(search, SEARCH_WAIT_MS);
}

async function search() {
  const wanted = filter();
  if (!Object.keys(wanted).length) return;
  try {
    const { ids, next } = await readSessions(wanted);
    nextOf.value = new Map(nextOf.value).set(JSON.stringify(wanted), next);
    if (wanted.text) matched.value = { text: wanted.text, ids: new Set(ids) };
    if (!wanted.text) return;
    const hits = await get(place(["search"], { text: wanted.text, limit: SEARCH_HITS_PAGE }));
    if (text.value.trim() === wanted.text) found.value = { ...hits, text: wanted.text };
  } catch (problem) {
    foundProblem.value = problem;
  }
}

async function moreHits() {
  const had = found.value;
  try {
    const hits = await get(place(["search"], { text: had.text, limit: SEARCH_HITS_PAGE, after: had.next }));
    if (found.value === had) found.value = { ...hits, text: had.text, hits: [...had.hits, ...hits.hits] };
  } catch (problem) {
    foundProblem.value = problem;
  }
}

async function moreSessions() {
  const wanted = filter();
  const key = JSON.stringify(wanted);
  const plain = !Object.keys(wanted).length;
  try {
    const { ids, next } = await readSessions(wanted, plain ? listNext.value : nextOf.value.get(key) ?? "");
    if (!plain) nextOf.value = new Map(nextOf.value).set(key, next);
    if (wanted.text) matched.value = { text: wanted.text, ids: new Set([...matched.value.ids, ...ids]) };
  } catch (problem) {
    foundProblem.value = problem;
  }
}

/** @returns {any[]} the known sessions that the filters leave, newest first */
function shown() {
  const words = text.value.trim().toLowerCase();
  const hits = matched.value.text === text.value.trim() ? matched.value.ids : new Set();
  return newestFirst([...team.value.sessions.values()].filter((session) => {
    const report = session.report;
    if (vendor.value && report.vendor !== vendor.value) return false;
    if (state.value && session.state !== state.value) return false;
    return !words || hits.has(report.session_id) || `${report.title ?? ""} ${report.cwd ?? ""}`.toLowerCase().includes(words);
  }));
}

/** @param {any[]} sessions @returns {[string, any[]][]} by project; the project with the newest session first */
export function grouped(sessions) {
  /** @type {Map<string, any[]>} */
  const groups = new Map();
  for (const session of sessions) {
    const project = session.report.project || session.report.cwd || "";
    const group = groups.get(project);
    if (group) group.push(session);
    else groups.set(project, [session]);
  }
  return [...groups];
}

/** @param {{wide: boolean}} props */
export function SessionsScreen({ wide }) {
  if (wide) return html`<div class="screen"><header><h1 class="grow">${t("places.sessions")}</h1></header><div class="scroll"><${Empty} text=${t("sessions.choose")} /></div></div>`;
  return html`<div class="screen"><header><h1 class="grow">${t("places.sessions")}</h1></header><${SessionList} /></div>`;
}

export function SessionList() {
  const wanted = filter();
  const key = JSON.stringify(wanted);
  const next = Object.keys(wanted).length ? nextOf.value.get(key) ?? "" : listNext.value;
  const sessions = shown();
  return html`<div class="list">
    <div class="search">
      <input type="search" value=${text.value} placeholder=${t("sessions.search")} aria-label=${t("sessions.search")} enterkeyhint="search"
        onInput=${(/** @type {any} */ event) => { text.value = event.target.value; changed(); }} />
      <${Chips} />
    </div>
    <div class="scroll" data-area>
      ${teamState.value === "loading" ? html`<${Loading} text=${t("loading.sessions")} />`
        : teamState.value === "failed" ? html`<${Failed} problem=${teamProblem.value} retry=${readTeam} />`
        : html`
          ${grouped(sessions).map(([project, group]) => html`<section key=${project} aria-label=${visibleText(folderName(project))}>
            <h2 title=${visibleText(project)}><${Text} of=${folderName(project) || t("sessions.nowhere")} /></h2>
            ${group.map((session) => html`<${SessionRow} key=${session.report.session_id} session=${session} />`)}</section>`)}
          ${sessions.length ? null : html`<${Empty} text=${t(Object.keys(wanted).length ? "sessions.none" : "sessions.empty")}>
            ${Object.keys(wanted).length ? null : html`<a class="button" href=${address("new")}>${t("inbox.start")}</a>`}<//>`}
          ${next ? html`<${More} load=${moreSessions} cursor=${next} />` : null}
          <${Found} />`}
    </div>
  </div>`;
}

/** Loads the next page when it comes into sight. @param {{load: () => void, cursor: string}} props */
function More({ load, cursor }) {
  useEffect(() => {
    const button = document.querySelector("[data-more]");
    if (!button) return undefined;
    const watch = new IntersectionObserver((seen) => seen.some((entry) => entry.isIntersecting) && load());
    watch.observe(button);
    return () => watch.disconnect();
  }, [cursor]);
  return html`<button type="button" class="quiet more" data-more onClick=${load}>${t("sessions.more")}</button>`;
}

const STATES = Object.freeze(["running", "waiting", "lost"]);

function Chips() {
  const vendors = [...new Set([...team.value.sessions.values()].map((session) => session.report.vendor))].sort();
  const chip = (/** @type {any} */ chosen, /** @type {string} */ value, /** @type {string} */ word) => html`<button type="button" class="chip"
    aria-pressed=${chosen.value === value} onClick=${() => { chosen.value = chosen.value === value ? "" : value; changed(); }}>${word}</button>`;
  return html`<div class="chips" role="group" aria-label=${t("sessions.filter")}>
    ${STATES.map((value) => chip(state, value, t(`state.${value}`)))}
    ${vendors.length > 1 || vendor.value ? vendors.map((value) => chip(vendor, value, vendorName(value))) : null}
  </div>`;
}

/** @param {{session: any}} props */
function SessionRow({ session }) {
  const { report } = session;
  const busy = session.state === "running";
  const on = openId.value === report.session_id;
  return html`<a class=${`item ${on ? "on" : ""}`} href=${address("session", report.session_id)} data-row aria-current=${on ? "page" : undefined}>
    <span class="row">${busy ? html`<span class="dot" aria-hidden="true"></span>` : null}
      <span class=${`grow cut ${busy ? "title" : ""}`}><${Text} of=${titleOf(session)} /></span>
      <${StatePill} session=${session} asks=${asks.value.get(report.session_id) ?? 0} /></span>
    <small class="soft row"><${Bars} session=${session} silent /><span class="cut">${levelWord(session)} · ${vendorName(report.vendor)} · <${Ago} at=${report.updated_at} />
      ${session.host_here ? null : html` · ${t("state.away")}`}</span></small>
  </a>`;
}

function Found() {
  if (foundProblem.value) return html`<${Failed} problem=${foundProblem.value} retry=${search} inline />`;
  if (!text.value.trim()) return null;
  const told = found.value;
  if (!told || told.text !== text.value.trim()) return html`<${Loading} text=${t("loading.search")} />`;
  return html`<section aria-label=${t("search.title")}>
    <h2>${t("search.title")}</h2>
    ${(told.indexed_share ?? 1) < 1 ? html`<p class="say-note">${t("search.indexing", { share: percent(told.indexed_share) })}</p>` : null}
    ${(told.away ?? []).map((/** @type {string} */ name) => html`<p class="say-note">${t("search.away", { host: name })}</p>`)}
    ${told.hits.length ? null : html`<p class="soft pad">${t("search.none")}</p>`}
    ${told.hits.map((/** @type {any} */ hit) => html`<a class="item" data-row href=${address("session", hit.session_id, { item: hit.item_id })}>
      <span class="row"><span class="grow cut"><${Text} of=${hit.title || t("session.untitled")} /></span><small class="soft"><${Ago} at=${hit.at} /></small></span>
      <small class="soft excerpt">${excerpt(hit)}</small></a>`)}
    ${told.next ? html`<button type="button" class="quiet more" onClick=${moreHits}>${t("search.more")}</button>` : null}
  </section>`;
}

/** The text around a find with the finds marked; positions count code points. @param {any} hit */
function excerpt(hit) {
  const points = Array.from(hit.excerpt ?? "");
  const parts = [];
  let from = 0;
  for (const [start, end] of hit.matches ?? []) {
    if (start < from || end > points.length) continue;
    parts.push(textNodes(points.slice(from, start).join("")), html`<mark>${textNodes(points.slice(start, end).join(""))}</mark>`);
    from = end;
  }
  parts.push(textNodes(points.slice(from).join("")));
  return parts;
}
