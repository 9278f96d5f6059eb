// Signing in by a pairing code: claimed by POST, never in an address, confirmed at the computer where that is needed.

import { post } from "../door.js";
import { signal } from "../lib.js";
import { PAIRING_POLL_MS } from "./limits.js";
import { begin, endedBy } from "./live.js";

/**
 * `none`, `claiming`, `waiting` (compare `words`), `confirmed`, `denied`, `expired`, `refused` (see `problem`)
 * @type {import("../vendor/signals-core-1.14.5/signals-core.mjs").Signal}
 */
export const signing = signal({ state: "none", words: "", problem: /** @type {any} */ (null) });

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

/** What this device is called in the list of keys. */
export function deviceName() {
  const agent = navigator.userAgent;
  const system = [
    [/iPhone/, "iPhone"], [/iPad/, "iPad"], [/Android/, "Android"], [/Mac OS X/, "Mac"], [/Windows/, "Windows"],
    [/CrOS/, "Chromebook"], [/Linux/, "Linux"],
  ].find(([form]) => /** @type {RegExp} */ (form).test(agent))?.[1];
  const browser = [
    [/Edg\//, "Edge"], [/Firefox\//, "Firefox"], [/Chrome\//, "Chrome"], [/Safari\//, "Safari"],
  ].find(([form]) => /** @type {RegExp} */ (form).test(agent))?.[1];
  return [browser, system].filter(Boolean).join(" · ") || "browser";
}

/** @param {string} code */
export async function claim(code) {
  signing.value = { state: "claiming", words: "", problem: null };
  try {
    const told = await post("/v1/pairings/claim", { code, device: deviceName() }, { open: true });
    if (told.state === "confirmed") return confirmed();
    signing.value = { state: "waiting", words: told.words, problem: null };
    return collect(told.claim);
  } catch (problem) {
    signing.value = { state: "refused", words: "", problem };
  }
}

/** @param {string} secret what the claim answered; lives only here */
async function collect(secret) {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, PAIRING_POLL_MS));
    if (signing.value.state !== "waiting") return;
    let told;
    try {
      told = await post("/v1/pairings/collect", { claim: secret }, { open: true });
    } catch (problem) {
      if (problem.code === "offline") continue;
      signing.value = { state: "refused", words: "", problem };
      return;
    }
    if (told.state === "confirmed") return confirmed();
    if (told.state !== "waiting") {
      signing.value = { ...signing.value, state: told.state };
      return;
    }
  }
}

async function confirmed() {
  signing.value = { state: "confirmed", words: "", problem: null };
  endedBy.value = "";
  await begin();
}
