// The page: which screen is shown, and how the columns lie. Starts what runs for as long as the page is open.

import { html, render, useEffect, useErrorBoundary, useState } from "./lib.js";
import { DialogPlace, closeDialog } from "./parts/dialog.js";
import { watchKeys } from "./parts/keys.js";
import { Freshness, Places } from "./parts/places.js";
import { Failed, Loading } from "./parts/states.js";
import { AuditScreen } from "./screens/audit.js";
import { ChannelScreen } from "./screens/channel.js";
import { ChannelsScreen } from "./screens/channels.js";
import { DevicesScreen } from "./screens/devices.js";
import { InboxScreen } from "./screens/inbox.js";
import { InvitesScreen } from "./screens/invites.js";
import { NewScreen } from "./screens/new.js";
import { SessionList, SessionsScreen } from "./screens/sessions.js";
import { SessionScreen } from "./screens/session.js";
import { SettingsScreen } from "./screens/settings.js";
import { SignInScreen, deviceName } from "./screens/sign_in.js";
import { begin, openSession, signedIn, teamProblem } from "./state/live.js";
import { waiting } from "./state/inbox.js";
import { beginOutbox } from "./state/outbox.js";
import { address, route, watchRoute } from "./state/route.js";
import { beginSigning, resumeSigning, takeCode } from "./state/signing.js";
import { beginClocks, t } from "./words/index.js";

const SCREENS = Object.freeze({
  inbox: InboxScreen, sessions: SessionsScreen, session: SessionScreen, new: NewScreen, devices: DevicesScreen,
  settings: SettingsScreen, channels: ChannelsScreen, channel: ChannelScreen, audit: AuditScreen,
  invites: InvitesScreen,
});

/** True from 800 px on: the list stands beside the work. */
function useWide() {
  const [wide, setWide] = useState(() => matchMedia("(min-width: 800px)").matches);
  useEffect(() => {
    const query = matchMedia("(min-width: 800px)");
    const change = () => setWide(query.matches);
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, []);
  return wide;
}

function Page() {
  const wide = useWide();
  const [broken, mend] = useErrorBoundary();
  const now = route.value;
  const count = waiting.value.length;
  useEffect(closeDialog, [now.screen, now.id]);
  useEffect(() => {
    openSession(now.screen === "session" ? now.id : "");
  }, [now.screen, now.id, signedIn.value]);
  useEffect(() => {
    document.title = count ? `(${count}) Ekiden` : "Ekiden";
  }, [count]);
  if (broken) return html`<${Failed} problem=${{ code: "page", detail: String(broken?.message ?? broken) }} retry=${mend} />`;
  if (signedIn.value === "out") return html`<${SignInScreen} />`;
  if (signedIn.value === "unknown") {
    return teamProblem.value ? html`<${Failed} problem=${teamProblem.value} retry=${begin} />` : html`<${Loading} text=${t("loading.page")} />`;
  }
  const Screen = SCREENS[now.screen];
  return html`<div class=${`frame ${wide ? "wide" : "narrow"} at-${now.screen}`}>
    ${wide ? html`<aside class="left" aria-label=${t("places.sessions")}>
      <header><h1 class="grow"><a class="plain-link" href=${address("inbox")}>Ekiden</a></h1>
        <a class="quiet-link small" href=${address("settings")}>${t("places.settings")}</a></header>
      <${Places} wide />
      <${SessionList} />
    </aside>` : null}
    <main key=${now.screen} tabindex="-1">
      <${Freshness} />
      <${Screen} wide=${wide} key=${now.id} />
    </main>
    ${!wide && now.screen !== "session" && now.screen !== "channel" ? html`<${Places} />` : null}
    <${DialogPlace} />
    <div class="sr" role="alert">${count ? t("inbox.count", { count }) : ""}</div>
  </div>`;
}

const code = takeCode();
watchRoute();
watchKeys();
beginClocks();
beginOutbox();
if (code) {
  signedIn.value = "out";
  beginSigning(code, deviceName());
} else if (resumeSigning()) {
  signedIn.value = "out";
} else {
  begin();
}
render(html`<${Page} />`, /** @type {HTMLElement} */ (document.getElementById("page")));

if ("serviceWorker" in navigator && window.isSecureContext) {
  navigator.serviceWorker.register("/sw.js").catch(() => {
    // Without it the page works as long as the hub answers.
  });
}
