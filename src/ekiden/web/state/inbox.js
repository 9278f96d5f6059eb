// What waits for the person: approvals, pairings, lost turns and sessions that ask at their own terminal.

import { computed } from "../lib.js";
import { mentions } from "./channels.js";
import { pairings, team } from "./live.js";

/**
 * @param {import("./apply.js").Team} now @param {any[]} asking open pairings @param {Map<string, any>} [named] what mentions the person
 * @returns {{kind: "approval" | "pairing" | "lost" | "held" | "mention", id: string, at: string, session?: any, approval?: any, pairing?: any,
 *   mention?: any, detail?: string}[]}
 *   what waits, the newest approval first; decided approvals stand where they stood
 */
export function entriesOf(now, asking, named = new Map()) {
  const entries = [];
  for (const approval of now.approvals.values()) {
    const session = now.sessions.get(approval.session_id);
    entries.push({ kind: "approval", id: approval.approval_id, at: approval.asked_at ?? "", approval, session });
  }
  for (const pairing of asking) entries.push({ kind: "pairing", id: pairing.pairing_id, at: pairing.claimed_at ?? "", pairing });
  for (const [id, mention] of named) entries.push({ kind: "mention", id, at: mention.message.at ?? "", mention });
  for (const session of now.sessions.values()) {
    const id = session.report.session_id;
    const waits = session.report.holder?.waits_for;
    if (session.state === "lost") {
      entries.push({ kind: "lost", id, at: session.report.proof_at || session.report.updated_at || "", session });
    } else if (waits || now.held.has(id)) {
      const detail = waits || now.held.get(id).detail;
      entries.push({ kind: "held", id, at: now.held.get(id)?.at || session.report.updated_at || "", session, detail });
    }
  }
  const order = { approval: 0, pairing: 0, mention: 1, held: 2, lost: 3 };
  return entries.sort((one, other) => order[one.kind] - order[other.kind] || other.at.localeCompare(one.at));
}

export const entries = computed(() => entriesOf(team.value, pairings.value, mentions.value));

/** A mention waits until it was acked, answered, declined or has expired. @param {any} delivery */
export const isOpen = (delivery) => ["stored", "offered", "surfaced"].includes(delivery?.state ?? "stored");

/** Those that wait for an answer of this person. */
export const waiting = computed(() =>
  entries.value.filter((entry) => entry.kind !== "lost" && (entry.kind !== "mention" || isOpen(entry.mention.delivery)) && (entry.kind !== "approval" || (entry.approval.state ?? "open") === "open")));

export const running = computed(() =>
  newestFirst([...team.value.sessions.values()].filter((session) => session.state === "running" || session.state === "waiting")));

/** How many open approvals each session has. */
export const asks = computed(() => {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const approval of team.value.approvals.values()) {
    if ((approval.state ?? "open") === "open") counts.set(approval.session_id, (counts.get(approval.session_id) ?? 0) + 1);
  }
  return counts;
});

/** @param {any[]} sessions */
export const newestFirst = (sessions) =>
  sessions.sort((one, other) => (other.report.updated_at ?? "").localeCompare(one.report.updated_at ?? ""));
