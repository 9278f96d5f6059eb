// Whether somebody's keys are truly theirs: twelve digits that both sides see alike if nobody stands between them.

import { html } from "../lib.js";
import { me } from "../state/live.js";
import { acceptKey, acquaintance } from "../state/meeting.js";
import { t } from "../words/index.js";
import { useSure, useTold } from "./asking.js";
import { Dialog, showDialog } from "./dialog.js";
import { Failed, Loading } from "./states.js";
import { said } from "./talk_words.js";
import { Text, textNodes } from "./text.js";

/** @param {string} principal @param {string} name what they are called */
export function compareKeys(principal, name) {
  showDialog(() => html`<${Dialog} title=${t("trust.title", { who: name })} side><${Compare} principal=${principal} name=${name} /><//>`);
}

/** A name as a command takes it. @param {string} name */
const typed = (name) => (/^[\w.-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`);

/** @param {{principal: string, name: string}} props */
function Compare({ principal, name }) {
  const { told, problem, load } = useTold(() => acquaintance(me.value, principal), [principal]);
  if (problem) return html`<${Failed} problem=${problem} retry=${load} />`;
  if (told === undefined) return html`<${Loading} text=${t("loading.trust")} />`;
  if (told === null) return html`<p class="say-note">${t("problem.no_member_keys")}</p>`;
  if (!told.keys.length) return html`<p class="say-note">${t("trust.none", { who: name })}</p>`;
  return html`<p class="soft small">${t("trust.how", { who: name })}</p><pre class="code select" tabindex="0">${textNodes(`ekiden trust ${typed(me.value?.name ?? "")}`)}</pre>
    ${told.keys.map((/** @type {any} */ key) => html`<${Key} key=${key.memberKey} of=${key} changed=${load} />`)}
    <p class="soft small">${t("trust.own")} <span class="mono">${textNodes(told.own)}</span></p>`;
}

/** @param {{of: any, changed: () => Promise<void>}} props */
function Key({ of, changed }) {
  const { sure, problem, press } = useSure(async () => {
    await acceptKey(me.value, of.memberKey);
    await changed();
  });
  const open = of.trust !== "ended";
  return html`<article class="card" data-trust=${of.trust}><div class="row"><span class="title grow"><${Text} of=${of.label || t("trust.key")} /></span>
      <span class=${`pill ${of.trust === "changed" ? "need" : ["compared", "invited"].includes(of.trust) ? "run" : ""}`}>${said("trust", of.trust)}</span></div>
    <small class="soft mono">${textNodes(of.fingerprint)}</small>
    ${open ? html`<p class="compare mono">${textNodes(of.code)}</p>` : null}
    ${of.trust === "changed" ? html`<p class="say-note">${t("trust.changed_what")}</p>` : null}
    ${open && of.trust !== "compared" ? html`<button type="button" class=${sure ? "stop" : ""} onClick=${press}>${t(sure ? "trust.sure" : "trust.same")}</button>` : null}
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}</article>`;
}
