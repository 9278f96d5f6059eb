"""The command line's synchronous client keeps the same promises."""

import asyncio
import itertools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from client.door_stub import DoorStub, frame, hello
from client.raw_server import HALF, OK, RawServer
from ekiden.client.frames import LOST
from ekiden.client.plain import PlainClient
from ekiden.kernel import errors

pytestmark = pytest.mark.anyio
T = TypeVar("T")


def names_of(server: RawServer) -> set[bytes]:
    """The command ids that arrived."""
    return {
        line for head in server.heads for line in head.lower().split(b"\r\n") if line.startswith(b"command-id")
    }


def post(url: str, **options: Any) -> Any:
    with PlainClient(url) as client:
        return client.post("/x", {"a": 1}, **options)


async def away(work: Callable[[], T]) -> T:
    """Runs `work` beside the event loop that serves it."""
    async with asyncio.timeout(20):
        return await asyncio.to_thread(work)


async def test_reads_and_writes(served: str, door: DoorStub) -> None:
    """Key, query, body and a name for each write arrive; one connection serves them all."""

    def work() -> list[Any]:
        with PlainClient(served, "ekd_k") as client:
            return [
                client.get("/echo", limit=3, text="日"),
                client.post("/echo", {"a": 1}),
                client.post("/echo", {"a": 1}, command_id="mine"),
                client.delete("/nothing"),
            ]

    read, written, named, nothing = await away(work)
    assert read["query"] == "limit=3&text=%E6%97%A5"
    assert read["authorization"] == "Bearer ekd_k"
    assert written["body"] == {"a": 1}
    assert written["command_id"].startswith("cmd_")
    assert named["command_id"] == "mine"
    assert nothing is None


async def test_refusals_are_the_errors_that_they_were(served: str) -> None:
    """By code, with details and hint; and the connection is good afterwards."""

    def work() -> errors.EkidenError:
        with PlainClient(served) as client:
            with pytest.raises(errors.AlreadyAnswered) as caught:
                client.get("/problem/409/already_answered")
            assert client.get("/ok") == {"ok": True}
            return caught.value

    error = await away(work)
    assert (error.hint, error.details["x"]) == ("Do otherwise.", [1])


@pytest.mark.parametrize("broken", [b"", b"HTTP/1.1 200", HALF])
async def test_a_lost_answer_is_asked_for_again_under_the_same_name(broken: bytes) -> None:
    """Only for writes with a name; one without is sent once."""
    async with RawServer([broken, OK]) as server:
        assert await away(lambda: post(server.url)) == {"ok": True}
        assert len(server.heads) == 2
        assert len(names_of(server)) == 1
    async with RawServer([broken, OK]) as server:
        with pytest.raises(errors.Unavailable):
            await away(lambda: post(server.url, command_id=""))
        assert len(server.heads) == 1


async def test_nobody_there_is_said_at_once() -> None:
    """With the address and what to do."""
    async with RawServer([]) as server:
        url = server.url
    with pytest.raises(errors.Unavailable) as caught:
        await away(lambda: PlainClient(url).get("/x"))
    assert url in caught.value.message
    assert "ekiden up" in caught.value.hint


async def test_a_lost_stream_is_opened_again_after_the_last_cursor(served: str, door: DoorStub) -> None:
    """The loss is shown as a frame, then a new hello."""
    door.stream_scripts = [
        [hello(), frame("a", 1, id="abcdefgh.6", seq=6)],
        [hello(), frame("b", 2, id="abcdefgh.7", seq=7), "hang"],
    ]
    kinds = await away(lambda: [one.kind for one in itertools.islice(PlainClient(served).stream(("team",)), 5)])
    assert kinds == ["stream.hello", "a", LOST, "stream.hello", "b"]
    assert door.requests[1][2]["last-event-id"] == "abcdefgh.6"


async def test_a_stream_for_a_key_that_has_gone_ends(served: str, door: DoorStub) -> None:
    """A revoked key's stream is not opened again."""
    door.stream_scripts = [[hello(), frame("stream.end", {"reason": "revoked"})]]
    kinds = await away(lambda: [one.kind for one in PlainClient(served).stream(("team",))])
    assert kinds == ["stream.hello", "stream.end"]
    assert door.seen["/v1/stream"] == 1


async def test_it_needs_no_event_loop(served: str) -> None:
    """It works on any thread, as a command's main thread has no loop."""
    answers: list[Any] = []

    def work() -> None:
        with PlainClient(served) as client:
            answers.append(client.get("/ok"))

    thread = threading.Thread(target=work)
    thread.start()
    await asyncio.to_thread(thread.join, 10)
    assert answers == [{"ok": True}]
