"""Server-sent events as the door writes them, from bytes to frames; no input or output here.

Source: WHATWG HTML, 9.2 "Server-sent events"; of its fields the door uses `id` and `data`. The newline forms
and comments that the standard allows are all read, since a proxy may rewrite them.
"""

from typing import TypeVar

import msgspec

from ekiden.kernel.errors import Unavailable
from ekiden.kernel.limits import CLIENT_FRAME_BYTES_MAX

T = TypeVar("T")

LOST = "client.lost"
"""Kind of the one frame that the client itself makes: the stream broke and is opened again in `again_in_s`."""


class FrameActor(msgspec.Struct, frozen=True):
    """Who caused an event."""

    id: str = ""
    name: str = ""


class _Data(msgspec.Struct, frozen=True):
    kind: str
    seq: int = 0
    topic: str = ""
    at: str = ""
    actor: FrameActor = FrameActor()
    body: msgspec.Raw = msgspec.Raw(b"null")


class Frame(msgspec.Struct, frozen=True):
    """One frame of the stream. `id` is the cursor to resume after; empty (as `seq` is 0) if it is not stored."""

    id: str
    kind: str
    body: msgspec.Raw
    topic: str = ""
    at: str = ""
    actor: FrameActor = FrameActor()
    seq: int = 0

    def read(self, type: type[T]) -> T:
        """The body as `type`.

        Raises:
            msgspec.ValidationError: if it has another shape.
        """
        return msgspec.json.decode(self.body, type=type)


class Hello(msgspec.Struct, frozen=True):
    """Body of `stream.hello`, the first frame of every stream."""

    cursor: str = ""
    boot_id: str = ""
    beat_s: float = 0.0
    topics: tuple[str, ...] = ()


class Lost(msgspec.Struct, frozen=True):
    """Body of `client.lost`."""

    reason: str
    again_in_s: float


_decoder = msgspec.json.Decoder(_Data)


class FrameParser:
    """Takes the bytes of a stream in pieces of any size and gives whole frames."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._id = ""
        self._size = 0

    def feed(self, piece: bytes) -> list[Frame]:
        """Frames that `piece` completes, in order.

        Raises:
            Unavailable: if a frame is over `CLIENT_FRAME_BYTES_MAX` or is not of the door's form.
        """
        text = self._rest + piece
        if b"\r" in text:
            # A carriage return at the very end may be half of a pair: it waits for the next piece.
            held = text.endswith(b"\r")
            text = (text[:-1] if held else text).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            tail = b"\r" if held else b""
        else:
            tail = b""
        *lines, rest = text.split(b"\n")
        self._rest = rest + tail
        frames: list[Frame] = []
        for line in lines:
            if not line:
                if self._data:
                    frames.append(self._whole())
                self._id = ""
                continue
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                self._data.append(value)
                self._size += len(value)
            elif name == b"id":
                self._id = value.decode("utf-8", "replace")
        if self._size + len(self._rest) > CLIENT_FRAME_BYTES_MAX:
            raise Unavailable("The stream sent a frame that is too large to hold.", max=CLIENT_FRAME_BYTES_MAX)
        return frames

    def _whole(self) -> Frame:
        body = b"\n".join(self._data)
        self._data.clear()
        self._size = 0
        try:
            data = _decoder.decode(body)
        except msgspec.DecodeError as error:
            raise Unavailable(f"The stream sent something that is no frame: {error}") from error
        return Frame(
            id=self._id,
            kind=data.kind,
            body=data.body,
            topic=data.topic,
            at=data.at,
            actor=data.actor,
            seq=data.seq,
        )
