// Outside text: what cannot be seen becomes a mark, and nothing is ever markup; run by node's own runner.

import assert from "node:assert/strict";
import { test } from "node:test";

import { outputPieces, pieces, visibleText } from "../../src/ekiden/web/parts/visible.js";

const UNSEEN = [
  ...Array.from({ length: 32 }, (_, code) => code).filter((code) => code !== 9 && code !== 10),
  0x7f, 0x80, 0x85, 0x9b, 0x9f, 0xad, 0x61c, 0x180e, 0x200b, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e,
  0x2060, 0x2066, 0x2067, 0x2068, 0x2069, 0x206f, 0xfeff, 0xfff9, 0xe0001, 0xe0041, 0xe007f,
];

test("every unseen character is shown as a mark, alone and between letters", () => {
  for (const code of UNSEEN) {
    const character = String.fromCodePoint(code);
    const found = pieces(`a${character}b`);
    assert.equal(found.length, 3, `U+${code.toString(16)}`);
    assert.equal(found[1].mark, true);
    for (const text of [visibleText(character), found[1].text, outputPieces(`a${character}b`).pieces.map((piece) => piece.text).join("")]) {
      assert.ok(!text.includes(character), `U+${code.toString(16)} is still there`);
    }
  }
});

test("ordinary text of any script, joiners and emoji stay as they are", () => {
  for (const text of ["plain\ttext\n", "简体中文", "עברית", "العربية", "नमस्ते", "می‌خواهم", "👩‍💻 👨‍👩‍👧", "é e\u0301", "<b>&amp;"]) {
    assert.deepEqual(pieces(text), [{ text, mark: false }]);
    assert.equal(visibleText(text), text);
  }
});

test("colours are left out and counted, other sequences are one mark each", () => {
  const { pieces: found, colours } = outputPieces("\u001b[1;31mred\u001b[0m \u001b[2Jx\u001b]0;title\u0007y\u001b]8;;http://evil.example\u001b\\z");
  assert.equal(colours, 2);
  assert.equal(found.filter((piece) => !piece.mark).map((piece) => piece.text).join(""), "red xyz");
  assert.ok(found.filter((piece) => piece.mark).every((piece) => !piece.text.includes("\u001b")));
});

test("the pieces of any text, with marks undone, are that text", () => {
  let state = 1;
  const pool = ["a", "\n", "\u001b", "[", "31m", "\u202e", "]", "0;", "\u0007", "<", "é", "\u{e0041}", "\t", "\u0000"];
  for (let n = 0; n < 500; n += 1) {
    let text = "";
    for (let at = 0; at < 20; at += 1) {
      state = (state * 1664525 + 1013904223) >>> 0;
      text += pool[state % pool.length];
    }
    const kept = pieces(text).filter((piece) => !piece.mark).map((piece) => piece.text).join("");
    assert.equal(kept, Array.from(text).filter((character) => /[\n\t<[\]\p{L}\p{N};]/u.test(character)).join(""));
  }
});
