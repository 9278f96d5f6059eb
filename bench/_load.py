"""The clients of the door's benchmarks, and how a figure is told.

The clients are bare sockets or raw protocols on uvloop that look at as little of an answer as they need, so that
what is measured is the door and not the one who knocks. Each runs in a process of its own and prints one line of
JSON.
"""

import asyncio
import json
import re
import select
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import uvloop

from _hub import GROWING_SESSION, clean_environment
from _wire import request_bytes

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_SENT_AT = re.compile(rb'sent_at\\*":([0-9.]+)')
STORED = "id: "
GREW = '"kind":"item.grew"'
"""What the readers count."""


def run_client(role: str, options: dict[str, Any], within_s: float = 45.0) -> dict[str, Any]:
    """Runs one of the clients below in a process of its own and returns what it found."""
    done = subprocess.run(
        [sys.executable, __file__, role, json.dumps(options)],
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
        env=clean_environment(),
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def figure(name: str, value: float, unit: str, bar: str, more: str = "") -> None:
    """The one line that a benchmark prints."""
    print(f"figure: {name}={value:.6g} {unit} (bar {bar}){' ' + more if more else ''}", flush=True)


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of the sorted values lie below."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


# Clients


class _Poster:
    """Sends a command, waits for its answer, sends the next: on a bare socket, so that the one who knocks takes as
    little as can be of the processor that the door needs."""

    def __init__(self, client: int, options: dict[str, Any]) -> None:
        self.client = client
        self.step = options["clients"]
        self.places = [place.encode() for place in options["places"]]
        body = b'{"text":"%b"}' % (b"x" * options["bytes"])
        command = f"Command-Id: {options['tag']}-{client}-COUNT\r\n"
        request = request_bytes("POST", options["target"], options["key"], options["port"], body, command)
        self.template = request.replace(b"%", b"%%").replace(b"PLACE", b"%b").replace(b"COUNT", b"%d")
        self.count = 0
        self.buffer = b""
        self.socket = socket.create_connection(("127.0.0.1", options["port"]))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self) -> None:
        place = self.places[(self.client + self.count * self.step) % len(self.places)]
        self.sent_at = time.perf_counter()
        self.socket.sendall(self.template % (place, self.count))

    def answered(self) -> bool:
        """Takes what has come; whether that makes a whole answer."""
        self.buffer += self.socket.recv(65_536)
        head, end, rest = self.buffer.partition(b"\r\n\r\n")
        length = _LENGTH.search(head) if end else None
        if length is None or len(rest) < int(length[1]):
            return False
        if not head.startswith(b"HTTP/1.1 201"):
            raise RuntimeError(self.buffer.decode())
        self.buffer = b""
        self.count += 1
        return True


async def _posts(options: dict[str, Any]) -> dict[str, Any]:
    """`clients` connections, each one command after the other to the next of `places`, for `seconds`."""
    latencies: list[float] = []
    posters = {
        poster.socket.fileno(): poster for poster in (_Poster(n, options) for n in range(options["clients"]))
    }
    poll = select.epoll()
    for number in posters:
        poll.register(number, select.EPOLLIN)
    began = time.perf_counter()
    for poster in posters.values():
        poster.send()
    waiting = len(posters)
    while waiting:
        for number, _ in poll.poll():
            poster = posters[number]
            if poster.answered():
                now = time.perf_counter()
                latencies.append(now - poster.sent_at)
                if now - began < options["seconds"]:
                    poster.send()
                else:
                    waiting -= 1
    spent_s = time.perf_counter() - began
    for poster in posters.values():
        poster.socket.close()
    return {"per_s": len(latencies) / spent_s, "count": len(latencies), **_percentiles(latencies)}


def _percentiles(seconds: Sequence[float]) -> dict[str, float]:
    return {f"p{number}_ms": percentile(seconds, number / 100) * 1e3 for number in (50, 95, 99)}


class _Reader(asyncio.Protocol):
    """Follows a stream and counts stored events; takes latencies on some of the connections."""

    def __init__(self, request: bytes, state: dict[str, Any], *, sampled: bool) -> None:
        self.request = request
        self.state = state
        self.sampled = sampled
        self.ready = False
        self.count = 0
        self.tail = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        state = self.state
        if not self.ready and b"stream.hello" in data:
            self.ready = True
            state["hello"].set()
        mark: bytes = state["mark"]
        rest = len(mark) - 1
        count = data.count(mark) + (self.tail + data[:rest]).count(mark)  # one may lie across two reads
        self.tail = (self.tail + data)[-rest:] if len(data) < rest else data[-rest:]
        if count:
            self.count += count
            state["count"] += count
            state["last"] = time.perf_counter()
            if self.sampled:
                now = time.time()
                state["latencies"].extend(now - float(at) for at in _SENT_AT.findall(data))
            if state["count"] >= state["wanted"] and not state["done"].done():
                state["done"].set_result(None)


