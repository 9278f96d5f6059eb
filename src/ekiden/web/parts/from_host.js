// Sentences that a computer says of its sessions, in the page's own words where they are known.
//
// A computer speaks English only. What it says in fixed sentences is recognised here; anything else is shown as it came.

import { dayAndTime, known, t } from "../words/index.js";

/** @type {readonly [RegExp, string][]} */
const SAID = Object.freeze([
  [/^No live process is known to write this session\.$/, "said.no_writer"],
  [/^The file is growing; its writer is not known\.$/, "said.growing"],
  [/^A turn has begun and not ended, and nobody was seen writing since (?<at>\S+)\.$/, "said.open_turn"],
  [/^Its last turn has no recorded end; no process that could write it is alive\.$/, "said.no_end"],
  [/^The session's file is gone; this is the copy that was made of it\.$/, "said.copy"],
  [/^Ekiden runs (?<program>.+) for this session \(pid (?<pid>\d+)\)\.$/, "said.runs"],
  [/^its registry file (?<file>\S+)$/, "said.registry"],
  [/^its command line$/, "said.command_line"],
  [/^it has the session file open$/, "said.open_file"],
  [/^the whole conversation$/, "said.whole"],
  [/^(?<count>\d+) items of (?<who>.+)’s session, as quoted text$/, "said.quoted"],
  [/^(?<count>\d+) earlier items that did not fit$/, "said.left_out"],
  [/^what came before the part that was read$/, "said.before"],
  [/^(?<count>\d+) thoughts of the other agent$/, "said.thoughts"],
  [/^(?<count>\d+) images$/, "said.images"],
  [/^the rest of (?<count>\d+) tool outputs$/, "said.outputs"],
  [/^Always allow: (?<what>.+)$/s, "said.always"],
  [/^Always allow in this session: (?<what>.+)$/s, "said.always_here"],
  [/^Allow, and do not ask again for: (?<what>.+)$/s, "said.not_again"],
  [/^Allow this host from now on$/, "said.this_host"],
  [/^Deny, and stop the turn$/, "said.deny_stop"],
  [/^Always allow$/, "approval.always"],
  [/^(?:Always allow|Allow) in this session$/, "said.session"],
]);

/**
 * @param {string} text what a computer said
 * @returns {string} the same in the person's language, or as it came
 */
export function fromHost(text) {
  for (const [form, key] of SAID) {
    const found = form.exec(text ?? "");
    if (!found) continue;
    const { at, count, ...values } = found.groups ?? {};
    if (at) values.at = dayAndTime(Date.parse(at));
    return t(key, count ? { ...values, count: Number(count) } : values);
  }
  return text ?? "";
}

/**
 * A notice: a stable word, sometimes with more after a colon.
 * @param {string} notice
 */
export function noticeOf(notice) {
  const [word, more = ""] = notice.split(/: (.*)/s, 2);
  return known(`notice.${word}`) ? `${t(`notice.${word}`)}${more ? ` (${more})` : ""}` : notice;
}
