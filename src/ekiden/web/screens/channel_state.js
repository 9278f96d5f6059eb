// The shared state of a channel: status values with their history, and leases.

import { html, useEffect, useState } from "../lib.js";
import { ask, get, place, remove } from "../door.js";
import { resourceOf, talk } from "../state/channels.js";
import { allowed, me } from "../state/live.js";
import { preparedStatus, seconded } from "../state/member.js";
import { t } from "../words/index.js";
import { useSure } from "../parts/asking.js";
import { Dialog, showDialog } from "../parts/dialog.js";
import { Failed, Loading } from "../parts/states.js";
import { said } from "../parts/talk_words.js";
import { Text, textNodes } from "../parts/text.js";
import { Ago, At } from "../parts/when.js";

/** @param {any} value JSON */
const spelled = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

const name = () => talk.value?.channel.name ?? "";

/** Whether a pattern of a rule (a key, or the beginning of keys and `*`) takes a key in. @param {string} pattern @param {string} key */
const takesIn = (pattern, key) => (pattern.endsWith("*") ? key.startsWith(pattern.slice(0, -1)) : pattern === key);

/** What values of the open channel need, asked for when the screen opens and when the rules change. */
function useRules() {
  const [rules, setRules] = useState(/** @type {any[]} */ ([]));
  useEffect(() => {
    let here = true;
    get(place(["channels", name(), "status-rules"])).then((told) => here && setRules(told.rules ?? []), () => {});
    return () => {
      here = false;
    };
  }, [talk.value?.channel.channel_id, talk.value?.rules]);
  return rules;
}

export function Statuses() {
  const rules = useRules();
  const list = [...(talk.value?.statuses.values() ?? [])].sort((one, other) => one.key.localeCompare(other.key));
  return html`${list.length ? list.map((status) => html`<${Row} key=${status.key} status=${status} rules=${rules} />`) : html`<div class="state"><p>${t("status.empty")}</p></div>`}
    ${talk.value?.channel.encrypted ? null : html`<${Set} />`}`;
}

/** @param {{status: any, rules: any[]}} props */
function Row({ status, rules }) {
  const waits = !status.evidence?.second && rules.some((rule) => (rule.evidence ?? []).includes("second") && takesIn(rule.pattern, status.key));
  const history = () => showDialog(() => html`<${Dialog} title=${status.key} side><${History} of=${status.key} /><//>`);
  return html`<article class="card" data-row tabindex="-1"><div class="row"><span class="title grow mono"><${Text} of=${status.key} /></span>
      <button type="button" class="link" onClick=${history}>${t("status.history", { count: status.version })}</button></div>
    <${Value} status=${status} />
    <small class="soft"><${Line} status=${status} /></small>
    ${waits ? html`<${Second} status=${status} />` : null}</article>`;
}

/** A rule asks for two signatures, and this value has one at most. @param {{status: any}} props */
function Second({ status }) {
  const channel = talk.value?.channel;
  const { sure, problem, press } = useSure(async () =>
    ask("PUT", place(["channels", name(), "status", status.key]), { body: await seconded(me.value, status) }));
  const own = status.by_id === me.value?.principal_id;
  const why = own ? "status.second_own" : !status.signature ? "status.second_unsigned" : status.sealed ? "status.second_sealed" : "";
  const may = channel && allowed(`status:${status.key}`, resourceOf(channel));
  return html`<p class="row wrap" data-waits><span class="pill need">${t("status.second_waits")}</span>
    ${why ? html`<span class="soft small">${t(why)}</span>` : may ? html`<button type="button" class=${sure ? "stop" : ""} onClick=${press}>${t(sure ? "status.second_sure" : "status.second")}</button>` : null}</p>
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}`;
}

/** @param {{status: any}} props */
function Value({ status }) {
  if (status.sealed) return html`<p class="say-note">${t("message.sealed")}</p>`;
  return html`<pre class="code" tabindex="0">${textNodes(spelled(status.value ?? null))}</pre>`;
}

