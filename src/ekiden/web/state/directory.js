// Whose keys are whose, and invites: the twin of `ekiden.crypto.directory` and `ekiden.crypto.invites`.

import { bytes, canonical, CryptoRefusal, digest, memberKeyId, read, sign, signedBy, spell, statement } from "./crypto.js";

/**
 * @typedef {{principal: string, name: string, sign: string, wrap: string, memberKey: string, label: string,
 *   endedAt: string, vouchedBy: string[], invite: string, proof: string}} MemberKey
 * @typedef {"compared" | "invited" | "vouched" | "first" | "changed" | "ended"} Trust
 */

/** @param {any} entry `ekiden.crypto.directory.NewEntry` @param {string} team */
export const entryStatement = (entry, team) =>
  statement("directory", {
    team,
    act: entry.act,
    principal: entry.principal_id,
    member_key: entry.member_key,
    sign: entry.sign ?? "",
    wrap: entry.wrap ?? "",
    label: entry.label ?? "",
    at: entry.at ?? "",
    invite: entry.invite ?? "",
    proof: entry.proof ?? "",
    signer: entry.signer ?? "",
  });

/** The directory read so far; a fault is thrown with the code `directory_broken`. */
export class Directory {
  /** @param {string} team @param {string} hubKey base64url */
  constructor(team, hubKey) {
    this.team = team;
    this.hubKey = hubKey;
    this.position = 0;
    this.head = "";
    /** @type {Map<string, MemberKey>} by member key id */
    this.keys = new Map();
  }

  /** Reads on. @param {any[]} entries `ekiden.crypto.directory.Entry`, in order */
  async take(entries) {
    for (const placed of entries) {
      const stated = statement("directory", {
        team: this.team,
        position: placed.position,
        entry: await digest(entryStatement(placed.entry, this.team)),
        entry_signature: placed.entry.signature ?? "",
        previous: placed.previous,
        placed_at: placed.placed_at,
      });
      const follows = placed.position === this.position + 1 && placed.previous === this.head;
      if (!follows || !(await signedBy(this.hubKey, placed.signature, stated)) || !(await this.#takeOne(placed))) {
        throw new CryptoRefusal("directory_broken", `Entry ${placed.position} of the directory is not good.`);
      }
      this.position = placed.position;
      this.head = await digest(stated);
    }
  }

  /** @param {any} placed @returns {Promise<boolean>} whether it may stand there */
  async #takeOne(placed) {
    const entry = placed.entry;
    const stated = entryStatement(entry, this.team);
    const known = this.keys.get(entry.member_key);
    if (entry.act === "add") {
      const id = await memberKeyId({ sign: entry.sign, wrap: entry.wrap });
      if (known || id !== entry.member_key || entry.signer !== id) return false;
      if (!(await signedBy(entry.sign, entry.signature, stated))) return false;
      this.keys.set(id, {
        principal: entry.principal_id,
        name: placed.name ?? "",
        sign: entry.sign,
        wrap: entry.wrap,
        memberKey: id,
        label: entry.label ?? "",
        endedAt: "",
        vouchedBy: [],
        invite: entry.invite ?? "",
        proof: entry.proof ?? "",
      });
      return true;
    }
    if (!known || known.endedAt || known.principal !== entry.principal_id) return false;
    if (entry.act === "end" && !entry.signature) {
      known.endedAt = placed.placed_at;
      return true;
    }
    const by = this.keys.get(entry.signer);
    if (!by || by.endedAt || by.principal !== entry.principal_id) return false;
    if (!(await signedBy(by.sign, entry.signature, stated))) return false;
    if (entry.act === "end") {
      known.endedAt = placed.placed_at;
      return true;
    }
    if (entry.act !== "vouch" || entry.signer === entry.member_key) return false;
    if (entry.sign !== known.sign || entry.wrap !== known.wrap) return false;
    known.vouchedBy.push(entry.signer);
    return true;
  }

  /** @param {string} principal @returns {MemberKey[]} all, in the order in which they were added */
  of(principal) {
    return [...this.keys.values()].filter((key) => key.principal === principal);
  }

