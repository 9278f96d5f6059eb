"""What travels on a stream, encoded once.

A frame is one server-sent event: at most an `id:` line, and exactly one `data:` line of JSON. Whatever text an
event holds, it can end neither the line nor the frame: raw line ends stand outside of strings in JSON and
become spaces, and characters that some readers take for line ends (U+0085, U+2028, U+2029) are written as
escapes. Source: WHATWG HTML, "Server-sent events", section 9.2.6.
"""

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from ekiden.log.port import Actor, Event


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One encoded frame. `seq` is 0 for what is not stored; the first topic decides who may read it."""

    seq: int
    topics: tuple[str, ...]
    data: bytes


class _Passing(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    kind: str
    body: object
    topic: str = ""


_encode = msgspec.json.Encoder().encode
_LINE_ENDS = ((b"\n", b" "), (b"\r", b" "))
_LIKE_LINE_ENDS = (
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
    (b"\xc2\x85", b"\\u0085"),
)


def one_line(json: bytes) -> bytes:
    """The same JSON value on one line, for every reader's notion of a line."""
    for raw, escaped in _LINE_ENDS if json.isascii() else (*_LINE_ENDS, *_LIKE_LINE_ENDS):
        if raw in json:
            json = json.replace(raw, escaped)
    return json


@lru_cache(maxsize=4_096)
def _kind_and_topic(kind: str, topic: str) -> bytes:
    return one_line(b'"kind":%b,"topic":%b' % (_encode(kind), _encode(topic)))


@lru_cache(maxsize=1_024)
def _actor(actor: Actor) -> bytes:
    return one_line(_encode({"id": actor.principal_id, "name": actor.name}))


def stored(event: Event, log_id: str) -> Frame:
    """The frame of a stored event, with the cursor to resume after it. Its parts but for the body repeat so often
    that they are encoded once."""
    data = b'id: %b.%d\ndata: {"seq":%d,%b,"at":"%b","actor":%b,"body":%b}\n\n' % (
        log_id.encode(),
        event.seq,
        event.seq,
        _kind_and_topic(event.kind, event.topics[0]),
        event.at.encode(),
        _actor(event.actor),
        one_line(event.body),
    )
    return Frame(event.seq, event.topics, data)


_BODY = b',"body":'
"""Where the body of a stored frame begins: in the texts before it, a quote has a backslash."""


def redacted(frame: Frame, digest: str) -> Frame:
    """A stored frame without what its event said."""
    head, _, _ = frame.data.partition(_BODY)
    body = _encode({"digest": digest, "redacted": True})
    return Frame(frame.seq, frame.topics, b"%b%b%b}\n\n" % (head, _BODY, body))


def passing(kind: str, body: object, topics: Sequence[str] = ()) -> Frame:
    """A frame that is not stored. Without topics it is for one stream only (`stream.…`)."""
    topic = topics[0] if topics else ""
    return Frame(0, tuple(topics), b"data: %b\n\n" % one_line(_encode(_Passing(kind, body, topic))))