/** Who said it, when, and what it rests on. @param {{status: any}} props */
function Line({ status }) {
  const evidence = status.evidence ?? {};
  return html`<${Text} of=${status.by ?? ""} /> · <${Ago} at=${status.at} />${status.expires_at ? html` · ${t("status.until")} <${At} at=${status.expires_at} />` : null}
    ${evidence.commit ? html` · ${t("status.commit")} <${Text} of=${evidence.commit} />` : null}${evidence.run ? html` · ${t("status.run")} <${Text} of=${evidence.run} />` : null}
    ${status.signature ? html` · ${t(evidence.second ? "status.signed_twice" : "signed.signed")}` : null}${status.suspect ? html` · ${t("message.suspect")}` : null}`;
}

/** @param {{of: string}} props */
function History({ of }) {
  const [told, setTold] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const load = async (/** @type {string} */ after) => {
    try {
      const page = await get(place(["channels", name(), "status", of, "changes"], { after }));
      setTold((/** @type {any} */ had) => (after && had ? { ...page, statuses: [...had.statuses, ...page.statuses] } : page));
    } catch (failed) {
      setProblem(failed);
    }
  };
  if (!told && !problem) {
    load("");
    return html`<${Loading} text=${t("loading.history")} />`;
  }
  if (problem) return html`<${Failed} problem=${problem} />`;
  return html`${told.statuses.map((/** @type {any} */ status) => html`<article class="card" key=${status.version}>
      <div class="row"><span class="title grow">${t("status.version", { number: status.version })}</span><span class="pill">${said("status.kind", status.kind)}</span></div>
      ${status.kind === "set" || status.kind === "reverted" ? html`<${Value} status=${status} />` : null}<small class="soft"><${Line} status=${status} /></small></article>`)}
    ${told.next ? html`<button type="button" onClick=${() => load(told.next)}>${t("do.more")}</button>` : null}`;
}

function Set() {
  const [key, setKey] = useState("");
  const [text, setText] = useState("");
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const set = async (/** @type {Event} */ event) => {
    event.preventDefault();
    let value = /** @type {unknown} */ (text);
    try {
      value = JSON.parse(text);
    } catch {
      // What is no JSON is a text.
    }
    try {
      const to = key.trim();
      const body = { value, if_version: talk.value?.statuses.get(to)?.version ?? null };
      await ask("PUT", place(["channels", name(), "status", to]), { body: await preparedStatus(me.value, talk.value?.channel, to, body) });
      setKey("");
      setText("");
      setProblem(null);
    } catch (failed) {
      setProblem(failed);
    }
  };
  return html`<details class="card"><summary>${t("status.set")}</summary><form class="stack" onSubmit=${set}>
    <label>${t("status.key")}<input type="text" value=${key} autocapitalize="none" spellcheck=${false} onInput=${(/** @type {any} */ event) => setKey(event.target.value)} /></label>
    <label>${t("status.value")}<textarea rows="2" value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)}></textarea></label>
    <button type="submit" class="go" disabled=${!key.trim()}>${t("do.save")}</button>
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}</form></details>`;
}

export function Leases() {
  const list = [...(talk.value?.leases.values() ?? [])].sort((one, other) => one.name.localeCompare(other.name));
  if (!list.length) return html`<div class="state"><p>${t("leases.empty")}</p></div>`;
  return list.map((lease) => html`<${LeaseRow} key=${lease.name} lease=${lease} />`);
}

/** @param {{lease: any}} props */
function LeaseRow({ lease }) {
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const release = async () => {
    try {
      await remove(place(["channels", name(), "leases", lease.name], { fence: lease.fence }));
      setProblem(null);
    } catch (failed) {
      setProblem(failed);
    }
  };
  const held = lease.held && !(lease.expires_at && Date.parse(lease.expires_at) < Date.now());
  return html`<article class="card" data-row tabindex="-1"><div class="row"><span class="title grow mono"><${Text} of=${lease.name} /></span>
      <span class=${`pill ${held ? "run" : ""}`}>${t(held ? "leases.held" : "leases.free")}</span></div>
    <small class="soft">${held ? html`<${Text} of=${lease.holder} /> · ${t("status.until")} <${At} at=${lease.expires_at} /> · ` : null}${t("leases.fence", { number: lease.fence })}
      ${lease.note ? html` · <${Text} of=${lease.note} />` : null}</small>
    ${held && lease.holder_id === me.value?.principal_id ? html`<p><button type="button" onClick=${release}>${t("leases.release")}</button></p>` : null}
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}</article>`;
}
