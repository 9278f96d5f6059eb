// What became of a message: sent (stored by the hub), placed (the host gave it to the agent), seen (by the model).

import { html, useState } from "../lib.js";
import { remove, place } from "../door.js";
import { told } from "../state/live.js";
import { again, discard } from "../state/outbox.js";
import { t } from "../words/index.js";
import { Failed } from "./states.js";
import { textNodes } from "./text.js";

/** @param {{message: any}} props */
export function Receipt({ message }) {
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const cancel = async () => {
    try {
      const answer = await remove(place(["messages", message.message_id]));
      told("message.changed", answer?.message_id ? answer : { ...message, state: "cancelled" });
    } catch (failed) {
      setProblem(failed);
    }
  };
  return html`<small class="soft at" data-receipt=${message.state} role="status">
    ${words(message)}
    ${message.state === "failed" && message.reason ? html` ${textNodes(message.reason)}` : null}
    ${message.state === "stored" ? html` <button type="button" class="link" onClick=${cancel}>${t("do.cancel")}</button>` : null}
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}
  </small>`;
}

/** @param {any} message */
function words(message) {
  switch (message.state) {
    case "stored":
      return t("receipt.stored");
    case "placed":
      return t(message.how === "queued" ? "receipt.queued" : message.how === "steered" ? "receipt.steered" : "receipt.placed");
    case "seen":
      return t(message.how === "steered" ? "receipt.seen_steered" : "receipt.seen");
    case "cancelled":
      return t("receipt.cancelled");
    default:
      return t("receipt.failed");
  }
}

/** A message of ours that is no item of the conversation yet. @param {{message: any}} props */
export const Pending = ({ message }) => html`<div class="me-row">
  <div class="me waiting"><div class="plain" dir="auto">${textNodes(message.text)}</div></div>
  <${Receipt} message=${message} /></div>`;

/** What was typed and has not reached the hub. @param {{entry: import("../state/outbox.js").Waiting}} props */
export function Unsent({ entry }) {
  return html`<div class="me-row">
    <div class="me waiting"><div class="plain" dir="auto">${textNodes(entry.text)}</div></div>
    <small class="soft at" role="status" data-receipt=${entry.state}>
      ${t(`outbox.${entry.state}`)}
      ${entry.state === "sending" ? null : html` <span class="nowrap"><button type="button" class="link" onClick=${() => again(entry.message_id)}>${t("do.again")}</button>
      · <button type="button" class="link" onClick=${() => discard(entry.message_id)}>${t("do.discard")}</button></span>`}
      ${entry.state === "refused" ? html`<${Failed} problem=${entry.problem} inline />` : null}
    </small></div>`;
}
