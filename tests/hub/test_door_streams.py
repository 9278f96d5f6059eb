"""Streams: from a cursor on without a gap or a double, safe framing, bounds, rights while they are open."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from ekiden.hub import ring, streams
from ekiden.hub.app import Hub
from ekiden.hub.frames import Frame, passing
from ekiden.hub.ring import Ring
from ekiden.hub.serve import start_serving
from ekiden.hub.settings import Settings
from ekiden.testing.clock import StillClock
from hub.door_kit import HOST_ID, HOST_KEY, OTHER_SESSION, OWNER, SESSION, TEAM, WAIT_S, House, open_house, until
from hub.raw_http import head_of

pytestmark = pytest.mark.anyio
S, T = f"session:{SESSION}", f"session:{OTHER_SESSION}"


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with open_house() as house:
        yield house


def use_small_ring(hub: Hub, frames: int) -> None:
    """Lets the hub's ring hold so few frames that the log is needed."""
    live = hub.live(TEAM)
    small = Ring(frames_max=frames)
    small.begin(live.ring.seq or 0)
    live.ring = small
    live.hosts._send = small.put


async def test_a_stream_begins_with_hello_and_goes_on_with_what_is_new(house: House) -> None:
    """Without a cursor the past is not told; the hello names the place and the beat."""
    await house.say("before")
    async with house.follow(f"team,{S},team") as stream:
        hello = await stream.frame()
        assert hello["kind"] == "stream.hello"
        assert hello["body"]["cursor"] == f"{house.hub.log.log_id}.1"
        assert hello["body"]["topics"] == ["team", S]
        await house.say("after", "team")
        told = await stream.frame()
        assert (told["seq"], told["kind"], told["topic"], told["body"]) == (2, "said", "team", {"text": "after"})
        assert told["id"] == f"{house.hub.log.log_id}.2"


async def test_topics_choose_what_is_told(house: House) -> None:
    """Only frames that were announced on a chosen topic come, in order."""
    async with house.follow(f"team,{S}") as stream:
        await stream.until("stream.hello")
        await house.say("other", T)
        await house.say("mine", S)
        await house.say("other too", T, "team")
        await house.say("access", "access")
        await house.say("team")
        assert await stream.texts(3) == ["mine", "other too", "team"]


@pytest.mark.parametrize(
    "topics",
    [
        "",
        ",",
        "everything",
        "session:",
        "session:../..",
        "session:ses_1",
        "team%0aid:%209",
        "session:%00",
        "*",
        "team*",
    ],
)
async def test_what_is_no_topic_is_refused_at_the_door(house: House, topics: str) -> None:
    """Names with line ends, patterns and other words never get into a stream."""
    status, _, _ = await house.ask("GET", f"/v1/stream?topics={topics}")
    assert status == 422


async def test_more_topics_than_the_bound_are_refused(house: House) -> None:
    """A stream follows so many topics at most."""
    many = ",".join(f"session:ses_{number:020}" for number in range(65))
    assert (await house.ask("GET", f"/v1/stream?topics={many}"))[0] == 422


@pytest.mark.parametrize("ring_frames", [16, 4_096])
@pytest.mark.parametrize("behind", [0, 1, 7, 100])
async def test_resuming_gives_exactly_what_is_missing(house: House, ring_frames: int, behind: int) -> None:
    """Whether the ring reaches back or only the log: from the cursor on, each event once, then what is new."""
    use_small_ring(house.hub, ring_frames)
    for number in range(1, 121):
        await house.say(str(number), "team" if number % 3 else T)
    async with house.follow("team", after=f"{house.hub.log.log_id}.{120 - behind}") as stream:
        hello = await stream.frame()
        assert hello["body"]["cursor"] == f"{house.hub.log.log_id}.{120 - behind}"
        await house.say("new")
        wanted = [str(number) for number in range(121 - behind, 121) if number % 3]
        assert await stream.texts(len(wanted) + 1) == [*wanted, "new"]


