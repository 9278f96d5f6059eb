// Ids that the page makes itself: a printed prefix and 20 letters of Crockford's base 32 (100 random bits).

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";

/**
 * @param {"msg" | "cmd"} prefix
 * @returns {string} for example `msg_8z0k…`
 */
export function newId(prefix) {
  const bytes = crypto.getRandomValues(new Uint8Array(20));
  return `${prefix}_${Array.from(bytes, (byte) => ALPHABET[byte & 31]).join("")}`;
}
