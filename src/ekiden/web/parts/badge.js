// How a session is attached: three small bars for the three levels, and the word for the one it has.

import { html } from "../lib.js";
import { known, listed, t } from "../words/index.js";
import { Text } from "./text.js";

const LEVEL = Object.freeze({ 1: "level.history", 2: "level.turn", 3: "level.screen" });
const LEVELS = Object.freeze([1, 2, 3]);

/** @param {any} session */
export const levelWord = (session) => t(LEVEL[session.report.level ?? 1] ?? "level.history");

/** The bars; the word stands beside them or is read out. @param {{session: any, silent?: boolean}} props */
export function Bars({ session, silent }) {
  const level = session.report.level ?? 1;
  const word = t("level.is", { level: levelWord(session) });
  return html`<span class="bars" role="img" aria-label=${silent ? undefined : word} aria-hidden=${silent ? "true" : undefined}>
    ${LEVELS.map((step) => html`<i class=${step <= level ? "on" : ""}></i>`)}
  </span>`;
}

/** The state as a pill; a quiet session has none. @param {{session: any, asks: number}} props */
export function StatePill({ session, asks }) {
  if (asks > 0) return html`<span class="pill need">${t("state.asks")}</span>`;
  switch (session.state) {
    case "running":
      return html`<span class="pill run">${t("state.running")}</span>`;
    case "waiting":
      return html`<span class="pill need">${t("state.waiting")}</span>`;
    case "lost":
      return html`<span class="pill">${t("state.lost")}</span>`;
    case "gone":
      return html`<span class="pill">${t("state.gone")}</span>`;
    default:
      return null;
  }
}

const VENDOR = Object.freeze({ claude: "Claude Code", codex: "Codex", demo: "Demo", gemini: "Gemini", opencode: "opencode" });

/** @param {string} vendor */
export const vendorName = (vendor) => VENDOR[vendor] ?? vendor;

/** @param {any} session */
export const titleOf = (session) => session.report.title || t("session.untitled");

/** A folder's last two parts; the whole is in the title. @param {string} path */
export function folderName(path) {
  const parts = (path ?? "").split("/").filter(Boolean);
  return parts.slice(-1)[0] ?? path;
}

/**
 * What can and cannot be done here, each with its reason.
 * @param {{session: any}} props
 */
export function Abilities({ session }) {
  const abilities = session.report.abilities ?? [];
  if (!abilities.length) return null;
  /** @type {Map<string, any[]>} those that cannot be done, by their common reason */
  const cannot = new Map();
  for (const one of abilities) {
    if (one.can) continue;
    const same = cannot.get(`${one.why}:${one.detail}`);
    if (same) same.push(one);
    else cannot.set(`${one.why}:${one.detail}`, [one]);
  }
  return html`<ul class="abilities">
    ${abilities.filter((/** @type {any} */ one) => one.can).map((/** @type {any} */ one) => html`<li><span class="yes" aria-hidden="true">✓</span>
      <span><span class="sr">${t("ability.can")}${" "}</span><${Text} of=${abilityName(one)} />
      ${one.detail ? html` <span class="soft">(<${Text} of=${one.detail} />)</span>` : null}</span></li>`)}
    ${[...cannot.values()].map((group) => html`<li><span class="no" aria-hidden="true">–</span>
      <span class="soft"><span class="sr">${t("ability.cannot")}${" "}</span><${Text} of=${listed(group.map(abilityName))} />: ${reason(group[0])}</span></li>`)}
  </ul>`;
}

/** @param {any} one @returns {string} */
const abilityName = (one) => (known(`ability.${one.name}`) ? t(`ability.${one.name}`) : String(one.name));

/** @param {any} ability */
export function reason(ability) {
  const key = `why.${ability.why}`;
  const word = known(key) ? t(key) : ability.detail || ability.why || t("why.unsaid");
  const more = ability.detail && word !== ability.detail;
  return html`<span>${known(key) ? word : html`<${Text} of=${word} />`}${more ? html` (<${Text} of=${ability.detail} />)` : null}</span>`;
}

/** @param {any} session @param {string} name */
export const ability = (session, name) =>
  (session.report.abilities ?? []).find((/** @type {any} */ one) => one.name === name) ?? { name, can: false, why: "unsaid" };
