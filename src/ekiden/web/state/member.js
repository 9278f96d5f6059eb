// This browser as a member of channels: it signs what it says, seals and opens what the hub must not read.
//
// Its keys are made at first need, stay in this browser and cannot be read out; signing out forgets them. Whose keys
// count is judged from the directory and from what was pinned here (`pins.js`).

import { get, place, post, Problem } from "../door.js";
import { available, digest, messageContent, newMember, openSealed, seal, sign, signedBy, statements, statusContent } from "./crypto.js";
import { Directory, addEntry } from "./directory.js";
import { keepOwn, recallOwn } from "./keep.js";
import { DIRECTORY_PAGES_MAX, EPOCHS_KEPT_MAX } from "./limits.js";
import { believed, trusted } from "./pins.js";
import { epochStatement, openEpoch, unwrap, wrapAll, wrapStatement } from "./wrapping.js";

/**
 * @typedef {{member: import("./crypto.js").Member, team: string, principal: string, directory: Directory,
 *   pins: Record<string, Record<string, import("./directory.js").Trust>>, invites: Record<string, string>, chain: Map<string, {link: number, previous: string}>}} Held
 */

/** @type {Promise<Held | null> | null} */
let being = null;

/** The keys of epochs by `channel epoch`. @type {Map<string, Uint8Array>} */
const epochKeys = new Map();

/** Names the chain of what this visit says. */
const CHAIN = [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => (byte % 36).toString(36)).join("");

/** What this browser can prove and open, or null where it has no keys. @param {any} me `GET /v1/me` @returns {Promise<Held | null>} */
export function held(me) {
  being ??= (available() && me ? begin(me) : Promise.resolve(null)).catch((problem) => {
    being = null;
    throw problem;
  });
  return being;
}

/** Forgets everything: the person signed out. */
export function forgetMember() {
  being = null;
  epochKeys.clear();
}

/** @param {any} me */
async function begin(me) {
  let member = await recallOwn("keys");
  if (!member) {
    member = await newMember();
    await keepOwn("keys", member);
  }
  const hubKey = await pinnedHubKey();
  /** @type {Held} */
  const own = {
    member, team: me.team_id, principal: me.principal_id, directory: new Directory(me.team_id, hubKey),
    pins: (await recallOwn("pins")) ?? {}, invites: (await recallOwn("invites")) ?? {}, chain: new Map(),
  };
  await readOn(own);
  if (!own.directory.keys.has(member.memberKey)) {
    const entry = await addEntry(member, { team: own.team, principal: own.principal, label: me.name ?? "", at: now() });
    await post("/v1/directory", entry);
    await readOn(own);
  }
  own.pins[own.principal] = { ...own.pins[own.principal], [member.memberKey]: "compared" };
  await keepOwn("pins", own.pins);
  return own;
}

const now = () => new Date().toISOString();

/** The hub's signing key: the first that was seen, for as long as this browser is signed in. */
async function pinnedHubKey() {
  const told = await get("/v1/hub-key");
  const key = told.key ?? told.public_key;
  const pinned = await recallOwn("hub_key");
  if (pinned && pinned !== key) throw new Problem({ code: "hub_key_changed" });
  if (!pinned) await keepOwn("hub_key", key);
  return key;
}

/** Reads the directory from where it was read to. @param {Held} own */
export async function readOn(own) {
  for (let pages = 0; pages < DIRECTORY_PAGES_MAX; pages += 1) {
    const page = await get(place(["directory"], { after: String(own.directory.position) }));
    await own.directory.take(page.entries ?? []);
    if (!page.next || !(page.entries ?? []).length) return;
  }
  throw new Problem({ code: "directory_long" });
}

/** The key of a signer, if it is one of the principal's that ever counted. @param {Held} own @param {string} signer @param {string} principal */
async function signerOf(own, signer, principal) {
  if (!own.directory.keys.has(signer)) await readOn(own);
  const key = own.directory.keys.get(signer);
  if (!key || (principal && key.principal !== principal)) return null;
  return (await believed(own, key)) ? key : null;
}

/**
 * A message as it can be shown: `opened` for sealed text that opens here, `verified` for what its signature is worth.
 * @param {any} me @param {any} message
 */
export async function revealed(me, message) {
  const own = await held(me).catch(() => null);
  if (!own || message.state === "deleted") return message;
  const verified = await judgedSignature(own, message);
  if (!message.sealed) return { ...message, verified };
  try {
    const key = await epochKey(own, message.channel_id, message.sealed.epoch);
    const content = key && (await openSealed(key, placeOf(own, message, message.sealed.epoch), message.sealed));
    return content ? { ...message, verified, opened: content.text ?? "", title: content.title || message.title } : { ...message, verified };
  } catch {
    return { ...message, verified };
  }
}

/** @param {Held} own @param {any} message @param {number} epoch */
const placeOf = (own, message, epoch) => ({
  team: own.team, channel: message.channel_id, thread: message.thread_id ?? "", sender: message.sender_id,
  message: message.message_id, epoch,
});

