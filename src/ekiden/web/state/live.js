// What the page knows now, as signals: the team, the open session, the pairings, and how fresh all of it is.
//
// Snapshots come from the door, events from the one stream; `apply.js` joins them. Screens read the signals and call
// the functions here; nothing else talks to the stream.

import { Problem, get, place, post, whenSignedOut } from "../door.js";
import { batch, computed, signal } from "../lib.js";
import { applyToTeam, applyToView, emptyTeam, refreshed, sessionOf, teamOf, viewOf, withOlder } from "./apply.js";
import { forgetChannels, openTopic, readChannels, resourceOf, readMentions, readTalk, readThread, openThread, takeRelay, talk, whenAsked, whenTalkRead } from "./channels.js";
import { follower } from "./follow.js";
import { forgetMember } from "./member.js";
import { keepTeam, keepView, recall, wipe } from "./keep.js";
import { MEND_AFTER_MS, PAGE_ITEMS, SESSIONS_PAGE } from "./limits.js";
import { allows } from "./rights.js";

/** `unknown` until the door was asked; `out`: sign in; `in`. */
export const signedIn = signal(/** @type {"unknown" | "in" | "out"} */ ("unknown"));
export const me = signal(/** @type {any} */ (null));
export const endedBy = signal("");

export const team = signal(emptyTeam());
/** `loading`, `live`, `kept` (last seen, from `keptAt`), `failed`. */
export const teamState = signal("loading");
export const keptAt = signal(0);
export const teamProblem = signal(/** @type {Problem | null} */ (null));
export const listNext = signal("");
export const listTotal = signal(0);

export const pairings = signal(/** @type {any[]} */ ([]));
export const accessChanged = signal(0);

/** `opening`, `open`, `waiting` */
export const link = signal("opening");

export const openId = signal("");
export const view = signal(/** @type {import("./apply.js").View | null} */ (null));
/** `loading`, `live`, `kept`, `failed`, `gone` */
export const viewState = signal("loading");
export const viewProblem = signal(/** @type {Problem | null} */ (null));
export const pageProblem = signal(/** @type {Problem | null} */ (null));
export const viewKeptAt = signal(0);
/** The turn that was running and growing when the page came to it, or "". */
export const joined = signal("");

export const items = computed(() => view.value?.items ?? NONE);
export const mayAdmin = computed(() => may(me.value?.permissions ?? me.value?.key?.permissions, "admin"));

/** Whether this page's key may do that, as far as is known: the door decides. @param {string} verb @param {string} resource */
export const allowed = (verb, resource) => !me.value?.permissions || allows(me.value.permissions, verb, resource);

const NONE = Object.freeze(/** @type {any[]} */ ([]));

/** @param {any} permissions @param {string} verb */
function may(permissions, verb) {
  if (!permissions) return true; // the door decides; the page only leaves out what it knows to be refused
  return Object.values(permissions).some((verbs) => Array.isArray(verbs) && verbs.includes(verb));
}

const stream = follower({
  onEvents: (events) => batch(() => events.forEach(take)),
  onHole: () => refresh(),
  onState: (state) => {
    link.value = state;
  },
  onOpen: () => onOnline.forEach((listener) => listener()),
  onEnded: (reason) => signOutHere(reason),
});

/** @type {Set<() => void>} called whenever the stream has opened: what waits can be sent now */
const onOnline = new Set();

/** @param {() => void} listener */
export const whenOnline = (listener) => onOnline.add(listener);

whenSignedOut(() => signOutHere("unauthenticated"));

/** @param {any} event */
function take(event) {
  team.value = applyToTeam(team.value, event);
  takeRelay(event, mine());
  const about = sessionOf(event);
  if (view.value && (about === openId.value || event.kind === "host.changed")) {
    view.value = applyToView(view.value, event);
    if (view.value.missed) {
      view.value = { ...view.value, missed: false };
      stream.hurry();
    }
  }
  if (about && about === openId.value && isShort(event)) mendSoon();
  if (/^(pairing|key|invite)\./.test(event.kind)) {
    accessChanged.value += 1;
    readPairings();
  }
  keepSoon();
}

/**
 * Whether the conversation lacks what the event says is there: a page was read before its computer knew the file, or a
 * turn ended and a text of it never became whole. @param {any} event
 */
function isShort(event) {
  const now = view.value;
  if (!now || viewState.value !== "live") return false;
  if (event.kind === "session.reported") return !now.items.length && (event.body.report.messages ?? 0) > 0;
  if (event.kind === "items.added") return now.items.length <= event.body.items.length && !now.before;
  return event.kind === "turn.changed" && event.body.state !== "running" && now.growing.size > 0;
}

/** @type {any} */
let mendTimer = 0;

/** Reads the newest page again, once for all that is asked for within a moment. */
function mendSoon() {
  const id = openId.value;
  mendTimer ||= setTimeout(() => {
    mendTimer = 0;
    if (openId.value === id) readView(id);
  }, MEND_AFTER_MS);
}

