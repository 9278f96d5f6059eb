// What whoever administers a channel may do beside talking: say what status values need, take a copy that can be
// checked anywhere, and delete old messages for good.

import { html, useEffect, useState } from "../lib.js";
import { Problem, ask, get, place, post } from "../door.js";
import { talk } from "../state/channels.js";
import { exported, olderThan } from "../state/keeping.js";
import { address } from "../state/route.js";
import { dayAndTime, size, t } from "../words/index.js";
import { useSure, useTold } from "../parts/asking.js";
import { Dialog, closeDialog, showDialog } from "../parts/dialog.js";
import { Failed, Loading } from "../parts/states.js";
import { said } from "../parts/talk_words.js";
import { Text, textNodes } from "../parts/text.js";
import { Ago } from "../parts/when.js";

const EVIDENCE = Object.freeze(["commit", "run", "link", "second"]);

const at = (/** @type {string[]} */ ...rest) => place(["channels", talk.value?.channel.name ?? "", ...rest]);

export const Admin = () => html`<${Rules} /><${Export} /><${Purge} />`;

function Rules() {
  const read = async () => (await get(at("status-rules"))).rules ?? [];
  const { told: rules, problem, load, setTold } = useTold(read, [talk.value?.rules]);
  const put = async (/** @type {any[]} */ next) => {
    const told = await ask("PUT", at("status-rules"), { body: { rules: next } });
    setTold(told.rules ?? []);
  };
  return html`<section><h2>${t("rules.title")}</h2>
    <p class="soft small">${t("rules.what")} <a href=${address("devices")}>${t("rules.who")}</a></p>
    ${problem ? html`<${Failed} problem=${problem} retry=${load} />` : !rules ? html`<${Loading} text=${t("loading.rules")} />` : html`
      ${rules.map((/** @type {any} */ rule) => html`<${Rule} key=${rule.pattern} of=${rule} drop=${() => put(rules.filter((/** @type {any} */ one) => one !== rule))} />`)}
      ${rules.length ? null : html`<p class="soft">${t("rules.empty")}</p>`}
      <${NewRule} add=${(/** @type {any} */ rule) => put([...rules.filter((/** @type {any} */ one) => one.pattern !== rule.pattern), rule])} />`}</section>`;
}

/** @param {{of: any, drop: () => Promise<void>}} props */
function Rule({ of, drop }) {
  const { sure, problem, press } = useSure(drop);
  return html`<article class="card" data-row tabindex="-1" data-rule=${of.pattern}><div class="row"><span class="title grow mono"><${Text} of=${of.pattern} /></span>
      <button type="button" class=${sure ? "stop" : ""} onClick=${press}>${t(sure ? "rules.remove_sure" : "rules.remove")}</button></div>
    ${(of.evidence ?? []).map((/** @type {string} */ one) => html`<span class="pill">${said("evidence", one)}</span> `)}
    ${of.schema ? html`<pre class="code" tabindex="0">${textNodes(JSON.stringify(of.schema, null, 2))}</pre>` : null}
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}</article>`;
}

/** @param {string} text as typed @throws {Problem} `not_json` */
function shapeIn(text) {
  try {
    return text.trim() ? { schema: JSON.parse(text) } : {};
  } catch {
    throw new Problem({ code: "not_json" });
  }
}

/** @param {{add: (rule: any) => Promise<void>}} props */
function NewRule({ add }) {
  const sealed = Boolean(talk.value?.channel.encrypted);
  const [pattern, setPattern] = useState("");
  const [evidence, setEvidence] = useState(/** @type {string[]} */ ([]));
  const [schema, setSchema] = useState("");
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const turn = (/** @type {string} */ one) => setEvidence(evidence.includes(one) ? evidence.filter((had) => had !== one) : [...evidence, one]);
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      await add({ pattern: pattern.trim(), evidence, ...shapeIn(schema) });
      setPattern("");
      setEvidence([]);
      setSchema("");
      setProblem(null);
    } catch (failed) {
      setProblem(failed);
    }
  };
  return html`<details class="card"><summary>${t("rules.new")}</summary><form class="stack" onSubmit=${save}>
    <label>${t("rules.pattern")}<input type="text" class="mono" value=${pattern} autocapitalize="none" spellcheck=${false} onInput=${(/** @type {any} */ event) => setPattern(event.target.value)} /></label>
    <fieldset><legend>${t("rules.evidence")}</legend><div class="choices">${EVIDENCE.filter((one) => !sealed || one === "second").map((one) => html`<label class="choice" key=${one}>
      <input type="checkbox" checked=${evidence.includes(one)} onChange=${() => turn(one)} /><span>${t(`evidence.${one}`)}</span></label>`)}</div></fieldset>
    ${sealed ? html`<p class="soft small">${t("rules.sealed")}</p>` : html`<label>${t("rules.schema")}<textarea class="mono" rows="4" value=${schema} spellcheck=${false} onInput=${(/** @type {any} */ event) => setSchema(event.target.value)}></textarea></label>`}
    <button type="submit" class="go" disabled=${!pattern.trim()}>${t("do.save")}</button>
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}</form></details>`;
}

