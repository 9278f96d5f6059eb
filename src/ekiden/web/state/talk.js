// One channel as it stands: snapshot + events = snapshot. Pure: no clock, no network; nothing is changed in place.

/**
 * @typedef {object} Talk
 * @property {any} channel the door's `Channel`
 * @property {any[]} messages in the order of their numbers
 * @property {string} before cursor towards the beginning, empty when it is reached
 * @property {number} missing how many before that were purged
 * @property {Map<string, any>} threads by thread id
 * @property {Map<string, any>} statuses by key
 * @property {Map<string, any>} leases by name
 * @property {Map<string, any>} members by principal id
 * @property {any[] | null} rules what values of status need, once that has changed
 * @property {Map<string, any>} deliveries by message and principal: those that this page was told of
 */

/**
 * @param {{channel: any, page: any, threads: any, statuses: any, leases: any, members: any}} told
 * @returns {Talk}
 */
export function talkOf({ channel, page, threads, statuses, leases, members }) {
  return {
    channel,
    messages: page.messages ?? [],
    before: page.before ?? "",
    missing: page.missing ?? 0,
    threads: byName(threads?.threads, "thread_id"),
    statuses: byName(statuses?.statuses, "key"),
    leases: byName(leases?.leases, "name"),
    members: byName(members?.members, "principal_id"),
    deliveries: new Map(),
    rules: null,
  };
}

/** @param {any[] | undefined} list @param {string} name @returns {Map<string, any>} */
const byName = (list, name) => new Map((list ?? []).map((entry) => [entry[name], entry]));

/** @template K, V @param {Map<K, V>} map @param {K} key @param {V} value */
const withEntry = (map, key, value) => new Map(map).set(key, value);

/** @template K, V @param {Map<K, V>} map @param {K} key */
function without(map, key) {
  const copy = new Map(map);
  copy.delete(key);
  return copy;
}

/**
 * Each message in its place by number; one that is there is replaced. One from before the loaded part is left out: it
 * comes with its page.
 * @param {any[]} messages @param {any[]} added @param {boolean} more whether there is an unloaded part before
 */
export function placedByNumber(messages, added, more) {
  let next = messages;
  for (const message of added) {
    const index = firstFrom(next, message.number);
    if (next[index]?.number === message.number) next = next.with(index, message);
    else if (index > 0 || !more) next = next.toSpliced(index, 0, message);
  }
  return next;
}

/** The index of the first message with at least this number. @param {any[]} messages @param {number} number */
function firstFrom(messages, number) {
  let low = 0;
  let high = messages.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (messages[middle].number < number) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * An older page before the messages that are there.
 * @param {Talk} talk @param {any} page `Messages` @returns {Talk}
 */
export function withOlderMessages(talk, page) {
  const first = talk.messages[0]?.number ?? Infinity;
  const older = (page.messages ?? []).filter((/** @type {any} */ message) => message.number < first);
  return { ...talk, messages: older.concat(talk.messages), before: page.before ?? "", missing: page.missing ?? 0 };
}

/**
 * @param {Talk} talk @param {{kind: string, body?: any}} event one of the channel's own
 * @returns {Talk} the same object if nothing changed
 */
export function applyToTalk(talk, event) {
  const { kind, body } = event;
  switch (kind) {
    case "message.posted":
    case "message.edited":
    case "message.deleted":
      return { ...talk, messages: placedByNumber(talk.messages, [body], Boolean(talk.before)), channel: counted(talk.channel, body) };
    case "thread.changed":
      return { ...talk, threads: withEntry(talk.threads, body.thread_id, body) };
    case "status.changed":
      return { ...talk, statuses: body.kind === "set" || body.kind === "reverted" ? withEntry(talk.statuses, body.key, body) : without(talk.statuses, body.key) };
    case "status.rules_changed":
      return { ...talk, rules: body.rules };
    case "lease.changed":
      return { ...talk, leases: withEntry(talk.leases, body.name, body) };
    case "member.joined":
    case "member.changed":
      return { ...talk, members: withEntry(talk.members, body.member.principal_id, body.member) };
    case "member.left":
      return { ...talk, members: without(talk.members, body.member.principal_id) };
    case "receipt.changed":
      return { ...talk, members: acked(talk.members, body) };
    case "delivery.changed":
      return { ...talk, deliveries: withEntry(talk.deliveries, `${body.message_id} ${body.principal_id}`, body) };
    case "channel.changed":
    case "channel.deleted":
      return { ...talk, channel: { ...talk.channel, ...body, unread: talk.channel.unread } };
    case "channel.purged":
      return { ...talk, messages: talk.messages.filter((message) => message.number > body.last) };
    default:
      return talk;
  }
}

/** @param {any} channel @param {any} message */
const counted = (channel, message) =>
  message.number > (channel.last_number ?? 0) ? { ...channel, last_number: message.number } : channel;

/** @param {Map<string, any>} members @param {any} receipt */
function acked(members, receipt) {
  const member = members.get(receipt.principal_id);
  return member ? withEntry(members, receipt.principal_id, { ...member, acked_to: receipt.acked_to }) : members;
}

/** The messages that a screen shows: those of a thread with the one it began with, or those outside threads.
 * @param {any[]} messages @param {string} threadId */
export const shownIn = (messages, threadId) =>
  messages.filter((message) => (threadId ? message.thread_id === threadId || message.message_id === threadId : !message.thread_id));
