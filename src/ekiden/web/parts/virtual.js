// A list of any length that draws only what is near the window.
//
// It holds its place: while it is at the bottom it follows what grows there; otherwise the row at the top of the window
// stays where it is, whatever is put before it or changes its height.

import { Component, createRef, html } from "../lib.js";
import { heightBook } from "../state/heights.js";

const OVERSCAN_PX = 800;
const BOTTOM_PX = 48;
const NEAR_TOP_PX = 2400;

/**
 * Props: `rows` (each with a `key`), `draw(row)`, `onNearTop()`, `onBottom(is)`, `label`, `handle` (a ref that gets
 * `{toBottom, toKey}`), `version` (rows are drawn anew when it changes).
 */
export class VirtualList extends Component {
  constructor(/** @type {any} */ props) {
    super(props);
    this.scroller = createRef();
    this.book = heightBook(props.estimate ?? 90);
    this.follow = true;
    this.anchor = { key: "", delta: 0 };
    this.lastTop = 0;
    this.state = { first: 0, last: 0 };
    this.keysOf = null;
    this.watched = new Map();
    this.sizes = new ResizeObserver((entries) => this.measure(entries));
    this.takeKeys(props.rows);
    const last = props.rows.length;
    this.state = { first: Math.max(0, last - 20), last };
    if (props.handle) props.handle.current = { toBottom: () => this.toBottom(), toKey: (/** @type {string} */ key) => this.toKey(key) };
  }

  takeKeys(/** @type {any[]} */ rows) {
    if (this.keysOf === rows) return;
    this.keysOf = rows;
    this.book.setKeys(rows.map((row) => row.key));
  }

  componentDidMount() {
    this.sizes.observe(this.scroller.current);
    this.settle();
  }

  componentDidUpdate() {
    this.settle();
  }

  componentWillUnmount() {
    this.sizes.disconnect();
  }

  componentWillReceiveProps(/** @type {any} */ next) {
    this.takeKeys(next.rows);
  }

  /** The element of a row came or went. */
  watch(/** @type {string} */ key, /** @type {HTMLElement | null} */ element) {
    const had = this.watched.get(key);
    if (had === element) return;
    if (had) this.sizes.unobserve(had);
    if (element) {
      element.dataset.key = key;
      this.watched.set(key, element);
      this.sizes.observe(element);
    } else {
      this.watched.delete(key);
    }
  }

  measure(/** @type {ResizeObserverEntry[]} */ entries) {
    let changed = false;
    for (const entry of entries) {
      const element = /** @type {HTMLElement} */ (entry.target);
      if (element === this.scroller.current) changed = true;
      else if (element.isConnected) {
        changed = this.book.measure(element.dataset.key ?? "", element.getBoundingClientRect().height) || changed;
      }
    }
    if (changed) this.settle();
  }

  /** Puts the window back to where it belongs and draws what it shows. */
  settle() {
    const scroller = this.scroller.current;
    if (!scroller) return;
    for (const [key, element] of this.watched) this.book.measure(key, element.getBoundingClientRect().height);
    const total = this.book.total();
    let top = scroller.scrollTop;
    if (this.follow) {
      top = Math.max(0, total - scroller.clientHeight);
    } else {
      const index = this.book.indexOf(this.anchor.key);
      if (index !== undefined) top = this.book.offset(index) + this.anchor.delta;
    }
    this.pad(total);
    if (Math.abs(scroller.scrollTop - top) > 0.5) scroller.scrollTop = top;
    this.lastTop = scroller.scrollTop;
    this.show(this.follow ? top : scroller.scrollTop);
  }

  /** Keeps the list's own height right before it is scrolled, though the drawing comes after. */
  pad(/** @type {number} */ total) {
    const inner = this.scroller.current?.firstElementChild;
    if (inner) inner.style.height = `${total}px`;
    const drawn = inner?.firstElementChild;
    if (drawn) drawn.style.transform = `translateY(${this.book.offset(this.state.first)}px)`;
  }

  show(/** @type {number} */ top) {
    const height = this.scroller.current.clientHeight;
    const first = this.book.at(top - OVERSCAN_PX);
    const last = Math.min(this.book.count, this.book.at(top + height + OVERSCAN_PX) + 1);
    if (first !== this.state.first || last !== this.state.last) this.setState({ first, last });
    if (top < NEAR_TOP_PX) this.props.onNearTop?.();
  }

  scrolled() {
    const scroller = this.scroller.current;
    if (!scroller) return; // a last scroll event of a list that is gone
    const top = scroller.scrollTop;
    const below = scroller.scrollHeight - top - scroller.clientHeight;
    const was = this.follow;
    if (top < this.lastTop - 1 && below > BOTTOM_PX) this.follow = false;
    else if (below <= BOTTOM_PX) this.follow = true;
    this.lastTop = top;
    const index = this.book.at(top);
    this.anchor = { key: this.book.keyAt(index) ?? "", delta: top - this.book.offset(index) };
    if (was !== this.follow) this.props.onBottom?.(this.follow);
    this.show(top);
  }

  toBottom() {
    this.follow = true;
    this.props.onBottom?.(true);
    this.settle();
  }

  toKey(/** @type {string} */ key) {
    const index = this.book.indexOf(key);
    if (index === undefined) return false;
    this.follow = false;
    this.anchor = { key, delta: -72 };
    this.props.onBottom?.(false);
    this.settle();
    return true;
  }

  render(/** @type {any} */ { rows, draw, label, version }, /** @type {any} */ { first, last }) {
    this.takeKeys(rows);
    const from = Math.min(first, Math.max(0, rows.length - 1));
    const shown = rows.slice(from, Math.min(rows.length, Math.max(last, from + 1)));
    const total = this.book.total();
    return html`<div class="virtual" ref=${this.scroller} onScroll=${() => this.scrolled()} tabindex="0" role="feed" aria-label=${label}>
      <div class="virtual-all" style=${{ height: `${total}px` }}>
        <div class="virtual-drawn" style=${{ transform: `translateY(${this.book.offset(from)}px)` }}>
          ${shown.map((/** @type {any} */ row) => html`<${Row} key=${row.key} row=${row} draw=${draw} list=${this} version=${version} />`)}
        </div>
      </div>
    </div>`;
  }
}

class Row extends Component {
  constructor(/** @type {any} */ props) {
    super(props);
    this.keep = (/** @type {HTMLElement | null} */ element) => this.props.list.watch(this.props.row.key, element);
  }

  shouldComponentUpdate(/** @type {any} */ next) {
    return next.row !== this.props.row || next.version !== this.props.version || next.draw !== this.props.draw;
  }

  render(/** @type {any} */ { row, draw }) {
    return html`<div class="virtual-row" ref=${this.keep} role="article" data-row tabindex="-1">${draw(row)}</div>`;
  }
}
