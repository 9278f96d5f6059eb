"""What a client promises, held over the network and in process alike."""

import asyncio
from typing import Any

import msgspec
import pytest

from client.door_stub import DoorStub, frame, hello
from ekiden.client.client import Client
from ekiden.client.frames import LOST, Frame
from ekiden.client.stream import Reconnect
from ekiden.kernel import errors
from ekiden.kernel.errors import EkidenError

pytestmark = pytest.mark.anyio
SOON = Reconnect(first_s=0.001, max_s=0.001)


class Echo(msgspec.Struct):
    method: str
    query: str
    authorization: str
    command_id: str
    content_type: str
    body: Any


async def test_a_read_carries_the_key_and_only_the_query_values_that_are_there(client: Client) -> None:
    """None and empty values are left out; the rest is percent-encoded."""
    echo = await client.get("/echo", type=Echo, limit=5, text="a&b 日", after="", vendor=None, live=True)
    assert echo.query == "limit=5&text=a%26b+%E6%97%A5&live=true"
    assert echo.authorization == "Bearer ekd_k"
    assert echo.command_id == ""


async def test_every_write_is_named_unless_it_is_repeatable(client: Client) -> None:
    """The caller's id is sent; without one a fresh one; none for a repeatable write."""
    named = await client.post("/echo", {"a": 1}, type=Echo, command_id="mine")
    first = await client.post("/echo", type=Echo)
    second = await client.delete("/echo", type=Echo)
    put = await client.put("/echo", Echo("x", "", "", "", "", None), type=Echo)
    raw = await client.post("/echo", b'{"raw":true}', type=Echo)
    assert (named.command_id, named.body, named.content_type) == ("mine", {"a": 1}, "application/json")
    assert first.command_id.startswith("cmd_")
    assert first.body == {}
    assert second.command_id not in ("", first.command_id)
    assert put.command_id == ""
    assert put.body["method"] == "x"
    assert raw.body == {"raw": True}


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (409, "already_answered", errors.AlreadyAnswered),
        (409, "held_elsewhere", errors.HeldElsewhere),
        (404, "not_found", errors.NotFound),
        (503, "host_away", errors.HostAway),
        (422, "command_reused", errors.CommandReused),
        (409, "a_code_of_tomorrow", errors.Conflict),
        (418, "a_code_of_tomorrow", EkidenError),
    ],
)
async def test_a_problem_is_raised_as_the_error_that_it_was(
    client: Client, status: int, code: str, kind: type[EkidenError]
) -> None:
    """By code; an unknown code by status, and the code is kept in the details."""
    with pytest.raises(EkidenError) as caught:
        await client.get(f"/problem/{status}/{code}")
    assert type(caught.value) is kind
    assert (caught.value.message, caught.value.hint) == ("It was refused.", "Do otherwise.")
    assert caught.value.details["x"] == [1]
    assert caught.value.details.get("code", code) == code


async def test_an_answer_that_is_no_problem_is_quoted(client: Client) -> None:
    """A proxy's error page gives an error of its status that shows what was said."""
    with pytest.raises(errors.Unavailable) as caught:
        await client.get("/page")
    assert "bad gateway" in str(caught.value.details["said"])


async def test_an_answer_of_another_shape_is_refused_with_a_reason(client: Client) -> None:
    """Broken JSON and another shape than asked for are both told, not passed on."""
    with pytest.raises(errors.Unavailable, match="form"):
        await client.get("/broken-json")
    with pytest.raises(errors.Unavailable, match="form"):
        await client.get("/ok", type=Echo)


async def test_empty_and_large_answers_arrive_whole(client: Client) -> None:
    """No body is None; three megabytes are three megabytes."""
    assert await client.delete("/nothing") is None
    assert len(await client.get("/big", type=str)) == 3_000_000


async def test_a_command_in_flight_is_asked_again(client: Client, door: DoorStub) -> None:
    """The same command id is sent until the door has its answer."""
    assert await client.post("/in-flight-once", {"a": 1}) == {"ok": True}
    ids = {headers["command-id"] for _, path, headers, _ in door.requests if path == "/in-flight-once"}
    assert door.seen["/in-flight-once"] == 2
    assert len(ids) == 1


async def test_many_requests_at_once_share_the_connections(client: Client) -> None:
    """More requests than connections all get their own answer."""
    echoes = await asyncio.gather(*(client.post("/echo", {"n": n}, type=Echo) for n in range(100)))
    assert [echo.body["n"] for echo in echoes] == list(range(100))