@pytest.mark.parametrize("ring_frames", [8, 4_096])
async def test_writes_during_a_resume_are_neither_lost_nor_told_twice(house: House, ring_frames: int) -> None:
    """Replay and ring meet while events go on being stored, and other streams come and go."""
    use_small_ring(house.hub, ring_frames)
    for number in range(300):
        await house.say(str(number))

    async def write() -> None:
        for number in range(300, 600):
            await house.say(str(number))

    async def read(after: int) -> list[str]:
        async with house.follow("team", after=f"{house.hub.log.log_id}.{after}") as stream:
            return await stream.texts(600 - after)

    async with asyncio.TaskGroup() as group:
        reading = [group.create_task(read(after)) for after in (0, 1, 150, 299, 300)]
        group.create_task(write())
    for task, after in zip(reading, (0, 1, 150, 299, 300), strict=True):
        assert task.result() == [str(number) for number in range(after, 600)]


async def test_the_header_of_a_reconnecting_browser_goes_before_the_query(house: House) -> None:
    """A browser asks again with the address that it began with, and tells in the header where it is."""
    for number in range(5):
        await house.say(str(number))
    log_id = house.hub.log.log_id
    async with house.follow(f"team&after={log_id}.1", after=f"{log_id}.4") as stream:
        assert await stream.texts(1) == ["4"]
    async with house.follow(f"team&after={log_id}.3") as stream:
        assert await stream.texts(2) == ["3", "4"]


@pytest.mark.parametrize(("after", "missed"), [(1, 743), (743, 1), (744, 0), (745, 0), (999, 0), (1_000, 0)])
async def test_where_the_past_is_gone_a_gap_says_how_much(house: House, after: int, missed: int) -> None:
    """Of 1,000 events the newest 256 are kept. The boundary is exact, and after the gap nothing is missing."""
    async with asyncio.TaskGroup() as group:
        for _ in range(1_000):
            group.create_task(house.say("x"))
    use_small_ring(house.hub, 16)
    assert await house.hub.log.forget(TEAM, 745) == 744
    log_id = house.hub.log.log_id
    for _ in range(2):
        async with house.follow("team", after=f"{log_id}.{after}") as stream:
            await stream.until("stream.hello")
            if missed:
                gap = await stream.frame()
                assert gap["kind"] == "stream.gap"
                assert gap["body"] == {
                    "from": f"{log_id}.{after}",
                    "to": f"{log_id}.744",
                    "missed": missed,
                    "oldest": f"{log_id}.745",
                }
            told = [await stream.frame() for _ in range(1_000 - max(after, 744))]
            assert [frame["seq"] for frame in told] == list(range(max(after, 744) + 1, 1_001))


@pytest.mark.parametrize(("cursor", "reason"), [("{log}.5000", "future"), ("otherlog.3", "other_log")])
async def test_a_cursor_of_no_use_resets_the_client(house: House, cursor: str, reason: str) -> None:
    """From the future or of another log: the client is told to read anew, and goes on from the head."""
    for number in range(5):
        await house.say(str(number))
    log_id = house.hub.log.log_id
    async with house.follow("team", after=cursor.format(log=log_id)) as stream:
        await stream.until("stream.hello")
        reset = await stream.frame()
        assert (reset["kind"], reset["body"]) == ("stream.reset", {"reason": reason, "cursor": f"{log_id}.5"})
        await house.say("new")
        assert await stream.texts(1) == ["new"]


