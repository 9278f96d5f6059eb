// What a key may do, decided from its permission map alone: the twin of `ekiden.access.rights`. Pure.
//
// The door decides; the page leaves out what it knows to be refused.

const CHANNEL_FAMILIES = Object.freeze(["channel:", "private:"]);

/** Verbs that mean something on channels only, in the order of the map. `status:KEY` and `status:PATTERN*` beside them. */
export const CHANNEL_VERBS = Object.freeze(["read", "post", "ack", "mention", "mention:all", "lease", "invite"]);
const OTHER_VERBS = Object.freeze(["read", "steer", "approve", "start", "admin"]);
/** What a guest gets in its channels if nothing else is said. */
export const GUEST_VERBS = Object.freeze(["read", "post", "ack", "mention", "lease", "status:*"]);

/** @param {string} resource */
const onChannels = (resource) => CHANNEL_FAMILIES.some((family) => resource.startsWith(family));

/** @param {string} verb */
const isStatus = (verb) => verb.startsWith("status:");

/** @param {string} verb */
const ofChannelsOnly = (verb) => isStatus(verb) || (verb !== "read" && CHANNEL_VERBS.includes(verb));

/** @param {string} pattern @param {string} text a resource or verb */
const takesIn = (pattern, text) => (pattern.endsWith("*") ? text.startsWith(pattern.slice(0, -1)) : pattern === text);

/** @param {Record<string, string[]>} permissions @param {string} verb @param {string} resource */
export function allows(permissions, verb, resource) {
  if (ofChannelsOnly(verb) && !onChannels(resource)) return false;
  return Object.entries(permissions).some(([pattern, verbs]) => takesIn(pattern, resource) && grants(verbs, verb, resource));
}

/** @param {string[]} verbs @param {string} verb @param {string} resource */
function grants(verbs, verb, resource) {
  if (verbs.includes("admin") && onChannels(resource)) return verb === "read" || verb === "admin" || ofChannelsOnly(verb);
  return verbs.some((have) => takesIn(have, verb));
}

/** The verbs that can be chosen for a pattern, beside those of status. @param {string} pattern */
export function verbsFor(pattern) {
  if (onChannels(pattern)) return [...CHANNEL_VERBS, "admin"];
  return pattern === "*" ? [...new Set([...CHANNEL_VERBS, ...OTHER_VERBS])] : OTHER_VERBS;
}

/** Whether verbs of status mean something under a pattern. @param {string} pattern */
export const hasStatus = (pattern) => pattern === "*" || onChannels(pattern);

/**
 * @typedef {{pattern: string, verbs: string[]}} Row one line of a map while a person changes it
 * @param {Record<string, string[]>} permissions @returns {Row[]}
 */
export const rowsOf = (permissions) => Object.entries(permissions).map(([pattern, verbs]) => ({ pattern, verbs }));

/** The map that rows stand for; what has no verbs is left out. @param {Row[]} rows @returns {Record<string, string[]>} */
export function mapOf(rows) {
  /** @type {Record<string, string[]>} */
  const map = {};
  for (const { pattern, verbs } of rows) {
    const name = pattern.trim();
    if (name && verbs.length) map[name] = [...new Set([...(map[name] ?? []), ...verbs])];
  }
  return map;
}
