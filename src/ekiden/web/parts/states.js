// Empty, loading, failed and gone: one sentence, and what to do next.

import { html } from "../lib.js";
import { known, t } from "../words/index.js";
import { textNodes } from "./text.js";

/** @param {{text: string, children?: any}} props */
export const Empty = ({ text, children }) => html`<div class="state"><p>${text}</p>${children}</div>`;

/** @param {{text: string}} props */
export const Loading = ({ text }) => html`<div class="state" role="status"><p class="soft breathe">${text}</p></div>`;

/** Refusals whose sentence says all; the door's own English adds nothing to it. */
const SAID_WHOLE = new Set(["command_in_flight", "forbidden", "host_away", "host_silent", "not_found", "offline"]);

/**
 * What went wrong, in the person's language where the code is known, and as the door said it otherwise.
 * @param {{problem: any, retry?: () => void, inline?: boolean}} props
 */
export function Failed({ problem, retry, inline }) {
  const key = `problem.${problem?.code}`;
  const whole = SAID_WHOLE.has(problem?.code);
  return html`<div class=${inline ? "failed inline" : "state failed"} role="alert">
    <p>${known(key) ? t(key) : textNodes(problem?.detail || t("problem.internal"))}</p>
    ${known(key) && problem.detail && !whole ? html`<p class="soft small">${textNodes(problem.detail)}</p>` : null}
    ${problem?.hint && !whole ? html`<p class="soft small">${textNodes(problem.hint)}</p>` : null}
    ${retry ? html`<button type="button" onClick=${retry}>${t("do.again")}</button>` : null}
  </div>`;
}
