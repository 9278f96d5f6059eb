// The inbox: everything that waits for the person, and what runs without them.

import { html, useState } from "../lib.js";
import { place, post } from "../door.js";
import { ack } from "../state/channels.js";
import { entries, isOpen, running, waiting } from "../state/inbox.js";
import { readPairings, readTeam, teamProblem, teamState } from "../state/live.js";
import { address } from "../state/route.js";
import { t } from "../words/index.js";
import { ApprovalCard } from "../parts/approval.js";
import { Bars, levelWord, titleOf, vendorName } from "../parts/badge.js";
import { Empty, Failed, Loading } from "../parts/states.js";
import { Text, textNodes } from "../parts/text.js";
import { deliveryWord, said } from "../parts/talk_words.js";
import { Ago } from "../parts/when.js";

export function InboxScreen() {
  const count = waiting.value.length;
  return html`<div class="screen">
    <header><h1 class="grow">${t("places.inbox")}</h1>
      ${count ? html`<span class="pill need">${t("inbox.count", { count })}</span>` : null}</header>
    <div class="scroll" data-area><div class="col"><${Body} /></div></div>
  </div>`;
}

function Body() {
  if (teamState.value === "loading") return html`<${Loading} text=${t("loading.inbox")} />`;
  if (teamState.value === "failed") return html`<${Failed} problem=${teamProblem.value} retry=${readTeam} />`;
  const list = entries.value;
  return html`
    ${list.length ? list.map((entry) => html`<${Entry} key=${entry.kind + entry.id} entry=${entry} />`)
      : html`<${Empty} text=${t("inbox.empty")}><a class="button" href=${address("new")}>${t("inbox.start")}</a><//>`}
    ${running.value.length ? html`<h2>${t("inbox.running")} <span class="pill run">${running.value.length}</span></h2>
      ${running.value.map((session) => html`<${Running} key=${session.report.session_id} session=${session} />`)}` : null}`;
}

/** @param {{entry: any}} props */
function Entry({ entry }) {
  switch (entry.kind) {
    case "approval":
      return html`<${ApprovalCard} approval=${entry.approval} session=${entry.session} />`;
    case "pairing":
      return html`<${PairingCard} pairing=${entry.pairing} />`;
    case "mention":
      return html`<${MentionCard} mention=${entry.mention} />`;
    case "held":
      return html`<${SessionCard} session=${entry.session} title=${t("inbox.held")} need>
        <${Text} of=${entry.detail ?? ""} /> ${t("inbox.held_where")}<//>`;
    default:
      return html`<${SessionCard} session=${entry.session} title=${t("inbox.lost")}>
        ${t("inbox.lost_since")} <${Ago} at=${entry.at} />. ${t("inbox.lost_next")}<//>`;
  }
}

/** Somebody names this person in a channel. @param {{mention: any}} props */
function MentionCard({ mention }) {
  const { message, channel, delivery } = mention;
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const open = isOpen(delivery);
  const href = address("channel", channel, message.thread_id ? { thread: message.thread_id } : { message: message.message_id });
  const seen = () => ack(channel, { messages: [message.message_id] }).catch(setProblem);
  return html`<article class=${`card ${open ? "need" : "decided"}`} data-row data-href=${href} tabindex="-1">
    <div class="row"><h3 class="title grow">${t("inbox.mention", { who: message.sender })}</h3><small class="soft"><${Ago} at=${message.at} /></small></div>
    <p class="soft small"># <${Text} of=${channel} /> · ${said("authority", message.authority)}${message.asks ? ` · ${said("asks", message.asks)}` : ""}</p>
    <p class="excerpt"><${Text} of=${message.sealed ? t("message.sealed") : message.text ?? ""} /></p>
    ${open ? html`<div class="two"><button type="button" onClick=${seen}>${t("inbox.mention_ack")}</button><a class="button go" href=${href}>${t("inbox.mention_answer")}</a></div>`
      : html`<p class="decision" role="status">${deliveryWord(delivery)}</p>`}
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}
  </article>`;
}

/** @param {{session: any, title: string, need?: boolean, children?: any}} props */
function SessionCard({ session, title, need, children }) {
  const href = address("session", session.report.session_id);
  return html`<article class=${`card ${need ? "need" : ""}`} data-row data-href=${href} tabindex="-1">
    <h3 class="title">${title}</h3>
    <a class="plain-link" href=${href}><${Text} of=${titleOf(session)} /></a>
    <p class="soft small">${vendorName(session.report.vendor)} · <${Text} of=${session.host_name} /></p>
    <p class="soft small">${children}</p>
  </article>`;
}

/** @param {{session: any}} props */
function Running({ session }) {
  const href = address("session", session.report.session_id);
  return html`<a class="card session-card" href=${href} data-row>
    <span class="row"><span class="dot" aria-hidden="true"></span><span class="title grow cut"><${Text} of=${titleOf(session)} /></span><${Bars} session=${session} silent /></span>
    <small class="soft">${vendorName(session.report.vendor)} · <${Text} of=${session.host_name} /> · ${levelWord(session)}
      ${session.report.proof_at ? html` · ${t("truth.seen")} <${Ago} at=${session.report.proof_at} />` : null}</small>
  </a>`;
}

/** Another device wants in: the same words must stand on both. @param {{pairing: any}} props */
export function PairingCard({ pairing }) {
  const [state, setState] = useState(/** @type {any} */ ("open"));
  const decide = async (/** @type {"confirm" | "deny"} */ verb) => {
    setState("busy");
    try {
      await post(place(["pairings", pairing.pairing_id, verb]), {});
      setState(verb);
      readPairings();
    } catch (problem) {
      setState(problem);
    }
  };
  return html`<article class="card need" data-row tabindex="-1">
    <div class="row"><h3 class="title grow">${t("pairing.question")}</h3><small class="soft"><${Ago} at=${pairing.claimed_at ?? ""} /></small></div>
    <p class="soft small"><${Text} of=${pairing.device || pairing.name || t("pairing.device")} /></p>
    <p>${t("pairing.compare")}</p>
    <p class="compare">${textNodes(pairing.words ?? "")}</p>
    ${state === "confirm" || state === "deny" ? html`<p class="decision" role="status">${t(`pairing.${state}`)}</p>`
      : html`<div class="two">
        <button type="button" disabled=${state === "busy"} onClick=${() => decide("deny")}>${t("pairing.no")}</button>
        <button type="button" class="go" disabled=${state === "busy"} onClick=${() => decide("confirm")}>${t("pairing.yes")}</button></div>`}
    ${state instanceof Error ? html`<${Failed} problem=${state} inline />` : null}
  </article>`;
}
