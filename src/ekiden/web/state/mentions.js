// The grammar of mentions: which names a text calls. Pure; the twin of `ekiden/relay/mentions.py`, where its rules are
// said. Both are held to one set of vectors.

import { MENTION_CHARS_MAX } from "./limits.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})(.*)$/s;
const QUOTED = /^ {0,3}>/;
const URL_HEAD = /^[A-Za-z][A-Za-z0-9+.-]{1,30}:\/\//;
const URL_ENDS = new Set([..." \t\n\f\v\u00a0\u2028\u2029\u3000<>`"]);
const WORD = /^[\p{L}\p{N}\p{M}_]$/u;
const NOT_BEFORE = new Set([..."./@+-=&#%$^"]);
const EMPHASIS = new Set([..."_*~"]);
const ROLE = "role:";

/**
 * @param {string} text
 * @returns {string[]} the names that it calls, as written (a role as `role:NAME`), each once, in order
 */
export function mentionsIn(text) {
  if (!text.includes("@")) return [];
  const found = new Set();
  for (const piece of spoken(text)) scan([...piece], found);
  return [...found];
}

/** What is left of a text without fenced blocks and quoted lines, in pieces that a code span cannot leave. */
function spoken(text) {
  const pieces = [];
  let lines = [];
  let fence = "";
  for (const line of text.split(/\r\n|\r|\n/)) {
    const marks = FENCE.exec(line);
    if (fence) {
      if (marks && marks[1][0] === fence[0] && marks[1].length >= fence.length && !/[^ \t]/.test(marks[2])) fence = "";
      continue;
    }
    const opens = marks !== null && !(marks[1][0] === "`" && marks[2].includes("`"));
    if (opens || !/[^ \t]/.test(line) || QUOTED.test(line)) {
      pieces.push(lines.join("\n"));
      lines = [];
      if (opens) fence = marks[1];
      continue;
    }
    lines.push(line);
  }
  pieces.push(lines.join("\n"));
  return pieces;
}

/** `piece` is an array of code points, so that every position means what it means in Python. */
function scan(piece, found) {
  let position = 0;
  while (position < piece.length) {
    const letter = piece[position];
    if (letter === "\\") {
      position += 2;
    } else if (letter === "`") {
      position = afterCode(piece, position);
    } else if (letter === "@") {
      const [name, next] = nameAt(piece, position);
      if (name) found.add(name);
      position = next;
    } else if (/^[A-Za-z]$/.test(letter) && (position === 0 || !isWord(piece[position - 1]))) {
      position = afterUrl(piece, position);
    } else {
      position += 1;
    }
  }
}

/** Where an address that begins at `position` ends; one further, if none does. */
function afterUrl(piece, position) {
  const head = URL_HEAD.exec(piece.slice(position, position + 40).join(""));
  if (!head) return position + 1;
  let end = position + head[0].length;
  while (end < piece.length && !URL_ENDS.has(piece[end])) end += 1;
  return end;
}

/** Where a code span that begins at `position` ends; after its marks, if it never ends. */
function afterCode(piece, position) {
  const run = (start) => {
    let end = start;
    while (piece[end] === "`") end += 1;
    return end;
  };
  const opened = run(position);
  let start = opened;
  while (start < piece.length) {
    if (piece[start] !== "`") {
      start += 1;
      continue;
    }
    const end = run(start);
    if (end - start === opened - position) return end;
    start = end;
  }
  return opened;
}

/** The name that is called at `at`, "" for none, and where to go on. */
function nameAt(piece, at) {
  const start = at + 1;
  if (!standsFree(piece, at)) return ["", start];
  if (piece[start] === '"') {
    const end = piece.indexOf('"', start + 1);
    const name = end > 0 ? stripped(piece.slice(start + 1, end), " \t", true) : [];
    if (!name.length || name.includes("\n") || name.length > MENTION_CHARS_MAX) return ["", start];
    return [name.join(""), end + 1];
  }
  const role = piece.slice(start, start + ROLE.length).join("") === ROLE && isWord(piece[start + ROLE.length]);
  const begin = role ? start + ROLE.length : start;
  let end = begin;
  while (end < piece.length && (isWord(piece[end]) || piece[end] === "-" || piece[end] === ".")) end += 1;
  if (!isWord(piece[begin])) return ["", start];
  const after = piece[end];
  if (after === "@" || ((after === "/" || after === "\\") && isWord(piece[end + 1]))) return ["", end];
  let name = stripped(piece.slice(begin, end), "-.", false);
  if (at > 0 && piece[at - 1] === "_") name = stripped(name, "_", false);
  if (!name.length || name.length > MENTION_CHARS_MAX) return ["", end];
  return [(role ? ROLE : "") + name.join(""), end];
}

/** Whether an `@` begins something; marks of emphasis may stand before it. */
function standsFree(piece, at) {
  let before = at;
  while (before > 0 && EMPHASIS.has(piece[before - 1])) before -= 1;
  return before === 0 || !(isWord(piece[before - 1]) || NOT_BEFORE.has(piece[before - 1]));
}

function stripped(letters, which, bothSides) {
  let [start, end] = [0, letters.length];
  while (end > start && which.includes(letters[end - 1])) end -= 1;
  while (bothSides && start < end && which.includes(letters[start])) start += 1;
  return letters.slice(start, end);
}

function isWord(letter) {
  return letter !== undefined && WORD.test(letter);
}
