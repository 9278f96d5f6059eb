"""Messages in parts, for a bus whose own messages are smaller than what nodes have to tell.

A message that fits goes as it is, after an `=`. A larger one goes in parts: a `+`, 16 letters that name it, and
the numbers of the part and of all parts. Parts of one node arrive in order; a message of which one is missing is
dropped when its place is needed.
"""

import secrets
from collections.abc import Iterator

from ekiden.kernel.limits import BUS_PARTS_WAITING_MAX, BUS_WAITING_BYTES_MAX

_WHOLE = b"="
_PART = b"+"
_NAME_BYTES = 16
_HEAD_BYTES = 1 + _NAME_BYTES + 8


def parts_of(data: bytes, bytes_max: int) -> Iterator[bytes]:
    """`data` as messages of at most `bytes_max` bytes."""
    if len(data) < bytes_max:
        yield _WHOLE + data
        return
    room = bytes_max - _HEAD_BYTES
    count = -(-len(data) // room)
    head = _PART + secrets.token_hex(_NAME_BYTES // 2).encode()
    for number in range(count):
        place = number.to_bytes(4, "big") + count.to_bytes(4, "big")
        yield head + place + data[number * room : (number + 1) * room]


class Parts:
    """Puts messages together again, within bounds."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, list[bytes]] = {}
        self._bytes = 0

    def take(self, piece: bytes) -> bytes | None:
        """The whole message, if this piece makes it whole."""
        if piece[:1] == _WHOLE:
            return piece[1:]
        if piece[:1] != _PART or len(piece) <= _HEAD_BYTES:
            return None
        name = piece[1 : 1 + _NAME_BYTES]
        number = int.from_bytes(piece[1 + _NAME_BYTES : 5 + _NAME_BYTES], "big")
        count = int.from_bytes(piece[5 + _NAME_BYTES : _HEAD_BYTES], "big")
        parts = self._waiting.get(name, [])
        if number != len(parts):
            self._drop(name)
            return None
        parts.append(piece[_HEAD_BYTES:])
        self._bytes += len(parts[-1])
        self._waiting[name] = parts
        if len(parts) == count:
            whole = b"".join(parts)
            self._drop(name)
            return whole
        while len(self._waiting) > BUS_PARTS_WAITING_MAX or self._bytes > BUS_WAITING_BYTES_MAX:
            self._drop(next(iter(self._waiting)))
        return None

    def _drop(self, name: bytes) -> None:
        self._bytes -= sum(map(len, self._waiting.pop(name, [])))