/** `verified`, `unsigned`, `bad`, `unknown_key`. @param {Held} own @param {any} message */
async function judgedSignature(own, message) {
  const signature = message.signature;
  if (!signature) return "unsigned";
  const key = await signerOf(own, signature.signer, message.sender_id);
  if (!key) return "unknown_key";
  const said = await stated(own, message, message.named ?? [], linkOf(signature), message.edits ? signature.replaces ?? "" : undefined);
  return (await signedBy(key.sign, signature.signature, said)) ? "verified" : "bad";
}

/**
 * The statement of a message or, with `replaces`, of an edit that makes it so.
 * @param {Held} own @param {any} message whole @param {string[]} mentions the names that were given beside the text
 * @param {import("./crypto.js").Link} link @param {string} [replaces]
 */
async function stated(own, message, mentions, link, replaces) {
  const content = await messageContent({ ...message, mentions });
  const common = {
    team: own.team, channel: message.channel_id, thread: message.thread_id ?? "", message: message.message_id,
    sender: message.sender_id, content, link,
  };
  return replaces === undefined ? statements.message(common) : statements.edit({ ...common, replaces });
}

/** @param {any} signature */
const linkOf = (signature) => ({
  signer: signature.signer, at: signature.at, chain: signature.chain ?? "", link: signature.link ?? 0, previous: signature.previous ?? "",
});

/** The key of an epoch, if it is wrapped to this browser and was opened by somebody that counts. @param {Held} own @param {string} channel @param {number} number */
async function epochKey(own, channel, number) {
  const known = epochKeys.get(`${channel} ${number}`);
  if (known) return known;
  for (const view of await epochsOf(channel)) await learn(own, view);
  return epochKeys.get(`${channel} ${number}`) ?? null;
}

/** @param {string} channel @returns {Promise<any[]>} */
const epochsOf = async (channel) => (await get(place(["channels", channel, "epochs"]))).epochs ?? [];

/** @param {Held} own @param {any} view `EpochView` */
async function learn(own, view) {
  const name = `${view.epoch.channel_id} ${view.epoch.epoch}`;
  if (epochKeys.has(name)) return;
  const wrap = (view.wraps ?? []).find((/** @type {any} */ one) => one.member_key === own.member.memberKey);
  if (!wrap) return;
  const opener = await signerOf(own, view.epoch.signer, "");
  const giver = await signerOf(own, wrap.signer, "");
  if (!opener || !(await signedBy(opener.sign, view.epoch.signature, epochStatement(view.epoch, own.team)))) return;
  if (!giver || !(await signedBy(giver.sign, wrap.signature, wrapStatement(wrap, own.team, view.epoch.channel_id)))) return;
  const key = await unwrap(own.member, wrap.wrapped, view.epoch, own.team).catch(() => null);
  if (!key) return;
  if (epochKeys.size >= EPOCHS_KEPT_MAX) epochKeys.clear();
  epochKeys.set(name, key);
}

/**
 * What is posted: signed where this browser has keys, sealed where the channel is encrypted.
 * @param {any} me @param {any} channel the door's `Channel` @param {any[]} members of it
 * @param {any} body `Post` with its message_id
 * @throws {Problem} `no_member_keys` where an encrypted channel cannot be written from here
 */
export async function prepared(me, channel, members, body) {
  const own = await held(me).catch((problem) => {
    if (channel.encrypted) throw problem;
    return null;
  });
  if (!own) {
    if (channel.encrypted) throw new Problem({ code: "no_member_keys" });
    return body;
  }
  const told = channel.encrypted ? await sealedBody(own, channel, members, body, body) : body;
  const message = { ...told, channel_id: channel.channel_id, sender_id: own.principal };
  return { ...told, signature: await signature(own, message, told.mentions ?? []) };
}

/**
 * An edit of an own message: signed and sealed as the message was.
 * @param {any} me @param {any} channel @param {any[]} members @param {any} message @param {string} text
 */
export async function preparedEdit(me, channel, members, message, text) {
  const own = await held(me).catch(() => null);
  if (!own && channel.encrypted) throw new Problem({ code: "no_member_keys" });
  if (!own) return { text };
  const told = channel.encrypted ? await sealedBody(own, channel, members, message, { text, title: message.title }) : { text };
  const { text: _old, sealed: _sealed, ...head } = message;
  const whole = { ...head, ...told, ...(channel.encrypted ? { title: "" } : {}) };
  return { ...told, signature: await signature(own, whole, [], message.countersign?.statement ?? "") };
}

/**
 * A value of a status, signed where this browser has keys.
 * @param {any} me @param {any} channel @param {string} key @param {any} body `SetStatus`
 */
export async function preparedStatus(me, channel, key, body) {
  const own = await held(me).catch(() => null);
  return own ? signedStatus(own, channel.channel_id, key, body) : body;
}

