// A copy of a channel that can be checked with no hub, and what of it is older than a day.

import { Problem, get, place } from "../door.js";
import { EXPORT_BYTES_MAX } from "./limits.js";

/**
 * All pages of an export, one a line, as `ekiden export` writes them and `ekiden verify` reads them.
 * @param {string} channel @returns {Promise<Blob>} @throws {Problem} `export_large` over `EXPORT_BYTES_MAX`
 */
export async function exported(channel) {
  const lines = [];
  let bytes = 0;
  for (let after = ""; ;) {
    const page = await get(place(["channels", channel, "export"], { after }));
    const line = new Blob([JSON.stringify(page), "\n"]);
    bytes += line.size;
    if (bytes > EXPORT_BYTES_MAX) throw new Problem({ code: "export_large" });
    lines.push(line);
    if (!page.next) return new Blob(lines, { type: "application/x-ndjson" });
    after = page.next;
  }
}

/**
 * The messages from before a moment, found by halving: their numbers follow their times.
 * @param {string} channel @param {number} newest number @param {Date} moment
 * @returns {Promise<{count: number, below: number, first?: any, last?: any}>} `below`: the number of the first that stays;
 *   `count` leaves out numbers that are gone already
 */
export async function olderThan(channel, newest, moment) {
  const from = async (/** @type {number} */ number) => (await get(place(["channels", channel, "messages"], { after: String(number - 1), limit: 1 }))).messages?.[0];
  const old = (/** @type {any} */ message) => message !== undefined && Date.parse(message.at) < moment.getTime();
  const first = await from(1);
  if (!old(first)) return { count: 0, below: 0 };
  let last = first;
  let below = newest + 1;
  for (let low = first.number + 1; low < below;) {
    const middle = (low + below) >> 1;
    const message = await from(middle);
    if (old(message)) {
      last = message;
      low = message.number + 1;
    } else {
      below = middle;
    }
  }
  return { count: last.number - first.number + 1, below: last.number + 1, first, last };
}