def _reading(wanted: int, mark: str) -> dict[str, Any]:
    return {
        "wanted": wanted,
        "mark": mark.encode(),
        "hello": asyncio.Event(),
        "count": 0,
        "last": 0.0,
        "latencies": [],
        "done": asyncio.get_running_loop().create_future(),
    }


async def _follow(options: dict[str, Any]) -> dict[str, Any]:
    """`clients` streams; then `body` to `target`, which makes `count` frames; how fast they came to all."""
    loop = asyncio.get_running_loop()
    state = _reading(options["clients"] * options["count"], options["mark"])
    port, keys = options["port"], options["keys"]
    readers: list[_Reader] = []
    for client in range(options["clients"]):
        stream = request_bytes(
            "GET", f"/v1/stream?topics=team,session:{GROWING_SESSION}", keys[client % len(keys)], port
        )
        _, reader = await loop.create_connection(
            lambda client=client, stream=stream: _Reader(stream, state, sampled=client % 4 == 0), "127.0.0.1", port
        )
        readers.append(reader)
        await asyncio.wait_for(state["hello"].wait(), 10)
        state["hello"].clear()
    body = json.dumps({"count": options["count"], **options["body"]})
    began = time.perf_counter()
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request_bytes("POST", options["target"], keys[0], port, body.encode()))
    try:
        await asyncio.wait_for(state["done"], 30)
    finally:
        counts = Counter(reader.count for reader in readers)
        if set(counts) != {options["count"]}:
            print(f"of {options['count']} frames came to so many readers: {dict(counts)}", file=sys.stderr)
    assert set(counts) == {options["count"]}, "what is missing at one reader came twice to another"
    writer.close()
    for reader in readers:
        reader.transport.abort()
    return {"per_s": state["count"] / (state["last"] - began), **_percentiles(state["latencies"])}


async def _reconnect(options: dict[str, Any]) -> dict[str, Any]:
    """Opens a stream after `after`, `times` times, and reads `count` events: milliseconds of each."""
    loop = asyncio.get_running_loop()
    port = options["port"]
    spent_s: list[float] = []
    for turn in range(options["times"]):
        state = _reading(options["count"], STORED)
        request = request_bytes(
            "GET",
            f"/v1/stream?topics=team,session:ses_{turn:020}",  # a choice of its own, so that nothing is shared
            options["key"],
            port,
            more=f"Last-Event-ID: {options['after']}\r\n",
        )
        began = time.perf_counter()
        transport, _ = await loop.create_connection(
            lambda request=request, state=state: _Reader(request, state, sampled=False), "127.0.0.1", port
        )
        await asyncio.wait_for(state["done"], 20)
        spent_s.append(state["last"] - began)
        transport.abort()
    return _percentiles(spent_s)


class _Sink(asyncio.Protocol):
    """The floor's reader: counts bytes."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state

    def data_received(self, data: bytes) -> None:
        self.state["bytes"] += len(data)
        if self.state["bytes"] >= self.state["wanted"] and not self.state["done"].done():
            self.state["done"].set_result(None)


async def _sink(options: dict[str, Any]) -> dict[str, Any]:
    """The floor: `clients` plain sockets that take in `wanted` bytes in all."""
    loop = asyncio.get_running_loop()
    state: dict[str, Any] = {"bytes": 0, "wanted": options["wanted"], "done": loop.create_future()}
    began = time.perf_counter()
    transports = []
    for _ in range(options["clients"]):
        transport, _ = await loop.create_connection(lambda: _Sink(state), "127.0.0.1", options["port"])
        transports.append(transport)
    await asyncio.wait_for(state["done"], 30)
    spent_s = time.perf_counter() - began
    for transport in transports:
        transport.abort()
    return {"seconds": spent_s}


def plain_write_floor(clients: int, events: int, event_bytes: int, together: int) -> float:
    """Events per second that a bare loop writes to `clients` plain sockets, `together` events to a write."""

    async def serve() -> float:
        piece = b"x" * (event_bytes * together)

        async def one(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for _ in range(events // together):
                writer.write(piece)
                await writer.drain()

        server = await asyncio.start_server(one, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        told = await asyncio.to_thread(
            run_client,
            "sink",
            {"port": port, "clients": clients, "wanted": clients * (events // together) * len(piece)},
        )
        server.close()
        return clients * events / told["seconds"]

    return uvloop.run(serve())


if __name__ == "__main__":
    role, argument = sys.argv[1:]
    client = {"posts": _posts, "follow": _follow, "reconnect": _reconnect, "sink": _sink}[role]
    print(json.dumps(uvloop.run(client(json.loads(argument)))))
