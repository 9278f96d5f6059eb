"""Bare connections to a hub, and a poll that waits for many of them.

It brings in nothing of Ekiden, so that a client that is started often starts quickly.
"""

import re
import select
import socket
from collections.abc import Iterator

_CURSOR = re.compile(rb"id: [a-z0-9]+\.(\d+)\n")
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_READ_BYTES = 1 << 18


def request_bytes(method: str, target: str, key: str, port: int, body: bytes = b"", more: str = "") -> bytes:
    """A request as it goes over the wire."""
    head = f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\n{more}"
    if method != "GET":
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


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
            data = self.socket.recv(_READ_BYTES)
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
