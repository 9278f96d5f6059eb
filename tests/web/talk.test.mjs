// A channel's snapshot and its events: everything once, in the order of the numbers.

import assert from "node:assert/strict";
import { test } from "node:test";

import { applyToTalk, placedByNumber, shownIn, talkOf, withOlderMessages } from "../../src/ekiden/web/state/talk.js";

const message = (number, more = {}) => ({ message_id: `msg_${number}`, number, text: `text ${number}`, channel_id: "cha_1", ...more });
const snapshot = (numbers, more = {}) => talkOf({
  channel: { channel_id: "cha_1", name: "build", last_number: numbers.at(-1) ?? 0, unread: 2 },
  page: { messages: numbers.map((number) => message(number)), ...more },
  threads: {}, statuses: {}, leases: {}, members: { members: [{ principal_id: "pri_a", name: "a", acked_to: 1 }] },
});
const numbers = (talk) => talk.messages.map((one) => one.number);

test("whatever the order in which messages come, they stand once and by number", () => {
  const all = [5, 3, 4, 3, 7, 6, 5].map((number) => message(number));
  assert.deepEqual(placedByNumber([], all, false).map((one) => one.number), [3, 4, 5, 6, 7]);
});

test("a message from before the loaded part waits for its page", () => {
  const talk = snapshot([10, 11], { before: "cursor" });
  const edited = applyToTalk(talk, { kind: "message.edited", body: message(4, { text: "new" }) });
  assert.deepEqual(numbers(edited), [10, 11]);
  const older = withOlderMessages(edited, { messages: [message(8), message(9), message(10)], before: "" });
  assert.deepEqual(numbers(older), [8, 9, 10, 11]);
  assert.equal(older.before, "");
});

test("an edit and a deletion replace the message where it stands", () => {
  let talk = snapshot([1, 2, 3]);
  talk = applyToTalk(talk, { kind: "message.edited", body: message(2, { text: "better", edits: 1 }) });
  talk = applyToTalk(talk, { kind: "message.deleted", body: message(3, { state: "deleted", text: "" }) });
  assert.deepEqual(talk.messages.map((one) => one.text), ["text 1", "better", ""]);
});

test("telling an event twice changes nothing more", () => {
  const event = { kind: "message.posted", body: message(4) };
  const once = applyToTalk(snapshot([1, 2, 3]), event);
  assert.deepEqual(applyToTalk(once, event), once);
  assert.equal(once.channel.last_number, 4);
});

test("a thread shows the message that it began with, the channel only what is outside threads", () => {
  const all = [message(1), message(2, { thread_id: "msg_1" }), message(3), message(4, { thread_id: "msg_3" })];
  assert.deepEqual(shownIn(all, "msg_1").map((one) => one.number), [1, 2]);
  assert.deepEqual(shownIn(all, "").map((one) => one.number), [1, 3]);
});

test("receipts move a member's mark and add no message", () => {
  const talk = applyToTalk(snapshot([1, 2]), { kind: "receipt.changed", body: { principal_id: "pri_a", acked_to: 2 } });
  assert.equal(talk.members.get("pri_a").acked_to, 2);
  assert.deepEqual(numbers(talk), [1, 2]);
});

test("a cleared or expired status goes, one that was put back comes", () => {
  const set = (kind, version) => ({ kind: "status.changed", body: { key: "tests.unit", kind, version, value: version } });
  let talk = applyToTalk(snapshot([]), set("set", 1));
  assert.equal(talk.statuses.get("tests.unit").value, 1);
  talk = applyToTalk(talk, set("expired", 2));
  assert.equal(talk.statuses.has("tests.unit"), false);
  assert.equal(applyToTalk(talk, set("reverted", 3)).statuses.get("tests.unit").value, 3);
});

test("a purge takes everything up to its last number", () => {
  assert.deepEqual(numbers(applyToTalk(snapshot([1, 2, 3, 4]), { kind: "channel.purged", body: { first: 1, last: 3 } })), [4]);
});

test("what is of no concern gives back the same object", () => {
  const talk = snapshot([1]);
  assert.equal(applyToTalk(talk, { kind: "turn.changed", body: {} }), talk);
});
