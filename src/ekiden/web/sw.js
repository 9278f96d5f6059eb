// Keeps the page's own files for the time without a network. What the door answers is never kept here: the page keeps
// its last seen state itself, bounded, and deletes it when the person signs out.
//
// The network goes first, so that a new Ekiden is never mixed with an old page; the kept files are for when it fails.

const CACHE = "ekiden-shell-1";
const NETWORK_WAIT_MS = 3000;

const FILES = [
  "app.js", "door.js", "early.js", "icon.svg", "lib.js", "manifest.webmanifest",
  "parts/approval.js", "parts/badge.js", "parts/composer.js", "parts/dialog.js", "parts/diff.js", "parts/folds.js",
  "parts/item.js", "parts/keys.js", "parts/link.js", "parts/markdown.js", "parts/output.js", "parts/places.js", "parts/qr.js",
  "parts/questions.js", "parts/receipt.js", "parts/states.js", "parts/text.js", "parts/tool.js", "parts/virtual.js", "parts/visible.js", "parts/when.js",
  "screens/devices.js", "screens/inbox.js", "screens/new.js", "screens/raw.js", "screens/session.js", "screens/sessions.js",
  "screens/settings.js", "screens/sign_in.js", "screens/truth.js", "screens/verbs.js",
  "state/apply.js", "state/follow.js", "state/frames.js", "state/heights.js", "state/ids.js", "state/inbox.js", "state/keep.js",
  "state/limits.js", "state/live.js", "state/outbox.js", "state/route.js", "state/rows.js", "state/settings.js", "state/signing.js",
  "style/base.css", "style/parts.css", "style/screens.css", "style/tokens.css",
  "vendor/htm-3.1.1/htm.mjs", "vendor/marked-18.2.1/marked.mjs", "vendor/preact-11.2.0/hooks.mjs", "vendor/preact-11.2.0/preact.mjs",
  "vendor/qrcode-generator-2.0.4/qrcode.mjs", "vendor/signals-2.11.4/signals.mjs", "vendor/signals-core-1.14.5/signals-core.mjs",
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
  if (url.pathname === "/" || url.pathname.startsWith("/assets/")) event.respondWith(answer(event.request, url));
});

/** The page and the files that it names, wherever the hub serves them. */
async function keepShell() {
  const cache = await caches.open(CACHE);
  const page = await fetch("/", { cache: "no-cache" });
  if (!page.ok) throw new Error("the page is not there");
  const base = /src="([^"]*\/)app\.js"/.exec(await page.clone().text())?.[1] ?? "/assets/";
  await cache.put("/", page);
  await cache.addAll(FILES.map((file) => new Request(base + file, { cache: "no-cache" })));
  await self.skipWaiting();
}

/** @param {Request} request @param {URL} url */
async function answer(request, url) {
  const cache = await caches.open(CACHE);
  const key = url.pathname === "/" ? "/" : request;
  try {
    const fresh = await fetch(request, { signal: AbortSignal.timeout(NETWORK_WAIT_MS) });
    if (fresh.ok) await cache.put(key, fresh.clone());
    if (fresh.ok || fresh.status < 500) return fresh;
  } catch {
    // The kept one is next.
  }
  return (await cache.match(key)) ?? Response.error();
}