async def read_frames(client: Client, count: int, **options: Any) -> list[Frame]:
    async with client.stream(("team", "session:ses_1"), **options) as stream:
        return [await anext(stream) for _ in range(count)]


async def test_frames_come_in_order_with_their_fields(client: Client, door: DoorStub) -> None:
    """However the bytes are cut, frames are whole; the connection ends with the reading."""
    script = hello() + frame("items.added", {"t": "é\n\u2028"}, id="abcdefgh.6", seq=6) + frame("stream.beat", {})
    door.stream_scripts = [[script[at : at + 7] for at in range(0, len(script), 7)] + ["hang"]]
    frames = await read_frames(client, 3, after="abcdefgh.5")
    assert [one.kind for one in frames] == ["stream.hello", "items.added", "stream.beat"]
    stored = frames[1]
    assert (stored.id, stored.seq, stored.topic, stored.actor.name) == ("abcdefgh.6", 6, "team", "Desk")
    assert stored.read(dict[str, str]) == {"t": "é\n\u2028"}
    _, target, headers, _ = door.requests[0]
    assert target == "/v1/stream?topics=team%2Csession%3Ases_1"
    assert headers["last-event-id"] == "abcdefgh.5"
    async with asyncio.timeout(5):
        await door.gone.wait()
    assert door.streams_open == 0


async def test_a_lost_stream_is_opened_again_after_the_last_cursor(client: Client, door: DoorStub) -> None:
    """The follower sees the loss, then a new hello; what it has seen is not asked for again."""
    door.stream_scripts = [
        [hello(), frame("a", 1, id="abcdefgh.6", seq=6)],
        [hello(), frame("b", 2, id="abcdefgh.7", seq=7), "hang"],
    ]
    frames = await read_frames(client, 5, reconnect=SOON)
    assert [one.kind for one in frames] == ["stream.hello", "a", LOST, "stream.hello", "b"]
    assert door.requests[1][2]["last-event-id"] == "abcdefgh.6"


@pytest.mark.parametrize(
    ("told", "resumes"),
    [
        (frame("stream.gap", {"from": "abcdefgh.5", "to": "abcdefgh.90"}), "abcdefgh.90"),
        (frame("stream.reset", {"reason": "other_log", "cursor": "zzzzzzzz.3"}), "zzzzzzzz.3"),
        (frame("stream.beat", {}), "abcdefgh.5"),
    ],
)
async def test_resuming_starts_from_where_the_door_said(
    client: Client, door: DoorStub, told: bytes, resumes: str
) -> None:
    """After a gap from its end, after a reset from the new cursor, and with no event from hello's cursor."""
    door.stream_scripts = [[hello(), told], [hello(), "hang"]]
    await read_frames(client, 4, reconnect=SOON)
    assert door.requests[1][2]["last-event-id"] == resumes


async def test_a_silent_stream_is_lost_like_a_broken_one(client: Client, door: DoorStub) -> None:
    """Beats that stay out are noticed by the beat that hello promised."""
    door.stream_scripts = [[hello(beat_s=0.01), "hang"], [hello(), "hang"]]
    frames = await read_frames(client, 3, reconnect=SOON)
    assert [one.kind for one in frames] == ["stream.hello", LOST, "stream.hello"]
    assert "silent" in frames[1].read(dict[str, Any])["reason"]


async def test_without_a_policy_the_loss_is_raised(client: Client, door: DoorStub) -> None:
    """The caller decides; a stream does not come back by itself."""
    door.stream_scripts = [[hello()]]
    with pytest.raises(errors.Unavailable):
        await read_frames(client, 2)


@pytest.mark.parametrize("reason", ["revoked", "expired"])
async def test_a_stream_that_the_door_ended_for_good_stays_ended(
    client: Client, door: DoorStub, reason: str
) -> None:
    """The end is shown, and no new stream is opened for a key that has gone."""
    door.stream_scripts = [[hello(), frame("stream.end", {"reason": reason})]]
    async with client.stream("team", reconnect=SOON) as stream:
        kinds = [one.kind async for one in stream]
    assert kinds == ["stream.hello", "stream.end"]
    assert door.seen["/v1/stream"] == 1


async def test_a_frame_that_is_no_frame_is_not_passed_on(client: Client, door: DoorStub) -> None:
    """Unknown fields are borne; what is not JSON breaks the stream with a reason."""
    door.stream_scripts = [[b"retry: 5\n: comment\n" + hello(), b"data: nope\n\n"]]
    with pytest.raises(errors.Unavailable, match="no frame"):
        await read_frames(client, 2)
