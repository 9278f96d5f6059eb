// First contact and comparing: the string that brings a guest to the hub and both to each other's keys, and the twelve
// digits that two members see alike if nobody stands between them.

import { compareCode, fingerprint, spell } from "./crypto.js";
import { spellInvite } from "./directory.js";
import { held, readOn } from "./member.js";
import { accept, judged, rememberInvite } from "./pins.js";

const SECRET_BYTES = 32;

/**
 * What is handed to a guest. Without keys in this browser the string brings a key, but no trust.
 * @param {any} me `GET /v1/me` @param {any} made `InviteMade` @param {string} hub the address at which the guest finds the hub
 * @returns {Promise<{text: string, fingerprint: string}>}
 */
export async function inviteText(me, made, hub) {
  const plain = { hub, team: me.team_id, invite: made.invite_id, code: made.code, principal: me.principal_id, name: me.name };
  const own = await held(me);
  if (!own) return { text: spellInvite(plain), fingerprint: "" };
  const secret = spell(crypto.getRandomValues(new Uint8Array(SECRET_BYTES)));
  await rememberInvite(own, made.invite_id, secret);
  const { sign, wrap } = own.member.public;
  return { text: spellInvite({ ...plain, secret, sign, wrap, hub_key: own.directory.hubKey }), fingerprint: fingerprint(own.member.memberKey) };
}

/**
 * The keys of somebody as this browser sees them, or null where it has none of its own to compare with.
 * @param {any} me @param {string} principal
 * @returns {Promise<{own: string, keys: {memberKey: string, fingerprint: string, label: string, trust: string, code: string}[]} | null>}
 */
export async function acquaintance(me, principal) {
  const own = await held(me);
  if (!own) return null;
  await readOn(own);
  const found = await judged(own, principal);
  const keys = own.directory.of(principal).map(async (key) => ({
    memberKey: key.memberKey, fingerprint: fingerprint(key.memberKey), label: key.label, trust: found[key.memberKey],
    code: await compareCode(own.member.public, { sign: key.sign, wrap: key.wrap }),
  }));
  return { own: fingerprint(own.member.memberKey), keys: await Promise.all(keys) };
}

/** Trusts a key on a person's word. @param {any} me @param {string} memberKey */
export async function acceptKey(me, memberKey) {
  const own = await held(me);
  const key = own?.directory.keys.get(memberKey);
  if (own && key && !key.endedAt) await accept(own, key);
}
