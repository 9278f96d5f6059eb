// A permission map as a person changes it: one box for each pattern, with its verbs.

import { html } from "../lib.js";
import { hasStatus, verbsFor } from "../state/rights.js";
import { t } from "../words/index.js";
import { said } from "./talk_words.js";

const STATUS = "status:";

/** @typedef {import("../state/rights.js").Row} Row */

/** @param {{rows: Row[], change: (rows: Row[]) => void}} props */
export function Rights({ rows, change }) {
  const put = (/** @type {number} */ at, /** @type {Partial<Row>} */ what) => change(rows.with(at, { ...rows[at], ...what }));
  return html`${rows.map((row, at) => html`<${One} key=${at} row=${row} put=${(/** @type {Partial<Row>} */ what) => put(at, what)}
      drop=${() => change(rows.toSpliced(at, 1))} />`)}
    ${rows.length ? null : html`<p class="say-note">${t("rights.nothing")}</p>`}
    <button type="button" onClick=${() => change([...rows, { pattern: "channel:", verbs: ["read"] }])}>${t("rights.more")}</button>`;
}

/** @param {{row: Row, put: (what: Partial<Row>) => void, drop: () => void}} props */
function One({ row, put, drop }) {
  const plain = row.verbs.filter((verb) => !verb.startsWith(STATUS));
  const keys = row.verbs.filter((verb) => verb.startsWith(STATUS));
  const offered = [...new Set([...verbsFor(row.pattern), ...plain])];
  const turn = (/** @type {string} */ verb) => put({ verbs: row.verbs.includes(verb) ? row.verbs.filter((one) => one !== verb) : [...row.verbs, verb] });
  const write = (/** @type {string} */ text) => put({ verbs: [...plain, ...text.split(/[\s,]+/).filter(Boolean).map((key) => STATUS + key)] });
  return html`<fieldset class="card rights"><legend class="sr">${row.pattern || t("rights.where")}</legend>
    <label class="small">${t("rights.where")}<input type="text" class="mono" value=${row.pattern} autocapitalize="none" spellcheck=${false}
      onInput=${(/** @type {any} */ event) => put({ pattern: event.target.value })} /></label>
    <div class="choices">${offered.map((verb) => html`<label class="choice" key=${verb}><input type="checkbox" checked=${row.verbs.includes(verb)} onChange=${() => turn(verb)} />
      <span>${said("right", verb.replace(":", "_"))}</span></label>`)}</div>
    ${hasStatus(row.pattern) || keys.length ? html`<label class="small">${t("rights.status")}<input type="text" class="mono" value=${keys.map((verb) => verb.slice(STATUS.length)).join(", ")}
      autocapitalize="none" spellcheck=${false} onChange=${(/** @type {any} */ event) => write(event.target.value)} /></label>` : null}
    <button type="button" class="quiet" onClick=${drop}>${t("rights.remove")}</button>
  </fieldset>`;
}
