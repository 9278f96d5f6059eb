"""The clients of the relay's benchmarks: bare sockets that a poll watches, each role in a process of its own.

What is readable when the poll returns gets the time of its return, so that one who is read after ninety-nine others
does not seem late. See `_load` for the others.
"""

import json
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from _hub import clean_environment
from _load import request_bytes

_CURSOR = re.compile(rb"id: [a-z0-9]+\.(\d+)\n")
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
READ_BYTES = 1 << 18


def run_role(role: str, options: dict[str, Any], within_s: float = 45.0) -> dict[str, Any]:
    """Runs one of the roles below in a process of its own and returns what it found."""
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


class Wire:
    """One connection, and what has come on it that was not yet taken."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.held = b""
        self.open = True

    def send(self, data: bytes) -> None:
        """Sends all of it."""
        self.socket.sendall(data)

    def take(self) -> bytes:
        """What has come; nothing once the other side is gone."""
        try:
            data = self.socket.recv(READ_BYTES)
        except OSError:
            data = b""
        self.open = bool(data)
        return data

    def seqs(self) -> list[int]:
        """The seqs of the frames that have come whole up to their cursor."""
        self.held += self.take()
        found = list(_CURSOR.finditer(self.held))
        if found:
            self.held = self.held[found[-1].end() :]
        return [int(one[1]) for one in found]

    def answer(self) -> tuple[int, bytes] | None:
        """Status and body, once all of an answer has come."""
        self.held += self.take()
        head, end, rest = self.held.partition(b"\r\n\r\n")
        length = _LENGTH.search(head) if end else None
        if length is None or len(rest) < int(length[1]):
            return None
        self.held = b""
        return int(head[9:12]), rest


class Poll:
    """Waits for wires."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._wires: dict[int, Wire] = {}

    def add(self, wire: Wire) -> None:
        """Watches one more."""
        self._wires[wire.socket.fileno()] = wire
        self._poll.register(wire.socket.fileno(), select.EPOLLIN)

    def drop(self, wire: Wire) -> None:
        """Watches one less."""
        self._poll.unregister(wire.socket.fileno())
        del self._wires[wire.socket.fileno()]

    def wait(self, within_s: float) -> Iterator[Wire]:
        """Those that can be read, as soon as there is one."""
        for number, _ in self._poll.poll(max(0.0, within_s)):
            yield self._wires[number]


def stream(port: int, key: str, topics: str, until: bytes = b"stream.hello") -> Wire:
    """A stream that has said hello."""
    wire = Wire(port)
    wire.send(request_bytes("GET", f"/v1/stream?topics={topics}", key, port))
    while until not in wire.held:
        wire.held += wire.take()
        assert wire.open, wire.held
    wire.held = b""
    return wire


def push(options: dict[str, Any]) -> dict[str, Any]:
    """`clients` streams of a channel, and `count` posts into it, `per_s` of them a second: [seq, time] of each frame
    that came, once all have come. Where `posts` is false, whoever holds the other ends writes by itself."""
    port, keys, poll = options["port"], options["keys"], Poll()
    posting: Wire | None = None
    readers: list[Wire] = []
    for client in range(options["clients"]):
        if options["posts"]:
            readers.append(stream(port, keys[client % len(keys)], f"channel:{options['channel']}"))
        else:
            readers.append(Wire(port))
    for reader in readers:
        poll.add(reader)
    target = f"/v1/channels/{options['channel']}/messages"
    body = json.dumps({"text": "x" * 120}).encode()
    if options["posts"]:
        posting = Wire(port)
        poll.add(posting)
    came: list[tuple[int, float]] = []
    began, sent, wanted = time.perf_counter(), 0, options["clients"] * options["count"]
    while len(came) < wanted:
        due_s = began + sent / options["per_s"] - time.perf_counter()
        if posting is not None and sent < options["count"] and due_s <= 0:
            posting.send(request_bytes("POST", target, keys[0], port, body, f"Command-Id: {options['tag']}-{sent}\r\n"))
            sent += 1
            continue
        ready = list(poll.wait(due_s if posting is not None and sent < options["count"] else 10.0))
        now = time.perf_counter()
        assert ready or sent < options["count"], f"{wanted - len(came)} frames never came"
        for wire in ready:
            if wire is posting:
                wire.take()
            else:
                came.extend((seq, now) for seq in wire.seqs())
                assert wire.open, "a stream ended"
    return {"came": came}


_ROLES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {"push": push}

if __name__ == "__main__":
    role, argument = sys.argv[1:]
    print(json.dumps(_ROLES[role](json.loads(argument))))
