// The native lines as they are, for a form that cannot be read (any more).

import { html, useEffect, useState } from "../lib.js";
import { get, place } from "../door.js";
import { RAW_LINES_PAGE } from "../state/limits.js";
import { size, t } from "../words/index.js";
import { Failed } from "../parts/states.js";
import { textNodes } from "../parts/text.js";

/** How many pages back a line is looked for. */
const SEEK_PAGES_MAX = 40;

/**
 * The native line of an item that could not be read: pages back until it is there.
 * @param {{id: string, line: number}} props
 */
export function RawLine({ id, line }) {
  const [found, setFound] = useState(/** @type {any} */ (null));
  useEffect(() => {
    seek(id, line).then(setFound, setFound);
  }, [id, line]);
  if (!found) return html`<p class="soft" role="status">${t("loading.raw")}</p>`;
  if (found instanceof Error) return html`<${Failed} problem=${found} inline />`;
  return html`<pre class="code" tabindex="0">${textNodes(found.text ?? t("search.gone"))}</pre>
    ${found.cut_bytes ? html`<small class="soft">${t("raw.cut", { size: size(found.cut_bytes) })}</small>` : null}`;
}

/** @param {string} id @param {number} line */
async function seek(id, line) {
  let before = "";
  for (let pages = 0; pages < SEEK_PAGES_MAX; pages += 1) {
    const page = await get(place(["sessions", id, "raw"], { before, limit: RAW_LINES_PAGE }));
    const hit = page.lines.find((/** @type {any} */ one) => one.line === line);
    if (hit) return hit;
    before = page.before;
    if (!before || (page.lines[0]?.line ?? 0) < line) break;
  }
  return {};
}

/** @param {{id: string, open?: boolean}} props */
export function RawLines({ id, open }) {
  const [lines, setLines] = useState(/** @type {any[]} */ ([]));
  const [before, setBefore] = useState(/** @type {string | null} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const load = async () => {
    try {
      const page = await get(place(["sessions", id, "raw"], { before, limit: RAW_LINES_PAGE }));
      setLines((had) => [...page.lines, ...had]);
      setBefore(page.before ?? "");
      setProblem(null);
    } catch (failed) {
      setProblem(failed);
    }
  };
  useEffect(() => {
    if (open) load();
  }, [id]);
  return html`<section class="raw" aria-label=${t("raw.title")}>
    ${problem ? html`<${Failed} problem=${problem} retry=${load} inline />` : null}
    ${before === null ? html`<button type="button" class="quiet more" onClick=${load}>${t("raw.open")}</button>`
      : before ? html`<button type="button" class="quiet more" onClick=${load}>${t("fold.earlier_lines")}</button>` : null}
    ${lines.map((line) => html`<div class="raw-line"><small class="soft">${t("item.line", { line: String(line.line) })}</small>
      <pre class="code" tabindex="0">${textNodes(line.text)}</pre>
      ${line.cut_bytes ? html`<small class="soft">${t("raw.cut", { size: size(line.cut_bytes) })}</small>` : null}</div>`)}
  </section>`;
}
