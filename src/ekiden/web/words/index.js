// Words in the person's language: one table per language, plurals, numbers and times by Intl.

import { computed, effect, signal } from "../lib.js";
import { visibleText } from "../parts/visible.js";
import { languageChoice } from "../state/settings.js";
import { en } from "./en.js";
import { zh } from "./zh.js";

export const TABLES = Object.freeze({ en, zh });

/** @returns {"en" | "zh"} */
function ofSystem() {
  const wanted = globalThis.navigator?.languages ?? ["en"];
  for (const tag of wanted) {
    if (/^zh\b/i.test(tag)) return "zh";
    if (/^en\b/i.test(tag)) return "en";
  }
  return "en";
}

export const language = computed(() => (languageChoice.value === "system" ? ofSystem() : languageChoice.value));
const FALLBACK = Object.freeze({ en: "en", zh: "zh-CN" });
/** The system's own variety of the language, for its dates and numbers. */
const tag = computed(() => globalThis.navigator?.languages?.find((one) => one.startsWith(language.value)) ?? FALLBACK[language.value]);

const plural = computed(() => new Intl.PluralRules(tag.value));
const whole = computed(() => new Intl.NumberFormat(tag.value));
const list = computed(() => new Intl.ListFormat(tag.value));
const relative = computed(() => new Intl.RelativeTimeFormat(tag.value, { numeric: "auto", style: "narrow" }));
const clock = computed(() => new Intl.DateTimeFormat(tag.value, { hour: "2-digit", minute: "2-digit" }));
const day = computed(() => new Intl.DateTimeFormat(tag.value, { dateStyle: "medium", timeStyle: "short" }));

effect(() => {
  const root = globalThis.document?.documentElement;
  if (root) root.lang = FALLBACK[language.value];
});

/**
 * The sentence for `key`. `{name}` is replaced by a value; `{count}` chooses the plural. Values come from outside
 * and are shown with their invisible characters as marks.
 * @param {string} key
 * @param {Record<string, string | number>} [values]
 * @returns {string}
 */
export function t(key, values = {}) {
  let entry = TABLES[language.value][key];
  if (entry === undefined) return key;
  if (typeof entry === "object") entry = entry[plural.value.select(Number(values.count))] ?? entry.other;
  return entry.replace(/\{(\w+)\}/g, (/** @type {string} */ _, /** @type {string} */ name) => {
    const value = values[name] ?? "";
    return typeof value === "number" ? whole.value.format(value) : visibleText(value);
  });
}

/** Whether there is a sentence for `key`. @param {string} key */
export const known = (key) => key in TABLES.en;

/** "a, b and c". @param {string[]} parts */
export const listed = (parts) => list.value.format(parts);

/** @param {number} value */
export const number = (value) => whole.value.format(value);

const STEPS = Object.freeze([
  ["second", 60], ["minute", 3600], ["hour", 86_400], ["day", 7 * 86_400],
]);
const SECONDS = Object.freeze({ second: 1, minute: 60, hour: 3600, day: 86_400 });

/**
 * "3 seconds ago", "yesterday", and the date from a week on.
 * @param {number} at ms since the epoch @param {number} nowMs
 */
export function ago(at, nowMs) {
  const seconds = Math.min(0, (at - nowMs) / 1000);
  for (const [unit, until] of STEPS) {
    if (-seconds < until) return relative.value.format(Math.round(seconds / SECONDS[unit]), unit);
  }
  return day.value.format(at);
}

/** @param {number} at */
export const timeOfDay = (at) => clock.value.format(at);
/** @param {number} at */
export const dayAndTime = (at) => day.value.format(at);

/** @param {number} ms a duration */
export function duration(ms) {
  if (ms < 1000) return unit(ms / 1000, "second", 1);
  if (ms < 60_000) return unit(ms / 1000, "second", ms < 10_000 ? 1 : 0);
  if (ms < 3_600_000) return unit(ms / 60_000, "minute", 1);
  return unit(ms / 3_600_000, "hour", 1);
}

/** @param {number} bytes */
export function size(bytes) {
  if (bytes < 1000) return unit(bytes, "byte", 0);
  if (bytes < 1e6) return unit(bytes / 1e3, "kilobyte", 0);
  if (bytes < 1e9) return unit(bytes / 1e6, "megabyte", 1);
  return unit(bytes / 1e9, "gigabyte", 1);
}

/** @param {number} value @param {string} name @param {number} digits */
function unit(value, name, digits) {
  return new Intl.NumberFormat(tag.value, {
    style: "unit", unit: name, unitDisplay: "short", maximumFractionDigits: digits,
  }).format(value);
}

/** @param {number} share 0 to 1 */
export const percent = (share) => new Intl.NumberFormat(tag.value, { style: "percent" }).format(share);

// Two slow clocks for relative times; they rest while nobody looks.
export const nowSecond = signal(Date.now());
export const nowMinute = signal(Date.now());

/** Starts the clocks. */
export function beginClocks() {
  setInterval(() => {
    if (document.visibilityState === "hidden") return;
    nowSecond.value = Date.now();
    if (nowSecond.value - nowMinute.value > 30_000) nowMinute.value = nowSecond.value;
  }, 1000);
}
