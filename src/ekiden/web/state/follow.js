// The one stream of this page: opened, watched, opened again.
//
// It resumes after the last stored event that was seen. No beat for 2.5 times the beat's length, a page that becomes
// visible again, and a network that comes back all lead to a new stream. What cannot be replayed is told to the
// owner (`onHole`), who reads snapshots anew.

import { Problem } from "../door.js";
import { frameReader } from "./frames.js";
import { BEATS_MISSED_MAX, RECONNECT_FIRST_MS, RECONNECT_MAX_MS } from "./limits.js";

/**
 * @param {{
 *   onEvents: (events: any[]) => void,
 *   onHole: (reason: string) => void,
 *   onState: (state: "opening" | "open" | "waiting") => void,
 *   onEnded: (reason: string) => void,
 *   onOpen: () => void,
 * }} owner
 */
export function follower(owner) {
  let cursor = "";
  /** @type {string[]} */
  let topics = [];
  /** @type {AbortController | null} */
  let current = null;
  let running = false;
  let tries = 0;
  let beatMs = 0;
  let heardAt = 0;
  /** @type {any} */
  let timer = 0;
  /** @type {any} */
  let watch = 0;

  function open() {
    clearTimeout(timer);
    current?.abort();
    if (!running) return;
    const controller = new AbortController();
    current = controller;
    heardAt = performance.now();
    owner.onState("opening");
    read(controller).then(
      () => again(controller, false),
      (error) => again(controller, error instanceof Problem && error.status === 401),
    );
  }

  /** @param {AbortController} controller @param {boolean} refused */
  function again(controller, refused) {
    if (controller !== current || !running) return;
    if (refused) {
      stop();
      owner.onEnded("unauthenticated");
      return;
    }
    owner.onState("waiting");
    const wait = Math.min(RECONNECT_MAX_MS, RECONNECT_FIRST_MS * 2 ** tries) * (0.7 + 0.6 * Math.random());
    tries += 1;
    timer = setTimeout(open, wait);
  }

  /** @param {AbortController} controller */
  async function read(controller) {
    /** @type {Record<string, string>} */
    const headers = { Accept: "text/event-stream" };
    if (cursor) headers["Last-Event-ID"] = cursor;
    const response = await fetch(`/v1/stream?topics=${topics.map(encodeURIComponent).join(",")}`, {
      headers, cache: "no-store", credentials: "same-origin", redirect: "error", signal: controller.signal,
    });
    if (!response.ok || !response.body) throw new Problem({ status: response.status, code: "stream" });
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    const frames = frameReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done || controller !== current) return;
      heardAt = performance.now();
      take(frames.read(decoder.decode(value, { stream: true })));
    }
  }

  /** @param {import("./frames.js").Frame[]} frames */
  function take(frames) {
    const events = [];
    for (const frame of frames) {
      let event;
      try {
        event = JSON.parse(frame.data);
      } catch {
        continue;
      }
      if (event.kind === "stream.hello") {
        beatMs = 1000 * (event.body.beat_s || 10);
        if (!cursor) cursor = event.body.cursor;
        tries = 0;
        owner.onState("open");
        owner.onOpen();
      } else if (event.kind === "stream.gap") {
        cursor = event.body.to;
        owner.onHole("gap");
      } else if (event.kind === "stream.reset") {
        cursor = event.body.cursor;
        owner.onHole("reset");
      } else if (event.kind === "stream.end") {
        const reason = event.body.reason;
        if (reason === "revoked" || reason === "expired") {
          stop();
          owner.onEnded(reason);
          return;
        }
      } else if (event.kind !== "stream.beat") {
        events.push(event);
      }
      if (frame.id) cursor = frame.id;
    }
    if (events.length) owner.onEvents(events);
  }

  function check() {
    if (beatMs && performance.now() - heardAt > beatMs * BEATS_MISSED_MAX) hurry();
  }

  /** Opens at once what waits or has fallen silent. */
  function hurry() {
    tries = 0;
    open();
  }

  function woken() {
    if (document.visibilityState === "hidden") return;
    // A phone that slept may hold a dead socket that still looks open: anything older than one beat is not trusted.
    if (performance.now() - heardAt > Math.max(beatMs, 1000) * 1.2) hurry();
  }

  function stop() {
    running = false;
    clearTimeout(timer);
    clearInterval(watch);
    document.removeEventListener("visibilitychange", woken);
    window.removeEventListener("online", hurry);
    current?.abort();
    current = null;
  }

  return {
    /** @param {string} after cursor of the snapshot @param {string[]} chosen */
    start(after, chosen) {
      stop();
      cursor = after;
      topics = chosen;
      running = true;
      tries = 0;
      document.addEventListener("visibilitychange", woken);
      window.addEventListener("online", hurry);
      watch = setInterval(check, 1000);
      open();
    },
    /**
     * Follows other topics from `after` on: events between it and now may come twice, and change nothing then.
     * @param {string[]} chosen @param {string} after
     */
    retopic(chosen, after) {
      topics = chosen;
      if (after) cursor = after;
      if (running) open();
    },
    hurry,
    stop,
    /** The cursor that a snapshot read from now on cannot be older than. */
    at: () => cursor,
    topics: () => topics,
  };
}
