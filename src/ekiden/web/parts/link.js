// A link in outside text: it shows where it leads, and opens only after a second, informed press.

import { html } from "../lib.js";
import { t } from "../words/index.js";
import { Dialog, closeDialog, showDialog } from "./dialog.js";
import { textNodes } from "./text.js";

const ALLOWED = new Set(["http:", "https:", "mailto:"]);

/**
 * Where an address leads, as the browser reads it (names in their ASCII form), or null if it may not be opened.
 * @param {string} address
 * @returns {{whole: string, place: string} | null}
 */
export function leadsTo(address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  if (!ALLOWED.has(url.protocol)) return null;
  return { whole: url.href, place: url.protocol === "mailto:" ? url.pathname : url.host };
}

/** @param {{to: string, plain?: boolean, children?: any}} props */
export function Link({ to, plain, children }) {
  const target = leadsTo(to);
  if (!target) return children;
  const open = () => showDialog(() => html`<${Leaving} target=${target} />`);
  return html`<button type="button" class="link" onClick=${open}>${children}</button>${plain
    ? null
    : html`<span class="leads">${" "}(${textNodes(target.place)})</span>`}`;
}

/** @param {{target: {whole: string, place: string}}} props */
function Leaving({ target }) {
  return html`<${Dialog} title=${t("link.title")}>
    <p class="soft">${t("link.leads")}</p>
    <pre class="code">${textNodes(target.whole)}</pre>
    <div class="two">
      <button type="button" onClick=${closeDialog}>${t("do.cancel")}</button>
      <a class="button go" href=${target.whole} target="_blank" rel="noopener noreferrer" onClick=${closeDialog}>${t("link.open")}</a>
    </div>
  <//>`;
}
