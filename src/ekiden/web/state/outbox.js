// Messages that a person typed: shown at once, sent when the door answers, never sent twice.
//
// The message carries its own id, which is also the command's id: sending it again after a lost answer adds nothing.

import { post, place } from "../door.js";
import { signal } from "../lib.js";
import { newId } from "./ids.js";
import { dropOutbox, outboxEntries, putOutbox } from "./keep.js";
import { whereTo } from "./channels.js";
import { me, posted, told, whenOnline } from "./live.js";
import { prepared } from "./member.js";

/**
 * @typedef {object} Waiting
 * @property {string} message_id
 * @property {string} session_id
 * @property {string} text
 * @property {string} [channel] the name of a channel, for messages of the relay
 * @property {Record<string, unknown>} [body]
 * @property {boolean} steer
 * @property {boolean} continueFirst
 * @property {number} typed_at
 * @property {"sending" | "waiting" | "refused"} state
 * @property {any} [problem]
 */

export const outbox = signal(/** @type {Waiting[]} */ ([]));

/** @param {string} id @param {Partial<Waiting>} change */
function change(id, change) {
  outbox.value = outbox.value.map((entry) => (entry.message_id === id ? { ...entry, ...change } : entry));
}

/** @param {string} id */
export function discard(id) {
  outbox.value = outbox.value.filter((entry) => entry.message_id !== id);
  return dropOutbox(id);
}

/**
 * A message to a channel.
 * @param {string} channel its name @param {Record<string, unknown>} body what is posted beside the id
 */
export async function sendTo(channel, body) {
  const entry = {
    message_id: newId("msg"), session_id: "", channel, body, text: String(body.text ?? ""), steer: false, continueFirst: false,
    typed_at: Date.now(),
  };
  outbox.value = [...outbox.value, { ...entry, state: "sending" }];
  await putOutbox(entry);
  await deliver({ ...entry, state: "sending" });
}

/**
 * @param {string} sessionId @param {string} text
 * @param {{steer?: boolean, continueFirst?: boolean}} [how]
 */
export async function send(sessionId, text, how = {}) {
  const entry = {
    message_id: newId("msg"), session_id: sessionId, text, steer: Boolean(how.steer),
    continueFirst: Boolean(how.continueFirst), typed_at: Date.now(),
  };
  outbox.value = [...outbox.value, { ...entry, state: "sending" }];
  await putOutbox(entry);
  await deliver({ ...entry, state: "sending" });
}

/**
 * What is posted, signed and sealed where it must be. The same bytes are sent again after a lost answer.
 * @param {Waiting} entry
 */
async function spoken(entry) {
  const body = { ...entry.body, message_id: entry.message_id };
  const known = said.get(entry.message_id);
  if (known) return known;
  const { channel, members } = await whereTo(/** @type {string} */ (entry.channel));
  const told = await prepared(me.value, channel, members, body);
  said.set(entry.message_id, told);
  return told;
}

/** What was prepared of each message that is under way. */
const said = new Map();

/** @type {Set<string>} */
const underWay = new Set();

/** @param {Waiting} entry */
async function deliver(entry) {
  const id = entry.message_id;
  if (underWay.has(id)) return;
  underWay.add(id);
  change(id, { state: "sending", problem: undefined });
  try {
    if (entry.channel) {
      posted(await post(place(["channels", entry.channel, "messages"]), await spoken(entry), { commandId: id }), entry.channel);
      said.delete(id);
      await discard(id);
      return;
    }
    if (entry.continueFirst) {
      await post(place(["sessions", entry.session_id, "continue"]), {}, { commandId: `${id}.continue` });
    }
    const message = await post(
      place(["sessions", entry.session_id, "messages"]),
      { text: entry.text, message_id: id, steer: entry.steer },
      { commandId: id },
    );
    told("message.stored", message);
    await discard(id);
  } catch (error) {
    const waits = error.code === "offline" || error.code === "aborted" || (error.retryHelps && error.status >= 500);
    if (error.code === "stale_epoch") said.delete(id);
    change(id, { state: waits ? "waiting" : "refused", problem: error });
  } finally {
    underWay.delete(id);
  }
}

/** @param {string} id */
export function again(id) {
  const entry = outbox.value.find((waiting) => waiting.message_id === id);
  if (entry) deliver(entry);
}

/** Sends what waits, oldest first. */
export async function sendWaiting() {
  for (const entry of outbox.value) if (entry.state === "waiting") await deliver(entry);
}

/** Takes up what an earlier visit left, and sends whenever the stream opens. */
export async function beginOutbox() {
  const entries = await outboxEntries();
  const known = new Set(outbox.value.map((entry) => entry.message_id));
  const left = entries.filter((entry) => !known.has(entry.message_id));
  outbox.value = [...left.map((entry) => ({ ...entry, state: "waiting" })), ...outbox.value];
  whenOnline(sendWaiting);
}
