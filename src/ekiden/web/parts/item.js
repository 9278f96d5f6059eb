// One row of a session: an item, or a folded run of items.

import { html } from "../lib.js";
import { RawLine } from "../screens/raw.js";
import { openId, view } from "../state/live.js";
import { textOf } from "../state/rows.js";
import { known, size, t, timeOfDay } from "../words/index.js";
import { TYPED_CHARS_FOLDED } from "../state/limits.js";
import { Dialog, showDialog } from "./dialog.js";
import { isOpen, toggle } from "./folds.js";
import { Markdown } from "./markdown.js";
import { Whole } from "./output.js";
import { Receipt } from "./receipt.js";
import { Text, textNodes } from "./text.js";
import { Thread, ToolItem, cutOf } from "./tool.js";

/**
 * @param {{row: import("../state/rows.js").Row, threads: Map<string, any[]>, echo: Map<string, any>}} props
 */
export function RowView({ row, threads, echo }) {
  const drawItem = (/** @type {any} */ item) => html`<${ItemView} item=${item} threads=${threads} message=${echo.get(item.id)} />`;
  switch (row.kind) {
    case "item":
      return drawItem(row.items[0]);
    case "thread":
      return html`<${Thread} name=${row.items[0].thread} items=${row.items} drawItem=${drawItem} />`;
    default:
      return html`<${Folded} row=${row} drawItem=${drawItem} />`;
  }
}

/** A run of injected, abandoned or unreadable items. @param {{row: any, drawItem: (item: any) => any}} props */
function Folded({ row, drawItem }) {
  const open = isOpen(row.key);
  return html`<div class=${`folded ${row.kind}`}>
    <button type="button" class="note-button" aria-expanded=${open} onClick=${() => toggle(row.key)}>${t(`fold.${row.kind}`, { count: row.items.length })}</button>
    ${open ? html`<div class="nested">${row.items.map((/** @type {any} */ item) => html`<div key=${item.id}>${drawItem(item)}</div>`)}</div>` : null}
  </div>`;
}

/** @param {{item: any, threads: Map<string, any[]>, message?: any}} props */
function ItemView({ item, threads, message }) {
  const drawItem = (/** @type {any} */ inner) => html`<${ItemView} item=${inner} threads=${threads} />`;
  switch (item.kind) {
    case "message":
      return html`<${Message} item=${item} message=${message} />`;
    case "thought":
      return html`<${Thought} id=${item.id} text=${textOf(item)} />`;
    case "tool":
      return html`<${ToolItem} item=${item} threads=${threads} drawItem=${drawItem} />`;
    case "plan":
      return html`<${Plan} entries=${item.plan ?? []} />`;
    case "compaction":
      return html`<${Compaction} item=${item} />`;
    case "notice":
      return html`<p class="say-note">${noteWords(item)}</p>`;
    default:
      return html`<${Odd} item=${item} />`;
  }
}

