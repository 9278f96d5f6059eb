// Keys and seats: who may come in, with which rights, and how to narrow or end that.

import { html, useState } from "../lib.js";
import { ask, get, place, post, remove } from "../door.js";
import { accessChanged } from "../state/live.js";
import { mapOf, rowsOf } from "../state/rights.js";
import { address } from "../state/route.js";
import { known, t } from "../words/index.js";
import { useSure, useTold } from "../parts/asking.js";
import { Dialog, closeDialog, showDialog } from "../parts/dialog.js";
import { Rights } from "../parts/rights.js";
import { Failed, Loading } from "../parts/states.js";
import { Text, textNodes } from "../parts/text.js";
import { Ago } from "../parts/when.js";

export function Keys() {
  const { told: keys, problem, load } = useTold(async () => (await get("/v1/keys")).keys, [accessChanged.value]);
  if (problem) return html`<${Failed} problem=${problem} retry=${load} />`;
  if (!keys) return html`<${Loading} text=${t("loading.keys")} />`;
  const valid = keys.filter((key) => !key.revoked_at).sort((one, other) => Number(Boolean(other.this)) - Number(Boolean(one.this)));
  const seats = valid.filter((key) => key.session_id);
  const ended = keys.filter((key) => key.revoked_at);
  const row = (/** @type {any} */ key) => html`<${Key} key=${key.key_id} of=${key} changed=${load} />`;
  return html`<section><h2>${t("keys_list.title")}</h2>${valid.filter((key) => !key.session_id).map(row)}</section>
    <section><h2>${t("seats.title")}</h2><p class="soft small">${t("seats.what")}</p>
      ${seats.length ? seats.map(row) : html`<p class="soft">${t("seats.empty")}</p>`}</section>
    ${ended.length ? html`<details><summary class="soft small">${t("keys_list.ended", { count: ended.length })}</summary>${ended.map(row)}</details>` : null}`;
}

/** @param {{of: any, changed: () => void}} props */
function Key({ of, changed }) {
  const { sure, problem, press } = useSure(async () => {
    await remove(place(["keys", of.key_id]));
    changed();
  });
  const narrow = () => showDialog(() => html`<${Dialog} title=${of.name} side><${Change} of=${of} changed=${changed} /><//>`);
  const kind = `kind.${of.kind}`;
  return html`<article class="card key" data-row tabindex="-1" data-key=${of.key_id}><div class="row wrap">
    <div class="grow"><span class="title"><${Text} of=${of.name} /></span>${of.this ? html` <span class="pill run">${t("keys_list.this")}</span>` : null}
      <br /><small class="soft">${known(kind) ? t(kind) : html`<${Text} of=${of.kind} />`} · ${of.revoked_at ? html`${t("keys_list.revoked")} <${Ago} at=${of.revoked_at} />`
        : of.used_at ? html`${t("keys_list.used")} <${Ago} at=${of.used_at} />` : t("keys_list.unused")}
        ${of.session_id ? html` · <a href=${address("session", of.session_id)}>${t("seats.session")}</a>` : null}</small></div>
    ${of.revoked_at || of.this || of.local_line || of.host_id ? null : html`<button type="button" onClick=${narrow}>${t("rights.change")}</button>`}
    ${of.revoked_at || of.this ? null : html`<button type="button" class=${sure ? "stop" : ""} onClick=${press}>${t(sure ? "keys_list.sure" : "keys_list.revoke")}</button>`}</div>
    ${sure && of.session_id ? html`<p class="say-note">${t("seats.revoke_what")}</p>` : null}
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}</article>`;
}

/** Other rights for a key. @param {{of: any, changed: () => void}} props */
function Change({ of, changed }) {
  const [rows, setRows] = useState(() => rowsOf(of.permissions));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      await ask("PATCH", place(["keys", of.key_id]), { body: { permissions: mapOf(rows) } });
      changed();
      closeDialog();
    } catch (failed) {
      setProblem(failed);
    }
  };
  return html`<form class="stack" onSubmit=${save}><p class="soft small">${t(of.session_id ? "seats.narrow_what" : "rights.what")}</p>
    <${Rights} rows=${rows} change=${setRows} />
    <button type="submit" class="go">${t("do.save")}</button>
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}</form>`;
}

export function MakeKey() {
  const [name, setName] = useState("");
  const [kind, setKind] = useState("agent");
  const [made, setMade] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const make = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      setMade(await post("/v1/keys", { name, kind }));
      setName("");
      setProblem(null);
    } catch (failed) {
      setProblem(failed);
    }
  };
  if (made) {
    return html`<section class="card"><h2 class="title">${t("make_key.once")}</h2><pre class="code select" tabindex="0">${textNodes(made.key)}</pre>
      <button type="button" onClick=${() => setMade(null)}>${t("make_key.kept")}</button></section>`;
  }
  return html`<details class="card"><summary>${t("make_key.title")}</summary><form class="stack" onSubmit=${make}>
    <label>${t("make_key.name")}<input type="text" value=${name} onInput=${(/** @type {any} */ event) => setName(event.target.value)} /></label>
    <label>${t("make_key.kind")}<select value=${kind} onChange=${(/** @type {any} */ event) => setKind(event.target.value)}>
      ${["agent", "service", "person", "device", "host"].map((one) => html`<option value=${one}>${t(`kind.${one}`)}</option>`)}</select></label>
    <button type="submit" disabled=${!name.trim()}>${t("make_key.go")}</button>
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}</form></details>`;
}
