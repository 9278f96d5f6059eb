// Language, look, and leaving.

import { html } from "../lib.js";
import { me, signOut } from "../state/live.js";
import { languageChoice, theme } from "../state/settings.js";
import { back } from "../state/route.js";
import { t } from "../words/index.js";
import { useSure } from "../parts/asking.js";
import { Failed } from "../parts/states.js";
import { Text } from "../parts/text.js";

/** @param {{wide: boolean}} props */
export function SettingsScreen({ wide }) {
  const { sure, problem, press } = useSure(signOut);
  const hub = me.value?.hub;
  return html`<div class="screen"><header>${wide ? null : html`<button type="button" class="quiet back" onClick=${back} aria-label=${t("do.back")}><span aria-hidden="true">‹</span></button>`}<h1 class="grow">${t("places.settings")}</h1></header>
    <div class="scroll" data-area><div class="col">
      <${Choice} title=${t("settings.language")} name="language" of=${languageChoice} options=${[["system", t("settings.system")], ["en", t("settings.en")], ["zh", t("settings.zh")]]} />
      <${Choice} title=${t("settings.theme")} name="theme" of=${theme} options=${[["system", t("settings.system")], ["light", t("settings.light")], ["dark", t("settings.dark")]]} />
      <section class="card"><h2 class="title">${t("settings.leave")}</h2><p class="soft small">${t("settings.leave_what")}</p>
        <button type="button" class=${sure ? "stop" : ""} onClick=${press}>${t(sure ? "settings.leave_sure" : "settings.leave_go")}</button>
        ${problem ? html`<${Failed} problem=${problem} inline />` : null}</section>
      ${hub ? html`<p class="soft small">Ekiden <${Text} of=${hub.version ?? ""} /> · <${Text} of=${hub.url ?? ""} /></p>` : null}
    </div></div></div>`;
}

/** @param {{title: string, name: string, of: any, options: string[][]}} props */
const Choice = ({ title, name, of, options }) => html`<fieldset class="card"><legend class="title">${title}</legend>
  ${options.map(([value, word]) => html`<label class="choice"><input type="radio" name=${name} checked=${of.value === value} onChange=${() => { of.value = value; }} /><span>${word}</span></label>`)}</fieldset>`;
