// Which folded parts a person has opened: kept outside the rows, which come and go as the list scrolls.

import { signal } from "../lib.js";

/** @type {Map<string, import("../vendor/signals-core-1.14.5/signals-core.mjs").Signal>} */
const folds = new Map();

/** @param {string} name */
function fold(name) {
  let one = folds.get(name);
  if (!one) folds.set(name, (one = signal(/** @type {boolean | null} */ (null))));
  return one;
}

/** @param {string} name @param {boolean} [otherwise] what it is until someone chooses */
export const isOpen = (name, otherwise = false) => fold(name).value ?? otherwise;

/** @param {string} name @param {boolean} [otherwise] */
export function toggle(name, otherwise = false) {
  fold(name).value = !isOpen(name, otherwise);
}

/** Forgets what was opened in another session. */
export const forgetFolds = () => folds.clear();
