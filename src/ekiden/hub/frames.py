"""What travels on a stream, encoded once.

A frame is one server-sent event: at most an `id:` line, and exactly one `data:` line of JSON. Whatever text an
event holds, it can end neither the line nor the frame: raw line ends stand outside of strings in JSON and
become spaces, and characters that some readers take for line ends (U+0085, U+2028, U+2029) are written as
escapes. Source: WHATWG HTML, "Server-sent events", section 9.2.6.
"""

from collections.abc import Sequence

import msgspec

from ekiden.log.port import Event


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One encoded frame. `seq` is 0 for what is not stored; the first topic decides who may read it."""

    seq: int
    topics: tuple[str, ...]
    data: bytes


class _Actor(msgspec.Struct, frozen=True, gc=False):
    id: str
    name: str


class _Stored(msgspec.Struct, frozen=True, gc=False):
    seq: int
    kind: str
    topic: str
    at: str
    actor: _Actor
    body: msgspec.Raw


class _Passing(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    kind: str
    body: object
    topic: str = ""


_encode = msgspec.json.Encoder().encode
_ESCAPES = (
    (b"\n", b" "),
    (b"\r", b" "),
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
    (b"\xc2\x85", b"\\u0085"),
)


def one_line(json: bytes) -> bytes:
    """The same JSON value on one line, for every reader's notion of a line."""
    for raw, escaped in _ESCAPES:
        if raw in json:
            json = json.replace(raw, escaped)
    return json


def stored(event: Event, log_id: str) -> Frame:
    """The frame of a stored event, with the cursor to resume after it."""
    data = one_line(
        _encode(
            _Stored(
                event.seq,
                event.kind,
                event.topics[0],
                event.at,
                _Actor(event.actor.principal_id, event.actor.name),
                msgspec.Raw(event.body),
            )
        )
    )
    return Frame(event.seq, event.topics, b"id: %b.%d\ndata: %b\n\n" % (log_id.encode(), event.seq, data))


def passing(kind: str, body: object, topics: Sequence[str] = ()) -> Frame:
    """A frame that is not stored. Without topics it is for one stream only (`stream.…`)."""
    topic = topics[0] if topics else ""
    return Frame(0, tuple(topics), b"data: %b\n\n" % one_line(_encode(_Passing(kind, body, topic))))