/** A session's topic is followed once the door has shown the session: an address may name anything. */
const topics = () => [
  "team",
  ...(mayAdmin.value ? ["access"] : []),
  ...(openId.value && viewState.value === "live" ? [`session:${openId.value}`] : []),
  "channels",
  ...(mine() ? [`inbox:${mine()}`] : []),
  ...(openTopic() ? [openTopic()] : []),
];

/** The id of this page's principal, or "" before it is known. */
const mine = () => me.value?.principal_id ?? "";

whenTalkRead(() => stream.retopic(topics(), ""));
whenAsked(() => me.value);

/** Asks who we are and then for everything; shows the last seen state while there is no answer. */
export async function begin() {
  const kept = await recall("team");
  if (kept && teamState.value === "loading") {
    batch(() => {
      team.value = { ...emptyTeam(), ...kept, at: undefined };
      keptAt.value = kept.at;
      teamState.value = "kept";
    });
  }
  try {
    me.value = await get("/v1/me", { open: true });
    signedIn.value = "in";
  } catch (error) {
    if (error.status === 401) {
      signedIn.value = "out";
      return;
    }
    // No answer: whoever has a kept state was signed in, and may look at it.
    signedIn.value = kept ? "in" : "unknown";
    teamProblem.value = error;
    if (!kept) teamState.value = "failed";
    retryBegin();
    return;
  }
  await readTeam();
}

/** @type {any} */
let beginTimer = 0;

function retryBegin() {
  clearTimeout(beginTimer);
  link.value = "waiting";
  beginTimer = setTimeout(begin, 3000);
  window.addEventListener("online", begin, { once: true });
}

/** Reads the team's snapshots and follows from them. */
export async function readTeam() {
  try {
    const [inbox, page, hosts] = await Promise.all([
      get("/v1/inbox"),
      get(place(["sessions"], { limit: SESSIONS_PAGE })),
      get("/v1/hosts"),
    ]);
    clearTimeout(beginTimer);
    batch(() => {
      team.value = teamOf({ inbox, sessions: page.sessions, hosts: hosts.hosts });
      listNext.value = page.next ?? "";
      listTotal.value = page.total ?? page.sessions.length;
      teamState.value = "live";
      teamProblem.value = null;
    });
    // The inbox may be older than the list: following from it tells the difference, and doubles change nothing.
    stream.start(inbox.cursor, topics());
    readPairings();
    readRelay();
    keepSoon();
    if (openId.value) await readView(openId.value);
  } catch (error) {
    if (error.status === 401) return;
    teamProblem.value = error;
    if (teamState.value === "loading") teamState.value = "failed";
    retryBegin();
  }
}

/** After a hole in the stream. The stream itself goes on. */
async function refresh() {
  try {
    const [inbox, page, hosts] = await Promise.all([
      get("/v1/inbox"), get(place(["sessions"], { limit: SESSIONS_PAGE })), get("/v1/hosts"),
    ]);
    batch(() => {
      team.value = teamOf({ inbox, sessions: page.sessions, hosts: hosts.hosts });
      listNext.value = page.next ?? "";
    });
    stream.retopic(topics(), inbox.cursor);
    readPairings();
    readRelay();
    if (openId.value) await readView(openId.value);
  } catch {
    retryBegin();
  }
}

/** What the page shows of the relay, anew. */
function readRelay() {
  readChannels();
  readMentions();
  if (talk.value) readTalk();
  if (openThread.value) readThread();
}

export async function readPairings() {
  if (!mayAdmin.value) return;
  try {
    const told = await get("/v1/pairings");
    pairings.value = (told.pairings ?? []).filter((/** @type {any} */ pairing) => pairing.state === "waiting");
  } catch {
    // A key that may not see them has none to confirm.
  }
}

/**
 * More sessions of the list, or those that a filter asks for; they join what is known.
 * @param {Record<string, string>} filter vendor, project, state, text
 * @param {string} after
 * @returns {Promise<{ids: string[], next: string}>}
 */
export async function readSessions(filter, after = "") {
  const page = await get(place(["sessions"], { limit: SESSIONS_PAGE, after, ...filter }));
  const sessions = new Map(team.value.sessions);
  for (const session of page.sessions) sessions.set(session.report.session_id, session);
  batch(() => {
    team.value = { ...team.value, sessions };
    if (Object.keys(filter).length === 0) listNext.value = page.next ?? "";
  });
  return { ids: page.sessions.map((/** @type {any} */ session) => session.report.session_id), next: page.next ?? "" };
}

/** Opens a session, or none with "". @param {string} id */
export async function openSession(id) {
  if (id === openId.value) return;
  keepNow();
  batch(() => {
    openId.value = id;
    view.value = null;
    viewState.value = "loading";
    viewProblem.value = null;
    pageProblem.value = null;
    joined.value = "";
  });
  if (!id) {
    stream.retopic(topics(), "");
    return;
  }
  const kept = await recall(`session:${id}`);
  if (kept && openId.value === id && !view.value) {
    batch(() => {
      view.value = kept.view;
      viewKeptAt.value = kept.at;
      viewState.value = "kept";
    });
  }
  if (teamState.value === "live") await readView(id);
}

