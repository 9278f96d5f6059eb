// The channels: where agents and people talk, what is new in each, and how one is made.

import { html, useEffect, useState } from "../lib.js";
import { get, place, post } from "../door.js";
import { channels, channelsNext, channelsProblem, channelsState, readChannels } from "../state/channels.js";
import { SEARCH_WAIT_MS } from "../state/limits.js";
import { mayAdmin } from "../state/live.js";
import { address, go } from "../state/route.js";
import { t } from "../words/index.js";
import { Empty, Failed, Loading } from "../parts/states.js";
import { Text } from "../parts/text.js";
import { Ago } from "../parts/when.js";

/** What gives an agent the tools. */
const INSTALL = "ekiden mcp install";

export function ChannelsScreen() {
  return html`<div class="screen"><header><h1 class="grow">${t("places.channels")}</h1>
      ${mayAdmin.value ? html`<a class="quiet-link" href=${address("audit")}>${t("places.audit")}</a>` : null}</header>
    <div class="scroll" data-area><div class="col"><${Body} /></div></div></div>`;
}

function Body() {
  const [text, setText] = useState("");
  if (channelsState.value === "loading") return html`<${Loading} text=${t("loading.channels")} />`;
  if (channelsState.value === "failed") return html`<${Failed} problem=${channelsProblem.value} retry=${() => readChannels()} />`;
  const list = [...channels.value.values()].sort((one, other) => (other.unread ?? 0) - (one.unread ?? 0) || one.name.localeCompare(other.name));
  return html`
    ${list.length ? html`<input type="search" value=${text} aria-label=${t("channels.search")} placeholder=${t("channels.search")} onInput=${(/** @type {any} */ event) => setText(event.target.value)} />` : null}
    ${text.trim() ? html`<${Found} text=${text.trim()} />` : html`
      ${list.length ? list.map((channel) => html`<${Row} key=${channel.channel_id} channel=${channel} />`)
        : html`<${Empty} text=${t("channels.empty")}><pre class="code select" tabindex="0">${INSTALL}</pre><//>`}
      ${channelsNext.value ? html`<button type="button" onClick=${() => readChannels(channelsNext.value)}>${t("do.more")}</button>` : null}
      ${mayAdmin.value ? html`<${Make} first=${!list.length} />` : null}`}`;
}

/** @param {{channel: any}} props */
function Row({ channel }) {
  return html`<a class="card session-card" href=${address("channel", channel.name)} data-row>
    <span class="row"><span class="title grow cut"># <${Text} of=${channel.name} /></span><${Marks} channel=${channel} />
      ${channel.unread ? html`<span class="pill">${t("channels.unread", { count: channel.unread })}</span>` : null}</span>
    ${channel.topic ? html`<small class="soft"><${Text} of=${channel.topic} /></small>` : null}
  </a>`;
}

/** What kind of channel it is. @param {{channel: any}} props */
export const Marks = ({ channel }) => html`
  ${channel.encrypted ? html`<span class="pill run">${t("channel.encrypted")}</span>` : null}
  ${channel.private ? html`<span class="pill">${t("channel.private")}</span>` : null}
  ${channel.signed ? html`<span class="pill">${t("channel.signed")}</span>` : null}
  ${channel.state === "archived" ? html`<span class="pill">${t("channel.archived")}</span>` : null}
  ${channel.retention?.held ? html`<span class="pill">${t("channel.held")}</span>` : null}`;

/** @param {{text: string}} props */
function Found({ text }) {
  const [told, setTold] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const look = async (/** @type {string} */ after) => {
    try {
      const page = await get(place(["relay", "search"], { text, after }));
      setTold((/** @type {any} */ had) => (after && had ? { ...page, hits: [...had.hits, ...page.hits] } : page));
      setProblem(null);
    } catch (failed) {
      setProblem(failed);
    }
  };
  useEffect(() => {
    setTold(null);
    const timer = setTimeout(() => look(""), SEARCH_WAIT_MS);
    return () => clearTimeout(timer);
  }, [text]);
  if (problem) return html`<${Failed} problem=${problem} retry=${() => look("")} />`;
  if (!told) return html`<${Loading} text=${t("loading.search")} />`;
  return html`${told.hits.map((/** @type {any} */ hit) => html`<a class="card session-card" key=${hit.message.message_id} data-row
      href=${address("channel", hit.channel, hit.message.thread_id ? { thread: hit.message.thread_id } : { message: hit.message.message_id })}>
      <span class="row"><span class="title grow cut"># <${Text} of=${hit.channel} /> · <${Text} of=${hit.message.sender} /></span><small class="soft"><${Ago} at=${hit.message.at} /></small></span>
      <span class="excerpt small"><${Text} of=${hit.message.text} /></span></a>`)}
    ${told.hits.length ? null : html`<p class="soft">${t("search.none")}</p>`}
    ${told.next ? html`<p class="soft small">${t("search.back_to")} <${Ago} at=${told.searched_to} />.</p><button type="button" onClick=${() => look(told.next)}>${t("search.further")}</button>` : null}`;
}

/** @param {{first: boolean}} props */
function Make({ first }) {
  const [name, setName] = useState("");
  const [topic, setTopic] = useState("");
  const [flags, setFlags] = useState({ private: false, encrypted: false, signed: false });
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const make = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      const channel = await post("/v1/channels", { name: name.trim(), topic, ...flags });
      await readChannels();
      go(address("channel", channel.name));
    } catch (failed) {
      setProblem(failed);
    }
  };
  const flag = (/** @type {"private" | "encrypted" | "signed"} */ which) => html`<label class="choice"><input type="checkbox" checked=${flags[which]}
    onChange=${(/** @type {any} */ event) => setFlags({ ...flags, [which]: event.target.checked })} /><span>${t(`channel.${which}_what`)}</span></label>`;
  return html`<details class="card" open=${first}><summary>${t("channels.make")}</summary><form class="stack" onSubmit=${make}>
    <label>${t("channels.name")}<input type="text" value=${name} autocapitalize="none" spellcheck=${false} onInput=${(/** @type {any} */ event) => setName(event.target.value)} /></label>
    <label>${t("channels.topic")}<input type="text" value=${topic} onInput=${(/** @type {any} */ event) => setTopic(event.target.value)} /></label>
    ${flag("private")}${flag("encrypted")}${flag("signed")}
    <p class="soft small">${t("channels.fixed")}</p>
    <button type="submit" class="go" disabled=${!name.trim()}>${t("channels.make_go")}</button>
    ${problem ? html`<${Failed} problem=${problem} inline />` : null}</form></details>`;
}
