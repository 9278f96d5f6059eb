// A tool call: what was asked, how it ended, what it said and what it changed.

import { html, useEffect } from "../lib.js";
import { openId, view } from "../state/live.js";
import { joinedThread, readOf, readThread } from "../state/threads.js";
import { duration, known, t } from "../words/index.js";
import { Diff } from "./diff.js";
import { isOpen, toggle } from "./folds.js";
import { Output } from "./output.js";
import { Failed } from "./states.js";
import { Text, textNodes } from "./text.js";
import { Since } from "./when.js";

const SIGN = Object.freeze({
  completed: ["✓", "yes"], failed: ["✗", "bad"], denied: ["–", "no"], unrecorded: ["?", "no"],
  pending: ["◌", "no"], in_progress: ["◌", "no"],
});

/** @param {{item: any, threads: Map<string, any[]>, drawItem: (item: any) => any}} props */
export function ToolItem({ item, threads, drawItem }) {
  const tool = item.tool ?? { name: "", state: "unrecorded" };
  const growing = view.value?.growing.get(item.id);
  const running = tool.state === "in_progress" || tool.state === "pending";
  const thread = tool.thread ? threads.get(tool.thread) ?? [] : [];
  const output = growing?.text ?? tool.output ?? "";
  const fold = `tool:${item.id}`;
  const diffs = tool.diffs ?? [];
  const startsOpen = running || diffs.length > 0 || (tool.state === "failed" && output.length > 0);
  const open = isOpen(fold, startsOpen);
  const long = (tool.command ?? "").includes("\n") || (tool.command ?? "").length > 90;
  const elsewhere = tool.cwd && tool.cwd !== view.value?.session.report.cwd;
  const body = output || diffs.length || tool.thread || long || elsewhere || (hasInput(tool) && !tool.command) || tool.images?.length;
  const questions = Array.isArray(tool.input?.questions) ? tool.input.questions : [];
  const [sign, look] = SIGN[tool.state] ?? SIGN.unrecorded;
  return html`<div class="tool" data-state=${tool.state}>
    <button type="button" class="head" aria-expanded=${body ? open : undefined} disabled=${!body} onClick=${() => toggle(fold, startsOpen)}>
      <span class=${look} aria-hidden="true">${sign}</span><span class="sr">${t(`tool.${known(`tool.${tool.state}`) ? tool.state : "unrecorded"}`)}</span>
      <span class=${`grow cut ${tool.command ? "mono" : ""}`}><${Text} of=${headline(tool)} /></span>
      <${Outcome} tool=${tool} diffs=${diffs} running=${running} entries=${thread.length} />
    </button>
    ${open && body ? html`<div class="tool-body">
      ${long ? html`<pre class="command" tabindex="0">${textNodes(tool.command)}</pre>` : null}
      ${elsewhere ? html`<p class="where soft small">${t("approval.in")} <span class="mono"><${Text} of=${tool.cwd} /></span></p>` : null}
      ${diffs.map((/** @type {any} */ diff, /** @type {number} */ index) => html`<div>
        ${diffs.length > 1 || !headline(tool).includes(diff.path) ? html`<p class="where mono small"><${Text} of=${diff.path} /></p>` : null}
        <${Diff} unified=${diff.unified} fold=${`diff:${item.id}:${index}`} named /></div>`)}
      ${questions.length ? html`<${Asked} questions=${questions} />` : null}
      ${!diffs.length && !questions.length && hasInput(tool) && !tool.command && !saidAbove(tool) ? html`<${Output} text=${pretty(tool.input)} fold=${`input:${item.id}`} itemId=${item.id} />` : null}
      ${output ? html`<${Output} text=${output} fold=${`output:${item.id}`} itemId=${item.id} growing=${running} cut=${cutOf(item, "tool.output", "output")} />` : null}
      ${(tool.images ?? []).map((/** @type {any} */ image) => html`<p class="where soft small">${t("block.image", { type: image.media_type })}</p>`)}
      ${tool.thread ? html`<${Thread} name=${tool.thread} items=${thread} drawItem=${drawItem} />` : null}
    </div>` : null}
  </div>`;
}

