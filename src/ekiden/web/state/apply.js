// Snapshot + events = snapshot: pure functions, no clock, no network. The state is never changed in place.
//
// Two views are kept. The team's view has every session, host and approval that the page knows of. A session's view
// has its items, what is growing, its messages and approvals. Events carry whole things, so that telling one twice
// changes nothing; pieces of a growing item carry their index, so that a double is skipped and a hole is noticed.

/**
 * @typedef {object} Team
 * @property {Map<string, any>} sessions by session id: the door's `Session`
 * @property {Map<string, any>} approvals by approval id, the decided ones too until the next snapshot
 * @property {Map<string, any>} hosts by host id
 * @property {Map<string, any>} held by session id: sessions that wait for someone at their own terminal
 *
 * @typedef {object} View
 * @property {any} session
 * @property {any[]} items in file order
 * @property {string} before cursor towards the beginning, empty when it is reached
 * @property {Map<string, any>} growing by item id, in order of appearance
 * @property {Map<string, any>} approvals
 * @property {Map<string, any>} messages
 * @property {boolean} missed a piece is missing: the stream must be opened anew
 * @property {boolean} fromCopy
 * @property {string[]} notices
 */

/** @returns {Team} */
export const emptyTeam = () => ({ sessions: new Map(), approvals: new Map(), hosts: new Map(), held: new Map() });

/**
 * The team's view from its snapshots. Sessions that were known before and are on no page any more are kept from
 * `earlier` only where `keep` says so.
 * @param {{inbox: any, sessions: any[], hosts: any[]}} told
 * @returns {Team}
 */
export function teamOf({ inbox, sessions, hosts }) {
  const team = emptyTeam();
  for (const host of hosts) team.hosts.set(host.host_id, host);
  for (const session of sessions) team.sessions.set(session.report.session_id, session);
  for (const session of inbox.running ?? []) team.sessions.set(session.report.session_id, session);
  for (const entry of inbox.entries ?? []) {
    if (entry.session) team.sessions.set(entry.session.report.session_id, entry.session);
    if (entry.kind === "approval" && entry.approval) team.approvals.set(entry.approval.approval_id, entry.approval);
    if (entry.kind === "held" && entry.session) team.held.set(entry.session.report.session_id, entry);
  }
  return team;
}

/**
 * A session as it stands: as reported, but `lost` for a running turn of a host that is away.
 * @param {any} session
 */
function settled(session) {
  const reported = session.report.state ?? "idle";
  const running = reported === "running" || reported === "waiting";
  return { ...session, state: running && !session.host_here ? "lost" : reported };
}

const IN_MOTION = new Set(["running", "waiting", "lost"]);

/** Which state of a session a turn's end or beginning means. */
const STATE_AFTER_TURN = Object.freeze({
  running: "running", completed: "idle", interrupted: "idle", failed: "idle", lost: "lost",
});

/**
 * @param {any} session
 * @param {any} turn the body of `turn.changed`
 */
function turned(session, turn) {
  let state = STATE_AFTER_TURN[turn.state];
  const had = session.report;
  const same = had.turn_id === turn.turn_id;
  if (!state) return session;
  // A turn that asks stays `waiting`; the end of another turn than the one that is shown changes nothing.
  if (state === "running" && same && had.state === "waiting") state = "waiting";
  else if (state !== "running" && !(same && IN_MOTION.has(had.state))) return session;
  const report = { ...session.report, state, turn_id: turn.turn_id, proof_at: turn.proof_at || session.report.proof_at };
  return settled({ ...session, report });
}

/**
 * @param {any} session
 * @param {any} host
 */
function hosted(session, host) {
  return settled({ ...session, host_here: host.here, host_name: host.report.name, host_seen_at: host.seen_at });
}

/**
 * @param {any} session
 * @param {any} counts the body of `session.counted`
 */
const counted = (session, { approvals_open, messages_waiting }) => ({ ...session, approvals_open, messages_waiting });

/**
 * The map with one entry set; the entry keeps its place.
 * @template K, V
 * @param {Map<K, V>} map @param {K} key @param {V} value
 */
const withEntry = (map, key, value) => new Map(map).set(key, value);

/** @template K, V @param {Map<K, V>} map @param {K} key */
function without(map, key) {
  if (!map.has(key)) return map;
  const copy = new Map(map);
  copy.delete(key);
  return copy;
}

/**
 * @param {Team} team
 * @param {{kind: string, body?: any}} event
 * @returns {Team} the same object if nothing changed
 */
export function applyToTeam(team, event) {
  const { kind, body } = event;
  switch (kind) {
    case "session.reported": {
      const id = body.report.session_id;
      const held = body.report.holder?.waits_for ? team.held : without(team.held, id);
      return { ...team, held, sessions: withEntry(team.sessions, id, body) };
    }
    case "session.counted": {
      const session = team.sessions.get(body.session_id);
      return session ? { ...team, sessions: withEntry(team.sessions, body.session_id, counted(session, body)) } : team;
    }
    case "turn.changed": {
      const session = team.sessions.get(body.session_id);
      return session ? { ...team, sessions: withEntry(team.sessions, body.session_id, turned(session, body)) } : team;
    }
    case "approval.asked":
    case "approval.answered":
    case "approval.ended":
      return { ...team, approvals: withEntry(team.approvals, body.approval_id, body) };
    case "host.changed": {
      const sessions = new Map(team.sessions);
      for (const [id, session] of sessions) if (session.host_id === body.host_id) sessions.set(id, hosted(session, body));
      return { ...team, sessions, hosts: withEntry(team.hosts, body.host_id, body) };
    }
    default:
      return team;
  }
}

