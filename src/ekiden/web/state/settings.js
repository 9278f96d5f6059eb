// What a person can set in this browser: the look and the language. Both follow the system until chosen.

import { effect, signal } from "../lib.js";

/** @param {string} name @param {string[]} allowed */
function stored(name, allowed) {
  let value = "";
  try {
    value = localStorage.getItem(`ekiden.${name}`) ?? "";
  } catch {
    // Storage can be switched off.
  }
  const chosen = signal(allowed.includes(value) ? value : "system");
  effect(() => {
    try {
      localStorage.setItem(`ekiden.${name}`, chosen.value);
    } catch {
      // Then it lasts as long as the page.
    }
  });
  return chosen;
}

export const theme = stored("theme", ["light", "dark"]);
export const languageChoice = stored("language", ["en", "zh"]);

effect(() => {
  const root = globalThis.document?.documentElement;
  if (!root) return;
  if (theme.value === "system") delete root.dataset.theme;
  else root.dataset.theme = theme.value;
});
