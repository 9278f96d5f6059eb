// What members prove and hide, in the browser: the twin of `ekiden.crypto`, over WebCrypto alone. Both are tested against
// the same vectors (`tests/crypto/vectors.json`), each opening what the other has made.
//
// WebCrypto exists only on secure origins (https, or this computer's own address): `available()` says so. Private keys
// are made so that scripts cannot read them out; they are kept as key objects.

const FORM = "ekiden/1/";
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const DEPTH_MAX = 64;
const COMPARE_ROUNDS = 200_000;
const PADDED = [256, 512, 1024, 2048, 4096, 8192, 16384, 32768];
const SEALED_PLAIN_BYTES_MAX = 1 << 20;
const LETTERS = "0123456789abcdefghjkmnpqrstvwxyz";

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

/** Something that was signed or sealed is not as it was. `code`: `seal_broken`, `unspeakable`, `form`. */
export class CryptoRefusal extends Error {
  /** @param {string} code @param {string} message */
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** @returns {boolean} whether this origin may use keys at all */
export const available = () => globalThis.crypto?.subtle !== undefined;

// --- bytes and text

/** @param {Uint8Array} data @returns {string} base64url without padding */
export function spell(data) {
  let text = "";
  for (let at = 0; at < data.length; at += 8192) text += String.fromCharCode(...data.subarray(at, at + 8192));
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** @param {string} text base64url without padding, its one spelling @param {number} [size] @returns {Uint8Array} */
export function read(text, size) {
  if (/^[A-Za-z0-9_-]*$/.test(text) && text.length % 4 !== 1) {
    const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    const data = Uint8Array.from(plain, (letter) => letter.charCodeAt(0));
    if ((size === undefined || data.length === size) && spell(data) === text) return data;
  }
  throw new CryptoRefusal("form", "not base64url of the expected size");
}

/** @param {Uint8Array} data @returns {string} */
export const hex = (data) => Array.from(data, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** @param {string} text @returns {Uint8Array} */
export const bytes = (text) => encoder.encode(text);

/** @param {...Uint8Array} parts */
function joined(...parts) {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** @param {Uint8Array} data @returns {Promise<Uint8Array>} */
const sha256 = async (data) => new Uint8Array(await crypto.subtle.digest("SHA-256", data));

/** @param {Uint8Array} data @returns {Promise<string>} SHA-256 in hex */
export const digest = async (data) => hex(await sha256(data));

/**
 * JSON as RFC 8785 spells it; what programs would read differently is refused (`ekiden.kernel.canonical.exact`).
 * @param {any} value @param {number} [depth] @returns {string}
 */
export function canonical(value, depth = 0) {
  if (depth > DEPTH_MAX) throw new CryptoRefusal("unspeakable", "nested too deeply");
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") {
    if (!value.isWellFormed()) throw new CryptoRefusal("unspeakable", "half of a surrogate pair");
    return JSON.stringify(value);
  }
  if (typeof value === "number") {
    if (!(Math.abs(value) <= Number.MAX_SAFE_INTEGER)) throw new CryptoRefusal("unspeakable", "number");
    return JSON.stringify(value);
  }
  if (Array.isArray(value)) return `[${value.map((one) => canonical(one, depth + 1)).join(",")}]`;
  if (typeof value !== "object") throw new CryptoRefusal("unspeakable", typeof value);
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${canonical(name)}:${canonical(value[name], depth + 1)}`).join(",")}}`;
}

// --- keys

/**
 * @typedef {{sign: string, wrap: string}} PublicKeys base64url
 * @typedef {{signKey: CryptoKey, wrapKey: CryptoKey, public: PublicKeys, memberKey: string}} Member
 */

/** @param {PublicKeys} keys @returns {Promise<string>} `mky_…`, derived from both keys */
export async function memberKeyId(keys) {
  const hash = await sha256(bytes(`${keys.sign}\0${keys.wrap}`));
  let number = 0n;
  for (const byte of hash.subarray(0, 13)) number = (number << 8n) | BigInt(byte);
  number >>= 4n;
  let text = "";
  for (let shift = 95n; shift >= 0n; shift -= 5n) text += LETTERS[Number((number >> shift) & 31n)];
  return `mky_${text}`;
}

/** @param {string} memberKey @returns {string} the id in groups of five letters, to be read aloud */
export const fingerprint = (memberKey) => memberKey.split("_")[1].replace(/(.{5})(?=.)/g, "$1 ");

/** Fresh keys that cannot be read out. @returns {Promise<Member>} */
export async function newMember() {
  const sign = /** @type {CryptoKeyPair} */ (await crypto.subtle.generateKey("Ed25519", false, ["sign", "verify"]));
  const wrap = /** @type {CryptoKeyPair} */ (await crypto.subtle.generateKey("X25519", false, ["deriveBits"]));
  const keys = { sign: await publicText(sign.publicKey), wrap: await publicText(wrap.publicKey) };
  return { signKey: sign.privateKey, wrapKey: wrap.privateKey, public: keys, memberKey: await memberKeyId(keys) };
}

/** A member from its seeds and public keys. @param {string} signSeed @param {string} wrapSeed @param {PublicKeys} keys */
export async function memberFromSeeds(signSeed, wrapSeed, keys) {
  return {
    signKey: await privateKey("Ed25519", read(signSeed, KEY_BYTES), ["sign"]),
    wrapKey: await privateKey("X25519", read(wrapSeed, KEY_BYTES), ["deriveBits"]),
    public: keys,
    memberKey: await memberKeyId(keys),
  };
}

/** @param {CryptoKey} key */
const publicText = async (key) => spell(new Uint8Array(await crypto.subtle.exportKey("raw", key)));

/** @param {"Ed25519" | "X25519"} name @param {Uint8Array} seed @param {KeyUsage[]} usages */
function privateKey(name, seed, usages) {
  // PKCS #8 (RFC 8410, 7): a fixed head for each algorithm, then the 32 bytes.
  const head = read("MC4CAQAwBQYDK2V" + (name === "Ed25519" ? "w" : "u") + "BCIEIA");
  return crypto.subtle.importKey("pkcs8", joined(head, seed), name, false, usages);
}

/**
 * Twelve digits that two members see alike if each has the other's true keys.
 * @param {PublicKeys} one @param {PublicKeys} other @returns {Promise<string>} in groups of four
 */
export async function compareCode(one, other) {
  const pair = [one, other].map((keys) => joined(read(keys.sign, KEY_BYTES), read(keys.wrap, KEY_BYTES)));
  pair.sort((left, right) => (hex(left) < hex(right) ? -1 : 1));
  const secret = await crypto.subtle.importKey("raw", joined(...pair), "PBKDF2", false, ["deriveBits"]);
  const salt = bytes(`${FORM}compare\n`);
  const told = { name: "PBKDF2", hash: "SHA-256", salt, iterations: COMPARE_ROUNDS };
  const stretched = hex(new Uint8Array(await crypto.subtle.deriveBits(told, secret, 64)));
  const digits = (BigInt(`0x${stretched}`) % 10n ** 12n).toString().padStart(12, "0");
  return digits.replace(/(.{4})(?=.)/g, "$1 ");
}

// --- statements

/** @param {string} domain @param {Record<string, any>} fields @returns {Uint8Array} what is signed */
export const statement = (domain, fields) => bytes(`${FORM}${domain}\n${canonical(fields)}`);

/** @param {Member} member @param {Uint8Array} stated @returns {Promise<string>} */
export const sign = async (member, stated) =>
  spell(new Uint8Array(await crypto.subtle.sign("Ed25519", member.signKey, stated)));

/** @param {string} publicKey base64url @param {string} signature @param {Uint8Array} stated @returns {Promise<boolean>} */
export async function signedBy(publicKey, signature, stated) {
  try {
    const key = await crypto.subtle.importKey("raw", read(publicKey, KEY_BYTES), "Ed25519", false, ["verify"]);
    return await crypto.subtle.verify("Ed25519", key, read(signature, 64), stated);
  } catch {
    return false;
  }
}

/** @typedef {{signer: string, at: string, chain: string, link: number, previous: string}} Link */

/**
 * The digest of what a message says.
 * @param {{text?: string, sealed?: any, answers?: string, asks?: string, mentions?: string[], title?: string,
 *   attachments?: {sha256: string, size: number, name?: string, media_type?: string}[]}} said `mentions`: the names given
 *   beside the text, as given
 */
export function messageContent(said) {
  return digest(
    bytes(
      canonical({
        ...(said.sealed ? { sealed: sealedFields(said.sealed) } : { text: said.text ?? "" }),
        answers: said.answers ?? "",
        asks: said.asks ?? "",
        mentions: said.mentions ?? [],
        title: said.title ?? "",
        attachments: (said.attachments ?? []).map((one) => ({
          sha256: one.sha256,
          size: one.size,
          name: one.name ?? "",
          media_type: one.media_type ?? "application/octet-stream",
        })),
      }),
    ),
  );
}

/** The digest of a status value and its evidence. @param {{value?: any, sealed?: any, commit?: string, run?: string, link?: string}} said */
export function statusContent(said) {
  const value = said.sealed ? { sealed: sealedFields(said.sealed) } : { value: said.value ?? null };
  const evidence = { commit: said.commit ?? "", run: said.run ?? "", link: said.link ?? "" };
  return digest(bytes(canonical({ ...value, evidence })));
}

/** @param {any} sealed */
const sealedFields = (sealed) => ({ v: sealed.v ?? 1, epoch: sealed.epoch, nonce: sealed.nonce, data: sealed.data });

/** @param {Record<string, any>} said with a `link` @param {string[]} names */
function picked(said, names) {
  const fields = Object.fromEntries(names.map((name) => [name, said[name]]));
  return said.link && !names.includes("at") ? { ...fields, ...said.link } : fields;
}

/** Builders of statements by kind, each from the same fields as its twin in `ekiden.crypto.statements`. */
export const statements = {
  message: (/** @type {any} */ said) =>
    statement("message", picked(said, ["team", "channel", "thread", "message", "sender", "content"])),
  edit: (/** @type {any} */ said) =>
    statement("edit", picked(said, ["team", "channel", "thread", "message", "sender", "content", "replaces"])),
  delete: (/** @type {any} */ said) =>
    statement("delete", picked(said, ["team", "channel", "message", "sender", "replaces"])),
  status: (/** @type {any} */ said) => statement("status", picked(said, ["team", "channel", "key", "sender", "content"])),
  status_clear: (/** @type {any} */ said) =>
    statement("status-clear", picked(said, ["team", "channel", "key", "sender"])),
  lease: (/** @type {any} */ said) =>
    statement("lease", picked(said, ["team", "channel", "name", "sender", "lease_s", "fence", "note"])),
  countersign_message: (/** @type {any} */ said) =>
    statement("countersign", {
      ...picked(said, ["team", "channel", "message", "seq", "number", "at"]),
      statement: said.statement_digest,
    }),
  countersign_status: (/** @type {any} */ said) =>
    statement("countersign", {
      ...picked(said, ["team", "channel", "version", "seq", "at"]),
      status: said.key,
      statement: said.statement_digest,
    }),
  purge: (/** @type {any} */ said) =>
    statement("purge", picked(said, ["team", "channel", "first", "last", "messages", "digest", "at", "by"])),
};

// --- sealed texts

/**
 * @typedef {{team: string, channel: string, thread: string, sender: string, message: string, epoch: number}} Place
 * @param {Place} place
 */
const associated = (place) =>
  bytes(
    `${FORM}sealed\n${canonical({
      team: place.team,
      channel: place.channel,
      thread: place.thread,
      sender: place.sender,
      message: place.message,
      epoch: place.epoch,
    })}`,
  );

/** @param {Uint8Array} raw @param {"encrypt" | "decrypt"} use */
const gcmKey = (raw, use) => crypto.subtle.importKey("raw", raw, "AES-GCM", false, [use]);

/** @param {number} size */
const paddedSize = (size) =>
  PADDED.find((step) => size <= step) ?? Math.ceil(size / PADDED[PADDED.length - 1]) * PADDED[PADDED.length - 1];

/**
 * Seals what a message says for its place.
 * @param {Uint8Array} key the epoch's @param {Place} place @param {Record<string, any>} content
 * @param {Uint8Array} [nonce] only for vectors
 * @returns {Promise<{epoch: number, nonce: string, data: string, v: number}>}
 */
export async function seal(key, place, content, nonce = crypto.getRandomValues(new Uint8Array(NONCE_BYTES))) {
  const plain = bytes(canonical(content));
  if (plain.length > SEALED_PLAIN_BYTES_MAX) throw new CryptoRefusal("too_large", "too long to be sealed");
  const padded = new Uint8Array(paddedSize(plain.length + 4));
  new DataView(padded.buffer).setUint32(0, plain.length);
  padded.set(plain, 4);
  const told = { name: "AES-GCM", iv: nonce, additionalData: associated(place) };
  const data = await crypto.subtle.encrypt(told, await gcmKey(key, "encrypt"), padded);
  return { epoch: place.epoch, nonce: spell(nonce), data: spell(new Uint8Array(data)), v: 1 };
}

/** @param {Uint8Array} key @param {Place} place @param {{nonce: string, data: string, v?: number}} sealed @returns {Promise<any>} */
export async function openSealed(key, place, sealed) {
  try {
    if ((sealed.v ?? 1) !== 1) throw new CryptoRefusal("form", "form");
    const told = { name: "AES-GCM", iv: read(sealed.nonce, NONCE_BYTES), additionalData: associated(place) };
    const padded = new Uint8Array(await crypto.subtle.decrypt(told, await gcmKey(key, "decrypt"), read(sealed.data)));
    const end = 4 + new DataView(padded.buffer).getUint32(0);
    if (padded.length !== paddedSize(end) || padded.subarray(end).some((byte) => byte !== 0)) throw new Error("padding");
    const content = JSON.parse(decoder.decode(padded.subarray(4, end)));
    if (content === null || typeof content !== "object" || Array.isArray(content)) throw new Error("content");
    return content;
  } catch {
    throw new CryptoRefusal("seal_broken", "This sealed text does not open here.");
  }
}

/** @param {string} team @param {string} channel */
const ofFile = (team, channel) => bytes(`${FORM}attachment\n${canonical({ team, channel })}`);

/** Seals an attachment under a key of its own. @param {Uint8Array} data @param {string} team @param {string} channel */
export async function sealFile(data, team, channel) {
  const key = crypto.getRandomValues(new Uint8Array(KEY_BYTES));
  const iv = crypto.getRandomValues(new Uint8Array(NONCE_BYTES));
  const told = { name: "AES-GCM", iv, additionalData: ofFile(team, channel) };
  const sealed = await crypto.subtle.encrypt(told, await gcmKey(key, "encrypt"), data);
  return { data: joined(iv, new Uint8Array(sealed)), key: spell(key) };
}

/** @param {Uint8Array} data @param {string} key @param {string} team @param {string} channel @returns {Promise<Uint8Array>} */
export async function openFile(data, key, team, channel) {
  try {
    const told = { name: "AES-GCM", iv: data.slice(0, NONCE_BYTES), additionalData: ofFile(team, channel) };
    const opened = await gcmKey(read(key, KEY_BYTES), "decrypt");
    return new Uint8Array(await crypto.subtle.decrypt(told, opened, data.slice(NONCE_BYTES)));
  } catch {
    throw new CryptoRefusal("seal_broken", "This attachment does not open here.");
  }
}