  /**
   * What to think of each key of a principal; the caller pins what is `first`.
   * @param {string} principal @param {Record<string, Trust>} pinned by member key id
   * @returns {Record<string, Trust>}
   */
  judge(principal, pinned) {
    const trusted = this.believed(principal, pinned);
    return Object.fromEntries(
      this.of(principal).map((key) => [key.memberKey, key.endedAt ? "ended" : (trusted.get(key.memberKey) ?? "changed")]),
    );
  }

  /**
   * The keys of a principal whose signatures count, those that have ended as well, and why.
   * @param {string} principal @param {Record<string, Trust>} pinned by member key id
   */
  believed(principal, pinned) {
    const keys = this.of(principal);
    /** @type {Map<string, Trust>} */
    const trusted = new Map();
    for (const key of keys) {
      const pin = pinned[key.memberKey];
      if (pin && pin !== "changed" && pin !== "ended") trusted.set(key.memberKey, pin);
    }
    if (!Object.keys(pinned).length && keys.length) trusted.set(keys[0].memberKey, "first");
    let grew = true;
    while (grew) {
      const found = keys.filter((key) => !trusted.has(key.memberKey) && key.vouchedBy.some((by) => trusted.has(by)));
      for (const key of found) trusted.set(key.memberKey, "vouched");
      grew = found.length > 0;
    }
    return trusted;
  }
}

/**
 * Says that this key is the principal's; body of POST /v1/directory.
 * @param {import("./crypto.js").Member} member
 * @param {{team: string, principal: string, label: string, at: string, invite?: string, proof?: string}} said
 */
export async function addEntry(member, said) {
  const entry = {
    act: "add",
    principal_id: said.principal,
    member_key: member.memberKey,
    sign: member.public.sign,
    wrap: member.public.wrap,
    label: said.label,
    at: said.at,
    invite: said.invite ?? "",
    proof: said.proof ?? "",
    signer: member.memberKey,
  };
  return { ...entry, signature: await sign(member, entryStatement(entry, said.team)) };
}

/**
 * Says with an older key that another key of the same principal is good.
 * @param {import("./crypto.js").Member} member @param {MemberKey} about @param {{team: string, principal: string, at: string}} said
 */
export async function vouchEntry(member, about, said) {
  const entry = {
    act: "vouch",
    principal_id: said.principal,
    member_key: about.memberKey,
    sign: about.sign,
    wrap: about.wrap,
    at: said.at,
    signer: member.memberKey,
  };
  return { ...entry, signature: await sign(member, entryStatement(entry, said.team)) };
}

// --- invites

/** @param {string} text @returns {any} what the string says: hub, team, invite, code, secret, principal, name, sign, wrap, hub_key */
export function readInvite(text) {
  const [form, body, ...rest] = text.trim().split(".");
  try {
    if (form !== "eki1" || rest.length || text.length > 4096) throw new Error("form");
    const invite = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(read(body)));
    if (["hub", "team", "invite", "code"].some((name) => typeof invite[name] !== "string")) throw new Error("fields");
    return invite;
  } catch {
    throw new CryptoRefusal("form", "This is not an invite.");
  }
}

/** @param {Record<string, string>} invite what is empty is left out @returns {string} */
export function spellInvite(invite) {
  const filled = Object.fromEntries(Object.entries(invite).filter(([, value]) => value !== ""));
  return `eki1.${spell(bytes(canonical(filled)))}`;
}

/** @param {string} code @returns {Promise<string>} what the hub keeps of it */
export const codeDigest = (code) => digest(bytes(`ekiden/1/invite-code\n${code}`));

/**
 * What a guest puts beside its key in the directory.
 * @param {string} secret of the invite
 * @param {{team: string, invite: string, principal: string, memberKey: string, sign: string, wrap: string}} said
 */
export async function proof(secret, said) {
  const told = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", read(secret, 32), told, false, ["sign"]);
  const { team, invite, principal, memberKey, sign: signs, wrap } = said;
  const stated = statement("invite", { team, invite, principal, member_key: memberKey, sign: signs, wrap });
  return spell(new Uint8Array(await crypto.subtle.sign("HMAC", key, stated)));
}
