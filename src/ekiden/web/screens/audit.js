// The audit log: every grant, refusal and revocation, newest first.

import { html, useEffect, useState } from "../lib.js";
import { get, place } from "../door.js";
import { AUDIT_PAGE } from "../state/limits.js";
import { accessChanged } from "../state/live.js";
import { back } from "../state/route.js";
import { t } from "../words/index.js";
import { Failed, Loading } from "../parts/states.js";
import { said } from "../parts/talk_words.js";
import { Text, textNodes } from "../parts/text.js";
import { Ago } from "../parts/when.js";

/** @param {{wide: boolean}} props */
export function AuditScreen({ wide }) {
  const [told, setTold] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const load = async (/** @type {string} */ before) => {
    try {
      const page = await get(place(["audit"], { limit: AUDIT_PAGE, before }));
      setTold((/** @type {any} */ had) => (before && had ? { ...page, lines: [...had.lines, ...page.lines] } : page));
      setProblem(null);
    } catch (failed) {
      setProblem(failed);
    }
  };
  useEffect(() => {
    load("");
  }, [accessChanged.value]);
  return html`<div class="screen"><header>${wide ? null : html`<button type="button" class="quiet back" onClick=${back} aria-label=${t("do.back")}><span aria-hidden="true">‹</span></button>`}<h1 class="grow">${t("places.audit")}</h1></header>
    <div class="scroll" data-area><div class="col">
      ${problem ? html`<${Failed} problem=${problem} retry=${() => load("")} />` : null}
      ${!told && !problem ? html`<${Loading} text=${t("loading.audit")} />` : null}
      ${told?.lines.map((/** @type {any} */ line) => html`<article class="card" key=${line.seq} data-row tabindex="-1">
        <div class="row"><span class="title grow">${said("audit", line.kind.replace(".", "_"))}</span><small class="soft"><${Ago} at=${line.at} /></small></div>
        <p class="small"><${Text} of=${line.actor?.name ?? line.by?.name ?? ""} /></p>
        <details><summary class="soft small">${t("audit.details")}</summary><pre class="code" tabindex="0">${textNodes(JSON.stringify(line.body, null, 2))}</pre></details></article>`)}
      ${told && !told.lines.length ? html`<p class="soft">${t("audit.empty")}</p>` : null}
      ${told?.next ? html`<button type="button" onClick=${() => load(told.next)}>${t("do.more")}</button>` : null}
    </div></div></div>`;
}
