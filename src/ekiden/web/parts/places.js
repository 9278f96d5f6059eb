// The places of the page: a bar at the bottom of a phone, a short list at the left of a wide screen.

import { html } from "../lib.js";
import { link, mayAdmin, teamState, keptAt } from "../state/live.js";
import { address, route } from "../state/route.js";
import { waiting } from "../state/inbox.js";
import { t } from "../words/index.js";
import { Ago } from "./when.js";

const PLACES = Object.freeze([["inbox", "◉"], ["sessions", "▤"], ["channels", "#"], ["new", "+"], ["devices", "◇"]]);

/** Screens that belong to a place. */
const WITHIN = Object.freeze(/** @type {Record<string, string>} */ ({ session: "sessions", settings: "devices", channel: "channels", audit: "channels", invites: "devices" }));

/** @param {{wide?: boolean}} props */
export function Places({ wide }) {
  const now = WITHIN[route.value.screen] ?? route.value.screen;
  const count = waiting.value.length;
  const shown = PLACES.filter(([screen]) => (screen !== "devices" || mayAdmin.value || !wide) && !(wide && screen === "sessions"));
  return html`<nav class=${wide ? "places wide" : "places"} aria-label=${t("places.label")}>
    ${shown.map(([screen, sign]) => html`<a href=${address(screen)} aria-current=${now === screen ? "page" : undefined}>
      <span class="sign" aria-hidden="true">${sign}</span><span class="grow">${t(`places.${screen}`)}</span>
      ${screen === "inbox" && count ? html`<span class="pill need count"><span aria-hidden="true">${count}</span><span class="sr">${t("inbox.count", { count })}</span></span>` : null}</a>`)}
  </nav>`;
}

/** Whether what is shown is live, and if not, since when. */
export function Freshness() {
  if (teamState.value === "kept") {
    return html`<p class="banner" role="status">${t("fresh.kept")} <${Ago} at=${keptAt.value} />.</p>`;
  }
  if (link.value === "waiting" && teamState.value === "live") {
    return html`<p class="banner" role="status">${t("fresh.reconnecting")}</p>`;
  }
  return null;
}
