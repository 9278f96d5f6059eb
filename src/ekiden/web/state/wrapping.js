// Who holds the key of an encrypted channel: the twin of `ekiden.crypto.epochs`. HPKE (RFC 9180) in base mode with
// X25519, HKDF-SHA256 and AES-256-GCM, one message for each key, put together from WebCrypto's parts.

import { bytes, canonical, CryptoRefusal, digest, read, sign, spell, statement } from "./crypto.js";

const KEM = 0x0020;
const KDF = 0x0001;
const AES_256_GCM = { id: 0x0002, keyBytes: 32 };
const KEY_BYTES = 32;

/** @param {number} value */
const two = (value) => Uint8Array.of(value >> 8, value & 255);

/** @param {...Uint8Array} parts */
const joined = (...parts) => Uint8Array.from(parts.flatMap((part) => [...part]));

const HPKE = bytes("HPKE");
const NOTHING = new Uint8Array();
const KEM_SUITE = joined(bytes("KEM"), two(KEM));

/** @param {Uint8Array} key @param {Uint8Array} data */
async function hmac(key, data) {
  // An empty key is a key of zeros (RFC 2104, 2), which WebCrypto wants to see.
  const raw = key.length ? key : new Uint8Array(32);
  const held = await crypto.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", held, data));
}

/** RFC 9180, 4. @param {Uint8Array} suite @param {Uint8Array} salt @param {string} label @param {Uint8Array} ikm */
const extract = (suite, salt, label, ikm) => hmac(salt, joined(bytes("HPKE-v1"), suite, bytes(label), ikm));

/** RFC 9180, 4, for at most 32 bytes. @param {Uint8Array} suite @param {Uint8Array} prk @param {string} label @param {Uint8Array} info @param {number} size */
async function expand(suite, prk, label, info, size) {
  const labeled = joined(two(size), bytes("HPKE-v1"), suite, bytes(label), info);
  return (await hmac(prk, joined(labeled, Uint8Array.of(1)))).slice(0, size);
}

/** @param {Uint8Array} raw */
const publicKey = (raw) => crypto.subtle.importKey("raw", raw, "X25519", true, []);

/** RFC 9180, 4.1. @param {CryptoKey} own @param {Uint8Array} other @param {Uint8Array} enc @param {Uint8Array} recipient */
async function sharedSecret(own, other, enc, recipient) {
  const told = { name: "X25519", public: await publicKey(other) };
  const dh = new Uint8Array(await crypto.subtle.deriveBits(told, own, 256));
  const prk = await extract(KEM_SUITE, NOTHING, "eae_prk", dh);
  return expand(KEM_SUITE, prk, "shared_secret", joined(enc, recipient), 32);
}

/** RFC 9180, 5.1, base mode. @param {Uint8Array} shared @param {Uint8Array} info @param {{id: number, keyBytes: number}} aead */
async function schedule(shared, info, aead) {
  const suite = joined(HPKE, two(KEM), two(KDF), two(aead.id));
  const context = joined(
    Uint8Array.of(0),
    await extract(suite, NOTHING, "psk_id_hash", NOTHING),
    await extract(suite, NOTHING, "info_hash", info),
  );
  const secret = await extract(suite, shared, "secret", NOTHING);
  return {
    key: await expand(suite, secret, "key", context, aead.keyBytes),
    nonce: await expand(suite, secret, "base_nonce", context, 12),
  };
}

/** @param {{key: Uint8Array, nonce: Uint8Array}} scheduled @param {"encrypt" | "decrypt"} use @param {Uint8Array} data @param {Uint8Array} [aad] */
async function gcm(scheduled, use, data, aad = NOTHING) {
  const key = await crypto.subtle.importKey("raw", scheduled.key, "AES-GCM", false, [use]);
  return new Uint8Array(await crypto.subtle[use]({ name: "AES-GCM", iv: scheduled.nonce, additionalData: aad }, key, data));
}

/**
 * Encrypts once to a public key. `ephemeral` is given only for vectors.
 * @param {Uint8Array} plain @param {Uint8Array} recipient @param {Uint8Array} info @param {CryptoKeyPair} [ephemeral]
 */
export async function hpkeSeal(plain, recipient, info, ephemeral) {
  const made = ephemeral ?? /** @type {CryptoKeyPair} */ (await crypto.subtle.generateKey("X25519", false, ["deriveBits"]));
  const enc = new Uint8Array(await crypto.subtle.exportKey("raw", made.publicKey));
  const shared = await sharedSecret(made.privateKey, recipient, enc, recipient);
  return joined(enc, await gcm(await schedule(shared, info, AES_256_GCM), "encrypt", plain));
}

