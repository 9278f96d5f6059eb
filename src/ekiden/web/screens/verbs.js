// The verbs of a session: continue here, fork, quote, release; each says what it does before it does it.

import { html, signal, useState } from "../lib.js";
import { place, post } from "../door.js";
import { readView, team } from "../state/live.js";
import { address, go } from "../state/route.js";
import { t } from "../words/index.js";
import { ability, vendorName } from "../parts/badge.js";
import { Dialog, closeDialog, showDialog } from "../parts/dialog.js";
import { fromHost } from "../parts/from_host.js";
import { Failed } from "../parts/states.js";
import { Text } from "../parts/text.js";

/** What the last verb carried, by the session that it led to. */
const carried = signal(/** @type {Map<string, any>} */ (new Map()));

/** @param {string} id */
export function carriedNote(id) {
  const told = carried.value.get(id);
  if (!told) return null;
  return html`<span>${t(`verb.${told.verb}.done`)} <${Text} of=${fromHost(told.carried ?? "")} />
    ${(told.not_carried ?? []).map((/** @type {string} */ what) => html`<br />${t("verb.left")} <${Text} of=${fromHost(what)} />`)}</span>`;
}

/** What came with the last verb is no news any more once the person writes on. @param {string} id */
export function forgetCarried(id) {
  const next = new Map(carried.value);
  if (next.delete(id)) carried.value = next;
}

/** @param {any} told the door's `Carried` */
export function follow(told) {
  carried.value = new Map(carried.value).set(told.session_id, told);
  go(address("session", told.session_id));
}

/** @param {{session: any}} props */
export function Verbs({ session }) {
  const id = session.report.session_id;
  const [busy, setBusy] = useState("");
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const run = async (/** @type {string} */ verb) => {
    setBusy(verb);
    setProblem(null);
    try {
      const told = await post(place(["sessions", id, verb]), {});
      if (verb === "release" || told.session_id === id) {
        if (verb !== "release") carried.value = new Map(carried.value).set(id, told);
        await readView(id);
      } else follow(told);
    } catch (failed) {
      setProblem(failed);
    } finally {
      setBusy("");
    }
  };
  const owned = session.report.rung === "owned";
  const carry = ability(session, "continue");
  const fork = ability(session, "fork");
  const quote = ability(session, "quote");
  if (!owned && !carry.can && !fork.can && !quote.can) return null;
  return html`<div class="verbs">
    <div class="row">
      ${!owned && carry.can ? html`<button type="button" disabled=${Boolean(busy)} onClick=${() => run("continue")}>${t(busy === "continue" ? "verb.busy" : "verb.continue")}</button>` : null}
      ${fork.can ? html`<button type="button" disabled=${Boolean(busy)} onClick=${() => run("fork")}>${t(busy === "fork" ? "verb.busy" : "verb.fork")}</button>` : null}
      ${quote.can ? html`<button type="button" disabled=${Boolean(busy)} onClick=${() => showDialog(() => html`<${QuoteDialog} session=${session} />`)}>${t("verb.quote")}</button>` : null}
      ${owned ? html`<button type="button" disabled=${Boolean(busy)} onClick=${() => run("release")}>${t(busy === "release" ? "verb.busy" : "verb.release")}</button>` : null}
    </div>
    ${problem ? html`<${Refused} problem=${problem} />` : null}
  </div>`;
}

/** @param {{problem: any}} props */
function Refused({ problem }) {
  const { who, pid, instead } = problem.details ?? {};
  return html`<div><${Failed} problem=${problem} inline />
    ${problem.code === "held_elsewhere" && who ? html`<p class="soft small">${t("verb.held_by", { who: String(who), pid: String(pid ?? "") })}</p>` : null}
    ${instead ? html`<p class="soft small">${t("verb.instead")} <${Text} of=${[instead].flat().join(", ")} /></p>` : null}</div>`;
}

/** @param {{session: any}} props */
function QuoteDialog({ session }) {
  const host = team.value.hosts.get(session.host_id);
  const vendors = (host?.report.vendors ?? []).filter((/** @type {any} */ one) => one.installed && one.can_start);
  const [vendor, setVendor] = useState(vendors.some((/** @type {any} */ one) => one.name === session.report.vendor) ? session.report.vendor : vendors[0]?.name ?? session.report.vendor);
  const [message, setMessage] = useState("");
  const [state, setState] = useState(/** @type {any} */ ("idle"));
  const run = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setState("busy");
    try {
      const told = await post(place(["sessions", session.report.session_id, "quote"]), { vendor, message });
      closeDialog();
      follow(told);
    } catch (problem) {
      setState(problem);
    }
  };
  return html`<${Dialog} title=${t("quote.title")}><form class="stack" onSubmit=${run}>
    <p class="soft">${t("quote.what")}</p>
    <fieldset><legend>${t("new.vendor")}</legend>
      ${(vendors.length ? vendors : [{ name: vendor, label: vendorName(vendor) }]).map((/** @type {any} */ one) => html`<label class="choice"><input type="radio" name="vendor" checked=${vendor === one.name} onChange=${() => setVendor(one.name)} /><span><${Text} of=${one.label || vendorName(one.name)} /></span></label>`)}
    </fieldset>
    <label>${t("quote.message")}<textarea rows="3" value=${message} onInput=${(/** @type {any} */ event) => setMessage(event.target.value)}></textarea></label>
    ${state instanceof Error ? html`<${Failed} problem=${state} inline />` : null}
    <button type="submit" class="go" disabled=${state === "busy"}>${t(state === "busy" ? "verb.busy" : "quote.go")}</button>
  </form><//>`;
}
