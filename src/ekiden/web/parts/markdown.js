// Markdown as nodes: marked's lexer splits the text, and only what is listed here is drawn. Raw HTML is text as typed,
// images are named and never fetched, links say where they lead.

import { html } from "../lib.js";
import { Marked } from "../vendor/marked-18.2.1/marked.mjs";
import { MARKDOWN_CHARS_MAX, MARKDOWN_DEPTH_MAX } from "../state/limits.js";
import { Link, leadsTo } from "./link.js";
import { textNodes } from "./text.js";

// A line of dashes below a paragraph is a line: nobody who writes in a session means a heading by it.
const reader = new Marked({ tokenizer: { lheading: () => undefined } });

/**
 * @param {{of: string}} props the Markdown source
 */
export function Markdown({ of }) {
  const source = of ?? "";
  if (source.length > MARKDOWN_CHARS_MAX) return html`<div class="plain">${textNodes(source)}</div>`;
  let tokens;
  try {
    tokens = reader.lexer(source);
  } catch {
    return html`<div class="plain">${textNodes(source)}</div>`;
  }
  return html`<div class="prose" dir="auto">${blocks(tokens, 0)}</div>`;
}

/** @param {any[]} tokens @param {number} depth */
const blocks = (tokens, depth) => (tokens ?? []).map((token) => block(token, depth + 1));

/** @param {any} token @param {number} depth @returns {any} */
function block(token, depth) {
  if (depth > MARKDOWN_DEPTH_MAX) return html`<p>${textNodes(token.raw)}</p>`;
  switch (token.type) {
    case "space":
      return null;
    case "hr":
      return html`<hr />`;
    case "heading":
      return html`<p class="heading h${Math.min(token.depth, 4)}" role="heading" aria-level=${Math.min(6, token.depth + 2)}>${inline(token.tokens, depth)}</p>`;
    case "paragraph":
      return html`<p>${inline(token.tokens, depth)}</p>`;
    case "code":
      return html`<pre class="code" tabindex="0">${textNodes(token.text)}</pre>`;
    case "blockquote":
      return html`<blockquote>${blocks(token.tokens, depth)}</blockquote>`;
    case "list":
      return list(token, depth);
    case "table":
      return table(token, depth);
    case "text":
      return html`<p>${token.tokens ? inline(token.tokens, depth) : textNodes(token.raw)}</p>`;
    default:
      return html`<p class="plain">${textNodes(token.raw)}</p>`;
  }
}

/** @param {any} token @param {number} depth */
function list(token, depth) {
  const entries = token.items.map((/** @type {any} */ item) => html`<li>
    ${item.tokens.map((/** @type {any} */ part) => {
      if (part.type === "checkbox") return html`<span class="check">${part.checked ? "☑ " : "☐ "}</span>`;
      return part.type === "text" && !item.loose
        ? html`<span>${part.tokens ? inline(part.tokens, depth) : textNodes(part.raw)}</span>`
        : block(part, depth + 1);
    })}
  </li>`);
  return token.ordered
    ? html`<ol start=${Number.isSafeInteger(token.start) ? token.start : 1}>${entries}</ol>`
    : html`<ul>${entries}</ul>`;
}

/** @param {any} token @param {number} depth */
function table(token, depth) {
  const cell = (/** @type {any} */ of) => inline(of.tokens, depth);
  return html`<div class="table" tabindex="0"><table>
    <thead><tr>${token.header.map((/** @type {any} */ of) => html`<th scope="col">${cell(of)}</th>`)}</tr></thead>
    <tbody>${token.rows.map((/** @type {any[]} */ row) => html`<tr>${row.map((of) => html`<td>${cell(of)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/** @param {any[]} tokens @param {number} depth @returns {any[]} */
function inline(tokens, depth) {
  if (depth > MARKDOWN_DEPTH_MAX) return (tokens ?? []).map((token) => textNodes(token.raw));
  return (tokens ?? []).map((token) => {
    switch (token.type) {
      case "text":
        return token.tokens ? inline(token.tokens, depth + 1) : textNodes(token.text);
      case "escape":
        return textNodes(token.text);
      case "strong":
        return html`<strong>${inline(token.tokens, depth + 1)}</strong>`;
      case "em":
        return html`<em>${inline(token.tokens, depth + 1)}</em>`;
      case "del":
        return html`<del>${inline(token.tokens, depth + 1)}</del>`;
      case "codespan":
        return html`<code>${textNodes(token.text)}</code>`;
      case "br":
        return html`<br />`;
      case "link":
        return leadsTo(token.href)
          ? html`<${Link} to=${token.href} plain=${token.text === token.href}>${inline(token.tokens, depth + 1)}<//>`
          : textNodes(token.raw);
      default:
        return textNodes(token.raw); // images, HTML and whatever comes later: as typed
    }
  });
}
