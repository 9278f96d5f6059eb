// One dialog at a time, on the browser's own element: it holds the focus, and Escape closes it.

import { html, signal, useId, useLayoutEffect, useRef } from "../lib.js";
import { t } from "../words/index.js";

const shown = signal(/** @type {(() => any) | null} */ (null));

/** @param {() => any} draw gives the dialog's node */
export function showDialog(draw) {
  shown.value = draw;
}

export function closeDialog() {
  shown.value = null;
}

/** As the browser sees it: a dialog that Escape has closed takes no keys any more, though its end is told later. */
export const dialogOpen = () => document.querySelector("dialog[open]") !== null;

/** Where the dialog of the page is drawn. */
export function DialogPlace() {
  return shown.value ? shown.value() : null;
}

/** @param {{title: string, side?: boolean, children?: any}} props */
export function Dialog({ title, side, children }) {
  const id = useId();
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useLayoutEffect(() => {
    const dialog = element.current;
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    dialog?.showModal();
    return () => {
      // Only a focus that would be lost with the dialog goes back: the person may have gone on already.
      const now = document.activeElement;
      if (before?.isConnected && (!now || now === document.body || dialog?.contains(now))) before.focus();
    };
  }, []);
  const outside = (/** @type {MouseEvent} */ event) => {
    if (event.target === element.current) closeDialog();
  };
  return html`<dialog ref=${element} class=${side ? "side" : ""} aria-labelledby=${id} onClose=${closeDialog} onClick=${outside}>
    <div class="inside">
      <div class="row"><h2 id=${id} class="grow title">${title}</h2>
        <button type="button" class="quiet" onClick=${closeDialog}>${t("do.close")}</button></div>
      ${children}
    </div>
  </dialog>`;
}
