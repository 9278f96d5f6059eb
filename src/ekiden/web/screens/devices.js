// Devices and keys: who may come in, and how to end that. Pairing another device starts here.

import { html, useEffect, useState } from "../lib.js";
import { get, place, post, remove } from "../door.js";
import { accessChanged, mayAdmin, pairings, team } from "../state/live.js";
import { address } from "../state/route.js";
import { known, t, timeOfDay } from "../words/index.js";
import { noticeOf } from "../parts/from_host.js";
import { QrCode } from "../parts/qr.js";
import { Failed, Loading } from "../parts/states.js";
import { Text, textNodes } from "../parts/text.js";
import { Ago } from "../parts/when.js";
import { PairingCard } from "./inbox.js";

/** @param {{wide: boolean}} props */
export function DevicesScreen({ wide }) {
  return html`<div class="screen"><header><h1 class="grow">${t("places.devices")}</h1>${wide ? null : html`<a class="quiet-link" href=${address("settings")}>${t("places.settings")}</a>`}</header>
    <div class="scroll" data-area><div class="col">
      ${mayAdmin.value ? html`<${Pair} />
        ${pairings.value.map((pairing) => html`<${PairingCard} key=${pairing.pairing_id} pairing=${pairing} />`)}
        <${Keys} /><${MakeKey} />` : html`<p class="soft">${t("devices.not_admin")}</p>`}
      <${Hosts} />
    </div></div></div>`;
}

function Pair() {
  const [made, setMade] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const make = async () => {
    try {
      setProblem(null);
      setMade(await post("/v1/pairings", {}));
    } catch (failed) {
      setProblem(failed);
    }
  };
  if (!made) {
    return html`<section class="card"><h2 class="title">${t("pair.title")}</h2><p class="soft small">${t("pair.how")}</p>
      <button type="button" class="go" onClick=${make}>${t("pair.make")}</button>
      ${problem ? html`<${Failed} problem=${problem} inline />` : null}</section>`;
  }
  const onlyHere = /^https?:\/\/(localhost|127\.|\[::1\])/.test(made.link ?? "");
  return html`<section class="card"><h2 class="title">${t("pair.scan")}</h2>
    <${QrCode} text=${made.link} label=${t("pair.qr")} />
    <p class="small">${t("pair.link")}</p><pre class="code select" tabindex="0">${textNodes(made.link)}</pre>
    <p class="small">${t("pair.code")} <b class="mono">${textNodes(made.code)}</b></p>
    ${onlyHere ? html`<p class="say-note">${t("pair.only_here")}</p>` : null}
    <p class="soft small">${t("pair.until", { time: timeOfDay(Date.parse(made.expires_at)) })}</p>
    <button type="button" onClick=${() => setMade(null)}>${t("do.done")}</button></section>`;
}

function Keys() {
  const [keys, setKeys] = useState(/** @type {any[] | null} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const load = async () => {
    try {
      setKeys((await get("/v1/keys")).keys);
      setProblem(null);
    } catch (failed) {
      setProblem(failed);
    }
  };
  useEffect(() => {
    load();
  }, [accessChanged.value]);
  if (problem) return html`<${Failed} problem=${problem} retry=${load} />`;
  if (!keys) return html`<${Loading} text=${t("loading.keys")} />`;
  const live = keys.filter((key) => !key.revoked_at).sort((one, other) => Number(Boolean(other.this)) - Number(Boolean(one.this)));
  const ended = keys.filter((key) => key.revoked_at);
  return html`<section><h2>${t("keys_list.title")}</h2>
    ${live.map((key) => html`<${Key} key=${key.key_id} of=${key} changed=${load} />`)}
    ${ended.length ? html`<details><summary class="soft small">${t("keys_list.ended", { count: ended.length })}</summary>${ended.map((key) => html`<${Key} key=${key.key_id} of=${key} changed=${load} />`)}</details>` : null}
  </section>`;
}

/** @param {{of: any, changed: () => void}} props */
function Key({ of, changed }) {
  const [sure, setSure] = useState(false);
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const revoke = async () => {
    if (!sure) return setSure(true);
    try {
      await remove(place(["keys", of.key_id]));
      changed();
    } catch (failed) {
      setProblem(failed);
    }
    return undefined;
  };
  const kind = `kind.${of.kind}`;
  return html`<article class="card key" data-row tabindex="-1"><div class="row">
    <div class="grow"><span class="title"><${Text} of=${of.name} /></span>${of.this ? html` <span class="pill run">${t("keys_list.this")}</span>` : null}
      <br /><small class="soft">${known(kind) ? t(kind) : html`<${Text} of=${of.kind} />`} · ${of.revoked_at ? html`${t("keys_list.revoked")} <${Ago} at=${of.revoked_at} />`
        : of.used_at ? html`${t("keys_list.used")} <${Ago} at=${of.used_at} />` : t("keys_list.unused")}</small></div>
    ${of.revoked_at || of.this ? null : html`<button type="button" class=${sure ? "stop" : ""} onClick=${revoke}>${t(sure ? "keys_list.sure" : "keys_list.revoke")}</button>`}</div>
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}</article>`;
}

function MakeKey() {
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

function Hosts() {
  const hosts = [...team.value.hosts.values()];
  if (!hosts.length) return null;
  return html`<section><h2>${t("hosts.title")}</h2>${hosts.map((host) => html`<article class="card" key=${host.host_id} data-row tabindex="-1">
    <div class="row"><span class="title grow"><${Text} of=${host.report.name} /></span>${host.here ? html`<span class="pill run">${t("hosts.here")}</span>` : html`<span class="pill">${t("state.away")}</span>`}</div>
    <small class="soft"><${Text} of=${host.report.platform ?? ""} /> · Ekiden <${Text} of=${host.report.ekiden_version ?? ""} />${host.here ? null : html` · ${t("truth.seen")} <${Ago} at=${host.seen_at} />`}</small>
    ${(host.report.vendors ?? []).map((/** @type {any} */ vendor) => html`<p class="small soft"><${Text} of=${vendor.label || vendor.name} />: ${vendor.installed ? t("hosts.sessions", { count: vendor.sessions ?? 0 }) : t("new.not_installed")}</p>`)}
    ${[...(host.report.notices ?? []), ...(host.report.vendors ?? []).flatMap((/** @type {any} */ vendor) => vendor.notices ?? [])].map((/** @type {string} */ word) => html`<p class="say-note"><${Text} of=${noticeOf(word)} /></p>`)}
  </article>`)}</section>`;
}
