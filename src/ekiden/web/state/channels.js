// The channels that the page knows, the one that is open, and what mentions this person, as signals.
//
// Snapshots come from the door, events from the page's one stream (`live.js` hands them on); `talk.js` joins them.

import { get, place, post } from "../door.js";
import { batch, computed, signal } from "../lib.js";
import { CHANNELS_PAGE, MENTIONS_PAGE, MESSAGES_PAGE } from "./limits.js";
import { revealed } from "./member.js";
import { applyToTalk, placedByNumber, talkOf, withOlderMessages } from "./talk.js";

/** By name. */
export const channels = signal(/** @type {Map<string, any>} */ (new Map()));
/** `loading`, `live`, `failed` */
export const channelsState = signal("loading");
export const channelsProblem = signal(/** @type {any} */ (null));
export const channelsNext = signal("");

/** What mentions this person and waits: `{delivery, message, channel}` by message id. */
export const mentions = signal(/** @type {Map<string, any>} */ (new Map()));
export const mentionsMore = signal(0);

export const openName = signal("");
export const openThread = signal("");
export const talk = signal(/** @type {import("./talk.js").Talk | null} */ (null));
/** Messages of the open thread that are older than the channel's loaded part. */
export const threadPage = signal(/** @type {any[]} */ ([]));
/** `loading`, `live`, `failed`, `gone` */
export const talkState = signal("loading");
export const talkProblem = signal(/** @type {any} */ (null));
export const olderTalk = signal(false);

export const unread = computed(() => [...channels.value.values()].reduce((sum, channel) => sum + (channel.unread ?? 0), 0));

/** @param {any} channel what permissions and topics call it */
export const resourceOf = (channel) => `${channel.private ? "private" : "channel"}:${channel.name}`;

/** The topic of the open channel, once the door has shown it. */
export const openTopic = () => (talk.value && talkState.value === "live" ? resourceOf(talk.value.channel) : "");

/** The channels, from the door. @param {string} [after] */
export async function readChannels(after = "") {
  try {
    const page = await get(place(["channels"], { limit: CHANNELS_PAGE, after }));
    batch(() => {
      const next = new Map(after ? channels.value : []);
      for (const channel of page.channels) next.set(channel.name, channel);
      channels.value = next;
      channelsNext.value = page.next ?? "";
      channelsState.value = "live";
      channelsProblem.value = null;
    });
  } catch (error) {
    channelsProblem.value = error;
    if (channelsState.value === "loading") channelsState.value = "failed";
  }
}

/** What waits for this person in channels. */
export async function readMentions() {
  try {
    const page = await get(place(["mentions"], { limit: MENTIONS_PAGE }));
    const found = new Map();
    (page.mentions ?? []).forEach((/** @type {any} */ hit, /** @type {number} */ index) => {
      found.set(hit.message.message_id, { ...hit, delivery: page.deliveries?.[index] });
    });
    batch(() => {
      mentions.value = found;
      mentionsMore.value = page.more ?? 0;
    });
  } catch {
    // The inbox shows what it has; the channels' own screen says why they cannot be read.
  }
}

/** Opens a channel, or none with "". @param {string} name @param {string} threadId */
export async function openChannel(name, threadId) {
  const changed = name !== openName.value;
  if (!changed && threadId === openThread.value) return;
  batch(() => {
    openThread.value = threadId;
    threadPage.value = [];
    if (changed) {
      openName.value = name;
      talk.value = null;
      talkState.value = "loading";
      talkProblem.value = null;
    }
  });
  if (changed && name) await readTalk();
  if (name && threadId) await readThread();
}

/** @type {() => void} */
let afterRead = () => {};

/** @param {() => void} listener called when a channel was read: its topic can be followed */
export function whenTalkRead(listener) {
  afterRead = listener;
}

/** Reads the open channel's snapshot. */
export async function readTalk() {
  const name = openName.value;
  const at = (/** @type {string[]} */ ...rest) => place(["channels", name, ...rest]);
  try {
    const [channel, page, threads, statuses, leases, members] = await Promise.all([
      get(at()), get(place(["channels", name, "messages"], { limit: MESSAGES_PAGE })), get(at("threads")), get(at("status")),
      get(at("leases")), get(at("members")),
    ]);
    if (openName.value !== name) return;
    batch(() => {
      talk.value = talkOf({ channel, page, threads, statuses, leases, members });
      talkState.value = "live";
      talkProblem.value = null;
    });
    afterRead();
    reveal(page.messages ?? []);
  } catch (error) {
    if (openName.value !== name || error.status === 401) return;
    batch(() => {
      talkProblem.value = error;
      if (error.status === 404) talkState.value = "gone";
      else if (!talk.value) talkState.value = "failed";
    });
  }
}

/** All of the open thread that one page holds, whatever of the channel is loaded. */
export async function readThread() {
  const name = openName.value;
  const thread = openThread.value;
  try {
    const page = await get(place(["channels", name, "messages"], { thread, limit: MESSAGES_PAGE }));
    if (openName.value === name && openThread.value === thread) {
      threadPage.value = page.messages ?? [];
      reveal(threadPage.value);
    }
  } catch (error) {
    if (openThread.value === thread) talkProblem.value = error;
  }
}

