// The page's client of the door: requests that answer with JSON or throw a Problem.
//
// Every write carries a Command-Id, so that sending it again after a lost answer does nothing twice.

import { newId } from "./state/ids.js";
import { REQUEST_WAIT_MS } from "./state/limits.js";

/** What the door refused, or why it could not be reached (`code` is then `offline`). */
export class Problem extends Error {
  /** @param {{status?: number, code?: string, title?: string, detail?: string, hint?: string,
   *   retry_helps?: boolean, details?: Record<string, unknown>}} told */
  constructor(told) {
    super(told.detail || told.title || told.code || "");
    this.status = told.status ?? 0;
    this.code = told.code || "internal";
    this.detail = told.detail || told.title || "";
    this.hint = told.hint || "";
    this.retryHelps = Boolean(told.retry_helps);
    this.details = told.details ?? {};
  }
}

const PROXY_REACHES_NOBODY = [502, 503, 504];

/** Called with each 401, so that the page can ask to be signed in again. */
let onSignedOut = () => {};

/** @param {() => void} listener */
export function whenSignedOut(listener) {
  onSignedOut = listener;
}

/**
 * One request.
 * @param {string} method
 * @param {string} path below the door, with its query
 * @param {{body?: unknown, commandId?: string, open?: boolean, signal?: AbortSignal}} [options] `open`: a 401 is an
 *   answer here and not the end of being signed in
 * @returns {Promise<any>} the answer's JSON, or null where there is none
 * @throws {Problem}
 */
export async function ask(method, path, options = {}) {
  const waited = AbortSignal.timeout(REQUEST_WAIT_MS);
  /** @type {RequestInit} */
  const request = {
    method,
    headers: { Accept: "application/json" },
    cache: "no-store",
    credentials: "same-origin",
    redirect: "error",
    signal: options.signal ? AbortSignal.any([options.signal, waited]) : waited,
  };
  if (method !== "GET") {
    request.headers = {
      ...request.headers,
      "Content-Type": "application/json",
      "Command-Id": options.commandId ?? newId("cmd"),
    };
    request.body = JSON.stringify(options.body ?? {});
  }
  let response;
  let text;
  try {
    response = await fetch(path, request);
    text = await response.text();
  } catch (error) {
    throw new Problem({ code: options.signal?.aborted ? "aborted" : "offline", retry_helps: true });
  }
  const told = readJson(text);
  if (response.ok) return told;
  if (response.status === 401 && !options.open) onSignedOut();
  if (told && typeof told === "object") throw new Problem({ ...told, status: response.status });
  // Not the hub's words but a proxy's that reaches no hub: as if there were no connection.
  const away = PROXY_REACHES_NOBODY.includes(response.status);
  throw new Problem({ code: away ? "offline" : "internal", retry_helps: away, status: response.status });
}

/** @param {string} path @param {{signal?: AbortSignal, open?: boolean}} [options] */
export const get = (path, options) => ask("GET", path, options);

/** @param {string} path @param {unknown} body @param {{commandId?: string, open?: boolean}} [options] */
export const post = (path, body, options) => ask("POST", path, { ...options, body });

/** @param {string} path */
export const remove = (path) => ask("DELETE", path);

/**
 * A path from parts and a query; empty values are left out.
 * @param {string[]} parts
 * @param {Record<string, string | number | undefined | null>} [query]
 */
export function place(parts, query = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") search.set(name, String(value));
  }
  const tail = search.toString();
  return `/v1/${parts.map(encodeURIComponent).join("/")}${tail ? `?${tail}` : ""}`;
}

/** Whether an address leads to this computer only. @param {string} url */
export const onlyHere = (url) => /^https?:\/\/(localhost|127\.|\[::1\])/.test(url);

/** @param {string} text */
function readJson(text) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}
