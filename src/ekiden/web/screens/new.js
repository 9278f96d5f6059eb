// A new session: on which computer, with which agent, in which folder, and what to say first.

import { html, useState } from "../lib.js";
import { post } from "../door.js";
import { readTeam, team, teamProblem, teamState } from "../state/live.js";
import { known, t } from "../words/index.js";
import { vendorName } from "../parts/badge.js";
import { Empty, Failed, Loading } from "../parts/states.js";
import { Text } from "../parts/text.js";
import { visibleText } from "../parts/visible.js";
import { follow } from "./verbs.js";

export function NewScreen() {
  return html`<div class="screen"><header><h1 class="grow">${t("new.title")}</h1></header>
    <div class="scroll" data-area><div class="col"><${Body} /></div></div></div>`;
}

function Body() {
  if (teamState.value === "loading") return html`<${Loading} text=${t("loading.hosts")} />`;
  if (teamState.value === "failed") return html`<${Failed} problem=${teamProblem.value} retry=${readTeam} />`;
  const hosts = [...team.value.hosts.values()];
  if (!hosts.some((host) => host.here)) return html`<${Empty} text=${t("new.no_host")} />`;
  return html`<${Form} hosts=${hosts.filter((host) => host.here)} />`;
}

/** @param {{hosts: any[]}} props */
function Form({ hosts }) {
  const [hostId, setHostId] = useState(hosts[0].host_id);
  const host = hosts.find((one) => one.host_id === hostId) ?? hosts[0];
  const vendors = host.report.vendors ?? [];
  const able = vendors.filter((/** @type {any} */ one) => one.installed && one.can_start);
  const [chosen, setChosen] = useState("");
  const vendor = able.some((/** @type {any} */ one) => one.name === chosen) ? chosen : able[0]?.name ?? "";
  const folders = host.report.folders ?? [];
  const [folder, setFolder] = useState("");
  const [message, setMessage] = useState("");
  const [model, setModel] = useState("");
  const [state, setState] = useState(/** @type {any} */ ("idle"));
  const cwd = folder || folders[0] || "";
  const run = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setState("busy");
    try {
      follow(await post("/v1/sessions", { host_id: host.host_id, vendor, cwd, message, model }));
    } catch (problem) {
      setState(problem);
    }
  };
  return html`<form class="stack new" onSubmit=${run}>
    ${hosts.length > 1 ? html`<fieldset><legend>${t("new.host")}</legend>${hosts.map((one) => html`<label class="choice"><input type="radio" name="host"
      checked=${one.host_id === host.host_id} onChange=${() => setHostId(one.host_id)} /><span><${Text} of=${one.report.name} /></span></label>`)}</fieldset>` : null}
    <fieldset><legend>${t("new.vendor")}</legend>${vendors.map((/** @type {any} */ one) => {
      const can = one.installed && one.can_start;
      return html`<label class="choice"><input type="radio" name="vendor" disabled=${!can} checked=${vendor === one.name} onChange=${() => setChosen(one.name)} />
        <span><${Text} of=${one.label || vendorName(one.name)} /> <small class="soft">${one.version ? html`<${Text} of=${one.version} /> ` : null}${known(`new.about.${one.name}`) ? t(`new.about.${one.name}`) : null}</small>
        ${can ? null : html`<br /><small class="soft">${t(one.installed ? "new.cannot_start" : "new.not_installed")}</small>`}</span></label>`;
    })}</fieldset>
    <label>${t("new.folder")}<input type="text" class="mono" list="folders" value=${folder} placeholder=${visibleText(cwd) || t("new.folder_hint")} autocapitalize="off" spellcheck=${false}
      onInput=${(/** @type {any} */ event) => setFolder(event.target.value)} /></label>
    <datalist id="folders">${folders.map((/** @type {string} */ one) => html`<option value=${one}></option>`)}</datalist>
    ${folders.length ? html`<div class="chips" role="group" aria-label=${t("new.known")}>${folders.slice(0, 6).map((/** @type {string} */ one) => html`<button type="button" class="chip mono" title=${visibleText(one)}
      aria-pressed=${cwd === one} onClick=${() => setFolder(one)}><${Text} of=${one.split("/").filter(Boolean).slice(-2).join("/")} /></button>`)}</div>` : null}
    <label>${t("new.message")}<textarea rows="4" dir="auto" value=${message} onInput=${(/** @type {any} */ event) => setMessage(event.target.value)}></textarea></label>
    <details><summary>${t("new.more")}</summary><label>${t("new.model")}<input type="text" value=${model} autocapitalize="off" spellcheck=${false} onInput=${(/** @type {any} */ event) => setModel(event.target.value)} /></label></details>
    ${state instanceof Error ? html`<${Failed} problem=${state} inline />` : null}
    <button type="submit" class="go" disabled=${state === "busy" || !vendor || !cwd}>${t(state === "busy" ? "new.starting" : "new.go")}</button>
  </form>`;
}
