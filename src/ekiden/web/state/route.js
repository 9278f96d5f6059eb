// Where the person is: every screen is a fragment of the address, so that it can be sent to another device.

import { signal } from "../lib.js";

/** @typedef {{screen: string, id: string, query: URLSearchParams}} Route */

export const SCREENS = Object.freeze(["inbox", "sessions", "session", "new", "devices", "settings", "channels", "channel", "audit", "invites"]);

/** Where Back leads from a screen that was opened by its address. */
const LISTS = Object.freeze(/** @type {Record<string, string>} */ ({ session: "sessions", channel: "channels", invites: "devices" }));

/** @param {string} hash @returns {Route} */
export function readRoute(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [screen = "", id = ""] = path.split("/");
  let plain = "";
  try {
    plain = decodeURIComponent(id);
  } catch {
    plain = "";
  }
  return { screen: SCREENS.includes(screen) ? screen : "inbox", id: plain, query: new URLSearchParams(query) };
}

/** @param {string} screen @param {string} [id] @param {Record<string, string>} [query] */
export function address(screen, id = "", query = {}) {
  const tail = new URLSearchParams(query).toString();
  return `#/${screen}${id ? `/${encodeURIComponent(id)}` : ""}${tail ? `?${tail}` : ""}`;
}

export const route = signal(readRoute(globalThis.location?.hash ?? ""));

/** How many screens of this page lie behind, so that Back never leaves it. */
let depth = 0;
let goingBack = false;

/** @param {string} target an address of this page */
export function go(target) {
  location.hash = target;
}

export function back() {
  if (depth > 0) {
    goingBack = true;
    history.back();
  } else {
    location.replace(address(LISTS[route.value.screen] ?? "inbox"));
  }
}

export function watchRoute() {
  window.addEventListener("hashchange", () => {
    depth = goingBack ? Math.max(0, depth - 1) : depth + 1;
    goingBack = false;
    route.value = readRoute(location.hash);
  });
}
