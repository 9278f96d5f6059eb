// A session's items as the rows of its list: pure.
//
// Each item of the main conversation is a row; runs of injected items, of abandoned items and of items that cannot be
// read are one folded row each. What a sub-agent did belongs to the row of its call.

/**
 * @typedef {{key: string, kind: "item" | "branch" | "injected" | "odd" | "thread", items: any[]}} Row
 * @typedef {{rows: Row[], threads: Map<string, any[]>}} Rows
 */

/** @type {WeakMap<any, Row>} the row of an item stays the same object, so that it is drawn once */
const single = new WeakMap();

/** @param {any} item @returns {Row["kind"]} */
function kindOf(item) {
  if (item.abandoned) return "branch";
  if (item.injected) return "injected";
  if (item.kind === "unreadable" || item.kind === "unknown") return "odd";
  return "item";
}

/**
 * @param {readonly any[]} items
 * @returns {Rows}
 */
export function rowsOf(items) {
  /** @type {Map<string, any[]>} */
  const threads = new Map();
  const called = new Set();
  for (const item of items) {
    if (item.tool?.thread) called.add(item.tool.thread);
    if (!item.thread) continue;
    const thread = threads.get(item.thread);
    if (thread) thread.push(item);
    else threads.set(item.thread, [item]);
  }
  /** @type {Row[]} */
  const rows = [];
  for (const item of items) {
    if (item.thread) {
      // A thread whose call is not loaded (yet) stands where it begins.
      if (!called.has(item.thread) && threads.get(item.thread)?.[0] === item) {
        rows.push({ key: `thread:${item.thread}`, kind: "thread", items: threads.get(item.thread) ?? [] });
      }
      continue;
    }
    const kind = kindOf(item);
    const last = rows[rows.length - 1];
    if (kind === "item") {
      let row = single.get(item);
      if (!row) single.set(item, (row = { key: item.id, kind, items: [item] }));
      rows.push(row);
    } else if (last?.kind === kind) {
      last.items.push(item);
    } else {
      rows.push({ key: `${kind}:${item.id}`, kind, items: [item] });
    }
  }
  return { rows, threads };
}

/**
 * Which message of ours an item of the conversation is, if it is one: the newest user items are looked through for
 * the same text.
 * @param {readonly any[]} items @param {Map<string, any>} messages @param {number} lookBack
 * @returns {Map<string, any>} item id to message
 */
export function echoes(items, messages, lookBack) {
  /** @type {Map<string, any>} */
  const found = new Map();
  const open = [...messages.values()].filter((message) => message.state === "placed" || message.state === "seen");
  if (!open.length) return found;
  let looked = 0;
  for (let index = items.length - 1; index >= 0 && looked < lookBack && open.length; index -= 1) {
    const item = items[index];
    if (item.kind !== "message" || item.role !== "user" || item.injected) continue;
    looked += 1;
    const text = textOf(item).trim();
    for (let at = open.length - 1; at >= 0; at -= 1) {
      if (open[at].text.trim() !== text) continue;
      found.set(item.id, open[at]);
      open.splice(at, 1);
      break;
    }
  }
  return found;
}

/** All text blocks of an item. @param {any} item */
export const textOf = (item) =>
  (item.content ?? []).filter((/** @type {any} */ block) => block.type === "text").map((/** @type {any} */ block) => block.text).join("\n");
