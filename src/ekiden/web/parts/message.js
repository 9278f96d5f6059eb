// One message of a channel: who said it with which authority, what it says, what became of it.

import { html, useState } from "../lib.js";
import { ask, get, place, remove } from "../door.js";
import { LAGGARDS_PAGE } from "../state/limits.js";
import { me } from "../state/live.js";
import { mentions, talk } from "../state/channels.js";
import { isOpen } from "../state/inbox.js";
import { preparedEdit } from "../state/member.js";
import { address } from "../state/route.js";
import { known, t } from "../words/index.js";
import { useSure } from "./asking.js";
import { Dialog, closeDialog, showDialog } from "./dialog.js";
import { Markdown } from "./markdown.js";
import { Failed, Loading } from "./states.js";
import { deliveryWord, said } from "./talk_words.js";
import { Text } from "./text.js";
import { Ago } from "./when.js";

/**
 * @param {{message: any, thread: string, onAnswer: (message: any) => void}} props `thread`: the open thread, or ""
 */
export function MessageView({ message, thread, onAnswer }) {
  const channel = talk.value?.channel;
  const mine = message.sender_id === me.value?.principal_id;
  if (message.state === "deleted") {
    return html`<article class="message"><p class="soft small">${t("message.deleted", { who: message.deleted_by || message.sender })}</p></article>`;
  }
  const started = talk.value?.threads.get(message.message_id);
  return html`<article class=${`message ${mine ? "mine" : ""}`} data-message=${message.message_id}>
    <div class="row wrap">
      <span class="title"><${Text} of=${message.sender} /></span>
      <span class=${`pill authority-${message.authority}`}>${said("authority", message.authority)}</span>
      ${message.asks ? html`<span class=${`pill ${waits(message) ? "need" : ""}`}>${said("asks", message.asks)}</span>` : null}
      ${message.suspect ? html`<span class="pill need">${t("message.suspect")}</span>` : null}
      <small class="soft"><${Ago} at=${message.at} />${message.edited_at ? html` · ${t("message.edited")}` : null}${signed(message)}</small>
    </div>
    ${message.title ? html`<h3 class="title"><${Text} of=${message.title} /></h3>` : null}
    <${Body} message=${message} />
    ${(message.attachments ?? []).map((/** @type {any} */ file) => html`<p class="small soft">${t("message.file")} <${Text} of=${file.name || file.sha256.slice(0, 12)} /></p>`)}
    <div class="row wrap tools">
      ${thread ? null : html`<a href=${address("channel", channel.name, { thread: message.message_id })}>${
        started?.replies ? t("message.replies", { count: started.replies }) : t("message.thread")}</a>`}
      ${started?.state === "done" ? html`<span class="pill run">${t("thread_state.done")}</span>` : null}
      ${started?.stopped ? html`<span class="pill">${said("why", started.stopped)}</span>` : null}
      <button type="button" class="link" onClick=${() => onAnswer(message)}>${t("message.answer")}</button>
      <button type="button" class="link" onClick=${() => showSeen(message)}>${t("message.seen")}</button>
      ${mine ? html`<button type="button" class="link" onClick=${() => showEdit(message)}>${t("message.edit")}</button>` : null}
      ${mine || me.value?.permissions?.["*"] ? html`<${Delete} message=${message} />` : null}
    </div>
  </article>`;
}

/** Whether it asks this person, who has not answered. @param {any} message */
const waits = (message) => isOpen(mentions.value.get(message.message_id)?.delivery ?? { state: "none" });

/** @param {any} message */
function signed(message) {
  const word = message.verified ?? (message.signature ? "signed" : "");
  return word && known(`signed.${word}`) ? html` · ${t(`signed.${word}`)}` : null;
}

/** @param {{message: any}} props */
function Body({ message }) {
  if (!message.sealed) return html`<${Markdown} of=${message.text} />`;
  if (typeof message.opened === "string") return html`<${Markdown} of=${message.opened} />`;
  return html`<p class="say-note">${t("message.sealed")}</p>`;
}

const path = (/** @type {any} */ message, /** @type {string[]} */ ...rest) =>
  place(["channels", talk.value?.channel.name ?? "", "messages", message.message_id, ...rest]);

/** @param {{message: any}} props */
function Delete({ message }) {
  const { sure, problem, press } = useSure(() => remove(path(message)));
  return html`<button type="button" class=${sure ? "link stop" : "link"} onClick=${press}>${t(sure ? "message.delete_sure" : "message.delete")}</button>
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}`;
}

/** @param {any} message */
function showEdit(message) {
  showDialog(() => html`<${Dialog} title=${t("message.edit")}><${Edit} message=${message} /><//>`);
}

/** @param {{message: any}} props */
function Edit({ message }) {
  const [text, setText] = useState(message.opened ?? message.text);
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      const now = talk.value;
      await ask("PATCH", path(message), { body: await preparedEdit(me.value, now?.channel, [...(now?.members.values() ?? [])], message, text) });
      closeDialog();
    } catch (failed) {
      setProblem(failed);
    }
  };
  return html`<form class="stack" onSubmit=${save}>
    <textarea rows="6" value=${text} aria-label=${t("message.text")} onInput=${(/** @type {any} */ event) => setText(event.target.value)}></textarea>
    <p class="soft small">${t("message.edit_what")}</p>
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}
    <button type="submit" class="go" disabled=${!text.trim()}>${t("do.save")}</button></form>`;
}

/** @param {any} message */
function showSeen(message) {
  showDialog(() => html`<${Dialog} title=${t("seen.title")} side><${Seen} message=${message} /><//>`);
}

/** Who has acked a message, who lags behind, and how each mention fared. @param {{message: any}} props */
function Seen({ message }) {
  const [told, setTold] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const load = async (/** @type {string} */ after) => {
    try {
      const page = await get(place(["channels", talk.value?.channel.name ?? "", "acks"], { message: message.message_id, limit: LAGGARDS_PAGE, after }));
      setTold((/** @type {any} */ had) => (after && had ? { ...page, lagging: [...had.lagging, ...(page.lagging ?? [])] } : page));
    } catch (failed) {
      setProblem(failed);
    }
  };
  if (!told && !problem) {
    load("");
    return html`<${Loading} text=${t("loading.seen")} />`;
  }
  if (problem) return html`<${Failed} problem=${problem} retry=${() => { setProblem(null); load(""); }} />`;
  return html`<p>${t("seen.count", { acked: told.acked ?? 0, members: told.members ?? 0 })}</p>
    ${(told.deliveries ?? []).length ? html`<h3 class="title">${t("seen.mentions")}</h3><ul class="bare">
      ${told.deliveries.map((/** @type {any} */ delivery) => html`<li><${Text} of=${delivery.name} />: ${deliveryWord(delivery)}${delivery.reason ? html` (<${Text} of=${delivery.reason} />)` : null}
        ${delivery.at ? html` <small class="soft"><${Ago} at=${delivery.at} /></small>` : null}</li>`)}</ul>` : null}
    ${(told.lagging ?? []).length ? html`<h3 class="title">${t("seen.lagging")}</h3><ul class="bare">
      ${told.lagging.map((/** @type {any} */ receipt) => html`<li><${Text} of=${receipt.name} /></li>`)}</ul>` : null}
    ${told.next ? html`<button type="button" onClick=${() => load(told.next)}>${t("do.more")}</button>` : null}`;
}
