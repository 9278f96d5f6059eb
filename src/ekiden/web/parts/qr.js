// A QR code as an SVG of our own drawing; the library only computes the squares.

import { html, useMemo } from "../lib.js";
import { qrcode } from "../vendor/qrcode-generator-2.0.4/qrcode.mjs";

/** @param {{text: string, label: string}} props */
export function QrCode({ text, label }) {
  const { path, count } = useMemo(() => squares(text), [text]);
  const edge = count + 8;
  return html`<svg class="qr" viewBox=${`0 0 ${edge} ${edge}`} role="img" aria-label=${label} shape-rendering="crispEdges">
    <rect width=${edge} height=${edge} fill="#ffffff" /><path d=${path} fill="#000000" transform="translate(4 4)" /></svg>`;
}

/** @param {string} text */
function squares(text) {
  const code = qrcode(0, "M");
  code.addData(text);
  code.make();
  const count = code.getModuleCount();
  let path = "";
  for (let row = 0; row < count; row += 1) {
    for (let column = 0; column < count; column += 1) if (code.isDark(row, column)) path += `M${column} ${row}h1v1h-1z`;
  }
  return { path, count };
}
