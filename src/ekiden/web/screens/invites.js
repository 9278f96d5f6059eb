// Invites: one string that brings a guest into channels, and both to each other's keys. Made, seen, taken back.

import { html, useEffect, useRef, useState } from "../lib.js";
import { get, onlyHere, place, post, remove } from "../door.js";
import { channels, channelsNext, channelsState, readChannels, resourceOf } from "../state/channels.js";
import { accessChanged, allowed, me } from "../state/live.js";
import { inviteText } from "../state/meeting.js";
import { GUEST_VERBS, mapOf } from "../state/rights.js";
import { address, back, route } from "../state/route.js";
import { dayAndTime, t } from "../words/index.js";
import { useSure, useTold } from "../parts/asking.js";
import { compareKeys } from "../parts/compare.js";
import { Rights } from "../parts/rights.js";
import { Empty, Failed, Loading } from "../parts/states.js";
import { said } from "../parts/talk_words.js";
import { Text, textNodes } from "../parts/text.js";
import { Ago, At } from "../parts/when.js";

const HOUR_S = 3600;
const DAY_S = 24 * HOUR_S;
/** How long an invite works. */
const LASTS = Object.freeze([HOUR_S, DAY_S, 7 * DAY_S]);
/** How long the guest's key does; 0: for ever. */
const KEY_LASTS = Object.freeze([0, DAY_S, 7 * DAY_S, 30 * DAY_S]);
/** What the guest runs: from standard input the string is seen by no other process. */
const JOIN = "ekiden join -";
const KINDS = Object.freeze(["agent", "service", "person", "device"]);

/** @param {{wide: boolean}} props */
export function InvitesScreen({ wide }) {
  return html`<div class="screen"><header>${wide ? null : html`<button type="button" class="quiet back" onClick=${back} aria-label=${t("do.back")}><span aria-hidden="true">‹</span></button>`}<h1 class="grow">${t("places.invites")}</h1></header>
    <div class="scroll" data-area><div class="col"><p class="soft small">${t("invites.what")}</p><${Make} /><${List} /></div></div></div>`;
}

function Make() {
  const wanted = route.value.query.get("channel") ?? "";
  const [made, setMade] = useState(/** @type {any} */ (null));
  if (made) return html`<${Made} of=${made} done=${() => setMade(null)} />`;
  if (channelsState.value === "loading") return html`<${Loading} text=${t("loading.channels")} />`;
  const open = [...channels.value.values()].filter((one) => one.state !== "archived" && allowed("invite", resourceOf(one)));
  if (!open.length) return html`<${Empty} text=${t("invites.no_channel")}><a class="button" href=${address("channels")}>${t("channel.to_list")}</a><//>`;
  return html`<details class="card" open=${Boolean(wanted)}><summary>${t("invites.make")}</summary><${Form} open=${open} wanted=${wanted} made=${setMade} /></details>`;
}

