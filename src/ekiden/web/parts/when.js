// Times in words, on their own slow clocks, so that nothing else is drawn anew as they pass.

import { html } from "../lib.js";
import { ago, dayAndTime, duration, nowMinute, nowSecond } from "../words/index.js";

/** "3 seconds ago"; exact in the title. @param {{at: string | number}} props RFC 3339 or ms */
export function Ago({ at }) {
  const ms = typeof at === "number" ? at : Date.parse(at ?? "");
  if (!Number.isFinite(ms)) return null;
  const now = nowMinute.value - ms < 90_000 ? nowSecond.value : nowMinute.value;
  return html`<time datetime=${new Date(ms).toISOString()} title=${dayAndTime(ms)}>${ago(ms, Math.max(now, ms))}</time>`;
}

/** A moment to come, as a date. @param {{at: string}} props RFC 3339 */
export function At({ at }) {
  const ms = Date.parse(at ?? "");
  return Number.isFinite(ms) ? html`<time datetime=${at}>${dayAndTime(ms)}</time>` : null;
}

/** How long it has been going on. @param {{since: string}} props */
export function Since({ since }) {
  const ms = Date.parse(since ?? "");
  if (!Number.isFinite(ms)) return null;
  return html`<time>${duration(Math.max(0, nowSecond.value - ms))}</time>`;
}
