// What is true of a session: its level and rung with the evidence, and what can and cannot be done here.

import { html } from "../lib.js";
import { team } from "../state/live.js";
import { asks } from "../state/inbox.js";
import { address } from "../state/route.js";
import { known, number, size, t } from "../words/index.js";
import { Abilities, Bars, levelWord, titleOf } from "../parts/badge.js";
import { fromHost, noticeOf } from "../parts/from_host.js";
import { RawLines } from "./raw.js";
import { Text } from "../parts/text.js";
import { Ago } from "../parts/when.js";

/** @param {{session: any, bare?: boolean}} props */
export function Truth({ session, bare }) {
  const { report } = session;
  const holder = report.holder;
  const waits = asks.value.get(report.session_id) ?? 0;
  const parent = report.parent_session_id ? team.value.sessions.get(report.parent_session_id) : null;
  const rung = report.rung ?? "file";
  return html`<div class="truth">
    ${bare ? html`<${Bars} session=${session} />` : html`<div class="row"><${Bars} session=${session} silent /><h2 class="title">${levelWord(session)}</h2></div>`}
    <p class="soft small">${t(known(`rung.${rung}`) ? `rung.${rung}` : "rung.file")}</p>
    ${report.evidence && !holder ? html`<p class="soft small">${t("truth.evidence")} <${Text} of=${fromHost(report.evidence)} /></p>` : null}
    ${report.proof_at ? html`<p class="soft small">${t("truth.seen")} <${Ago} at=${report.proof_at} />.</p>` : null}
    ${holder ? html`<p class="soft small">${t("truth.holder", { program: holder.program, pid: String(holder.pid) })} <${Ago} at=${holder.since} />.${holder.evidence ? html` ${t("truth.evidence")} <${Text} of=${fromHost(holder.evidence)} />` : null}</p>` : null}
    ${session.host_here ? null : html`<p class="soft small">${t("truth.away", { host: session.host_name })} <${Ago} at=${session.host_seen_at} />.</p>`}
    <h2>${t("truth.can")}</h2>
    <${Abilities} session=${session} />
    <h2>${t("truth.waits")}</h2>
    <p class="soft small">${waits ? t("inbox.count", { count: waits }) : t("truth.nothing")}</p>
    <h2>${t("truth.facts")}</h2>
    <table class="facts"><tbody>
      <${Fact} word="truth.host" of=${session.host_name} />
      <${Fact} word="truth.folder" of=${report.cwd} mono />
      <${Fact} word="truth.branch" of=${report.git_branch} />
      <${Fact} word="truth.model" of=${report.model} />
      <${Fact} word="truth.version" of=${report.vendor_version} />
      <${Fact} word="truth.messages" of=${report.messages ? number(report.messages) : ""} />
      <${Fact} word="truth.size" of=${report.size ? size(report.size) : ""} />
      <${Fact} word="truth.odd" of=${(report.unknown_rows ?? 0) + (report.unreadable_rows ?? 0) ? number((report.unknown_rows ?? 0) + (report.unreadable_rows ?? 0)) : ""} />
      <${Fact} word="truth.file" of=${report.file} mono />
      ${parent ? html`<tr><td class="soft">${t(report.origin === "quote" ? "truth.quote_of" : "truth.fork_of")}</td><td><a href=${address("session", report.parent_session_id)}><${Text} of=${titleOf(parent)} /></a></td></tr>` : null}
    </tbody></table>
    ${report.drift && report.drift !== "none" ? html`<p class="say-note">${t("truth.drift")}</p>` : null}
    ${(report.notices ?? []).map((/** @type {string} */ word) => html`<p class="say-note"><${Text} of=${noticeOf(word)} /></p>`)}
    <${RawLines} id=${report.session_id} />
  </div>`;
}

/** @param {{word: string, of: string, mono?: boolean}} props */
const Fact = ({ word, of, mono }) => (of ? html`<tr><td class="soft">${t(word)}</td><td class=${mono ? "mono" : ""}><${Text} of=${of} /></td></tr>` : null);