/** @param {{open: any[], wanted: string, made: (told: any) => void}} props */
function Form({ open, wanted, made }) {
  const [chosen, setChosen] = useState(wanted ? [wanted] : /** @type {string[]} */ ([]));
  const [name, setName] = useState("");
  const [kind, setKind] = useState("agent");
  const [lasts, setLasts] = useState(DAY_S);
  const [keyLasts, setKeyLasts] = useState(0);
  const [rows, setRows] = useState(/** @type {import("../state/rights.js").Row[] | null} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const kinds = allowed("admin", "access") ? KINDS : ["agent"];
  const turn = (/** @type {string} */ one) => setChosen(chosen.includes(one) ? chosen.filter((had) => had !== one) : [...chosen, one]);
  const choose = () => setRows(rows ? null : chosen.map((one) => ({ pattern: resourceOf(channels.value.get(one) ?? { name: one }), verbs: [...GUEST_VERBS] })));
  const make = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      const told = await post("/v1/invites", {
        channels: chosen, kind, name: name.trim(), expires_s: lasts, ...(rows ? { permissions: mapOf(rows) } : {}),
        ...(keyLasts ? { key_expires_at: new Date(Date.now() + keyLasts * 1000).toISOString() } : {}),
      });
      const hub = onlyHere(location.origin) ? me.value?.hub?.url ?? location.origin : location.origin;
      made({ ...told, hub, ...(await inviteText(me.value, told, hub)) });
    } catch (failed) {
      setProblem(failed);
    }
  };
  return html`<form class="stack" onSubmit=${make}>
    <fieldset><legend>${t("invites.channels")}</legend><div class="choices">${open.map((one) => html`<label class="choice" key=${one.channel_id}><input type="checkbox" checked=${chosen.includes(one.name)} onChange=${() => turn(one.name)} />
      <span># <${Text} of=${one.name} /></span></label>`)}</div>
      ${channelsNext.value ? html`<button type="button" onClick=${() => readChannels(channelsNext.value)}>${t("do.more")}</button>` : null}</fieldset>
    <label>${t("invites.name")}<input type="text" value=${name} onInput=${(/** @type {any} */ event) => setName(event.target.value)} /></label>
    <label>${t("invites.kind")}<${Select} value=${kind} values=${kinds} word=${(/** @type {string} */ one) => t(`kind.${one}`)} change=${setKind} /></label>
    <label>${t("invites.lasts")}<${Select} value=${lasts} values=${LASTS} word=${(/** @type {number} */ one) => t(`lasts.${one}`)} change=${(/** @type {string} */ one) => setLasts(Number(one))} /></label>
    <label>${t("invites.key_lasts")}<${Select} value=${keyLasts} values=${KEY_LASTS} word=${(/** @type {number} */ one) => t(`lasts.${one}`)} change=${(/** @type {string} */ one) => setKeyLasts(Number(one))} /></label>
    <label class="choice"><input type="checkbox" checked=${rows === null} onChange=${choose} /><span>${t("invites.usual")}</span></label>
    ${rows ? html`<${Rights} rows=${rows} change=${setRows} />` : null}
    <button type="submit" class="go" disabled=${!chosen.length}>${t("invites.make_go")}</button>
    ${chosen.length ? null : html`<p class="soft small">${t("invites.choose")}</p>`}
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}</form>`;
}

/** @param {{value: any, values: readonly any[], word: (one: any) => string, change: (one: any) => void}} props */
const Select = ({ value, values, word, change }) => html`<select value=${value} onChange=${(/** @type {any} */ event) => change(event.target.value)}>
  ${values.map((one) => html`<option value=${one} selected=${one === value}>${word(one)}</option>`)}</select>`;

/** The string, this once. @param {{of: any, done: () => void}} props */
function Made({ of, done }) {
  const section = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => section.current?.focus(), []);
  return html`<section class="card" data-invite tabindex="-1" ref=${section}><h2 class="title">${t("invites.once")}</h2>
    <pre class="code select" tabindex="0">${textNodes(of.text)}</pre>
    <p class="small">${t("invites.hand_over")} <code>${JOIN}</code></p>
    <p class="soft small">${t("pair.until", { time: dayAndTime(Date.parse(of.expires_at)) })}</p>
    ${of.fingerprint ? html`<p class="soft small">${t("trust.own")} <span class="mono">${textNodes(of.fingerprint)}</span></p>` : html`<p class="say-note">${t("invites.no_keys")}</p>`}
    ${onlyHere(of.hub) ? html`<p class="say-note">${t("pair.only_here")}</p>` : null}
    <button type="button" onClick=${done}>${t("do.done")}</button></section>`;
}

function List() {
  const { told: invites, problem, load } = useTold(async () => (await get("/v1/invites")).invites, [accessChanged.value]);
  if (problem) return html`<${Failed} problem=${problem} retry=${load} />`;
  if (!invites) return html`<${Loading} text=${t("loading.invites")} />`;
  return html`<section><h2>${t("invites.list")}</h2>
    ${invites.length ? invites.map((invite) => html`<${Row} key=${invite.invite_id} of=${invite} changed=${load} />`) : html`<p class="soft">${t("invites.empty")}</p>`}</section>`;
}

/** @param {{of: any, changed: () => void}} props */
function Row({ of, changed }) {
  const { sure, problem, press } = useSure(async () => {
    await remove(place(["invites", of.invite_id]));
    changed();
  });
  // The hub says that one has run out when somebody next asks for one; until then its time does.
  const state = of.state === "open" && Date.parse(of.expires_at) <= Date.now() ? "expired" : of.state;
  return html`<article class="card" data-row tabindex="-1" data-state=${state}><div class="row">
      <span class="title grow"><${Text} of=${of.name || t("invites.unnamed")} /></span><span class=${`pill ${state === "claimed" ? "run" : ""}`}>${said("invite_state", state)}</span></div>
    <p class="small">${of.channels.map((/** @type {string} */ one) => html`<span># <${Text} of=${one.slice(one.indexOf(":") + 1)} /> </span>`)}</p>
    <small class="soft">${said("kind", of.kind)} · ${t("invites.made")} <${Ago} at=${of.made_at} />
      ${state === "open" ? html` · ${t("invites.until")} <${At} at=${of.expires_at} />` : null}${of.claimed_at ? html` · ${t("invites.came")} <${Ago} at=${of.claimed_at} />` : null}</small>
    <details><summary class="soft small">${t("rights.title")}</summary><${RightsText} of=${of.permissions} /></details>
    ${state === "open" ? html`<button type="button" class=${sure ? "stop" : ""} onClick=${press}>${t(sure ? "invites.cancel_sure" : "invites.cancel")}</button>` : null}
    ${of.principal_id ? html`<button type="button" onClick=${() => compareKeys(of.principal_id, of.name)}>${t("trust.open")}</button>` : null}
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}</article>`;
}

/** A permission map, to be read. @param {{of: Record<string, string[]>}} props */
export const RightsText = ({ of }) => html`<ul class="bare">${Object.entries(of).map(([pattern, verbs]) => html`<li class="small" key=${pattern}><span class="mono"><${Text} of=${pattern} /></span>: <${Text} of=${verbs.join(", ")} /></li>`)}
  ${Object.keys(of).length ? null : html`<li class="small">${t("rights.nothing")}</li>`}</ul>`;