/**
 * Decrypts what `hpkeSeal` made: 32 bytes of encapsulated key, then the ciphertext.
 * @param {Uint8Array} sealed @param {CryptoKey} own @param {Uint8Array} ownPublic @param {Uint8Array} info
 * @param {{aead?: {id: number, keyBytes: number}, aad?: Uint8Array}} [other] another suite, for the standard's vectors
 */
export async function hpkeOpen(sealed, own, ownPublic, info, other = {}) {
  const enc = sealed.slice(0, KEY_BYTES);
  const shared = await sharedSecret(own, enc, enc, ownPublic);
  const scheduled = await schedule(shared, info, other.aead ?? AES_256_GCM);
  return gcm(scheduled, "decrypt", sealed.slice(KEY_BYTES), other.aad);
}

/** @param {string} team @param {string} channel @param {number} epoch @param {string} member_key */
const wrapInfo = (team, channel, epoch, member_key) =>
  bytes(`ekiden/1/wrap\n${canonical({ team, channel, epoch, member_key })}`);

/** @param {any} epoch `ekiden.crypto.epochs.Epoch` @param {string} team @returns {Uint8Array} what its opener signs */
export const epochStatement = (epoch, team) =>
  statement("epoch", {
    team,
    channel: epoch.channel_id,
    epoch: epoch.epoch,
    members: epoch.members,
    commitment: epoch.commitment,
    previous: epoch.previous,
    at: epoch.at,
    signer: epoch.signer,
  });

/** @param {any} wrap `ekiden.crypto.epochs.Wrap` @param {string} team @param {string} channel */
export const wrapStatement = (wrap, team, channel) =>
  statement("wrap", {
    team,
    channel,
    epoch: wrap.epoch,
    principal: wrap.principal_id,
    member_key: wrap.member_key,
    wrapped: wrap.wrapped,
    at: wrap.at,
    signer: wrap.signer,
  });

/**
 * An epoch's key for each of `members`, signed.
 * @param {import("./crypto.js").Member} signer @param {Uint8Array} key
 * @param {{team: string, channel: string, epoch: number, at: string}} where
 * @param {{principal: string, memberKey: string, wrap: string}[]} members
 */
export async function wrapAll(signer, key, where, members) {
  const made = [];
  for (const one of members) {
    const info = wrapInfo(where.team, where.channel, where.epoch, one.memberKey);
    const wrap = {
      epoch: where.epoch,
      principal_id: one.principal,
      member_key: one.memberKey,
      wrapped: spell(await hpkeSeal(key, read(one.wrap, KEY_BYTES), info)),
      signer: signer.memberKey,
      at: where.at,
      signature: "",
    };
    wrap.signature = await sign(signer, wrapStatement(wrap, where.team, where.channel));
    made.push(wrap);
  }
  return made;
}

/**
 * The body of POST …/epochs: a new epoch, its statement signed, its key wrapped to each member.
 * @param {import("./crypto.js").Member} signer
 * @param {{team: string, channel: string, epoch: number, previous: string, at: string}} where
 * @param {{principal: string, memberKey: string, wrap: string}[]} members
 * @param {Uint8Array} [key]
 */
export async function openEpoch(signer, where, members, key = crypto.getRandomValues(new Uint8Array(KEY_BYTES))) {
  const order = (/** @type {any} */ one) => `${one.principal}\0${one.memberKey}`;
  const sorted = [...members].sort((one, other) => (order(one) < order(other) ? -1 : 1));
  const epoch = {
    channel_id: where.channel,
    epoch: where.epoch,
    members: sorted.map((one) => [one.principal, one.memberKey]),
    commitment: await digest(key),
    previous: where.previous,
    at: where.at,
    signer: signer.memberKey,
    signature: "",
  };
  epoch.signature = await sign(signer, epochStatement(epoch, where.team));
  return { body: { epoch, wraps: await wrapAll(signer, key, where, sorted) }, key };
}

/**
 * The epoch's key, checked against its commitment.
 * @param {import("./crypto.js").Member} member @param {string} wrapped @param {any} epoch @param {string} team
 */
export async function unwrap(member, wrapped, epoch, team) {
  const info = wrapInfo(team, epoch.channel_id, epoch.epoch, member.memberKey);
  let key;
  try {
    key = await hpkeOpen(read(wrapped, 80), member.wrapKey, read(member.public.wrap, KEY_BYTES), info);
  } catch {
    throw new CryptoRefusal("seal_broken", "This key of the channel is not wrapped to this member key.");
  }
  if ((await digest(key)) !== epoch.commitment) {
    throw new CryptoRefusal("seal_broken", "The wrapped key is not the one that the epoch's statement promises.");
  }
  return key;
}
