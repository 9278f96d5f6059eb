// Keeps the page's own files for the time without a network. What the door answers is never kept here: the page keeps
// its last seen state itself, bounded, and deletes it when the person signs out.
//
// The network goes first, so that a new Ekiden is never mixed with an old page; the kept files are for when it fails.

const CACHE = "ekiden-shell-1";
const NETWORK_WAIT_MS = 3000;

const FILES = [
  "app.js", "door.js", "early.js", "icon.svg", "lib.js", "manifest.webmanifest",
  "parts/approval.js", "parts/asking.js", "parts/badge.js", "parts/compare.js", "parts/composer.js", "parts/dialog.js",
  "parts/diff.js", "parts/folds.js", "parts/from_host.js", "parts/item.js", "parts/keys.js", "parts/link.js", "parts/markdown.js",
  "parts/message.js", "parts/output.js", "parts/places.js", "parts/post_composer.js", "parts/qr.js",
  "parts/questions.js", "parts/receipt.js", "parts/rights.js", "parts/states.js", "parts/talk_words.js",
  "parts/text.js", "parts/tool.js", "parts/virtual.js", "parts/visible.js", "parts/when.js",
  "screens/audit.js", "screens/channel.js", "screens/channel_admin.js", "screens/channel_state.js", "screens/channels.js", "screens/devices.js",
  "screens/inbox.js", "screens/invites.js", "screens/keys.js", "screens/new.js", "screens/raw.js", "screens/session.js",
  "screens/sessions.js", "screens/settings.js", "screens/sign_in.js", "screens/truth.js", "screens/verbs.js",
  "state/apply.js", "state/channels.js", "state/crypto.js", "state/directory.js", "state/follow.js", "state/frames.js",
  "state/heights.js", "state/ids.js", "state/inbox.js", "state/keep.js", "state/keeping.js", "state/limits.js", "state/live.js",
  "state/meeting.js", "state/member.js", "state/mentions.js", "state/outbox.js", "state/pins.js", "state/rights.js",
  "state/route.js", "state/rows.js", "state/settings.js", "state/signing.js", "state/talk.js", "state/threads.js",
  "state/wrapping.js",
  "style/base.css", "style/parts.css", "style/screens.css", "style/tokens.css",
  "vendor/htm-3.1.1/htm.mjs", "vendor/marked-18.2.1/marked.mjs", "vendor/preact-11.2.0/hooks.mjs",
  "vendor/preact-11.2.0/preact.mjs", "vendor/qrcode-generator-2.0.4/qrcode.mjs", "vendor/signals-2.11.4/signals.mjs",
  "vendor/signals-core-1.14.5/signals-core.mjs",
  "words/en.js", "words/index.js", "words/zh.js",
];

self.addEventListener("install", (event) => event.waitUntil(keepShell()));

self.addEventListener("activate", (event) => event.waitUntil((async () => {
  for (const name of await caches.keys()) if (name !== CACHE) await caches.delete(name);
  await self.clients.claim();
})()));

self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (event.request.method !== "GET" || url.origin !== self.location.origin) return;
  if (url.pathname === "/" || url.pathname.startsWith("/assets/")) event.respondWith(answer(event, url));
});

/** Keeps the page and every file below the place that it names; files of an older page go. */
async function keepShell() {
  const page = await fetch("/", { cache: "no-cache" });
  if (!page.ok) throw new Error("the page is not there");
  await renew(page);
  await self.skipWaiting();
}

/** @param {Response} page a fresh page */
async function renew(page) {
  const cache = await caches.open(CACHE);
  const base = /src="([^"]*\/)app\.js"/.exec(await page.clone().text())?.[1] ?? "/assets/";
  const wanted = new Set(FILES.map((file) => new URL(base + file, self.location.origin).href));
  const kept = new Set((await cache.keys()).map((request) => request.url));
  await cache.addAll([...wanted].filter((url) => !kept.has(url)).map((url) => new Request(url, { cache: "no-cache" })));
  await cache.put("/", page);
  for (const url of kept) if (!wanted.has(url) && new URL(url).pathname !== "/") await cache.delete(url);
}

/** @param {FetchEvent} event @param {URL} url */
async function answer(event, url) {
  const cache = await caches.open(CACHE);
  const page = url.pathname === "/";
  try {
    const fresh = await fetch(event.request, { signal: AbortSignal.timeout(NETWORK_WAIT_MS) });
    if (fresh.ok && page) event.waitUntil(renew(fresh.clone()).catch(() => {}));
    else if (fresh.ok && (await cache.match(event.request))) await cache.put(event.request, fresh.clone());
    if (fresh.status < 500) return fresh;
  } catch {
    // The kept one is next.
  }
  return (await cache.match(page ? "/" : event.request)) ?? Response.error();
}
