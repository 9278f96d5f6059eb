// A turn asks: the full command, folder and change, and the answers that may be given.
//
// The first answer wins wherever it is given; the card then says in place who gave it. "Always" and the keyboard need
// a second press.

import { html, signal, useState } from "../lib.js";
import { place, post } from "../door.js";
import { newId } from "../state/ids.js";
import { SECOND_PRESS_MS } from "../state/limits.js";
import { team, told } from "../state/live.js";
import { address } from "../state/route.js";
import { known, t } from "../words/index.js";
import { titleOf, vendorName } from "./badge.js";
import { Diff } from "./diff.js";
import { fromHost } from "./from_host.js";
import { Questions, fieldsOf } from "./questions.js";
import { Failed } from "./states.js";
import { Text, textNodes } from "./text.js";
import { pretty } from "./tool.js";
import { Ago } from "./when.js";

/**
 * @typedef {{how: "busy" | "failed" | "armed", option?: string, commandId?: string, problem?: any, until?: number}} Answering
 * @type {import("../vendor/signals-core-1.14.5/signals-core.mjs").Signal} approval id to what this page is doing
 */
const answering = signal(/** @type {Map<string, Answering>} */ (new Map()));

/** @param {string} id @param {Answering | null} what */
function setAnswering(id, what) {
  const next = new Map(answering.value);
  if (what) next.set(id, what);
  else next.delete(id);
  answering.value = next;
}

/**
 * @param {any} approval @param {any} option
 * @param {{message?: string, answers?: any}} [more]
 */
export async function answer(approval, option, more = {}) {
  const id = approval.approval_id;
  if (answering.value.get(id)?.how === "busy") return;
  setAnswering(id, { how: "busy", option: option.id });
  try {
    const body = { option: option.id, digest: approval.digest, ...more };
    told("approval.answered", await post(place(["approvals", id, "answer"]), body, { commandId: newId("cmd") }));
    setAnswering(id, null);
  } catch (problem) {
    if (problem.code === "already_answered") {
      const { option: chosen, by, at } = problem.details;
      const now = team.value.approvals.get(id) ?? approval;
      told("approval.answered", {
        ...now, state: now.state === "open" ? "answered" : now.state, answer: chosen ?? now.answer,
        answered_by: by ?? now.answered_by, answered_at: at ?? now.answered_at,
      });
      setAnswering(id, null);
      return;
    }
    setAnswering(id, { how: "failed", option: option.id, problem });
  }
}

/** @param {any} approval @param {string} kind */
const optionOf = (approval, kind) => (approval.options ?? []).find((/** @type {any} */ option) => option.kind === kind);

/** A press of `a` or `d`: the first arms, the second within a few seconds answers. @param {string} id @param {string} kind */
export function press(id, kind) {
  const approval = team.value.approvals.get(id);
  const option = approval && approval.state === "open" && optionOf(approval, kind);
  if (!option || fieldsOf(approval).length) return;
  const now = answering.value.get(id);
  if (now?.how === "armed" && now.option === option.id && (now.until ?? 0) > Date.now()) {
    answer(approval, option);
    return;
  }
  setAnswering(id, { how: "armed", option: option.id, until: Date.now() + SECOND_PRESS_MS });
  setTimeout(() => {
    if (answering.value.get(id)?.how === "armed") setAnswering(id, null);
  }, SECOND_PRESS_MS);
}

/** @param {{approval: any, session?: any, here?: boolean}} props `here`: the session's own screen shows it */
export function ApprovalCard({ approval, session, here }) {
  const open = approval.state === "open" || !approval.state;
  const asked = known(`asked.${approval.question}`) ? t(`asked.${approval.question}`) : html`<${Text} of=${approval.question || t("asked.other")} />`;
  const label = `approval-${approval.approval_id}`;
  if (here && !open) {
    return html`<p class="say-note decision" role="status">${asked} <span class="mono"><${Text} of=${(approval.command || approval.title || "").slice(0, 120)} /></span><br /><${Decision} approval=${approval} /></p>`;
  }
  return html`<article class=${`card ${open ? "need" : "decided"}`} data-row data-approval=${open ? approval.approval_id : undefined}
    data-href=${here ? undefined : address("session", approval.session_id)} tabindex="-1" aria-labelledby=${label}>
    <div class="row"><h3 class="title grow" id=${label}>${asked}</h3>
      <small class="soft nowrap"><${Ago} at=${approval.asked_at} /></small></div>
    ${session && !here ? html`<small class="soft"><a class="plain-link" href=${address("session", approval.session_id)}>
      ${vendorName(session.report.vendor)} · <${Text} of=${titleOf(session)} /> · <${Text} of=${session.host_name} /></a></small>` : null}
    <${Asked} approval=${approval} />
    ${open ? html`<${Answers} approval=${approval} />` : html`<p class="decision" role="status"><${Decision} approval=${approval} /></p>`}
  </article>`;
}