/** @param {any} item */
function noteWords(item) {
  const text = textOf(item);
  if (!known(`note.${item.note}`)) return textNodes(text || item.note || t("note.unsaid"));
  const said = text && !/^\[?(?:request )?interrupted\b/i.test(text);
  return html`${t(`note.${item.note}`)}${said ? html` <${Text} of=${text} />` : null}`;
}

/** @param {{item: any, message?: any}} props */
function Message({ item, message }) {
  const mine = item.role === "user" && !item.injected;
  const cut = cutOf(item, "content", "text", "content.0.text", "content[0].text") ?? (item.cut ?? [])[0];
  return html`<div class=${mine ? "me-row" : ""}>
    <div class=${mine ? "me" : "say"}>
      <span class="sr">${t(mine ? "item.you" : item.injected ? "item.program" : "item.agent")}</span>
      ${(item.content ?? []).map((/** @type {any} */ block, /** @type {number} */ index) => html`<${Block} block=${block} mine=${mine} injected=${item.injected} fold=${`typed:${item.id}:${index}`} />`)}
      ${cut ? html`<${Whole} cut=${cut} itemId=${item.id} />` : null}
      <${Marks} item=${item} />
    </div>
    ${message ? html`<${Receipt} message=${message} />` : mine && item.at ? html`<small class="soft at">${timeOfDay(Date.parse(item.at))}</small>` : null}
  </div>`;
}

/** What is true of an item beside its words. @param {{item: any}} props */
function Marks({ item }) {
  const words = [];
  if (item.interrupted) words.push(t("item.interrupted"));
  if (item.not_in_model_history) words.push(t("item.not_in_model_history"));
  if (item.provisional) words.push(t("item.provisional"));
  return words.length ? html`<p class="say-note">${words.join(" ")}</p>` : null;
}

/** What a person typed: as it was typed, unless it has code in fences; folded when it is long. @param {{id: string, text: string}} props */
function Typed({ id, text }) {
  const whole = text.replace(/^\n+|\s+$/g, "");
  const long = whole.length > TYPED_CHARS_FOLDED * 1.5;
  const open = !long || isOpen(id);
  const shown = open ? whole : `${whole.slice(0, TYPED_CHARS_FOLDED)}…`;
  return html`${/^ {0,3}(?:\x60{3}|~{3})/m.test(shown) ? html`<${Markdown} of=${shown} />` : html`<div class="plain" dir="auto">${textNodes(shown)}</div>`}
    ${long ? html`<button type="button" class="quiet more" aria-expanded=${open} onClick=${() => toggle(id)}>${t(open ? "fold.less" : "fold.more")}</button>` : null}`;
}

/** @param {{block: any, mine: boolean, injected?: boolean, fold: string}} props */
function Block({ block, mine, injected, fold }) {
  switch (block.type) {
    case "text":
      if (injected) return html`<div class="plain soft small" dir="auto">${textNodes(block.text.trim())}</div>`;
      return mine ? html`<${Typed} id=${fold} text=${block.text} />` : html`<${Markdown} of=${block.text} />`;
    case "image":
      return html`<p class="soft small">${t("block.image", { type: block.media_type })} (${size(block.size ?? 0)})</p>`;
    case "reference":
      return html`<p class="soft small">${t("block.reference")} <span class="mono"><${Text} of=${block.name || block.uri} /></span></p>`;
    default:
      return null;
  }
}

/** @param {{id: string, text: string, growing?: boolean}} props */
function Thought({ id, text, growing }) {
  const fold = `thought:${id}`;
  const open = isOpen(fold);
  if (!text) return html`<p class="say-note">${t("item.thought_sealed")}</p>`;
  return html`<div class="folded">
    <button type="button" class="note-button" aria-expanded=${open} onClick=${() => toggle(fold)}>
      ${growing ? t("item.thinking") : t("item.thought")}
      ${open ? null : html`<span class="cut peek"><${Text} of=${growing ? text.slice(-160) : text.slice(0, 160)} /></span>`}</button>
    ${open ? html`<div class="nested soft"><${Markdown} of=${text} /></div>` : null}
  </div>`;
}

/** @param {{entries: any[]}} props */
function Plan({ entries }) {
  return html`<div class="card plan"><p class="title">${t("item.plan")}</p>
    <ul class="abilities">${entries.map((entry) => html`<li data-state=${entry.state ?? "pending"}>
      <span class=${entry.state === "completed" ? "yes" : "no"} aria-hidden="true">${entry.state === "completed" ? "✓" : entry.state === "in_progress" ? "◌" : "·"}</span>
      <span><span class="sr">${t(`plan.${entry.state ?? "pending"}`)} </span><${Text} of=${entry.text} /></span></li>`)}</ul></div>`;
}

/** @param {{item: any}} props */
function Compaction({ item }) {
  const fold = `compaction:${item.id}`;
  const text = textOf(item);
  return html`<div class="folded compaction">
    <button type="button" class="note-button" disabled=${!text} aria-expanded=${text ? isOpen(fold) : undefined} onClick=${() => toggle(fold)}>${t("item.compaction")}</button>
    ${isOpen(fold) ? html`<div class="nested"><${Markdown} of=${text} /></div>` : null}
  </div>`;
}

/** A line that could not be read, as it is. @param {{item: any}} props */
function Odd({ item }) {
  const where = item.source?.line ? t("item.line", { line: String(item.source.line) }) : "";
  const raw = () => showDialog(() => html`<${Dialog} title=${where}><${RawLine} id=${openId.value} line=${item.source.line} /><//>`);
  return html`<div class="odd-item"><small class="soft">${t(item.kind === "unknown" ? "item.unknown" : "item.unreadable")} ${where}</small>
    ${textOf(item) || item.note ? html`<pre class="code" tabindex="0">${textNodes(textOf(item) || item.note)}</pre>` : null}
    ${item.source?.line ? html`<button type="button" class="quiet more" onClick=${raw}>${t("item.raw")}</button>` : null}</div>`;
}

/** An item that is still growing. @param {{id: string}} props */
export function GrowingView({ id }) {
  const growing = view.value?.growing.get(id);
  if (!growing) return null;
  const running = view.value?.session.state === "running" || view.value?.session.state === "waiting";
  switch (growing.kind) {
    case "thought":
      return html`<${Thought} id=${id} text=${growing.text} growing />`;
    case "tool":
      return html`<div class="tool"><div class="tool-body"><pre class="tail">${textNodes(growing.text.slice(-8000))}</pre></div></div>`;
    default:
      return html`<div class=${`say ${running ? "growing" : ""}`}><span class="sr">${t("item.agent")}</span>
        ${growing.truncated ? html`<p class="say-note">${t("item.growing_cut")}</p>` : null}
        <${Markdown} of=${growing.text} />${view.value?.session.state === "running" ? html`<span class="caret" aria-hidden="true"></span>` : null}</div>`;
  }
}
