// A unified diff as lines: what goes, what comes, and where.

import { html } from "../lib.js";
import { DIFF_LINES_FOLDED } from "../state/limits.js";
import { t } from "../words/index.js";
import { textNodes } from "./text.js";
import { isOpen, toggle } from "./folds.js";

/** @param {string} line */
function sort(line) {
  if (line.startsWith("+++") || line.startsWith("---") || line.startsWith("@@") || line.startsWith("diff ")) return "where";
  if (line.startsWith("+")) return "add";
  if (line.startsWith("-")) return "del";
  return "";
}

/** @param {{unified: string, fold: string, whole?: boolean, named?: boolean}} props `named`: its file stands above it */
export function Diff({ unified, fold, whole, named }) {
  const all = (unified ?? "").replace(/\n$/, "").split("\n");
  const lines = named && all[0]?.startsWith("--- ") && all[1]?.startsWith("+++ ") ? all.slice(2) : all;
  const open = whole || isOpen(fold);
  const shown = open ? lines : lines.slice(0, DIFF_LINES_FOLDED);
  return html`<div>
    <pre class="diff" tabindex="0">${shown.map((line) => html`<span class=${sort(line)}>${textNodes(line || " ")}</span>`)}</pre>
    ${shown.length < lines.length || (isOpen(fold) && lines.length > DIFF_LINES_FOLDED && !whole)
      ? html`<button type="button" class="quiet more" onClick=${() => toggle(fold)}>${open ? t("fold.less") : t("fold.lines", { count: lines.length })}</button>`
      : null}
  </div>`;
}
