// Outside text as nodes: text and marks, nothing else.

import { html } from "../lib.js";
import { outputPieces, pieces } from "./visible.js";

/** @param {import("./visible.js").Piece[]} list */
export const nodes = (list) =>
  list.map((piece) => (piece.mark ? html`<span class="mark">${piece.text}</span>` : piece.text));

/** One run of outside text. @param {{of: string}} props */
export const Text = ({ of }) => html`<bdi>${nodes(pieces(of ?? ""))}</bdi>`;

/** @param {string} text */
export const textNodes = (text) => nodes(pieces(text ?? ""));

/** @param {string} text */
export function outputNodes(text) {
  const { pieces: list, colours } = outputPieces(text ?? "");
  return { nodes: nodes(list), colours };
}
