// Outside text made safe to look at: what cannot be seen, or turns text around, becomes a visible mark.
//
// Pure. The text itself is never changed elsewhere: what is copied, searched and sent is as it was written.

// Controls but tab and newline, soft hyphen, bidi controls, zero-width and invisible format characters, line and
// paragraph separators, and the tag characters that can carry hidden text. Joiners stay: scripts and emoji need them.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

// A terminal's control sequences: CSI, OSC and other strings, two-character escapes, and the C1 form of CSI.
const SEQUENCE =
  /(?:\u001b\[|\u009b)[0-?]{0,64}[ -/]{0,8}[@-~]|\u001b[\]P^_X][^\u0007\u001b\u009c]{0,4096}(?:\u0007|\u001b\\|\u009c)|\u001b[ -/]{0,4}[0-Z\\^_`-~]/gu;

const CONTROLS = Object.freeze(
  "NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US".split(" "),
);
const NAMES = Object.freeze({
  0x7f: "DEL",
  0x00ad: "SHY", 0x061c: "ALM", 0x180e: "MVS", 0x200b: "ZWSP", 0x200e: "LRM", 0x200f: "RLM", 0x2028: "LS",
  0x2029: "PS", 0x202a: "LRE", 0x202b: "RLE", 0x202c: "PDF", 0x202d: "LRO", 0x202e: "RLO", 0x2060: "WJ",
  0x2066: "LRI", 0x2067: "RLI", 0x2068: "FSI", 0x2069: "PDI", 0xfeff: "BOM",
});

/**
 * The mark for one hidden character: its short name in angle brackets.
 * @param {string} character
 */
export function markOf(character) {
  const code = /** @type {number} */ (character.codePointAt(0));
  return `⟨${CONTROLS[code] ?? NAMES[code] ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`}⟩`;
}

/**
 * @param {string} text
 * @returns {string} with marks in the place of hidden characters; for attributes and sentences
 */
export function visibleText(text) {
  return lines(String(text)).replace(HIDDEN, markOf);
}

/** @param {string} text */
const lines = (text) => text.replace(/\r\n/g, "\n");

/**
 * @typedef {{text: string, mark: boolean}} Piece
 * @param {string} text
 * @returns {Piece[]} pieces in order; neighbouring marks are one piece
 */
export function pieces(text) {
  return cut(lines(String(text)), HIDDEN, markOf);
}

/**
 * A program's output: colours are left out and counted, every other control sequence is one mark.
 * @param {string} text
 * @returns {{pieces: Piece[], colours: number}}
 */
export function outputPieces(text) {
  let colours = 0;
  const plain = lines(String(text)).replace(SEQUENCE, (sequence) => {
    if (!/^(?:\u001b\[|\u009b)[0-9;:]*m$/u.test(sequence)) return sequence;
    colours += 1;
    return "";
  });
  /** @type {Piece[]} */
  const found = [];
  let from = 0;
  for (const match of plain.matchAll(SEQUENCE)) {
    found.push(...cut(plain.slice(from, match.index), HIDDEN, markOf));
    add(found, { text: visibleText(match[0]), mark: true });
    from = match.index + match[0].length;
  }
  found.push(...cut(plain.slice(from), HIDDEN, markOf));
  return { pieces: found, colours };
}

/** @param {string} text @param {RegExp} form @param {(match: string) => string} spell @returns {Piece[]} */
function cut(text, form, spell) {
  /** @type {Piece[]} */
  const found = [];
  let from = 0;
  for (const match of text.matchAll(form)) {
    if (match.index > from) found.push({ text: text.slice(from, match.index), mark: false });
    add(found, { text: spell(match[0]), mark: true });
    from = match.index + match[0].length;
  }
  if (from < text.length) found.push({ text: text.slice(from), mark: false });
  return found;
}

/** @param {Piece[]} found @param {Piece} piece */
function add(found, piece) {
  const last = found[found.length - 1];
  if (last?.mark && piece.mark) last.text += piece.text;
  else found.push(piece);
}