/** Exactly what the answer is bound to. @param {{approval: any}} props */
function Asked({ approval }) {
  const detail = approval.detail;
  const said = approval.question === "answer" && approval.title;
  const bare = !approval.command && !approval.diff && !fieldsOf(approval).length && !said;
  return html`<div>
    ${approval.title && approval.title !== approval.command ? html`<p class="asked"><${Text} of=${approval.title} /></p>` : null}
    ${approval.command ? html`<pre class="command" tabindex="0">${textNodes(approval.command)}</pre>` : null}
    ${approval.diff ? html`<${Diff} unified=${approval.diff} fold=${`approval:${approval.approval_id}`} />` : null}
    ${bare && detail ? html`<pre class="command" tabindex="0">${textNodes(pretty(detail))}</pre>` : null}
    <small class="soft">
      ${approval.tool ? html`<span><${Text} of=${approval.tool} />${" "}</span>` : null}
      ${approval.cwd ? html`<span>${t("approval.in")} <span class="mono"><${Text} of=${approval.cwd} /></span></span>` : null}
    </small>
  </div>`;
}

/** @param {{approval: any}} props */
function Answers({ approval }) {
  const [denying, setDenying] = useState(false);
  const [always, setAlways] = useState("");
  const [reason, setReason] = useState("");
  const now = answering.value.get(approval.approval_id);
  const busy = now?.how === "busy";
  const armed = now?.how === "armed" ? now.option : "";
  const of = (/** @type {string} */ kind) => (approval.options ?? []).filter((/** @type {any} */ option) => option.kind === kind);
  const allows = of("allow_once");
  // One way to allow has our own words; several are a choice, and each has its own.
  const own = allows.length === 1 && approval.question !== "answer";
  const [deny, ...denials] = own ? of("deny") : [null, ...of("deny")];
  const fields = fieldsOf(approval);
  const failed = now?.how === "failed" ? html`<${Failed} problem=${now.problem} inline />` : null;
  if (fields.length && allows.length) {
    const skip = of("deny")[0];
    return html`<div><${Questions} id=${approval.approval_id} fields=${fields} busy=${busy}
      onAnswer=${(/** @type {any} */ answers) => answer(approval, allows[0], { answers })} onSkip=${skip ? () => answer(approval, skip) : null} />${failed}</div>`;
  }
  const sure = () => answer(approval, deny, reason.trim() ? { message: reason.trim() } : {});
  if (denying) {
    return html`<div class="deny">
      <label class="soft small">${t("approval.why")}
        <textarea rows="2" value=${reason} onInput=${(/** @type {any} */ event) => setReason(event.target.value)}></textarea></label>
      <div class="two"><button type="button" onClick=${() => setDenying(false)}>${t("do.back")}</button>
        <button type="button" class="stop" disabled=${busy} onClick=${sure}>${t("approval.deny")}</button></div>${failed}</div>`;
  }
  return html`<div>
    <div class="two">
      ${deny ? html`<button type="button" disabled=${busy} class=${armed === deny.id ? "stop" : ""} onClick=${() => setDenying(true)}>${t(armed === deny.id ? "approval.deny_again" : "approval.deny_ask")}</button>` : null}
      ${allows.map((/** @type {any} */ option) => html`<button type="button" class=${own ? "go" : ""} disabled=${busy} onClick=${() => answer(approval, option)}>
        ${armed === option.id ? t("approval.allow_again") : busy && now?.option === option.id ? t("approval.answering") : own ? t("approval.allow") : html`<${Text} of=${fromHost(option.label)} />`}</button>`)}
    </div>
    ${of("allow_always").map((/** @type {any} */ option) => html`<button type="button" class=${`quiet always ${always === option.id ? "sure" : ""}`} disabled=${busy}
      onClick=${() => (always === option.id ? answer(approval, option) : setAlways(option.id))}>
      ${always === option.id ? `${t("approval.always_sure")} ` : ""}<${Text} of=${fromHost(option.label) || t("approval.always")} /></button>`)}
    ${denials.map((/** @type {any} */ option) => html`<button type="button" class="quiet always" disabled=${busy} onClick=${() => answer(approval, option)}><${Text} of=${fromHost(option.label)} /></button>`)}
    ${failed}
  </div>`;
}

/** Who decided what, and when. @param {{approval: any}} props */
export function Decision({ approval }) {
  const option = (approval.options ?? []).find((/** @type {any} */ one) => one.id === approval.answer);
  if (approval.state === "withdrawn") return t("approval.withdrawn");
  if (approval.state === "unknown") return t("approval.unknown");
  const kind = !option || (approval.question === "answer" && option.kind === "allow_once") ? "other" : option.kind;
  const who = approval.answered_by || t("approval.somebody");
  return html`<span>${t(`approval.was.${kind}`, { who, option: option?.label ?? approval.answer ?? "" })}${approval.answered_at
    ? html`, <${Ago} at=${approval.answered_at} />` : null}${approval.reason ? html`<br /><${Text} of=${approval.reason} />` : null}</span>`;
}
