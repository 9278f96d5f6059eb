// A program's output: the last lines at once, the rest when it is opened, the whole from the host when asked for.

import { html, useState } from "../lib.js";
import { OUTPUT_CHARS_STEP, OUTPUT_LINES_FOLDED } from "../state/limits.js";
import { readWholeItem } from "../state/live.js";
import { putWhole } from "../state/threads.js";
import { size, t } from "../words/index.js";
import { isOpen, toggle } from "./folds.js";
import { Failed } from "./states.js";
import { outputNodes } from "./text.js";

/** @param {{text: string, fold: string, cut?: any, itemId: string, growing?: boolean}} props */
export function Output({ text, fold, cut, itemId, growing }) {
  const [steps, setSteps] = useState(1);
  const lines = text.replace(/\n$/, "").split("\n");
  const open = isOpen(fold);
  const folded = !open && lines.length > OUTPUT_LINES_FOLDED;
  const part = folded
    ? (growing ? lines.slice(-OUTPUT_LINES_FOLDED) : lines.slice(0, OUTPUT_LINES_FOLDED)).join("\n").slice(0, 4000)
    : lines.join("\n").slice(0, OUTPUT_CHARS_STEP * steps);
  const { nodes, colours } = outputNodes(part);
  return html`<div class="output">
    <pre tabindex="0">${nodes}</pre>
    <div class="row wrap">
      ${lines.length > OUTPUT_LINES_FOLDED
        ? html`<button type="button" class="quiet more" aria-expanded=${open} onClick=${() => toggle(fold)}>${open ? t("fold.less") : t("fold.lines", { count: lines.length })}</button>`
        : null}
      ${!folded && lines.join("\n").length > part.length
        ? html`<button type="button" class="quiet more" onClick=${() => setSteps(steps + 1)}>${t("fold.more")}</button>`
        : null}
      ${colours ? html`<small class="soft">${t("output.colours", { count: colours })}</small>` : null}
      ${cut ? html`<${Whole} cut=${cut} itemId=${itemId} />` : null}
    </div>
  </div>`;
}

/** Fetches what was cut. @param {{cut: any, itemId: string}} props */
export function Whole({ cut, itemId }) {
  const [state, setState] = useState(/** @type {any} */ ("idle"));
  const load = async () => {
    setState("loading");
    try {
      putWhole(await readWholeItem(itemId));
      setState("idle");
    } catch (problem) {
      setState(problem);
    }
  };
  if (state instanceof Error) return html`<${Failed} problem=${state} retry=${load} inline />`;
  return html`<button type="button" class="quiet more" disabled=${state === "loading"} onClick=${load}>
    ${state === "loading" ? t("loading.item") : t("output.whole", { size: size(cut.bytes) })}</button>`;
}
