"""Law 3: a snapshot, and the events after its cursor, are a fresh snapshot. Here for channels, through the real
door: messages, threads, status and leases of two channels, in whatever order people and agents change them."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from ekiden.client.client import Client
from ekiden.kernel.errors import EkidenError
from sessions.door import open_house

CHANNELS = ("build", "plans")
TALK = ["read", "post", "ack", "mention", "lease", "status:*"]
_which = st.integers(0, 5)
_channel = st.sampled_from(CHANNELS)
_text = st.sampled_from(["one", "@bob look", "@ann and @bob", "x\r\ny", "`@bob`"])
_key = st.sampled_from(["tests.unit", "plan"])
State = dict[str, Any]


async def page_through(client: Client, path: str, name: str, *, follow: str = "next", **query: str) -> list[Any]:
    """All rows of a list, page by page."""
    rows: list[Any] = []
    after = query.pop("after", "")
    while True:
        page = await client.get(path, after=after, limit="7", **query)
        rows += page.get(name, [])
        after = page.get(follow, "")
        if not after:
            return rows


async def snapshot(client: Client, channel: str) -> tuple[str, State]:
    """A cursor, and what the door tells of a channel at it. Nothing is written meanwhile."""
    path = f"/v1/channels/{channel}"
    cursor = (await client.get(f"{path}/messages", limit="1"))["cursor"]
    threads = await page_through(client, f"{path}/threads", "threads")
    return cursor, {
        "channel": fixed(await client.get(path)),
        "messages": {
            message["message_id"]: said(message)
            for message in await page_through(client, f"{path}/messages", "messages", follow="after", after="0")
        },
        "threads": {thread["thread_id"]: kept(thread) for thread in threads},
        "status": {one["key"]: one for one in await page_through(client, f"{path}/status", "statuses")},
        "leases": {one["name"]: one for one in await page_through(client, f"{path}/leases", "leases")},
    }


def fixed(channel: State) -> State:
    """A channel without what a follower counts from its messages, or what is the asking one's own."""
    return {name: value for name, value in channel.items() if name not in ("last_number", "unread", "members")}


def said(message: State) -> State:
    """A message without the count of its replies, which its thread has."""
    return {name: value for name, value in message.items() if name != "replies"}


def kept(thread: State) -> State:
    """A thread without how often agents may still wake each other in it, which is asked for where it matters."""
    return {name: value for name, value in thread.items() if name != "wakes_left"}


def count_reply(state: State, message: State) -> None:
    """A reply moves its thread on, unless the thread was told with it already."""
    thread = state["threads"].get(message.get("thread_id", ""))
    if thread is not None and message["number"] > thread["last_number"]:
        thread |= {"replies": thread["replies"] + 1, "last_number": message["number"], "last_at": message["at"]}


def fold(state: State, frame: Any, channel_id: str) -> None:
    """Takes one event, as any client may: by id, the newest wins."""
    body = frame.read(dict[str, Any])
    if body.get("channel_id") != channel_id:
        return
    match frame.kind:
        case "channel.changed":
            state["channel"] = fixed(body)
        case "message.posted" | "message.edited" | "message.deleted":
            state["messages"][body["message_id"]] = said(body)
            count_reply(state, body)
        case "thread.changed":
            state["threads"][body["thread_id"]] = kept(body)
        case "status.changed" if body["kind"] in ("set", "reverted"):
            state["status"][body["key"]] = body
        case "status.changed":
            state["status"].pop(body["key"], None)
        case "lease.changed":
            state["leases"][body["name"]] = body
        case _:
            pass


