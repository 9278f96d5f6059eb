"""What all engines do alike with what a verb hands them: whole events, encoded answers, worded refusals."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

import msgspec

from ekiden.kernel import limits
from ekiden.kernel.canonical import whole_text
from ekiden.kernel.errors import CommandInFlight, CommandReused, EkidenError, TooLarge, TooMany, Unavailable
from ekiden.log.port import Actor, Event

LOG_TABLES = re.compile(r"\b(events|event_topics|commands|teams)\b", re.IGNORECASE)
"""Finds the queries that look at the log's own tables: what a batch has appended must be rows before they run."""

_encoder = msgspec.json.Encoder()


def new_event(seq: int, kind: str, body: object, *, topics: Sequence[str], actor: Actor, at: str) -> Event:
    """The event that a verb appends, checked here, so that no engine stumbles over it at its commit.

    Raises:
        TooLarge: if the body is over `EVENT_BODY_BYTES_MAX`.
        ValueError: if kind or topics are not proper, or the body's bytes are not text.
    """
    text = as_text(body) if isinstance(body, bytes) else encoded(body)
    if len(text) > limits.EVENT_BODY_BYTES_MAX:
        raise TooLarge(
            f"An event may hold {limits.EVENT_BODY_BYTES_MAX} bytes, this one has {len(text)}.",
            size=len(text),
            max=limits.EVENT_BODY_BYTES_MAX,
        )
    chosen, _ = proper(kind, tuple(topics))
    if not (actor.name.isascii() and actor.name.isprintable()):
        actor = replace(actor, name=storable_text(actor.name))
    return Event(seq, kind, chosen, at, actor, text)


@lru_cache(maxsize=4_096)
def proper(kind: str, topics: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """The topics, each once, and as one text. The same few come again and again.

    Raises:
        ValueError: if there are none or too many, or kind or topics are of another form.
    """
    chosen = tuple(dict.fromkeys(topics))
    joined = " ".join(chosen)
    if not 0 < len(chosen) <= limits.EVENT_TOPICS_MAX or len(joined.split()) != len(chosen):
        raise ValueError(f"an event has 1 to {limits.EVENT_TOPICS_MAX} topics without spaces, not {chosen!r}")
    if not (joined.isascii() and kind.isascii() and joined.isprintable() and kind.isprintable()):
        raise ValueError(f"kinds and topics are made here, in ASCII; not {kind!r} on {chosen!r}")
    return chosen, joined


# Of many events few differ in these, so they are made once when they are read back.
actor_of = lru_cache(maxsize=1_024)(Actor)


@lru_cache(maxsize=4_096)
def topics_of(on: str) -> tuple[str, ...]:
    """An event's topics from the one text that they are stored as."""
    return tuple(on.split(" "))


def as_text(body: bytes) -> bytes:
    """`body`, if it is text that every engine can hold.

    Raises:
        ValueError: if it is not UTF-8, or holds a NUL, which JSON never does.
    """
    body.decode()
    if b"\0" in body:
        raise ValueError("JSON holds no NUL")
    return body


def storable_text(text: str) -> str:
    """`text` as every engine can hold it: halves of surrogate pairs and NULs become U+FFFD."""
    if text.isascii() and text.isprintable():
        return text
    return whole_text(text).replace("\0", "\ufffd")


def encoded(value: object) -> bytes:
    """`value` as JSON. Lone surrogates, which UTF-8 cannot hold, become U+FFFD."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(_whole(msgspec.to_builtins(value)))


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list):
        return [_whole(entry) for entry in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {_whole(key): _whole(entry) for key, entry in cast("dict[Any, Any]", value).items()}
    return value


def reused() -> CommandReused:
    """That a command id came again with another body."""
    return CommandReused(
        "This command id was used before with another body.",
        hint="Take a new Command-Id for a new command.",
    )


def running(digest_running: str, digest: str) -> EkidenError:
    """What a command is told whose id is being carried out at this moment."""
    if digest_running != digest:
        return reused()
    return CommandInFlight(
        "The same command is being carried out at this moment.", hint="Send it again to get its answer."
    )


def too_many(what: str, most: int) -> TooMany:
    """That the queue of commands or questions is full."""
    return TooMany(f"Too many {what} wait for the log already.", max=most, retry_after_s=1)


def closing() -> Unavailable:
    """That the log takes nothing more."""
    return Unavailable("The log is closing.", hint="Try again when Ekiden is up.")
