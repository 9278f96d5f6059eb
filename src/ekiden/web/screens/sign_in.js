// Signing in: by the link's code, confirmed at the computer; or by typing a code.

import { html, useState } from "../lib.js";
import { endedBy } from "../state/live.js";
import { claim, deviceName, signing } from "../state/signing.js";
import { known, t } from "../words/index.js";
import { Failed, Loading } from "../parts/states.js";
import { textNodes } from "../parts/text.js";

export function SignInScreen() {
  const { state, words, problem } = signing.value;
  return html`<main class="alone"><div class="sign-in">
    <p class="brand"><span class="sash" aria-hidden="true"></span>Ekiden</p>
    <${Step} state=${state} words=${words} problem=${problem} />
  </div></main>`;
}

/** @param {{state: string, words: string, problem: any}} props */
function Step({ state, words, problem }) {
  switch (state) {
    case "claiming":
      return html`<${Loading} text=${t("sign.claiming")} />`;
    case "confirmed":
      return html`<${Loading} text=${t("loading.page")} />`;
    case "waiting":
      return html`<div role="status">
        <h1>${t("sign.waiting")}</h1>
        <p>${t("sign.compare")}</p>
        <p class="compare">${textNodes(words)}</p>
        <p class="soft small">${t("sign.where", { device: deviceName() })}</p>
      </div>`;
    case "denied":
    case "expired":
      return html`<div><h1>${t(`sign.${state}`)}</h1><p class="soft">${t("sign.new_link")}</p><${CodeForm} /></div>`;
    case "refused":
      return html`<div><h1>${t("sign.refused")}</h1><${Failed} problem=${problem} inline /><p class="soft">${t("sign.new_link")}</p><${CodeForm} /></div>`;
    default:
      return html`<div><h1>${t(known(`sign.ended.${endedBy.value}`) ? `sign.ended.${endedBy.value}` : "sign.title")}</h1>
        <p class="soft">${t("sign.how")}</p><${CodeForm} /></div>`;
  }
}

function CodeForm() {
  const [code, setCode] = useState("");
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const plain = /pair=([^&\s]+)/.exec(code)?.[1] ?? code.trim();
    if (plain) claim(plain);
  };
  return html`<form onSubmit=${submit} class="stack">
    <label>${t("sign.code")}<input type="text" autocomplete="one-time-code" autocapitalize="off" spellcheck=${false} value=${code}
      onInput=${(/** @type {any} */ event) => setCode(event.target.value)} /></label>
    <button type="submit" class="go" disabled=${!code.trim()}>${t("sign.go")}</button>
  </form>`;
}
