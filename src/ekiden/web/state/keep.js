// What this browser keeps for the time without a network: the last seen state and what waits to be sent.
//
// One IndexedDB database, bounded; signing out deletes it. Where the browser refuses storage, the page works without.

import { KEPT_ITEM_CHARS_MAX, KEPT_ITEMS_PER_SESSION_MAX, KEPT_LIST_MAX, KEPT_SESSIONS_MAX, OUTBOX_MAX } from "./limits.js";

const NAME = "ekiden";

/** @type {Promise<IDBDatabase | null> | null} */
let opened = null;

/** @returns {Promise<IDBDatabase | null>} */
function database() {
  opened ??= new Promise((resolve) => {
    let request;
    try {
      request = indexedDB.open(NAME, 2);
    } catch {
      resolve(null);
      return;
    }
    request.onupgradeneeded = (change) => {
      if (change.oldVersion < 1) {
        request.result.createObjectStore("seen");
        request.result.createObjectStore("outbox", { keyPath: "message_id" });
      }
      if (change.oldVersion < 2) request.result.createObjectStore("member");
    };
    request.onsuccess = () => {
      request.result.onversionchange = () => {
        request.result.close();
        opened = null;
      };
      resolve(request.result);
    };
    request.onerror = () => resolve(null);
    request.onblocked = () => resolve(null);
  });
  return opened;
}

/**
 * @template T
 * @param {"seen" | "outbox" | "member"} store
 * @param {IDBTransactionMode} mode
 * @param {(store: IDBObjectStore) => IDBRequest<T>} run
 * @returns {Promise<T | undefined>}
 */
async function within(store, mode, run) {
  const db = await database();
  if (!db) return undefined;
  return new Promise((resolve) => {
    try {
      const transaction = db.transaction(store, mode);
      const request = run(transaction.objectStore(store));
      transaction.oncomplete = () => resolve(request.result);
      transaction.onerror = () => resolve(undefined);
      transaction.onabort = () => resolve(undefined);
    } catch {
      resolve(undefined);
    }
  });
}

/** @param {string} key */
export const recall = (key) => within("seen", "readonly", (store) => store.get(key));

/** This browser's member keys (key objects that scripts cannot read out) and what it has pinned. @param {string} name */
export const recallOwn = (name) => within("member", "readonly", (store) => store.get(name));

/** @param {string} name @param {any} value */
export const keepOwn = (name, value) => within("member", "readwrite", (store) => store.put(value, name));

/** @param {import("./apply.js").Team} team */
export function keepTeam(team) {
  const newest = [...team.sessions.values()]
    .sort((one, other) => (other.report.updated_at ?? "").localeCompare(one.report.updated_at ?? ""))
    .slice(0, KEPT_LIST_MAX);
  const kept = {
    at: Date.now(),
    sessions: new Map(newest.map((session) => [session.report.session_id, session])),
    approvals: team.approvals, hosts: team.hosts, held: team.held,
  };
  return within("seen", "readwrite", (store) => store.put(kept, "team"));
}

/**
 * The newest items of a session; the least recently seen session goes when there are too many.
 * @param {string} id @param {import("./apply.js").View} view
 */
export async function keepView(id, view) {
  const items = view.items.slice(-KEPT_ITEMS_PER_SESSION_MAX).map(shortened);
  const before = items.length < view.items.length ? "" : view.before;
  const kept = { at: Date.now(), view: { ...view, items, before, growing: new Map(), missed: false } };
  await within("seen", "readwrite", (store) => store.put(kept, `session:${id}`));
  const order = ((await recall("order")) ?? []).filter((/** @type {string} */ known) => known !== id);
  order.push(id);
  const dropped = order.splice(0, Math.max(0, order.length - KEPT_SESSIONS_MAX));
  await within("seen", "readwrite", (store) => {
    for (const old of dropped) store.delete(`session:${old}`);
    return store.put(order, "order");
  });
}

/** Cuts what would fill the store; `cut` says so as it does everywhere. @param {any} item */
function shortened(item) {
  const output = item.tool?.output;
  if (!output || output.length <= KEPT_ITEM_CHARS_MAX) return item;
  const cut = [...(item.cut ?? []), { field: "tool.output", bytes: output.length }];
  return { ...item, cut, tool: { ...item.tool, output: output.slice(0, KEPT_ITEM_CHARS_MAX) } };
}

/** @returns {Promise<any[]>} what waits to be sent, oldest first */
export async function outboxEntries() {
  const entries = (await within("outbox", "readonly", (store) => store.getAll())) ?? [];
  return entries.sort((one, other) => one.typed_at - other.typed_at).slice(0, OUTBOX_MAX);
}

/** @param {any} entry `{message_id, session_id, text, steer, first, typed_at}` */
export const putOutbox = (entry) => within("outbox", "readwrite", (store) => store.put(entry));

/** @param {string} messageId */
export const dropOutbox = (messageId) => within("outbox", "readwrite", (store) => store.delete(messageId));

/** Deletes everything that this browser kept. */
export async function wipe() {
  const db = await database();
  db?.close();
  opened = null;
  try {
    sessionStorage.clear();
  } catch {
    // Nothing is there then.
  }
  await new Promise((resolve) => {
    const request = indexedDB.deleteDatabase(NAME);
    request.onsuccess = request.onerror = request.onblocked = () => resolve(undefined);
  });
}
