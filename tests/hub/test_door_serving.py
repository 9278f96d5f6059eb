"""A hub under its HTTP server: starts on a free port, answers, and ends without losing anything."""

import asyncio
import json
import os
import signal
import stat
import sys
from pathlib import Path

import pytest

from ekiden.client.network import NetworkTransport
from ekiden.client.requests import read_request, stream_request
from ekiden.hub.serve import listen, start_serving
from ekiden.hub.settings import Settings
from ekiden.hub.wiring import open_hub
from ekiden.kernel.clock import SystemClock
from ekiden.kernel.errors import StoreHeld, Unavailable
from ekiden.log.lock import holder_of
from hub.door_kit import OWNER, TEAM, WAIT_S, House, open_house, until
from hub.raw_http import head_of, raw_request

pytestmark = pytest.mark.anyio

PROGRAM = """
import asyncio, json, sys
from pathlib import Path
from ekiden.hub.serve import serve
from ekiden.hub.settings import Settings
from ekiden.hub.wiring import open_hub
from ekiden.kernel.clock import SystemClock

async def main():
    hub = await open_hub(Settings(Path(sys.argv[1]), port=0), SystemClock())
    await serve(hub, started=lambda serving: print(json.dumps({"port": serving.port}), flush=True))
    print("ended", flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_asked_to_end_it_tells_its_streams_and_ends_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    """The real rooms in a process of their own: ready on a free port, then a signal, then the streams' end."""
    home = tmp_path / "data"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        str(home),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(WAIT_S * 2):
            port = json.loads(await process.stdout.readline())["port"]
            key = (home / "local.key").read_text().strip()
            transport = NetworkTransport(f"http://127.0.0.1:{port}")
            stream = await transport.open(stream_request(key, ("team",), ""))
            chunks = stream.chunks()
            assert b"stream.hello" in await anext(chunks)
            process.send_signal(number)
            assert b'"reason":"shutting_down"' in b"".join([piece async for piece in chunks])
            await stream.close()
            await transport.close()
            rest = await process.stdout.read()
            errors = await process.stderr.read() if process.stderr is not None else b""
            assert (rest, errors, await process.wait()) == (b"ended\n", b"", 0)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert holder_of(home / "ekiden.db") is None


async def test_the_data_are_private_and_held_by_one(tmp_path: Path) -> None:
    """Folder 0700, files 0600; a second hub is refused and told who holds them and where it answers."""
    home = tmp_path / "data"
    hub = await open_hub(Settings(home, port=0), SystemClock())
    serving = await start_serving(hub)
    try:
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        for path in home.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
        with pytest.raises(StoreHeld) as held:
            await open_hub(Settings(home, port=0), SystemClock())
        assert held.value.details["url"] == serving.url
    finally:
        await serving.stop()


async def test_the_local_key_stays_the_same_and_is_made_anew_when_it_is_lost(tmp_path: Path) -> None:
    """Starting again does not make a new key; a key file that is gone is replaced, and the key works."""
    home = tmp_path / "data"
    keys: list[str] = []
    for lost in (False, False, True):
        if lost:
            (home / "local.key").unlink()
        hub = await open_hub(Settings(home, port=0), SystemClock())
        serving = await start_serving(hub)
        keys.append((home / "local.key").read_text().strip())
        transport = NetworkTransport(serving.url)
        answer = await transport.open(read_request(keys[-1], "/v1/me", {}))
        told = json.loads(b"".join([piece async for piece in answer.chunks()]))
        await answer.close()
        assert (answer.status, told["hub"]["url"]) == (200, serving.url)
        await transport.close()
        await serving.stop()
    assert keys[0] == keys[1] != keys[2]


async def test_a_port_that_is_taken_is_said_so() -> None:
    """With what to do."""
    listening = listen("127.0.0.1", 0)
    try:
        with pytest.raises(Unavailable, match="cannot listen"):
            listen("127.0.0.1", listening.getsockname()[1])
    finally:
        listening.close()


async def test_what_was_accepted_is_answered_before_the_hub_ends(tmp_path: Path) -> None:
    """Writes under way when it is asked to end are on disk and answered, or refused; none hangs."""
    async with open_house(tmp_path, settings=Settings(tmp_path, port=0), started=False) as house:
        serving = await start_serving(house.hub)
        writing = [
            asyncio.ensure_future(raw_request(serving.port, "POST", "/v1/say", b'{"text":"x"}', key=OWNER))
            for _ in range(30)
        ]
        await until(lambda: house.hub.live(TEAM).ring.seq is not None and house.hub.live(TEAM).ring.seq > 0)
        await serving.stop()
        answers = await asyncio.gather(*writing, return_exceptions=True)
    statuses = [answer.status for answer in answers if not isinstance(answer, BaseException)]
    assert statuses.count(200) >= 1
    assert set(statuses) <= {200, 503}


async def test_two_requests_on_one_connection_are_answered_in_order() -> None:
    """A client may send the next before it has the answer."""
    async with open_house(settings=Settings(Path("unused"), port=0), started=False) as house:
        serving = await start_serving(house.hub)
        try:
            await _pipeline(house, serving.port)
        finally:
            await serving.stop()


async def _pipeline(house: House, port: int) -> None:
    assert len(house.hub.streams) == 0
    async with asyncio.timeout(WAIT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = b'{"text":"x"}'
        writer.write((head_of(port, "POST", "/v1/say", len(body), key=OWNER) + body) * 3)
        for seq in (1, 2, 3):
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert await reader.readexactly(9) == b'{"seq":%d}' % seq
        writer.close()
        await writer.wait_closed()


async def test_an_answer_is_the_same_whichever_way_it_goes() -> None:
    """In one piece where the server can; as messages where it cannot, because the body comes in pieces or the
    connection is to be closed."""
    async with open_house(settings=Settings(Path("unused"), port=0), started=False) as house:
        serving = await start_serving(house.hub)
        try:
            at_once = await raw_request(serving.port, "POST", "/v1/say", b'{"text":"x"}', key=OWNER)
            closing = await raw_request(
                serving.port, "POST", "/v1/say", b'{"text":"x"}', key=OWNER, headers={"Connection": "close"}
            )
            assert closing.headers["connection"] == "close"
            assert {**at_once.headers, "connection": "close", "date": closing.headers["date"]} == closing.headers
            assert at_once.headers["date"].endswith(" GMT")
            assert (at_once.status, at_once.body, closing.body) == (200, b'{"seq":1}', b'{"seq":2}')
            assert await _in_pieces(serving.port) == b'{"seq":3}'
        finally:
            await serving.stop()


async def _in_pieces(port: int) -> bytes:
    async with asyncio.timeout(WAIT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        pieces = (b'{"te', b'xt":', b'"x"}')
        # The server says that it waits for the body before the first of it is sent.
        head = head_of(port, "POST", "/v1/say", 12, key=OWNER, headers={"Expect": "100-continue"})
        writer.write(head)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        answer = await reader.readexactly(9)
        writer.close()
        await writer.wait_closed()
    return answer
