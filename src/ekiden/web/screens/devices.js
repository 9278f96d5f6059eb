// Devices, keys and computers. Pairing another device starts here.

import { html, useState } from "../lib.js";
import { onlyHere, post } from "../door.js";
import { mayAdmin, pairings, team } from "../state/live.js";
import { address } from "../state/route.js";
import { t, timeOfDay } from "../words/index.js";
import { noticeOf } from "../parts/from_host.js";
import { QrCode } from "../parts/qr.js";
import { Failed } from "../parts/states.js";
import { Text, textNodes } from "../parts/text.js";
import { Ago } from "../parts/when.js";
import { PairingCard } from "./inbox.js";
import { Keys, MakeKey } from "./keys.js";

/** @param {{wide: boolean}} props */
export function DevicesScreen({ wide }) {
  return html`<div class="screen"><header><h1 class="grow">${t("places.devices")}</h1><a class="quiet-link" href=${address("invites")}>${t("places.invites")}</a>${wide ? null : html`<a class="quiet-link" href=${address("settings")}>${t("places.settings")}</a>`}</header>
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
  return html`<section class="card"><h2 class="title">${t("pair.scan")}</h2>
    <${QrCode} text=${made.link} label=${t("pair.qr")} />
    <p class="small">${t("pair.link")}</p><pre class="code select" tabindex="0">${textNodes(made.link)}</pre>
    <p class="small">${t("pair.code")} <b class="mono">${textNodes(made.code)}</b></p>
    ${onlyHere(made.link ?? "") ? html`<p class="say-note">${t("pair.only_here")}</p>` : null}
    <p class="soft small">${t("pair.until", { time: timeOfDay(Date.parse(made.expires_at)) })}</p>
    <button type="button" onClick=${() => setMade(null)}>${t("do.done")}</button></section>`;
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
