// Heights of many rows, with sums by halving: finding a row by its offset, and a row's offset, take O(log n).
//
// A row that was never measured counts as the mean of those that were. Heights are known by key, so that rows put
// before others keep theirs.

/** @param {number} estimate px for a row before any was measured */
export function heightBook(estimate) {
  /** @type {Map<string, number>} */
  const measured = new Map();
  let sum = 0;
  /** @type {string[]} */
  let keys = [];
  /** @type {Map<string, number>} */
  let places = new Map();
  let tree = new Float64Array(1);
  let guess = estimate;

  const heightOf = (/** @type {string} */ key) => measured.get(key) ?? guess;

  function build() {
    guess = measured.size ? sum / measured.size : estimate;
    tree = new Float64Array(keys.length + 1);
    for (let index = 1; index <= keys.length; index += 1) {
      tree[index] += heightOf(keys[index - 1]);
      const parent = index + (index & -index);
      if (parent <= keys.length) tree[parent] += tree[index];
    }
  }

  return {
    /** @param {string[]} next the rows' keys, top to bottom */
    setKeys(next) {
      keys = next;
      places = new Map(next.map((key, index) => [key, index]));
      build();
    },
    /** @param {string} key @param {number} height @returns {boolean} whether it changed */
    measure(key, height) {
      const index = places.get(key);
      const had = measured.get(key);
      if (index === undefined || had === height) return false;
      const change = height - (had ?? guess);
      sum += height - (had ?? 0);
      measured.set(key, height);
      for (let at = index + 1; at < tree.length; at += at & -at) tree[at] += change;
      return true;
    },
    /** The offset of the row's top. @param {number} index */
    offset(index) {
      let total = 0;
      for (let at = Math.min(index, keys.length); at > 0; at -= at & -at) total += tree[at];
      return total;
    },
    /** The row that covers an offset. @param {number} offset */
    at(offset) {
      let index = 0;
      let left = Math.max(0, offset);
      let step = 1;
      while (step * 2 < tree.length) step *= 2;
      for (; step > 0; step >>= 1) {
        if (index + step < tree.length && tree[index + step] <= left) {
          index += step;
          left -= tree[index];
        }
      }
      return Math.min(index, Math.max(0, keys.length - 1));
    },
    /** @param {string} key @returns {number | undefined} */
    indexOf: (key) => places.get(key),
    keyAt: (/** @type {number} */ index) => keys[index],
    get count() {
      return keys.length;
    },
    total() {
      return this.offset(keys.length);
    },
  };
}