class ChannelMachine(RuleBasedStateMachine):
    """Changes at the door, and snapshots that were taken in between: each must lead to the same present."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = TemporaryDirectory()
        self.context = open_house(Path(self.folder.name))
        self.messages: dict[str, list[tuple[Client, str]]] = {name: [] for name in CHANNELS}
        self.fences: dict[str, tuple[Client, int]] = {}
        self.taken: list[tuple[str, str, State]] = []

    def teardown(self) -> None:
        try:
            self.runner.run(self.agree())
        finally:
            self.runner.run(self.context.__aexit__(None, None, None))
            self.runner.close()
            self.folder.cleanup()

    def does(self, work: Awaitable[Any]) -> Any:
        """The answer; None where the door refuses, as it may: what is refused changes nothing."""

        async def tried() -> Any:
            try:
                return await work
            except EkidenError as error:
                if error.status >= 500:
                    raise
                return None

        return self.runner.run(tried())

    @initialize()
    def begin(self) -> None:
        async def make() -> None:
            self.house = await self.context.__aenter__()
            self.ids: dict[str, str] = {}
            for name in CHANNELS:
                made = await self.house.owner.post("/v1/channels", {"name": name})
                self.ids[name] = made["channel_id"]
            self.voices = [self.house.owner]
            for name in ("ann", "bob"):
                self.voices.append(await self.house.device(name, {f"channel:{one}": TALK for one in CHANNELS}))
                for channel in CHANNELS:
                    await self.voices[-1].put(f"/v1/channels/{channel}/members/me", {})

        self.runner.run(make())

    @rule(channel=_channel, who=_which, text=_text, reply=st.none() | _which)
    def post(self, channel: str, who: int, text: str, reply: int | None) -> None:
        known, voice = self.messages[channel], self.voices[who % 3]
        body = {"text": text}
        if reply is not None and known:
            body["thread_id"] = known[reply % len(known)][1]
        posted = self.does(voice.post(f"/v1/channels/{channel}/messages", body))
        if posted is not None:
            known.append((voice, posted["message"]["message_id"]))

    @rule(channel=_channel, which=_which, text=_text)
    def edit(self, channel: str, which: int, text: str) -> None:
        if known := self.messages[channel]:
            voice, message_id = known[which % len(known)]
            self.does(voice.patch(f"/v1/channels/{channel}/messages/{message_id}", {"text": f"{text} again"}))

    @rule(channel=_channel, which=_which)
    def delete(self, channel: str, which: int) -> None:
        if known := self.messages[channel]:
            voice, message_id = known[which % len(known)]
            self.does(voice.delete(f"/v1/channels/{channel}/messages/{message_id}"))

    @rule(channel=_channel, who=_which, which=_which)
    def ack(self, channel: str, who: int, which: int) -> None:
        self.does(self.voices[who % 3].post(f"/v1/channels/{channel}/acks", {"upto": which}))

    @rule(channel=_channel, which=_which, done=st.booleans())
    def close_thread(self, channel: str, which: int, done: bool) -> None:
        if known := self.messages[channel]:
            message_id = known[which % len(known)][1]
            self.does(self.voices[0].patch(f"/v1/channels/{channel}/threads/{message_id}", {"done": done}))

    @rule(channel=_channel, topic=st.sampled_from(["", "nightly"]))
    def change(self, channel: str, topic: str) -> None:
        self.does(self.voices[0].patch(f"/v1/channels/{channel}", {"topic": topic}))

    @rule(channel=_channel, who=_which, key=_key, value=_which, seen=st.none() | st.integers(0, 3))
    def set_status(self, channel: str, who: int, key: str, value: int, seen: int | None) -> None:
        body = {"value": value} | ({} if seen is None else {"if_version": seen})
        self.does(self.voices[who % 3].put(f"/v1/channels/{channel}/status/{key}", body))

    @rule(channel=_channel, key=_key)
    def clear_status(self, channel: str, key: str) -> None:
        self.does(self.voices[0].delete(f"/v1/channels/{channel}/status/{key}"))

    @rule(channel=_channel, who=_which)
    def take(self, channel: str, who: int) -> None:
        voice = self.voices[who % 3]
        lease = self.does(voice.put(f"/v1/channels/{channel}/leases/deploy", {"lease_s": 3_600}))
        if lease is not None:
            self.fences[channel] = (voice, lease["fence"])

    @rule(channel=_channel)
    def release(self, channel: str) -> None:
        if channel in self.fences:
            voice, fence = self.fences.pop(channel)
            self.does(voice.delete(f"/v1/channels/{channel}/leases/deploy", {"fence": fence}))

    @rule(channel=_channel)
    def look(self, channel: str) -> None:
        cursor, state = self.runner.run(snapshot(self.voices[1], channel))
        self.taken.append((channel, cursor, state))

    async def agree(self) -> None:
        """Every snapshot that was taken, with the events after it, is the one of now."""
        for channel in CHANNELS:
            now, fresh = await snapshot(self.voices[1], channel)
            for where, cursor, state in self.taken:
                if where != channel:
                    continue
                end = int(now.rpartition(".")[2])
                last = int(cursor.rpartition(".")[2])
                await self.house.owner.put(f"/v1/channels/{channel}/status/end", {"value": cursor})
                async with self.voices[1].stream(f"channel:{channel}", after=cursor) as stream:
                    async for frame in stream:
                        if not frame.seq:
                            continue
                        assert frame.seq > last
                        last = frame.seq
                        if last > end:
                            break
                        fold(state, frame, self.ids[channel])
                assert state == fresh


ChannelMachine.TestCase.settings = settings(max_examples=8, stateful_step_count=40)
test_what_a_client_keeps_of_a_channel_is_what_the_door_tells = ChannelMachine.TestCase
