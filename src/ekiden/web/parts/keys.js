// The keyboard: `j` and `k` move, Enter opens, `a` and `d` allow and deny with a second press, `/` searches, `?` helps.

import { html } from "../lib.js";
import { address, back, go, route } from "../state/route.js";
import { t } from "../words/index.js";
import { press } from "./approval.js";
import { Dialog, dialogOpen, showDialog } from "./dialog.js";

const KEYS = Object.freeze([
  ["j k", "keys.move"], ["Enter", "keys.open"], ["a", "keys.allow"], ["d", "keys.deny"], ["/", "keys.search"],
  ["i", "keys.inbox"], ["Esc", "keys.back"], ["?", "keys.help"],
]);

/** Rows that can be moved to, in the place where the focus is or else in the middle. */
function rowsHere() {
  const active = document.activeElement;
  const area = active?.closest("[data-area]") ?? document.querySelector("main [data-area]") ?? document.querySelector("[data-area]");
  return /** @type {HTMLElement[]} */ ([...(area?.querySelectorAll("[data-row]") ?? [])]);
}

/** @param {number} step */
function move(step) {
  const rows = rowsHere();
  const now = rows.findIndex((row) => row === document.activeElement || row.contains(document.activeElement));
  const next = rows[now < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, now + step))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

/** @param {string} kind */
function decide(kind) {
  const focused = /** @type {HTMLElement | null | undefined} */ (document.activeElement?.closest("[data-approval]"));
  const all = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-approval]")]);
  const card = focused ?? (all.length === 1 ? all[0] : null);
  if (card?.dataset.approval) {
    card.focus();
    press(card.dataset.approval, kind);
  }
}

export function searchFocus() {
  const field = /** @type {HTMLInputElement | null} */ (document.querySelector("input[type=search]"));
  if (field && field.offsetParent !== null) field.focus();
  else {
    go(address("sessions"));
    requestAnimationFrame(() => requestAnimationFrame(() => /** @type {HTMLInputElement | null} */ (document.querySelector("input[type=search]"))?.focus()));
  }
}

export function watchKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || dialogOpen()) return;
    const target = /** @type {HTMLElement} */ (event.target);
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
    if (event.key === "Escape") {
      if (typing) target.blur();
      else if (route.value.screen === "session") back();
      return;
    }
    if (typing) return;
    const row = target.closest("[data-href]");
    switch (event.key) {
      case "j":
      case "k":
        move(event.key === "j" ? 1 : -1);
        break;
      case "Enter":
        if (!row || row !== target) return;
        go(/** @type {HTMLElement} */ (row).dataset.href ?? "");
        break;
      case "a":
      case "d":
        decide(event.key === "a" ? "allow_once" : "deny");
        break;
      case "/":
        searchFocus();
        break;
      case "i":
        go(address("inbox"));
        break;
      case "?":
        showDialog(() => html`<${Help} />`);
        break;
      default:
        return;
    }
    event.preventDefault();
  });
}

function Help() {
  return html`<${Dialog} title=${t("keys.title")}><table class="facts"><tbody>
    ${KEYS.map(([key, word]) => html`<tr><td><kbd>${key}</kbd></td><td>${t(word)}</td></tr>`)}
  </tbody></table><//>`;
}
