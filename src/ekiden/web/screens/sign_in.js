// Signing in: by the link's code, confirmed at the computer; or by typing a code. The person sees what the device is called.

import { html, useState } from "../lib.js";
import { endedBy } from "../state/live.js";
import { DEVICE_NAME_CHARS_MAX } from "../state/limits.js";
import { claim, deviceKind, signing } from "../state/signing.js";
import { known, t } from "../words/index.js";
import { Failed, Loading } from "../parts/states.js";
import { textNodes } from "../parts/text.js";

/** What this device is called until the person says otherwise. */
export function deviceName() {
  const { browser, system, form } = deviceKind();
  const program = browser && system ? t("sign.browser_on", { browser, system }) : browser || system;
  return [program, t(`sign.form.${form}`)].filter(Boolean).join(" · ");
}

export function SignInScreen() {
  return html`<main class="alone"><div class="sign-in">
    <p class="brand"><span class="sash" aria-hidden="true"></span>Ekiden</p>
    <${Step} ...${signing.value} />
  </div></main>`;
}

/** @param {{state: string, code: string, device: string, words: string, problem: any}} props */
function Step({ state, code, device, words, problem }) {
  switch (state) {
    case "naming":
      return html`<div><h1>${t("sign.title")}</h1><${SignInForm} code=${code} /></div>`;
    case "claiming":
      return html`<${Loading} text=${t("sign.claiming")} />`;
    case "confirmed":
      return html`<${Loading} text=${t("loading.page")} />`;
    case "waiting":
      return html`<div role="status">
        <h1>${t("sign.waiting")}</h1>
        <p>${t("sign.compare")}</p>
        <p class="compare">${textNodes(words)}</p>
        <p class="soft small">${t("sign.where", { device })}</p>
      </div>`;
    case "denied":
    case "expired":
      return html`<div><h1>${t(`sign.${state}`)}</h1><p class="soft">${t("sign.new_link")}</p><${SignInForm} /></div>`;
    case "refused":
      return html`<div><h1>${t("sign.refused")}</h1><${Failed} problem=${problem} inline /><p class="soft">${t("sign.new_link")}</p><${SignInForm} /></div>`;
    default:
      return html`<div><h1>${t(known(`sign.ended.${endedBy.value}`) ? `sign.ended.${endedBy.value}` : "sign.title")}</h1>
        <p class="soft">${t("sign.how")}</p><${SignInForm} /></div>`;
  }
}

/** @param {{code?: string}} props a code that a link brought is not asked for again */
function SignInForm({ code = "" }) {
  const [typed, setTyped] = useState(code);
  const [name, setName] = useState(deviceName);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const plain = /pair=([^&\s]+)/.exec(typed)?.[1] ?? typed.trim();
    if (plain) claim(plain, name.trim() || deviceName());
  };
  return html`<form onSubmit=${submit} class="stack">
    ${code ? null : html`<label>${t("sign.code")}<input type="text" autocomplete="one-time-code" autocapitalize="off" spellcheck=${false} value=${typed}
      onInput=${(/** @type {any} */ event) => setTyped(event.target.value)} /></label>`}
    <label>${t("sign.name")}<input type="text" autocomplete="off" maxlength=${DEVICE_NAME_CHARS_MAX} value=${name}
      onInput=${(/** @type {any} */ event) => setName(event.target.value)} /></label>
    <button type="submit" class="go" disabled=${!typed.trim()}>${t("sign.go")}</button>
  </form>`;
}
