// What sub-agents did: a thread's own pages, read when a person opens it. What comes while it is watched arrives with
// the conversation's events and is joined with them here.

import { get, place } from "../door.js";
import { signal } from "../lib.js";
import { THREAD_ITEMS_PAGE } from "./limits.js";

/**
 * @typedef {{items: any[], before: string, state: "unread" | "reading" | "read", problem: any}} Thread
 * @type {Map<string, import("../vendor/signals-core-1.14.5/signals-core.mjs").Signal>}
 */
const threads = new Map();

/** @param {string} sessionId @param {string} name */
function threadOf(sessionId, name) {
  const key = `${sessionId}/${name}`;
  let one = threads.get(key);
  if (!one) threads.set(key, (one = signal(/** @type {Thread} */ ({ items: [], before: "", state: "unread", problem: null }))));
  return one;
}

/** @param {string} sessionId @param {string} name @returns {Thread} */
export const readOf = (sessionId, name) => threadOf(sessionId, name).value;

/**
 * Reads the newest page of a thread, or the one before what is there.
 * @param {string} sessionId @param {string} name
 */
export async function readThread(sessionId, name) {
  const thread = threadOf(sessionId, name);
  const had = thread.peek();
  if (had.state === "reading") return;
  thread.value = { ...had, state: "reading", problem: null };
  try {
    const page = await get(place(["sessions", sessionId, "items"], { thread: name, before: had.before, limit: THREAD_ITEMS_PAGE }));
    thread.value = { items: [...page.items, ...had.items], before: page.before ?? "", state: "read", problem: null };
  } catch (problem) {
    thread.value = { ...had, problem };
  }
}

/** Puts the whole of an item in the place of its part. @param {any} item */
export function putWhole(item) {
  for (const thread of threads.values()) {
    const now = thread.peek();
    if (now.items.some((/** @type {any} */ had) => had.id === item.id)) {
      thread.value = { ...now, items: now.items.map((/** @type {any} */ had) => (had.id === item.id ? item : had)) };
    }
  }
}

/**
 * Read items and those that came since, each once and in its newest form.
 * @param {any[]} read @param {any[]} live
 */
export function joinedThread(read, live) {
  const byId = new Map(read.map((item) => [item.id, item]));
  for (const item of live) byId.set(item.id, item);
  return [...byId.values()];
}

/** Forgets what was read of another session's threads. */
export const forgetThreads = () => threads.clear();