/**
 * @param {any} view the door's `SessionView`
 * @param {any | null} page the newest `ItemPage`, or null where the host could not be asked
 * @returns {View}
 */
export function viewOf(view, page) {
  // Of messages that the model has seen, those of the turn that is shown have their receipts beside them.
  const seen = (view.seen ?? []).filter((message) => message.turn_id && message.turn_id === view.session.report.turn_id);
  return {
    session: view.session,
    items: page?.items ?? [],
    before: page?.before ?? "",
    growing: new Map((view.growing ?? []).map((growing) => [growing.item_id, growing])),
    approvals: new Map((view.approvals ?? []).map((approval) => [approval.approval_id, approval])),
    messages: new Map([...seen, ...(view.messages ?? [])].map((message) => [message.message_id, message])),
    missed: false,
    fromCopy: Boolean(page?.from_copy),
    notices: page?.notices ?? [],
  };
}

/**
 * Puts each item in the place of the one with its id, or at the end. An item from before the loaded part of the
 * session is left out: it comes with its page.
 * @param {any[]} items
 * @param {any[]} added
 * @param {boolean} more whether there is an unloaded part before `items`
 */
export function placed(items, added, more) {
  const next = items.slice();
  const where = new Map();
  const wanted = new Set(added.map((item) => item.id));
  next.forEach((item, index) => {
    if (wanted.has(item.id)) where.set(item.id, index);
  });
  const oldest = items[0]?.source;
  for (const item of added) {
    const index = where.get(item.id);
    if (index !== undefined) next[index] = item;
    else if (!(more && oldest && isBefore(item.source, oldest))) {
      where.set(item.id, next.length);
      next.push(item);
    }
  }
  return next;
}

/** @param {any} one @param {any} other */
function isBefore(one, other) {
  return Boolean(one?.line && other.line && one.file === other.file && one.line < other.line);
}

/**
 * An older page before the items that are there; doubles go.
 * @param {View} view
 * @param {any} page `ItemPage`
 * @returns {View}
 */
export function withOlder(view, page) {
  const there = new Set(view.items.map((item) => item.id));
  const older = page.items.filter((item) => !there.has(item.id));
  return { ...view, items: older.concat(view.items), before: page.before ?? "", notices: page.notices ?? view.notices };
}

/**
 * The newest page again, after a hole in the stream: what is loaded before and after it stays if the page still
 * touches it; between its first and last item the page is right.
 * @param {View} view
 * @param {View} fresh
 * @returns {View}
 */
export function refreshed(view, fresh) {
  const told = new Set(fresh.items.map((item) => item.id));
  const first = view.items.findIndex((item) => told.has(item.id));
  if (first < 0) return fresh;
  const others = (/** @type {any[]} */ items) => items.filter((item) => !told.has(item.id));
  const last = view.items.findLastIndex((item) => told.has(item.id));
  const items = [...others(view.items.slice(0, first)), ...fresh.items, ...others(view.items.slice(last + 1))];
  return { ...fresh, items, before: first > 0 ? view.before : fresh.before };
}

/**
 * @param {View} view
 * @param {{kind: string, body?: any}} event
 * @returns {View} the same object if nothing changed
 */
export function applyToView(view, event) {
  const { kind, body } = event;
  switch (kind) {
    case "session.reported":
      return { ...view, session: body };
    case "session.counted":
      return { ...view, session: counted(view.session, body) };
    case "turn.changed":
      return { ...view, session: turned(view.session, body) };
    case "host.changed":
      return body.host_id === view.session.host_id ? { ...view, session: hosted(view.session, body) } : view;
    case "items.added": {
      let growing = view.growing;
      for (const item of body.items) if (isWhole(item)) growing = without(growing, item.id);
      return { ...view, growing, items: placed(view.items, body.items, Boolean(view.before)) };
    }
    case "item.grown":
      return hasWhole(view, body.item_id) ? view : { ...view, growing: withEntry(view.growing, body.item_id, body) };
    case "item.grew":
      return grew(view, body);
    case "approval.asked":
    case "approval.answered":
    case "approval.ended":
      return { ...view, approvals: withEntry(view.approvals, body.approval_id, body) };
    case "message.stored":
    case "message.changed":
      return { ...view, messages: withEntry(view.messages, body.message_id, body) };
    default:
      return view;
  }
}

/**
 * @param {View} view
 * @param {any} piece `{turn_id, item_id, kind, index, text}`
 * @returns {View}
 */
function grew(view, piece) {
  if (hasWhole(view, piece.item_id)) return view;
  const had = view.growing.get(piece.item_id);
  const count = had?.count ?? 0;
  if (piece.index < count) return view;
  if (piece.index > count) return { ...view, missed: true };
  const now = {
    ...piece, ...had, count: count + 1, text: (had?.text ?? "") + piece.text,
  };
  return { ...view, growing: withEntry(view.growing, piece.item_id, now) };
}

/** A tool call that still runs is there already and may yet grow; everything else is whole once it is an item. */
const isWhole = (item) => !(item.kind === "tool" && RUNNING_TOOL.has(item.tool?.state));

const RUNNING_TOOL = new Set(["pending", "in_progress"]);

/** How far from the end a growing item can be: pieces that come after their whole are looked for no further. */
const GROWING_REACH = 300;

/** @param {View} view @param {string} id */
function hasWhole(view, id) {
  const items = view.items;
  for (let index = items.length - 1; index >= Math.max(0, items.length - GROWING_REACH); index -= 1) {
    if (items[index].id === id) return isWhole(items[index]);
  }
  return false;
}

/** The session that an event is about, or "". @param {{kind: string, body?: any}} event */
export const sessionOf = (event) => event.body?.session_id ?? event.body?.report?.session_id ?? "";
