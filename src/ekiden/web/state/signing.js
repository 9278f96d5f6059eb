// Signing in by a pairing code: claimed by POST, never in an address, confirmed at the computer where that is needed.

import { post } from "../door.js";
import { signal } from "../lib.js";
import { PAIRING_POLL_MS } from "./limits.js";
import { begin, endedBy } from "./live.js";

/** Where the claim of a sign-in that waits to be confirmed is kept, so that a reload does not lose it. */
const KEPT_CLAIM = "ekiden.claim";

/**
 * `none`, `naming` (ask what the device is called, then claim `code`), `claiming`, `waiting` (compare `words`),
 * `confirmed`, `denied`, `expired`, `refused` (see `problem`)
 * @type {import("../vendor/signals-core-1.14.5/signals-core.mjs").Signal}
 */
export const signing = signal({ state: "none", code: "", device: "", words: "", problem: /** @type {any} */ (null) });

/** @param {any} told */
const say = (told) => {
  signing.value = { code: "", device: "", words: "", problem: null, ...told };
};

/**
 * Takes the code out of the address before anything else runs, so that it stays in no history.
 * @returns {string} the code or ""
 */
export function takeCode() {
  const found = /^#(?:\/?\??)pair=([^&]+)/.exec(location.hash);
  if (!found) return "";
  history.replaceState(null, "", "/#/inbox");
  try {
    return decodeURIComponent(found[1]);
  } catch {
    return found[1];
  }
}

/**
 * A browser of another device asks for its name first; the one on the hub's own computer comes in at once.
 * @param {string} code @param {string} device what this device is called until the person says otherwise
 */
export function beginSigning(code, device) {
  if (/^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(location.hostname)) return claim(code, device);
  say({ state: "naming", code });
  return undefined;
}

/** Takes up a sign-in that waited when the page was loaded anew. @returns {boolean} whether there is one */
export function resumeSigning() {
  const kept = keptClaim();
  if (!kept) return false;
  say({ state: "waiting", words: kept.words, device: kept.device });
  collect(kept.claim);
  return true;
}

/** @returns {{system: string, browser: string, form: "phone" | "tablet" | "computer"}} what this device is, as far as it tells */
export function deviceKind() {
  const agent = navigator.userAgent;
  const system = [
    [/iPhone/, "iPhone"], [/iPad/, "iPad"], [/Android/, "Android"], [/Mac OS X/, "Mac"], [/Windows/, "Windows"],
    [/CrOS/, "Chromebook"], [/Linux/, "Linux"],
  ].find(([form]) => /** @type {RegExp} */ (form).test(agent))?.[1];
  const browser = [
    [/Edg\//, "Edge"], [/Firefox\//, "Firefox"], [/Chrome\//, "Chrome"], [/Safari\//, "Safari"],
  ].find(([form]) => /** @type {RegExp} */ (form).test(agent))?.[1];
  const touch = matchMedia("(pointer: coarse)").matches;
  const form = !touch ? "computer" : Math.min(screen.width, screen.height) < 600 ? "phone" : "tablet";
  return { system: system ?? "", browser: browser ?? "", form };
}

/** @param {string} code @param {string} device what it is to be called */
export async function claim(code, device) {
  say({ state: "claiming" });
  try {
    const told = await post("/v1/pairings/claim", { code, device }, { open: true });
    if (told.state === "confirmed") return confirmed();
    keepClaim({ claim: told.claim, words: told.words, device });
    say({ state: "waiting", words: told.words, device });
    return collect(told.claim);
  } catch (problem) {
    say({ state: "refused", problem });
  }
}

/** @param {string} secret what the claim answered */
async function collect(secret) {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, PAIRING_POLL_MS));
    if (signing.value.state !== "waiting") return;
    let told;
    try {
      told = await post("/v1/pairings/collect", { claim: secret }, { open: true });
    } catch (problem) {
      if (problem.code === "offline") continue;
      keepClaim(null);
      say({ state: "refused", problem });
      return;
    }
    if (told.state === "confirmed") return confirmed();
    if (told.state !== "waiting") {
      keepClaim(null);
      say({ state: told.state });
      return;
    }
  }
}

/** @param {{claim: string, words: string, device: string} | null} waiting */
function keepClaim(waiting) {
  try {
    if (waiting) sessionStorage.setItem(KEPT_CLAIM, JSON.stringify(waiting));
    else sessionStorage.removeItem(KEPT_CLAIM);
  } catch {
    // Storage can be switched off; then a reload loses the sign-in.
  }
}

function keptClaim() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT_CLAIM) ?? "null");
  } catch {
    return null;
  }
}

async function confirmed() {
  keepClaim(null);
  say({ state: "confirmed" });
  endedBy.value = "";
  await begin();
}