async def test_too_far_back_to_replay_resets_the_client(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than the bound is not replayed: snapshots are cheaper."""
    monkeypatch.setattr(streams, "STREAM_REPLAY_EVENTS_MAX", 20)
    use_small_ring(house.hub, 8)
    for number in range(50):
        await house.say(str(number))
    log_id = house.hub.log.log_id
    async with house.follow("team", after=f"{log_id}.10") as stream:
        await stream.until("stream.hello")
        reset = await stream.frame()
        assert (reset["kind"], reset["body"]["reason"]) == ("stream.reset", "too_far")
        await house.say("new")
        assert await stream.texts(1) == ["new"]


@pytest.mark.parametrize("cursor", ["abc", "{log}.", "{log}.-1", "{log}.1.5", ".5", "{log}.1\x00"])
async def test_a_cursor_that_is_none_is_refused(house: House, cursor: str) -> None:
    """It is never taken for the beginning or for now."""
    async with house.follow("team", after=cursor.format(log=house.hub.log.log_id)) as stream:
        assert stream.status == 422
        assert (await stream.problem())["code"] == "invalid"


async def test_revoking_a_key_ends_its_streams_and_says_why(house: House) -> None:
    """The open stream of a revoked key ends; what is stored after that does not reach it, others go on."""
    house.gate.give("ekd_one", {"*": ["read"]})
    async with house.follow("team", "ekd_one") as stream, house.follow("team") as other:
        await stream.until("stream.hello")
        await other.until("stream.hello")
        await house.say("before")
        del house.gate.identities["ekd_one"]
        await house.say("key_one", "access", kind="key.revoked")
        assert await stream.texts(1) == ["before"]
        assert (await stream.until("stream.end"))["body"] == {"reason": "revoked"}
        with pytest.raises(StopAsyncIteration):
            await stream.frame()
        await house.say("after")
        assert await other.texts(2) == ["before", "after"]


async def test_a_key_that_expires_ends_its_streams() -> None:
    """Nothing is stored when a key expires; the watch over the streams sees it."""
    clock = StillClock()
    async with open_house(clock=clock) as house:
        house.gate.give("ekd_short", {"*": ["read"]}, expires_at=clock.now() + 60)
        async with house.follow("team", "ekd_short") as stream:
            await stream.until("stream.hello")
            clock.advance(59)
            house.hub.streams.tick()
            assert len(house.hub.streams) == 1
            clock.advance(1)
            assert (await stream.until("stream.end"))["body"] == {"reason": "expired"}


async def test_narrowed_rights_silence_only_what_was_lost(house: House) -> None:
    """A key that loses one session keeps its stream and the other session."""
    house.gate.give("ekd_two", {S: ["read"], T: ["read"]})
    async with house.follow(f"{S},{T}", "ekd_two") as stream:
        await stream.until("stream.hello")
        await house.say("b1", T)
        assert await stream.texts(1) == ["b1"]
        house.gate.narrow("ekd_two", {S: ["read"]})
        await house.say("key_two", "access", kind="key.changed")
        await until(lambda: house.gate.asked >= 2)
        await house.say("b2", T)
        await house.say("a2", S)
        assert await stream.texts(1) == ["a2"]


async def test_what_a_key_may_not_read_is_as_silent_as_what_is_not_there(house: House) -> None:
    """Law 11 on a stream: a forbidden topic, one that does not exist, and events only announced widely."""
    house.gate.give("ekd_team", {"team": ["read"]})
    for topics in (S, "session:ses_0000000000000000000z", f"team,{S}"):
        async with house.follow(topics, "ekd_team") as stream:
            hello = await stream.frame()
            assert hello["body"]["topics"] == topics.split(",")
            await house.say("secret", S, "team")
            await house.say("open", "team")
            if "team" in topics:
                assert await stream.texts(1) == ["open"]
            else:
                assert await stream.quiet() == []


async def test_a_host_hears_of_its_own_work_though_the_session_is_not_its_to_read(house: House) -> None:
    """What is addressed to `host:ID` comes to the key that does that host's work, and to no other host."""
    house.gate.give("ekd_host2", {"host:hos_00000000000000000002": ["read", "feed"]})
    async with (
        house.follow(f"host:{HOST_ID},{S}", HOST_KEY) as stream,
        house.follow(f"host:{HOST_ID},{S}", "ekd_host2") as other,
    ):
        await stream.until("stream.hello")
        await other.until("stream.hello")
        await house.say("not mine", S, "team")
        await house.say("to do", S, f"host:{HOST_ID}")
        assert await stream.texts(1) == ["to do"]
        assert await other.quiet() == []


HOSTILE = (
    'hi\revent: approval\rdata: {"ok":true}\r\r',
    'hi\nid: 9\ndata: {"kind":"stream.end"}\n\n',
    "hi\r\n\r\nretry: 1\r\n",
    "\u2028id: 9\u2029\u0085data: x\u0085",
    "\x00\x1b[2J\x0b\x0c\x1c\x1d\x1e\x7f",
    "",
    "\u202e\U0001f600\ud7ff",
)


@pytest.mark.parametrize("way", ["live", "ring", "log"])
async def test_no_text_can_end_its_line_or_forge_a_frame(house: House, way: str) -> None:
    """Exactly one frame per event, for every notion of a line, and the text is what was sent."""
    if way == "log":
        use_small_ring(house.hub, 1)
    log_id = house.hub.log.log_id
    if way != "live":
        for text in HOSTILE:
            await house.say(text)
        await house.say("filler", T)
    async with house.follow("team", after=f"{log_id}.0" if way != "live" else "") as stream:
        await stream.until("stream.hello")
        if way == "live":
            for text in HOSTILE:
                await house.say(text)
        assert await stream.texts(len(HOSTILE)) == list(HOSTILE)
        assert await stream.quiet() == []
    raw = b"".join(ring_frame for ring_frame in _raw_frames(house.hub))
    assert len(raw.decode().splitlines()) == raw.count(b"\n")


def _raw_frames(hub: Hub) -> list[bytes]:
    live = hub.live(TEAM)
    return [slot.data for slot in live.ring._slots if slot is not None]


async def test_json_with_line_ends_between_its_tokens_stays_one_frame(house: House) -> None:
    """A room may hand over JSON that it got from elsewhere, spread over lines."""
    async with house.follow("team") as stream:
        await stream.until("stream.hello")
        await house.tell("said", b'{\r\n  "text":\n\r "x"\n\n}', "team")
        assert await stream.texts(1) == ["x"]


async def test_a_beat_comes_in_time_and_says_where_the_stream_is() -> None:
    """A quiet stream is told from a dead one; its cursor moves past what was not for it."""
    clock = StillClock()
    async with open_house(clock=clock) as house, house.follow("team") as stream:
        await stream.until("stream.hello")
        await house.say("not for it", T)
        for _ in range(3):
            clock.advance(10)
            beat = await stream.until("stream.beat")
            assert beat["body"]["cursor"] == f"{house.hub.log.log_id}.1"
            assert "id" not in beat


async def test_a_key_holds_so_many_streams_and_no_more(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is refused with a reason; a closed one makes room."""
    monkeypatch.setattr(streams, "STREAMS_PER_KEY_MAX", 2)
    async with house.follow("team") as first:
        await first.until("stream.hello")
        async with house.follow("team") as second:
            await second.until("stream.hello")
            async with house.follow("team") as third:
                assert third.status == 429
                assert (await third.problem())["code"] == "too_many"
        await until(lambda: len(house.hub.streams) == 1)
        async with house.follow("team") as fourth:
            await fourth.until("stream.hello")


async def test_a_stream_whose_client_is_gone_is_let_go(house: House) -> None:
    """Nothing of it is kept."""
    async with house.follow("team") as stream:
        await stream.until("stream.hello")
        assert len(house.hub.streams) == 1
    await until(lambda: len(house.hub.streams) == 0)
    assert not house.hub.live(TEAM).ring._waiting


async def test_a_hub_that_goes_tells_its_streams(house: House) -> None:
    """The client knows that it may come back."""
    async with house.follow("team") as stream:
        await stream.until("stream.hello")
        closing = asyncio.ensure_future(house.hub.streams.close(WAIT_S))
        assert (await stream.until("stream.end"))["body"] == {"reason": "shutting_down"}
        await closing


async def test_a_slow_reader_is_led_through_the_log_and_misses_nothing(house: House) -> None:
    """One that the ring has passed gets everything in order all the same, and others do not wait for it."""
    use_small_ring(house.hub, 16)
    async with house.follow("team") as slow, house.follow("team") as quick:
        await slow.until("stream.hello")
        await quick.until("stream.hello")
        for number in range(400):
            await house.say(f"{number} {'x' * 2_000}")
        assert [text.split()[0] for text in await quick.texts(400)] == [str(number) for number in range(400)]
        assert [text.split()[0] for text in await slow.texts(400)] == [str(number) for number in range(400)]


async def test_a_reader_that_takes_nothing_is_cut_and_can_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a real socket: what is held for it is bounded, the others are not slowed, its connection does not live
    on in silence, and it goes on later where it was."""
    monkeypatch.setattr(streams, "STREAM_STALL_S", 0.3)
    monkeypatch.setattr(ring, "STREAM_CHUNK_BYTES_MAX", 64 * 1024)
    async with open_house(settings=Settings(Path("unused"), port=0), started=False) as house:
        serving = await start_serving(house.hub)
        use_small_ring(house.hub, 256)
        stalled = socket.socket()
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        stalled.connect(("127.0.0.1", serving.port))
        stalled.setblocking(False)
        stalled.send(head_of(serving.port, "GET", "/v1/stream?topics=team", 0, key=OWNER))
        try:
            async with house.follow("team") as quick:
                await quick.until("stream.hello")
                await until(lambda: len(house.hub.streams) == 2)
                total = 3_000
                text = "x" * 4_000
                for first in range(0, total, 100):
                    await asyncio.gather(*(house.say(f"{first + n} {text}") for n in range(100)))
                    told = await quick.texts(100)
                    assert sorted(int(one.split()[0]) for one in told) == list(range(first, first + 100))
                await until(lambda: len(house.hub.streams) == 1)
            received = await _read_to_the_end(stalled)
            ids = [line for line in received.split(b"\n") if line.startswith(b"id: ")]
            assert len(ids) < total
            last = ids[-2].removeprefix(b"id: ").decode() if len(ids) > 1 else f"{house.hub.log.log_id}.0"
            async with house.follow("team", after=last) as again:
                await again.until("stream.hello")
                first = await again.until("said")
                assert first["seq"] == int(last.split(".")[1]) + 1
        finally:
            stalled.close()
            await serving.stop()


async def _read_to_the_end(connection: socket.socket) -> bytes:
    """All that still comes; fails if the connection does not end."""
    loop = asyncio.get_running_loop()
    received = b""
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                piece = await loop.sock_recv(connection, 1 << 20)
            except ConnectionResetError:
                return received
            if not piece:
                return received
            received += piece


async def test_a_revoked_reader_that_takes_nothing_is_cut_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Revoking ends a stream within a second even when its end cannot be written."""
    async with open_house() as house:
        house.gate.give("ekd_one", {"*": ["read"]})
        async with house.follow("team", "ekd_one") as stuck:
            await stuck.until("stream.hello")
            for _ in range(40):
                await house.say("x" * 4_000)
            await until(lambda: any(one.sending_since is not None for one in house.hub.streams._open))
            del house.gate.identities["ekd_one"]
            async with asyncio.timeout(1.5):
                await house.say("key_one", "access", kind="key.revoked")
                await until(lambda: len(house.hub.streams) == 0)


async def test_equal_streams_share_what_is_put_together_for_them(house: House) -> None:
    """Frames are joined once for all who are at the same place with the same choice; another has its own."""
    async with house.follow("team") as one, house.follow("team") as two, house.follow(f"team,{S}") as other:
        for stream in (one, two, other):
            await stream.until("stream.hello")
        choices = {stream.choice for stream in house.hub.streams._open}
        assert len(choices) == 2
        for number in range(5):
            await house.say(str(number))
        for stream in (one, two, other):
            assert await stream.texts(5) == ["0", "1", "2", "3", "4"]
        held = house.hub.live(TEAM).ring
        for choice in choices:
            assert held.chunk(held.tail, choice)[0] is held.chunk(held.tail, choice)[0]


async def test_the_ring_stays_within_its_bounds() -> None:
    """In frames and in bytes, whatever comes; and what fell out is told apart."""
    small = Ring(frames_max=10, bytes_max=1_000)
    for seq in range(1, 101):
        small.put(Frame(seq, ("team",), b"x" * (seq * 3)))
        assert small.head - small.tail <= 10
        assert small._bytes <= 1_000 or small.head - small.tail == 1
        assert sum(slot is not None for slot in small._slots) == small.head - small.tail
    assert small.position_after(100) == small.head
    held = small.head - small.tail
    assert small.position_after(100 - held) == small.tail
    assert small.position_after(99 - held) is None


def test_frames_carry_json_of_one_spelling() -> None:
    """The data of a frame is what msgspec reads back."""
    frame = passing("item.grew", {"text": "a\r\n\u2028"}, ("session:x",))
    data = frame.data.removeprefix(b"data: ").removesuffix(b"\n\n")
    assert msgspec.json.decode(data)["body"] == {"text": "a\r\n\u2028"}