/** What the agent asked the person, and the answers that it offered. @param {{questions: any[]}} props */
const Asked = ({ questions }) => html`<div class="asked-list">${questions.map((one) => html`<p><${Text} of=${String(one?.question ?? "")} /></p>
  <ul class="soft">${(Array.isArray(one?.options) ? one.options : []).map((/** @type {any} */ option) => html`<li><${Text} of=${String(option?.label ?? option)} />${option?.description
    ? html`: <${Text} of=${String(option.description)} />` : null}</li>`)}</ul>`)}</div>`;

/** @param {any} item @param {...string} fields */
export const cutOf = (item, ...fields) => (item.cut ?? []).find((/** @type {any} */ cut) => fields.includes(cut.field));

/** @param {any} tool */
const headline = (tool) => (tool.command || tool.title || firstQuestion(tool) || tool.diffs?.[0]?.path || tool.name || "").replace(/\s+/g, " ").slice(0, 400);

/** @param {any} tool */
const firstQuestion = (tool) => (Array.isArray(tool.input?.questions) ? String(tool.input.questions[0]?.question ?? "") : "");

/** Whether the head says all of the input already. @param {any} tool */
const saidAbove = (tool) => {
  const values = Object.values(Object(tool.input));
  return values.length === 1 && values[0] === headline(tool);
};

/** @param {any} tool */
const hasInput = (tool) => tool.input !== undefined && tool.input !== null && Object.keys(Object(tool.input)).length > 0;

/** @param {any} input */
export const pretty = (input) => (typeof input === "string" ? input : JSON.stringify(input, null, 2));

/** @param {{tool: any, diffs: any[], running: boolean, entries: number}} props */
function Outcome({ tool, diffs, running, entries }) {
  if (running) {
    return html`<span class="pill run">${t("tool.in_progress")}${tool.started_at ? html` <${Since} since=${tool.started_at} />` : null}</span>`;
  }
  const added = diffs.reduce((sum, diff) => sum + (diff.added ?? 0), 0);
  const removed = diffs.reduce((sum, diff) => sum + (diff.removed ?? 0), 0);
  const parts = [];
  if (diffs.length) parts.push(`+${added} −${removed}`);
  if (tool.exit_code) parts.push(t("tool.exit", { code: String(tool.exit_code) }));
  if (tool.state === "denied" || tool.state === "unrecorded") parts.push(t(`tool.${tool.state}`));
  if (tool.state === "failed" && !tool.exit_code) parts.push(t("tool.failed"));
  if (tool.duration_ms) parts.push(duration(tool.duration_ms));
  if (entries) parts.push(t("thread.count", { count: entries }));
  return parts.length ? html`<small class="soft nowrap">${parts.join(" · ")}</small>` : null;
}

/** What a sub-agent did, folded; read when it is opened. @param {{name: string, items: any[], drawItem: (item: any) => any}} props */
export function Thread({ name, items, drawItem }) {
  const fold = `thread:${name}`;
  const open = isOpen(fold);
  const session = openId.value;
  const { items: read, before, state, problem } = readOf(session, name);
  const shown = joinedThread(read, items);
  useEffect(() => {
    if (open && state === "unread") readThread(session, name);
  }, [open, state, session, name]);
  return html`<div class="thread">
    <button type="button" class="quiet more" aria-expanded=${open} onClick=${() => toggle(fold)}>${t(open ? "thread.close" : "thread.open")}</button>
    ${open ? html`<div class="nested">
      ${problem ? html`<${Failed} problem=${problem} retry=${() => readThread(session, name)} inline />`
        : state === "reading" ? html`<p class="soft small" role="status">${t("loading.older")}</p>`
        : before ? html`<button type="button" class="quiet more" onClick=${() => readThread(session, name)}>${t("thread.earlier")}</button>` : null}
      ${shown.map((item) => html`<div key=${item.id}>${drawItem(item)}</div>`)}
    </div>` : null}
  </div>`;
}
