// Words of the relay: who speaks, how a mention reaches somebody, and how far it came.

import { known, t } from "../words/index.js";

/** @param {string} prefix @param {string} word a stable word of the door */
export const said = (prefix, word) => (known(`${prefix}.${word}`) ? t(`${prefix}.${word}`) : word);

/** "answered", or how it is on its way. @param {any} delivery */
export function deliveryWord(delivery) {
  const state = delivery.state ?? "stored";
  if (state !== "stored") return said("delivery", state);
  return delivery.why ? said("why", delivery.why) : said("way", delivery.way ?? "none");
}
