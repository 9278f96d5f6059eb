// Whom this browser trusts: the twin of `ekiden.client.pins`. The first key of somebody is pinned, and so is one that
// proves the secret of an invite that was made here; another counts only if a trusted one vouches for it, or a person
// has compared it.

import { proof } from "./directory.js";
import { keepOwn } from "./keep.js";
import { INVITES_KEPT_MAX } from "./limits.js";

/** @typedef {import("./member.js").Held} Held @typedef {import("./directory.js").MemberKey} MemberKey */

/** What to think of each key of a principal, by member key id. @param {Held} own @param {string} principal */
export async function judged(own, principal) {
  /** @type {Record<string, import("./directory.js").Trust>} */
  const pinned = { ...own.pins[principal] };
  for (const key of own.directory.of(principal)) {
    if (!pinned[key.memberKey] && (await invited(own, key))) pinned[key.memberKey] = "invited";
  }
  const found = own.directory.judge(principal, pinned);
  for (const [name, trust] of Object.entries(found)) if (trust === "first") pinned[name] = "first";
  const had = own.pins[principal] ?? {};
  if (Object.keys(pinned).some((name) => pinned[name] !== had[name])) {
    own.pins[principal] = pinned;
    await keepOwn("pins", own.pins);
  }
  return found;
}

/** The keys of a principal that may be wrapped to. @param {Held} own @param {string} principal */
export async function trusted(own, principal) {
  const found = await judged(own, principal);
  return own.directory.of(principal).filter((key) => !["changed", "ended"].includes(found[key.memberKey]));
}

/** Whether signatures with a key count, also if it has ended since. @param {Held} own @param {MemberKey} key */
export async function believed(own, key) {
  await judged(own, key.principal);
  return own.directory.believed(key.principal, own.pins[key.principal] ?? {}).has(key.memberKey);
}

/** A person has compared a key. @param {Held} own @param {MemberKey} key */
export async function accept(own, key) {
  own.pins[key.principal] = { ...own.pins[key.principal], [key.memberKey]: "compared" };
  await keepOwn("pins", own.pins);
}

/** Keeps the secret of an invite that was made here, to know the guest by. @param {Held} own @param {string} id @param {string} secret */
export async function rememberInvite(own, id, secret) {
  const kept = [...Object.entries(own.invites), [id, secret]].slice(-INVITES_KEPT_MAX);
  own.invites = Object.fromEntries(kept);
  await keepOwn("invites", own.invites);
}

/** @param {Held} own @param {MemberKey} key */
async function invited(own, key) {
  const secret = key.invite ? own.invites[key.invite] : "";
  if (!secret) return false;
  const { principal, memberKey, sign, wrap } = key;
  return key.proof === (await proof(secret, { team: own.team, invite: key.invite, principal, memberKey, sign, wrap }));
}