/** Reads a session's snapshot and its newest page. @param {string} id */
export async function readView(id) {
  const after = stream.at();
  try {
    const [told, page] = await Promise.all([
      get(place(["sessions", id])),
      get(place(["sessions", id, "items"], { limit: PAGE_ITEMS })).catch((error) => error),
    ]);
    if (openId.value !== id) return;
    const failed = page instanceof Problem ? page : null;
    const fresh = viewOf(told, failed ? null : page);
    batch(() => {
      const had = view.value;
      if (viewState.value !== "live" && fresh.growing.size) joined.value = told.session.report.turn_id || "?";
      pageProblem.value = failed;
      if (failed && had) view.value = { ...fresh, items: had.items, before: "" };
      else view.value = had && viewState.value === "live" ? refreshed(had, fresh) : fresh;
      viewState.value = "live";
      viewProblem.value = null;
    });
    // Following starts from before the snapshot was asked for: what lies between comes twice and changes nothing.
    stream.retopic(topics(), after);
    keepSoon();
  } catch (error) {
    if (openId.value !== id || error.status === 401) return;
    batch(() => {
      viewProblem.value = error;
      if (error.status === 404) viewState.value = "gone";
      else if (!view.value) viewState.value = "failed";
    });
  }
}

/** @type {Promise<void> | null} */
let olderRead = null;
export const olderLoading = signal(false);

/** The page before the oldest loaded item; one at a time. */
export function readOlder() {
  const id = openId.value;
  const before = view.value?.before;
  if (!before || olderRead) return olderRead;
  olderLoading.value = true;
  olderRead = get(place(["sessions", id, "items"], { before, limit: PAGE_ITEMS }))
    .then((page) => {
      if (openId.value !== id || !view.value) return;
      batch(() => {
        view.value = withOlder(/** @type {any} */ (view.value), page);
        pageProblem.value = null;
      });
    })
    .catch((error) => {
      if (openId.value === id) pageProblem.value = error;
    })
    .finally(() => {
      olderRead = null;
      olderLoading.value = false;
    });
  return olderRead;
}

/** The whole of an item that was shown in part. @param {string} itemId */
export async function readWholeItem(itemId) {
  const id = openId.value;
  const item = await get(place(["sessions", id, "items", itemId]));
  if (openId.value === id && view.value) {
    view.value = { ...view.value, items: view.value.items.map((had) => (had.id === itemId ? item : had)) };
  }
  return item;
}

/**
 * Puts what a write answered in its place at once. The stream may have been faster: what it has told already stands.
 * @param {"message.stored" | "message.changed" | "approval.answered"} kind @param {any} body
 */
export function told(kind, body) {
  const known = kind === "approval.answered" ? team.value.approvals.get(body.approval_id) : view.value?.messages.get(body.message_id);
  const moved = known && (kind === "approval.answered" ? (known.state ?? "open") !== "open" : known.state !== "stored");
  if (!moved) batch(() => take({ kind, body }));
}

/**
 * What became of a post, at once: the message, and how each that it mentions will get it.
 * @param {any} answer `Posted` @param {string} name of the channel
 */
export function posted(answer, name) {
  const channel = talk.value?.channel;
  const topic = channel?.name === name ? resourceOf(channel) : "";
  batch(() => {
    takeRelay({ kind: "message.posted", topic, body: answer.message }, mine());
    for (const delivery of answer.deliveries ?? []) takeRelay({ kind: "delivery.changed", body: delivery }, mine());
    lastPosted.value = answer;
  });
}

/** The answer of the newest post of this page: who is reached how. */
export const lastPosted = signal(/** @type {any} */ (null));

/** @type {any} */
let keepTimer = 0;

function keepSoon() {
  keepTimer ||= setTimeout(keepNow, 2000);
}

function keepNow() {
  clearTimeout(keepTimer);
  keepTimer = 0;
  if (signedIn.value !== "in") return;
  if (teamState.value === "live") keepTeam(team.value);
  if (view.value && viewState.value === "live") keepView(openId.value, view.value);
}

/** Ends this browser's key and forgets everything. */
export async function signOut() {
  try {
    await post("/v1/sign-out", {}, { open: true });
  } finally {
    await signOutHere("signed_out");
  }
}

/** @param {string} reason */
async function signOutHere(reason) {
  stream.stop();
  clearTimeout(keepTimer);
  keepTimer = 0;
  batch(() => {
    signedIn.value = "out";
    endedBy.value = reason;
    me.value = null;
    team.value = emptyTeam();
    teamState.value = "loading";
    view.value = null;
    openId.value = "";
    pairings.value = [];
  });
  forgetChannels();
  forgetMember();
  await wipe();
}

window.addEventListener("pagehide", keepNow);
