// An agent's questions as fields: choices, text, and the simple forms that a tool server may ask for.

import { html, useState } from "../lib.js";
import { t } from "../words/index.js";
import { Text } from "./text.js";

/**
 * @typedef {{key: string, label: string, hint?: string, kind: "choice" | "choices" | "text" | "number" | "yes",
 *   options: {label: string, description?: string}[], other: boolean, needed: boolean, secret?: boolean}} Field
 */

/**
 * The fields that an answer must or may fill. Claude Code's and Codex's questions come as `questions`, a tool
 * server's form as `requestedSchema`.
 * @param {any} approval @returns {Field[]}
 */
export function fieldsOf(approval) {
  const detail = approval?.detail;
  if (approval?.question !== "answer" || !detail || typeof detail !== "object") return [];
  if (Array.isArray(detail.questions)) return detail.questions.filter((/** @type {any} */ one) => typeof one?.question === "string").map(question);
  const schema = detail.requestedSchema ?? detail.schema;
  if (schema?.properties && typeof schema.properties === "object") {
    const needed = Array.isArray(schema.required) ? schema.required : [];
    return Object.entries(schema.properties).map(([key, of]) => property(key, /** @type {any} */ (of), needed.includes(key)));
  }
  return [];
}

/** @param {any} one @returns {Field} */
function question(one) {
  const options = (Array.isArray(one.options) ? one.options : []).filter((/** @type {any} */ option) => typeof option?.label === "string");
  return {
    key: one.id || one.question, label: one.question, kind: !options.length ? "text" : one.multiSelect ? "choices" : "choice", options,
    other: options.length > 0, needed: true, secret: Boolean(one.isSecret),
  };
}

/** @param {string} key @param {any} of @param {boolean} needed @returns {Field} */
function property(key, of, needed) {
  const listed = Array.isArray(of?.enum) ? of.enum.map((/** @type {any} */ value) => ({ label: String(value) })) : [];
  const kind = listed.length ? "choice" : of?.type === "boolean" ? "yes" : of?.type === "number" || of?.type === "integer" ? "number" : "text";
  return { key, label: of?.title || key, hint: of?.description, kind, options: listed, other: false, needed: needed && kind !== "yes" };
}

/** @param {Field} field @param {any} value */
function answerOf(field, value) {
  const { chosen = [], typed = "", yes = false } = value ?? {};
  if (field.kind === "yes") return yes;
  if (field.kind === "number") return typed.trim() === "" || Number.isNaN(Number(typed)) ? undefined : Number(typed);
  const all = [...chosen, ...(typed.trim() ? [typed.trim()] : [])];
  if (!all.length) return undefined;
  return field.kind === "choices" ? all : all[all.length - 1];
}

/** @param {{id: string, fields: Field[], busy: boolean, onAnswer: (answers: any) => void, onSkip: (() => void) | null}} props */
export function Questions({ id, fields, busy, onAnswer, onSkip }) {
  const [values, setValues] = useState(/** @type {Record<string, any>} */ ({}));
  const set = (/** @type {Field} */ field, /** @type {any} */ change) => setValues({ ...values, [field.key]: { ...values[field.key], ...change } });
  const answers = fields.map((field) => /** @type {const} */ ([field.key, answerOf(field, values[field.key])]));
  const complete = fields.every((field, at) => !field.needed || answers[at][1] !== undefined);
  const submit = () => onAnswer(Object.fromEntries(answers.filter(([, value]) => value !== undefined)));
  return html`<div class="questions">
    ${fields.map((field) => html`<fieldset key=${field.key}>
      <legend><${Text} of=${field.label} /></legend>
      ${field.hint ? html`<p class="soft small"><${Text} of=${field.hint} /></p>` : null}
      <${Choices} id=${id} field=${field} value=${values[field.key]} set=${set} />
    </fieldset>`)}
    <div class="two">
      ${onSkip ? html`<button type="button" disabled=${busy} onClick=${onSkip}>${t("approval.no_answer")}</button>` : null}
      <button type="button" class="go" disabled=${busy || !complete} onClick=${submit}>${t("approval.answer")}</button>
    </div>
  </div>`;
}

/** @param {{id: string, field: Field, value: any, set: (field: Field, change: any) => void}} props */
function Choices({ id, field, value, set }) {
  const chosen = value?.chosen ?? [];
  const many = field.kind === "choices";
  if (field.kind === "yes") {
    return html`<label class="choice"><input type="checkbox" checked=${Boolean(value?.yes)} onChange=${(/** @type {any} */ event) => set(field, { yes: event.target.checked })} />
      <span>${t("approval.yes")}</span></label>`;
  }
  const choose = (/** @type {string} */ label) =>
    set(field, many ? { chosen: chosen.includes(label) ? chosen.filter((/** @type {string} */ one) => one !== label) : [...chosen, label] } : { chosen: [label], typed: "" });
  return html`<div>
    ${field.options.map((option) => html`<label class="choice">
      <input type=${many ? "checkbox" : "radio"} name=${`${id}:${field.key}`} checked=${chosen.includes(option.label)} onChange=${() => choose(option.label)} />
      <span><${Text} of=${option.label} />${option.description ? html`<br /><small class="soft"><${Text} of=${option.description} /></small>` : null}</span></label>`)}
    ${field.other || !field.options.length ? html`<input type=${field.secret ? "password" : "text"} aria-label=${t(field.other ? "approval.other" : "approval.answer")} placeholder=${field.other ? t("approval.other") : ""}
      value=${value?.typed ?? ""} onInput=${(/** @type {any} */ event) => set(field, { typed: event.target.value, ...(many ? {} : { chosen: [] }) })} />` : null}
  </div>`;
}