function Export() {
  const [told, setTold] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const name = `${talk.value?.channel.name}.export`;
  useEffect(() => () => {
    if (told?.url) URL.revokeObjectURL(told.url);
  }, [told]);
  const run = async () => {
    try {
      setTold({});
      const file = await exported(talk.value?.channel.name ?? "");
      setTold({ url: URL.createObjectURL(file), bytes: file.size });
      setProblem(null);
    } catch (failed) {
      setTold(null);
      setProblem(failed);
    }
  };
  return html`<section><h2>${t("export.title")}</h2><p class="soft small">${t("export.what")}</p>
    ${told?.url ? html`<p><a class="button" href=${told.url} download=${name}>${t("export.save", { size: size(told.bytes) })}</a></p><pre class="code select" tabindex="0">${textNodes(`ekiden verify ${name}`)}</pre>`
      : html`<p><button type="button" disabled=${Boolean(told)} onClick=${run}>${t(told ? "export.running" : "export.go")}</button></p>`}
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}</section>`;
}

function Purge() {
  const [day, setDay] = useState("");
  const [found, setFound] = useState(/** @type {any} */ (null));
  const [notes, setNotes] = useState(/** @type {any[]} */ ([]));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const channel = talk.value?.channel;
  const load = async () => {
    try {
      setNotes((await get(at("purges"))).purges ?? []);
    } catch (failed) {
      setProblem(failed);
    }
  };
  useEffect(() => {
    load();
  }, []);
  const look = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      const going = await olderThan(channel.name, channel.last_number ?? 0, new Date(`${day}T00:00`));
      setFound(going);
      setProblem(null);
      if (going.count) showDialog(() => html`<${Sure} going=${going} done=${load} />`);
    } catch (failed) {
      setProblem(failed);
    }
  };
  return html`<section><h2>${t("purge.title")}</h2><p class="soft small">${t("purge.what")}</p>
    ${channel?.retention?.held ? html`<p class="say-note">${t("about.held")}</p>` : html`<form class="stack" onSubmit=${look}>
      <label>${t("purge.before")}<input type="date" value=${day} onInput=${(/** @type {any} */ event) => setDay(event.target.value)} /></label>
      <button type="submit" disabled=${!day}>${t("purge.look")}</button></form>`}
    ${found && !found.count ? html`<p class="soft" role="status">${t("purge.none")}</p>` : null}
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}
    ${notes.map((note) => html`<article class="card" key=${note.first} data-purged><p>${t("purge.gone", { first: note.first, last: note.last })} ${t("purge.messages", { count: note.messages })}</p>
      <small class="soft"><${Text} of=${note.by ?? ""} /> · <${Ago} at=${note.at} /></small></article>`)}
    ${notes.length ? null : html`<p class="soft small">${t("purge.empty")}</p>`}</section>`;
}

/** What will be gone, by name, before it is. @param {{going: any, done: () => Promise<void>}} props */
function Sure({ going, done }) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const purge = async () => {
    setBusy(true);
    try {
      // A large purge takes several requests; each piece has a note of its own.
      for (let left = 1; left;) {
        const told = await post(at("purge"), { before_number: going.below });
        left = told.purges?.length ? told.left ?? 0 : 0;
      }
      await done();
      closeDialog();
    } catch (failed) {
      setProblem(failed);
      setBusy(false);
    }
  };
  const day = (/** @type {string} */ when) => dayAndTime(Date.parse(when));
  return html`<${Dialog} title=${t("purge.question", { count: going.count })}>
    <p>${t("purge.range", { first: going.first.number, last: going.below - 1, from: day(going.first.at), to: day(going.last.at) })}</p>
    <p class="soft small">${t("purge.how")}</p>
    <button type="button" class="stop" disabled=${busy} onClick=${purge}>${t("purge.go", { count: going.count })}</button>
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}<//>`;
}