/** A channel and its members, the open one or asked for. @param {string} name */
export async function whereTo(name) {
  const now = talk.value;
  if (now?.channel.name === name && talkState.value === "live") return { channel: now.channel, members: [...now.members.values()] };
  const [channel, page] = await Promise.all([get(place(["channels", name])), get(place(["channels", name, "members"]))]);
  return { channel, members: page.members ?? [] };
}

/** @type {() => any} */
let whoAmI = () => null;

/** @param {() => any} asked gives `GET /v1/me` */
export function whenAsked(asked) {
  whoAmI = asked;
}

/** Opens and checks what came, and puts it in its place once that is done. @param {any[]} messages */
async function reveal(messages) {
  const channel = talk.value?.channel.channel_id;
  const shown = await Promise.all(messages.filter((one) => one.state !== "deleted").map((one) => revealed(whoAmI(), one)));
  const now = talk.value;
  if (!now || now.channel.channel_id !== channel) return;
  // What was edited or deleted meanwhile comes with its own event.
  const same = shown.filter((one) => {
    const there = now.messages.find((had) => had.message_id === one.message_id);
    return there && (there.edits ?? 0) === (one.edits ?? 0) && there.state !== "deleted";
  });
  batch(() => {
    talk.value = { ...now, messages: placedByNumber(now.messages, same, Boolean(now.before)) };
    threadPage.value = placedByNumber(threadPage.value, shown.filter((one) => threadPage.value.some((had) => had.message_id === one.message_id)), false);
  });
}

/** The page before the oldest loaded message; one at a time. */
export async function readOlderTalk() {
  const now = talk.value;
  if (!now?.before || olderTalk.value) return;
  olderTalk.value = true;
  try {
    const page = await get(place(["channels", openName.value, "messages"], { before: now.before, limit: MESSAGES_PAGE }));
    if (talk.value?.channel.channel_id === now.channel.channel_id) {
      talk.value = withOlderMessages(talk.value, page);
      reveal(page.messages ?? []);
    }
  } catch (error) {
    talkProblem.value = error;
  } finally {
    olderTalk.value = false;
  }
}

/** An event of the relay. @param {any} event @param {string} mine the id of this page's principal */
export function takeRelay(event, mine) {
  const { kind, body, topic } = event;
  const now = talk.value;
  if (now && (topic === resourceOf(now.channel) || kind === "delivery.changed")) talk.value = applyToTalk(now, event);
  if (now && topic === resourceOf(now.channel) && /^message\.(posted|edited)$/.test(kind)) reveal([body]);
  if (kind === "delivery.changed" && body.principal_id === mine) tookDelivery(body);
  if (kind.startsWith("channel.") && body.name) tookChannel(kind, body);
  if (kind === "message.posted") counted(event, mine);
  if (kind === "receipt.changed" && body.principal_id === mine) readChannelsSoon();
}

/** @param {any} delivery of a mention of this person */
function tookDelivery(delivery) {
  const waits = delivery.state === "stored" || delivery.state === "offered" || delivery.state === "surfaced";
  if (waits && !mentions.value.has(delivery.message_id)) readMentions();
  else if (!waits && mentions.value.has(delivery.message_id)) {
    const next = new Map(mentions.value);
    next.set(delivery.message_id, { ...next.get(delivery.message_id), delivery });
    mentions.value = next;
  }
}

/** @param {string} kind @param {any} channel */
function tookChannel(kind, channel) {
  const next = new Map(channels.value);
  if (kind === "channel.deleted") next.delete(channel.name);
  else next.set(channel.name, { ...next.get(channel.name), ...channel });
  channels.value = next;
}

/** A message of a channel that this person is a member of is unread until it is acked. @param {any} event @param {string} mine */
function counted(event, mine) {
  const name = (event.topic ?? "").split(":")[1];
  const channel = channels.value.get(name);
  if (!channel || event.body.sender_id === mine) return;
  const unread = typeof channel.unread === "number" ? channel.unread + 1 : channel.unread;
  channels.value = new Map(channels.value).set(name, { ...channel, unread, last_number: event.body.number });
}

/** @type {any} */
let channelsTimer = 0;

function readChannelsSoon() {
  channelsTimer ||= setTimeout(() => {
    channelsTimer = 0;
    readChannels();
  }, 200);
}

/** Says that all up to a message was seen, or single ones. @param {string} name @param {{upto?: number, messages?: string[]}} what */
export async function ack(name, what) {
  await post(place(["channels", name, "acks"]), what);
  if (what.messages) {
    const next = new Map(mentions.value);
    for (const id of what.messages) next.delete(id);
    mentions.value = next;
  } else {
    await readMentions();
  }
  readChannelsSoon();
}

/** Forgets all of it: the person signed out. */
export function forgetChannels() {
  batch(() => {
    channels.value = new Map();
    channelsState.value = "loading";
    mentions.value = new Map();
    openName.value = "";
    openThread.value = "";
    talk.value = null;
  });
}
