// Where a person writes to a channel: with names offered after an @, and what is asked of those that are named.

import { html, useEffect, useRef, useState } from "../lib.js";
import { NAMES_OFFERED_MAX } from "../state/limits.js";
import { lastPosted } from "../state/live.js";
import { talk } from "../state/channels.js";
import { sendTo } from "../state/outbox.js";
import { t } from "../words/index.js";
import { deliveryWord, said } from "./talk_words.js";
import { Text } from "./text.js";

/** What was typed and not sent stays for this visit, by channel and thread. */
const drafts = new Map();

/** @param {{thread: string, answering: any, onSent: () => void}} props */
export function PostComposer({ thread, answering, onSent }) {
  const channel = talk.value?.channel;
  const key = `${channel?.name} ${thread}`;
  const [text, setText] = useState(drafts.get(key) ?? "");
  const [asks, setAsks] = useState("");
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  useEffect(() => {
    if (answering) field.current?.focus();
  }, [answering]);
  useEffect(() => {
    const element = field.current;
    if (!element) return;
    element.style.height = "auto";
    if (text) element.style.height = `${Math.min(element.scrollHeight + 2, window.innerHeight * 0.4)}px`;
  }, [text]);
  if (!channel) return null;
  if (channel.state === "archived") return html`<p class="composer soft small">${t("channel.archived_why")}</p>`;
  const write = (/** @type {string} */ next) => {
    drafts.set(key, next);
    setText(next);
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!text.trim()) return;
    sendTo(channel.name, {
      text, ...(thread ? { thread_id: thread } : {}), ...(answering ? { answers: answering.message_id } : {}), ...(asks ? { asks } : {}),
    });
    write("");
    setAsks("");
    onSent();
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const fine = matchMedia("(pointer: fine)").matches;
    if (event.key !== "Enter" || event.isComposing || event.shiftKey || !(fine || event.ctrlKey || event.metaKey)) return;
    submit(event);
  };
  const offered = namesFor(text);
  const names = /(^|\s)@\S/.test(text);
  return html`<form class="composer" onSubmit=${submit}>
    ${answering ? html`<p class="standing soft small">${t("post.answering")} <${Text} of=${answering.sender} /> <button type="button" class="link" onClick=${onSent}>${t("do.cancel")}</button></p>` : null}
    <${Reached} />
    ${offered.length ? html`<div class="chips" role="group" aria-label=${t("post.names")}>
      ${offered.map((name) => html`<button type="button" class="chip" onClick=${() => { write(text.replace(/@\S*$/, `${called(name)} `)); field.current?.focus(); }}>@<${Text} of=${name} /></button>`)}</div>` : null}
    <div class="composer-row">
      <textarea ref=${field} rows="1" value=${text} aria-label=${t("post.label")} placeholder=${t(thread ? "post.in_thread" : "post.label")} dir="auto"
        onInput=${(/** @type {any} */ event) => write(event.target.value)} onKeyDown=${keys}></textarea>
      <button type="submit" class="go" disabled=${!text.trim()}>${t("composer.send")}</button>
    </div>
    ${names ? html`<label class="row small soft">${t("post.asks")} <select value=${asks} onChange=${(/** @type {any} */ event) => setAsks(event.target.value)}>
      <option value="">${t("asks.nothing")}</option><option value="ack">${t("asks.ack")}</option><option value="answer">${t("asks.answer")}</option></select></label>` : null}
  </form>`;
}

/** How a name is called: one with other signs than letters, digits, dots and dashes stands in quotes. @param {string} name */
const called = (name) => (/^[\p{L}\p{N}_.-]+$/u.test(name) ? `@${name}` : `@"${name}"`);

/** Members whose name begins with what stands after the last @. @param {string} text */
function namesFor(text) {
  const found = /(?:^|\s)@(\S*)$/.exec(text);
  if (!found) return [];
  const begun = found[1].toLowerCase();
  return [...(talk.value?.members.values() ?? [])].map((member) => member.name)
    .filter((name) => name.toLowerCase().startsWith(begun)).slice(0, NAMES_OFFERED_MAX);
}

/** How the last message of this page reaches those that it names. */
function Reached() {
  const answer = lastPosted.value;
  const channel = talk.value?.channel;
  if (!answer || !channel || answer.message.channel_id !== channel.channel_id) return null;
  const deliveries = (answer.deliveries ?? []).map((/** @type {any} */ told) =>
    talk.value?.deliveries.get(`${told.message_id} ${told.principal_id}`) ?? told);
  if (!deliveries.length && !answer.unplaced?.length && !answer.notice) return null;
  return html`<p class="standing soft small" role="status" data-reached>
    ${deliveries.map((/** @type {any} */ delivery) => html`<span><${Text} of=${delivery.name} />: ${deliveryWord(delivery)}. </span>`)}
    ${(answer.unplaced ?? []).map((/** @type {any} */ one) => html`<span class="need-text"><${Text} of=${one.name} />: ${said("unplaced", one.why)}. </span>`)}
    ${answer.notice ? said("why", answer.notice) : null}</p>`;
}
