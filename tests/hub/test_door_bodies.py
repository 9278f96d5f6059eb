"""What is too large is answered so that a client of any kind can read the answer, and then the connection ends.

Most clients read nothing before they have sent all. If the door closed the connection while they send, they would
see a reset instead of the reason.
"""

import asyncio
import contextlib
import http.client
import socket
from collections.abc import AsyncIterator, Callable, Iterator

import httpx2
import msgspec
import pytest

from ekiden.client.client import Client
from ekiden.client.network import NetworkTransport
from ekiden.hub import reading
from ekiden.hub.serve import Serving
from ekiden.kernel.errors import TooLarge
from ekiden.kernel.limits import REQUEST_BODY_BYTES_MAX
from hub.door_kit import OWNER, TEAM, WAIT_S, House, open_house
from hub.raw_http import head_of, raw_request

pytestmark = pytest.mark.anyio
MB = 1_000_000
PIECE = b"x" * MB


def pieces(megabytes: int) -> Iterator[bytes]:
    for _ in range(megabytes):
        yield PIECE


def by_socket(port: int, megabytes: int, *, chunked: bool, key: str = OWNER) -> tuple[int, bytes]:
    """Sends all, and only then reads, to the end."""
    headers = {"Transfer-Encoding": "chunked"} if chunked else {}
    with socket.create_connection(("127.0.0.1", port), WAIT_S) as connection:
        connection.sendall(head_of(port, "POST", "/v1/say", megabytes * MB, key=key, headers=headers))
        for piece in pieces(megabytes):
            connection.sendall(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        if chunked:
            connection.sendall(b"0\r\n\r\n")
        received = b""
        while b"\r\n\r\n" not in received or len(received) < _whole(received):
            more = connection.recv(65_536)
            if not more:
                break
            received += more
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body


def _whole(received: bytes) -> int:
    head, _, _ = received.lower().partition(b"\r\n\r\n")
    return len(head) + 4 + int(head.split(b"content-length: ")[1].split(b"\r\n")[0])


def by_http_client(port: int, megabytes: int, *, chunked: bool, key: str = OWNER) -> tuple[int, bytes]:
    """The standard library's client."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    head = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    try:
        if chunked:
            connection.request("POST", "/v1/say", pieces(megabytes), head, encode_chunked=True)
        else:
            connection.request("POST", "/v1/say", PIECE * megabytes, head)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def by_httpx(port: int, megabytes: int, *, chunked: bool, key: str = OWNER) -> tuple[int, bytes]:
    """The client that most Python programs use."""
    head = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    content = pieces(megabytes) if chunked else PIECE * megabytes
    with httpx2.Client(timeout=WAIT_S, trust_env=False) as client:
        answer = client.post(f"http://127.0.0.1:{port}/v1/say", content=content, headers=head)
        return answer.status_code, answer.content


CLIENTS = [by_socket, by_http_client, by_httpx]
Ask = Callable[..., tuple[int, bytes]]


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize("ask", CLIENTS)
async def test_a_client_that_reads_last_gets_the_reason(
    served: tuple[House, Serving], ask: Ask, chunked: bool
) -> None:
    """413 with what the bound is, just over it and far over it; nothing is stored, and the next one is served."""
    house, serving = served
    for megabytes in (9, 30):
        status, body = await asyncio.to_thread(ask, serving.port, megabytes, chunked=chunked)
        problem = msgspec.json.decode(body)
        assert (status, problem["code"]) == (413, "too_large")
        assert problem["details"]["max"] == REQUEST_BODY_BYTES_MAX
        assert REQUEST_BODY_BYTES_MAX < problem["details"]["size"] <= megabytes * MB
        assert str(REQUEST_BODY_BYTES_MAX) in problem["detail"]
    assert (await house.hub.log.bounds(TEAM))[1] == 0
    assert (await raw_request(serving.port, "POST", "/v1/say", b'{"text":"x"}', key=OWNER)).status == 200


@pytest.mark.parametrize("ask", CLIENTS)
async def test_who_is_refused_for_another_reason_can_read_that_too(
    served: tuple[House, Serving], ask: Ask
) -> None:
    """A body that nobody has asked for does not hide that there was no such key."""
    status, body = await asyncio.to_thread(ask, served[1].port, 12, chunked=True, key="ekd_nobody")
    assert (status, msgspec.json.decode(body)["code"]) == (401, "unauthenticated")


async def test_ekidens_own_client_is_told(served: tuple[House, Serving]) -> None:
    transport = NetworkTransport(served[1].url)
    try:
        with pytest.raises(TooLarge) as refused:
            await Client(key=OWNER, transport=transport).post("/v1/say", {"text": "x" * 9 * MB})
    finally:
        await transport.close()
    assert refused.value.details["max"] == REQUEST_BODY_BYTES_MAX


async def test_a_request_within_the_process_is_answered_at_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it is there: nothing is waited for."""
    monkeypatch.setattr(reading, "REFUSED_BODY_PAUSE_S", 10 * WAIT_S)
    monkeypatch.setattr(reading, "REFUSED_BODY_WAIT_S", 10 * WAIT_S)
    async with asyncio.timeout(WAIT_S):
        status, _, body = await house.ask("POST", "/v1/say", b"x" * 9 * MB)
    assert (status, msgspec.json.decode(body)["code"]) == (413, "too_large")


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with open_house() as house:
        yield house


async def test_an_answer_does_not_wait_for_the_rest(served: tuple[House, Serving]) -> None:
    """Who reads while it sends has the answer at once, and may stop."""
    answer = await raw_request(
        served[1].port, "POST", "/v1/say", b"{", key=OWNER, headers={"Content-Length": str(10**12)}
    )
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert answer.problem["details"]["size"] == 10**12


@pytest.mark.parametrize("bound", ["REFUSED_BODY_PAUSE_S", "REFUSED_BODY_WAIT_S"])
async def test_a_sender_that_stops_does_not_hold_the_connection(
    served: tuple[House, Serving], monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(reading, bound, 0.05)
    port = served[1].port
    async with asyncio.timeout(WAIT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head_of(port, "POST", "/v1/say", 9 * MB, key=OWNER) + b"{")
        assert (await reader.read()).startswith(b"HTTP/1.1 413 ")
        writer.close()
        await writer.wait_closed()


async def test_what_is_thrown_away_is_bounded_too(
    served: tuple[House, Serving], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sender without end is answered, heard for a while, and then cut off."""
    monkeypatch.setattr(reading, "REFUSED_BODY_BYTES_MAX", MB)
    port = served[1].port
    async with asyncio.timeout(WAIT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head_of(port, "POST", "/v1/say", 10**12, key=OWNER))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 413 ")
        with pytest.raises(ConnectionError):
            await _send_for_ever(writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def _send_for_ever(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(PIECE)
        await writer.drain()
