"""Faults that only a network has."""

import asyncio

import pytest

from client.door_stub import DoorStub
from client.raw_server import HALF, OK, RawServer
from ekiden.client.client import Client
from ekiden.kernel.errors import Invalid, Unavailable

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("broken", [b"", b"HTTP/1.1 200", HALF, b"no http at all\r\n\r\n"])
async def test_a_write_whose_answer_was_lost_is_sent_again_under_its_name(broken: bytes) -> None:
    """Wherever the answer breaks off, the same command id goes out again."""
    async with RawServer([broken, OK]) as server, Client(server.url) as client:
        assert await client.post("/x", {"a": 1}) == {"ok": True}
        names = [line for head in server.heads for line in head.split(b"\r\n") if line.startswith(b"command-id")]
    assert len(names) == 2
    assert len(set(names)) == 1


async def test_an_unnamed_write_is_sent_at_most_once() -> None:
    """Nobody knows whether it was carried out, so it is not repeated but told."""
    async with RawServer([HALF, OK]) as server, Client(server.url) as client:
        with pytest.raises(Unavailable):
            await client.post("/x", {"a": 1}, command_id="")
        assert len(server.heads) == 1


async def test_a_door_that_keeps_breaking_is_given_up() -> None:
    """The tries are bounded."""
    async with RawServer([HALF] * 9) as server, Client(server.url) as client:
        with pytest.raises(Unavailable):
            await client.get("/x")
        assert 1 < len(server.heads) < 9


async def test_nobody_there_is_said_with_what_to_do() -> None:
    """A refused connection names the address and the command that starts a hub."""
    async with RawServer([]) as server:
        url = server.url
    async with Client(url) as client:
        with pytest.raises(Unavailable) as caught:
            await client.get("/x")
    assert url in caught.value.message
    assert "ekiden up" in caught.value.hint


async def test_a_connection_is_kept_between_requests(served: str, door: DoorStub) -> None:
    """One after the other on one connection; a closed one is replaced without an error."""
    async with Client(served) as client:
        for _ in range(3):
            await client.get("/ok")
        kept = client.transport._idle  # type: ignore[attr-defined]
        assert len(kept) == 1
        kept[0]._writer.close()
        await client.get("/ok")


async def test_a_cancelled_request_leaves_a_usable_client(served: str) -> None:
    """Giving up on an answer cuts its connection and gives its place in the pool back."""
    async with Client(served) as client:
        for _ in range(40):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await client.get("/echo")
        assert await client.get("/ok") == {"ok": True}


@pytest.mark.parametrize("url", ["", "127.0.0.1:1", "ftp://x", "http://", "unix:/x"])
async def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    """The form is checked when the client is made."""
    with pytest.raises(Invalid):
        Client(url)
