// Where a person writes: to the running turn, after it, or to a session that has to be continued first.

import { html, useEffect, useRef, useState } from "../lib.js";
import { place, post } from "../door.js";
import { send } from "../state/outbox.js";
import { t } from "../words/index.js";
import { ability, reason } from "./badge.js";
import { Verbs, forgetCarried } from "../screens/verbs.js";
import { Failed } from "./states.js";
import { Text } from "./text.js";
import { Ago } from "./when.js";

/** @param {string} id @param {string} [text] what was typed and not sent stays for this visit */
function draft(id, text) {
  try {
    if (text === undefined) return sessionStorage.getItem(`draft.${id}`) ?? "";
    if (text) sessionStorage.setItem(`draft.${id}`, text);
    else sessionStorage.removeItem(`draft.${id}`);
  } catch {
    // Storage can be switched off.
  }
  return text ?? "";
}

/** @param {{session: any, onSent: () => void}} props */
export function Composer({ session, onSent }) {
  const id = session.report.session_id;
  const [text, setText] = useState(() => draft(id));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [stopping, setStopping] = useState("");
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const running = session.state === "running" || session.state === "waiting";
  const queue = ability(session, "queue");
  const steer = ability(session, "steer");
  const carry = ability(session, "continue");
  const stop = ability(session, "interrupt");
  const canWrite = queue.can || carry.can;
  const turn = session.report.turn_id ?? "";

  useEffect(() => {
    const element = field.current;
    if (!element) return;
    element.style.height = "auto";
    if (!text) return;
    element.style.height = `${Math.min(element.scrollHeight + 2, window.innerHeight * 0.4)}px`;
  }, [text]);

  const write = (/** @type {string} */ next) => {
    setText(next);
    draft(id, next);
  };
  const submit = (/** @type {boolean} */ asSteer) => {
    if (!text.trim()) return;
    send(id, text, { steer: asSteer, continueFirst: !queue.can && carry.can });
    write("");
    forgetCarried(id);
    onSent();
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const fine = matchMedia("(pointer: fine)").matches;
    if (event.key !== "Enter" || event.isComposing || event.shiftKey || !(fine || event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    submit(false);
  };
  const interrupt = async () => {
    setStopping(turn);
    try {
      await post(place(["sessions", id, "interrupt"]), { turn_id: turn });
      setProblem(null);
    } catch (failed) {
      setProblem(failed);
      setStopping("");
    }
  };

  const hint = running ? (steer.can ? "composer.running_steer" : "composer.running") : queue.can ? "composer.idle" : "composer.continue";
  return html`<form class="composer" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); submit(false); }}>
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}
    <${Standing} session=${session} canWrite=${canWrite} />
    ${running && session.report.rung === "owned" ? null : html`<${Verbs} session=${session} />`}
    ${canWrite || (running && stop.can) ? html`<div class="composer-row">
    ${canWrite ? html`<textarea ref=${field} rows="1" value=${text} aria-label=${t(hint)} placeholder=${t(hint)} dir="auto" enterkeyhint="enter"
        onInput=${(/** @type {any} */ event) => write(event.target.value)} onKeyDown=${keys}></textarea>` : html`<span class="grow"></span>`}
    ${canWrite && running && steer.can && text.trim() ? html`<button type="button" onClick=${() => submit(true)}>${t("composer.steer")}</button>` : null}
    ${canWrite && (!running || text.trim()) ? html`<button type="submit" class="go" disabled=${!text.trim()} aria-label=${running || queue.can ? undefined : t("composer.continue_send")}>${t(running ? "composer.queue" : "composer.send")}</button>` : null}
    ${running && stop.can ? html`<button type="button" class="stop" disabled=${stopping === turn} onClick=${interrupt}>${t(stopping === turn ? "composer.stopping" : "composer.stop")}</button>` : null}
    </div>` : null}
  </form>`;
}

/** Who holds the session, or why nothing can be written here. @param {{session: any, canWrite: boolean}} props */
function Standing({ session, canWrite }) {
  const holder = session.report.holder;
  if (holder) {
    return html`<p class="standing soft small" role="status">${t("composer.held", { program: holder.program, pid: String(holder.pid) })}${" "}
      <${Ago} at=${holder.since} />.${holder.waits_for ? html` ${t("composer.held_asks")} <${Text} of=${holder.waits_for} />.` : null} ${t("composer.held_next")}</p>`;
  }
  return canWrite ? null : html`<p class="standing soft small" role="status">${t("composer.cannot")} ${reason(ability(session, "queue"))}.</p>`;
}