/**
 * A value that somebody has set, to be set again as it is with this browser's signature beside theirs; what the door takes.
 * @param {any} me @param {any} status as it stands
 * @throws {Problem} `not_theirs` if its signature is not known to be its writer's
 */
export async function seconded(me, status) {
  const own = await held(me);
  if (!own) throw new Problem({ code: "no_member_keys" });
  const first = status.signature && (await signerOf(own, status.signature.signer, status.by_id));
  const said = first && (await statedStatus(own, status, status.key, status.by_id, linkOf(status.signature)));
  if (!first || !(await signedBy(first.sign, status.signature.signature, said))) throw new Problem({ code: "not_theirs" });
  const left = status.expires_at ? Math.max(1, Math.ceil((Date.parse(status.expires_at) - Date.now()) / 1000)) : 0;
  return signedStatus(own, status.channel_id, status.key, {
    value: status.value ?? null, if_version: status.version, expires_s: left, evidence: { ...status.evidence, second: status.signature },
  });
}

/** @param {Held} own @param {string} channel @param {string} key @param {any} body `SetStatus` */
async function signedStatus(own, channel, key, body) {
  const chain = `${channel} status`;
  const link = nextLink(own, chain);
  const said = await statedStatus(own, { ...body, channel_id: channel }, key, own.principal, link);
  own.chain.set(chain, { link: link.link, previous: await digest(said) });
  return { ...body, signature: { ...link, signature: await sign(own.member, said) } };
}

/** @param {Held} own @param {any} status value and evidence @param {string} key @param {string} sender @param {import("./crypto.js").Link} link */
async function statedStatus(own, status, key, sender, link) {
  const { commit, run, link: url } = status.evidence ?? {};
  const content = await statusContent({ value: status.value, commit, run, link: url });
  return statements.status({ team: own.team, channel: status.channel_id, key, sender, content, link });
}

/**
 * `body` with its text and title sealed for the place of `message`.
 * @param {Held} own @param {any} channel @param {any[]} members @param {any} message @param {any} body
 */
async function sealedBody(own, channel, members, message, body) {
  const { epoch, key } = await currentEpoch(own, channel, members);
  const where = {
    team: own.team, channel: channel.channel_id, thread: message.thread_id ?? "", sender: own.principal, message: message.message_id, epoch,
  };
  const { text, title, ...rest } = body;
  return { ...rest, sealed: await seal(key, where, { text: text ?? "", title: title ?? "", attachments: [] }) };
}

/** @param {Held} own @param {any} message @param {string[]} mentions @param {string} [replaces] */
async function signature(own, message, mentions, replaces) {
  const link = nextLink(own, message.channel_id);
  const said = await stated(own, message, mentions, link, replaces);
  own.chain.set(message.channel_id, { link: link.link, previous: await digest(said) });
  return { ...link, ...(replaces === undefined ? {} : { replaces }), signature: await sign(own.member, said) };
}

/** @param {Held} own @param {string} channel */
function nextLink(own, channel) {
  const last = own.chain.get(channel) ?? { link: 0, previous: "" };
  return { signer: own.member.memberKey, at: now(), chain: CHAIN, link: last.link + 1, previous: last.previous };
}

/**
 * The newest epoch that can be posted under; a new one is opened where there is none, somebody left, or this browser
 * does not hold it. Members that came later are given its key.
 * @param {Held} own @param {any} channel @param {any[]} members
 */
async function currentEpoch(own, channel, members) {
  await readOn(own);
  const told = await get(place(["channels", channel.channel_id, "epochs"]));
  const newest = told.epochs?.[0];
  const keys = [];
  const all = new Set([own.principal, ...members.map((one) => one.principal_id)]);
  for (const principal of all) {
    for (const key of await trusted(own, principal)) keys.push({ principal, memberKey: key.memberKey, wrap: key.wrap });
  }
  const held = newest && !told.stale ? await epochKey(own, channel.channel_id, newest.epoch.epoch) : null;
  if (held) {
    const missing = keys.filter((key) => !(newest.holders ?? []).includes(key.memberKey));
    if (missing.length) {
      const where = { team: own.team, channel: channel.channel_id, epoch: newest.epoch.epoch, at: now() };
      await post(place(["channels", channel.channel_id, "epochs", String(newest.epoch.epoch), "keys"]), { wraps: await wrapAll(own.member, held, where, missing) });
    }
    return { epoch: newest.epoch.epoch, key: held };
  }
  const where = {
    team: own.team, channel: channel.channel_id, epoch: (newest?.epoch.epoch ?? 0) + 1, at: now(),
    previous: newest ? await digest(epochStatement(newest.epoch, own.team)) : "",
  };
  const made = await openEpoch(own.member, where, keys);
  await post(place(["channels", channel.channel_id, "epochs"]), made.body);
  epochKeys.set(`${channel.channel_id} ${where.epoch}`, made.key);
  return { epoch: where.epoch, key: made.key };
}
