// Server-sent events out of chunks of text: pure, so that any cut of the bytes gives the same frames.

import { STREAM_FRAME_CHARS_MAX } from "./limits.js";

/** @typedef {{id: string, data: string}} Frame */

/**
 * A reader that keeps the unfinished line between chunks. Follows the parsing rules of the HTML standard for `id`
 * and `data`; comments and other fields are borne.
 */
export function frameReader() {
  let rest = "";
  let id = "";
  /** @type {string[]} */
  let data = [];
  return {
    /**
     * @param {string} chunk
     * @returns {Frame[]} the frames that are whole now
     * @throws {RangeError} if a single frame grows past its bound
     */
    read(chunk) {
      /** @type {Frame[]} */
      const frames = [];
      rest += chunk;
      if (rest.length > STREAM_FRAME_CHARS_MAX) throw new RangeError("frame");
      // A carriage return at the very end may be half of a line end: it waits for the next chunk.
      const lines = rest.split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line === "") {
          if (data.length) frames.push({ id, data: data.join("\n") });
          id = "";
          data = [];
          continue;
        }
        const colon = line.indexOf(":");
        if (colon === 0) continue;
        const field = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        if (field === "data") data.push(value);
        else if (field === "id" && !value.includes("\0")) id = value;
      }
      return frames;
    },
  };
}
