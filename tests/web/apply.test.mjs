// Snapshot + events = a fresh snapshot, for any order of kinds and any cut of the stream; run by node's own runner.

import assert from "node:assert/strict";
import { test } from "node:test";

import { applyToTeam, applyToView, placed, refreshed, sessionOf, teamOf, viewOf, withOlder } from "../../src/ekiden/web/state/apply.js";
import { frameReader } from "../../src/ekiden/web/state/frames.js";
import { heightBook } from "../../src/ekiden/web/state/heights.js";
import { echoes, rowsOf } from "../../src/ekiden/web/state/rows.js";

/** A small repeatable source of choices. */
function chooser(seed) {
  let state = seed;
  const next = () => {
    state = (state * 1664525 + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  return { next, below: (count) => Math.floor(next() * count), of: (list) => list[Math.floor(next() * list.length)] };
}

const session = (id, changes = {}) => ({
  host_id: "hos_1", host_here: true, host_name: "h", host_seen_at: "", state: changes.state ?? "idle",
  report: { session_id: id, state: "idle", turn_id: "", updated_at: "2026", ...changes },
});
const item = (n, more = {}) => ({ id: `itm_${n}`, kind: "message", role: "assistant", source: { file: "f", line: n }, content: [{ type: "text", text: `${n}` }], ...more });
const plain = (value) => JSON.parse(JSON.stringify(value, (_, inner) => (inner instanceof Map ? [...inner].sort() : inner)));

/** A hub in miniature: the truth that snapshots are taken of, and the events that change it. */
function hub(choose) {
  const truth = { sessions: new Map(), approvals: new Map(), messages: new Map(), items: [], growing: new Map(), hosts: new Map([["hos_1", { host_id: "hos_1", here: true, seen_at: "", report: { name: "h" } }]]) };
  const events = [];
  let made = 0;
  truth.sessions.set("ses_1", session("ses_1"));
  const step = () => {
    made += 1;
    const known = truth.sessions.get("ses_1");
    switch (choose.below(8)) {
      case 0: {
        const next = session("ses_1", { state: choose.of(["idle", "running"]), title: `t${made}`, turn_id: "trn_1" });
        truth.sessions.set("ses_1", next);
        return { kind: "session.reported", body: next };
      }
      case 1: {
        const other = session(`ses_${2 + choose.below(3)}`, { title: `o${made}` });
        truth.sessions.set(other.report.session_id, other);
        return { kind: "session.reported", body: other };
      }
      case 2: {
        const id = `apr_${choose.below(4)}`;
        const state = truth.approvals.get(id)?.state === "open" ? "answered" : "open";
        const approval = { approval_id: id, session_id: "ses_1", state, asked_at: `${made}` };
        truth.approvals.set(id, approval);
        return { kind: state === "open" ? "approval.asked" : "approval.answered", body: approval };
      }
      case 3: {
        const message = { message_id: `msg_${choose.below(3)}`, session_id: "ses_1", text: "x", state: choose.of(["stored", "placed", "seen"]) };
        truth.messages.set(message.message_id, message);
        return { kind: "message.changed", body: message };
      }
      case 4: {
        const growing = [...truth.growing.keys()];
        const whole = growing.length ? item(Number(choose.of(growing).slice(4)), { content: [] }) : item(1000 + made);
        truth.growing.delete(whole.id);
        truth.items = placed(truth.items, [whole], false);
        return { kind: "items.added", body: { session_id: "ses_1", items: [whole] } };
      }
      case 5: {
        const id = truth.growing.size && choose.next() < 0.7 ? choose.of([...truth.growing.keys()]) : `itm_${5000 + made}`;
        const had = truth.growing.get(id) ?? { session_id: "ses_1", turn_id: "trn_1", item_id: id, kind: "message", count: 0, text: "" };
        const piece = { session_id: "ses_1", turn_id: "trn_1", item_id: id, kind: "message", index: had.count, text: `${made} ` };
        truth.growing.set(id, { ...had, count: had.count + 1, text: had.text + piece.text });
        return { kind: "item.grew", body: piece };
      }
      case 6: {
        const known = choose.of([...truth.sessions.values()]);
        const counts = { approvals_open: choose.below(3), messages_waiting: choose.below(3) };
        truth.sessions.set(known.report.session_id, { ...known, ...counts });
        return { kind: "session.counted", body: { session_id: known.report.session_id, ...counts } };
      }
      default: {
        const turn = { session_id: "ses_1", turn_id: "trn_1", state: choose.of(["running", "completed", "interrupted", "failed", "lost"]) };
        truth.sessions.set("ses_1", applyToTeam({ sessions: new Map([["ses_1", known]]), approvals: new Map(), hosts: new Map(), held: new Map() }, { kind: "turn.changed", body: turn }).sessions.get("ses_1"));
        return { kind: "turn.changed", body: turn };
      }
    }
  };
  const view = () => viewOf({ session: truth.sessions.get("ses_1"), approvals: [...truth.approvals.values()], messages: [...truth.messages.values()], growing: [...truth.growing.values()] }, { items: truth.items, before: "" });
  const team = () => teamOf({
    inbox: { entries: [...truth.approvals.values()].map((approval) => ({ kind: "approval", approval })), running: [] },
    sessions: [...truth.sessions.values()], hosts: [...truth.hosts.values()],
  });
  return { events, step, view, team };
}

const shape = (view) => {
  const growing = [...view.growing].map(([id, one]) => [id, one.count, one.text]);
  return { ...plain({ ...view, growing: [] }), growing: growing.sort() };
};

test("a snapshot and the events after it give the later snapshot, wherever the snapshot was taken", () => {
  for (let seed = 1; seed <= 60; seed += 1) {
    const choose = chooser(seed);
    const truth = hub(choose);
    const before = choose.below(40);
    for (let n = 0; n < before; n += 1) truth.step();
    let view = truth.view();
    let team = truth.team();
    for (let n = 0; n < 60; n += 1) {
      const event = truth.step();
      if (sessionOf(event) === "ses_1") view = applyToView(view, event);
      team = applyToTeam(team, event);
    }
    assert.deepEqual(shape(view), shape(truth.view()), `seed ${seed}`);
    assert.deepEqual(plain(team), plain(truth.team()), `seed ${seed}`);
  }
});

test("stored events that come twice change nothing the second time", () => {
  const choose = chooser(7);
  const truth = hub(choose);
  for (let n = 0; n < 30; n += 1) truth.step();
  let view = truth.view();
  const told = [];
  for (let n = 0; n < 60; n += 1) {
    const event = truth.step();
    if (sessionOf(event) !== "ses_1") continue;
    told.push(event);
    view = applyToView(view, event);
  }
  const once = shape(view);
  for (const event of told) view = applyToView(view, event);
  assert.deepEqual(shape(view).items, once.items);
  assert.equal(view.missed, false, "pieces that are known or whole are no hole");
  assert.deepEqual(shape(view).growing, once.growing);
});

test("applying never changes the state that it was given", () => {
  const choose = chooser(3);
  const truth = hub(choose);
  let view = truth.view();
  for (let n = 0; n < 80; n += 1) {
    const event = truth.step();
    const copy = plain(view);
    const next = applyToView(view, event);
    assert.deepEqual(plain(view), copy);
    view = next;
  }
});

test("a piece out of turn is skipped when it is known and noticed when one is missing", () => {
  const piece = (index, text) => ({ kind: "item.grew", body: { session_id: "ses_1", item_id: "itm_g", kind: "message", index, text } });
  let view = viewOf({ session: session("ses_1"), growing: [{ item_id: "itm_g", kind: "message", count: 2, text: "ab" }] }, null);
  view = applyToView(view, piece(1, "b"));
  assert.equal(view.growing.get("itm_g").text, "ab");
  view = applyToView(view, piece(2, "c"));
  assert.equal(view.growing.get("itm_g").text, "abc");
  assert.equal(view.missed, false);
  assert.equal(applyToView(view, piece(4, "e")).missed, true);
});

test("a running turn is lost while its host is away and runs again when it is back", () => {
  let team = teamOf({ inbox: {}, sessions: [session("ses_1", { state: "running" }), session("ses_2")], hosts: [] });
  const away = (here) => ({ kind: "host.changed", body: { host_id: "hos_1", here, seen_at: "", report: { name: "h" } } });
  team = applyToTeam(team, away(false));
  assert.deepEqual([...team.sessions.values()].map((one) => one.state), ["lost", "idle"]);
  team = applyToTeam(team, away(true));
  assert.deepEqual([...team.sessions.values()].map((one) => one.state), ["running", "idle"]);
});

test("an item of the part that is not loaded does not land at the end", () => {
  const items = [item(50), item(51)];
  assert.deepEqual(placed(items, [item(3)], true).map((one) => one.id), ["itm_50", "itm_51"]);
  assert.deepEqual(placed(items, [item(52)], true).map((one) => one.id), ["itm_50", "itm_51", "itm_52"]);
});

test("older pages come before, without doubles; a refreshed page keeps what it touches and drops what it does not", () => {
  const view = viewOf({ session: session("ses_1") }, { items: [item(5), item(6)], before: "c5" });
  const older = withOlder(view, { items: [item(3), item(4), item(5)], before: "c3" });
  assert.deepEqual(older.items.map((one) => one.id), ["itm_3", "itm_4", "itm_5", "itm_6"]);
  const near = refreshed(older, viewOf({ session: session("ses_1") }, { items: [item(6), item(7)], before: "c6" }));
  assert.deepEqual(near.items.map((one) => one.id), ["itm_3", "itm_4", "itm_5", "itm_6", "itm_7"]);
  assert.equal(near.before, "c3");
  const holed = refreshed({ ...older, items: [item(3), item(6), item(8)] }, viewOf({ session: session("ses_1") }, { items: [item(5), item(6), item(7)], before: "c5" }));
  assert.deepEqual(holed.items.map((one) => one.id), ["itm_3", "itm_5", "itm_6", "itm_7", "itm_8"]);
  const far = refreshed(older, viewOf({ session: session("ses_1") }, { items: [item(90)], before: "c90" }));
  assert.deepEqual(far.items.map((one) => one.id), ["itm_90"]);
});

test("any cut of the stream's text gives the same frames", () => {
  const text = 'id: a.1\ndata: {"kind":"x"}\n\n: a comment\r\ndata: one\r\ndata: two\r\n\r\nretry: 3\n\ndata: last\n\n';
  const whole = frameReader().read(text);
  assert.equal(whole.length, 3);
  assert.deepEqual(whole[1], { id: "", data: "one\ntwo" });
  for (let size = 1; size < 9; size += 1) {
    const reader = frameReader();
    const frames = [];
    for (let at = 0; at < text.length; at += size) frames.push(...reader.read(text.slice(at, at + size)));
    assert.deepEqual(frames, whole, `pieces of ${size}`);
  }
});

test("every item is in exactly one row or thread, and runs are folded", () => {
  const choose = chooser(11);
  const items = Array.from({ length: 400 }, (_, n) => item(n, choose.of([{}, { injected: true }, { abandoned: true }, { kind: "unknown" }, { thread: "a" }, { thread: "b" }, {}])));
  items[10] = { ...items[10], thread: "", kind: "tool", abandoned: false, injected: false, tool: { name: "Task", state: "completed", thread: "a" } };
  const { rows, threads } = rowsOf(items);
  const shown = [...rows.filter((row) => row.kind !== "thread").flatMap((row) => row.items), ...[...threads.values()].flat()];
  assert.deepEqual(shown.map((one) => one.id).sort(), items.map((one) => one.id).sort());
  assert.equal(new Set(rows.map((row) => row.key)).size, rows.length);
  assert.deepEqual(rows.filter((row) => row.kind === "thread").map((row) => row.items[0].thread), ["b"]);
  for (let at = 1; at < rows.length; at += 1) assert.ok(rows[at].kind === "item" || rows[at].kind !== rows[at - 1].kind);
});

test("a snapshot brings the receipts of what the turn that is shown has seen, and of no other turn", () => {
  const session = { report: { session_id: "ses_1", turn_id: "trn_2" } };
  const seen = [["m1", "trn_1"], ["m2", "trn_2"], ["m3", ""]].map(([id, turn]) => ({ message_id: id, turn_id: turn, state: "seen", text: id }));
  const messages = [{ message_id: "m4", state: "stored", text: "m4" }];
  assert.deepEqual([...viewOf({ session, messages, seen }, null).messages.keys()], ["m2", "m4"]);
});

test("a message of ours is found in the conversation once", () => {
  const items = [item(1, { role: "user", content: [{ type: "text", text: "go" }] }), item(2), item(3, { role: "user", content: [{ type: "text", text: "go\n" }] })];
  const messages = new Map([["m1", { message_id: "m1", text: "go", state: "seen" }], ["m2", { message_id: "m2", text: "go", state: "stored" }]]);
  assert.deepEqual([...echoes(items, messages, 50)].map(([id, message]) => [id, message.message_id]), [["itm_3", "m1"]]);
});

test("heights: offsets are the sums of what was measured, in any order, and keys keep theirs when rows come before", () => {
  const choose = chooser(5);
  const book = heightBook(50);
  const keys = Array.from({ length: 1000 }, (_, n) => `k${n}`);
  const heights = new Map();
  book.setKeys(keys);
  for (let n = 0; n < 3000; n += 1) {
    const key = choose.of(keys);
    const height = 10 + choose.below(300);
    heights.set(key, height);
    book.measure(key, height);
  }
  const all = ["older1", "older2", ...keys];
  book.setKeys(all);
  for (const key of all) if (!heights.has(key)) book.measure(key, heights.set(key, 33).get(key));
  let sum = 0;
  all.forEach((key, index) => {
    assert.ok(Math.abs(book.offset(index) - sum) < 1e-6);
    assert.equal(book.at(sum + 0.5), index);
    sum += heights.get(key);
  });
  assert.ok(Math.abs(book.total() - sum) < 1e-6);
});
