"""The words of Codex's own records: how rows are told apart, ids derived and values read with care.

A rollout is a file of JSON lines, `{timestamp, ordinal?, type, payload}`. Most bytes of a real one are
bookkeeping, so a row's kind is read off its first bytes and only rows that people see are parsed whole.
Source: rollouts written by codex-cli 0.137 to 0.171, and the bare forms of its first versions.
"""

import json
import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from ekiden.kernel.canonical import whole_text
from ekiden.kernel.ids import Prefix, derived_id

VENDOR = "codex"

Record = dict[str, Any]
"""One JSON object as Codex wrote it. Nothing in it is taken for granted."""

_HEAD = re.compile(
    rb'\{"timestamp": ?(?:"([^"]{0,40})"|null), ?'
    rb'(?:"ordinal": ?([0-9]{1,18}), ?)?'
    rb'"type": ?"([a-z_]{1,64})", ?'
    rb'"payload": ?\{ ?(?:"type": ?"([A-Za-z_]{1,64})")?'
)
_ORDINAL = re.compile(rb'"ordinal":\s?(\d{1,18})')
_ORDINAL_WITHIN_BYTES = 256
_USUAL_TIME = re.compile(r"20(?:1[5-9]|[2-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
"""What needs no look at the calendar: the form of nearly all times, in `_YEARS`."""
_YEARS = range(2015, 2100)
_EPOCH_MILLISECONDS_FROM = 100_000_000_000


def item_id(thread_id: str, native_item_id: str) -> str:
    """The neutral id of an item of a thread: the same from the live stream, the file and every re-reading."""
    return derived_id(Prefix.ITEM, VENDOR, thread_id, native_item_id)


def turn_id(thread_id: str, native_turn_id: str) -> str:
    """The neutral id of a turn of a thread."""
    return derived_id(Prefix.TURN, VENDOR, thread_id, native_turn_id)


class Head(msgspec.Struct, frozen=True, gc=False):
    """What the first bytes of a row say. `sub` is the payload's own type, where it comes first."""

    timestamp: str
    ordinal: int | None
    kind: str
    sub: str
    payload_at: int
    """Where in the line the payload's fields begin."""


def head_of(raw: bytes) -> Head | None:
    """The head of a row in Codex's usual spelling, or None: then the row has to be parsed to know it."""
    found = _HEAD.match(raw)
    if found is None:
        return None
    timestamp, ordinal, kind, sub = found.groups()
    if timestamp and b"\\" in timestamp:  # its quote may be an escaped one
        return None
    return Head(
        timestamp.decode("ascii", "replace") if timestamp else "",
        int(ordinal) if ordinal else None,
        kind.decode("ascii"),
        sub.decode("ascii") if sub else "",
        found.end(),
    )


def ordinal_of(raw: bytes) -> int | None:
    """The ordinal of a row, for reading a parent up to where a fork by reference leaves it."""
    found = _ORDINAL.search(raw, 0, _ORDINAL_WITHIN_BYTES)
    return int(found[1]) if found else None


def decoded(raw: bytes) -> object:
    """`raw` as JSON. Bears broken surrogate pairs, as escapes and as raw bytes, and bytes that are no UTF-8.

    Raises:
        ValueError: if it is no JSON, or nested beyond reason.
    """
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        text = raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        text = raw.decode("utf-8", "replace")
    try:
        return json.loads(text, strict=False)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def record(value: object) -> Record:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType] - a cast is a call


def listed(value: object) -> list[Any]:
    """`value` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType] - as above


def text_of(value: object) -> str:
    """`value` if it is text, made whole (see `whole_text`), else empty."""
    if not isinstance(value, str):
        return ""
    return value if value.isascii() else whole_text(value)


def number_of(value: object) -> int | None:
    """`value` as a whole number of reasonable size, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if -(2**53) < value < 2**53 else None


def sane_time(value: object) -> str:
    """`value` as RFC 3339 in UTC with milliseconds, or empty where it is missing, malformed or absurd.

    Takes RFC 3339 with any offset, and seconds or milliseconds since the epoch.
    """
    if isinstance(value, str):
        if _USUAL_TIME.fullmatch(value):
            return value
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return ""
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value / 1000 if value >= _EPOCH_MILLISECONDS_FROM else value
        try:
            moment = datetime.fromtimestamp(seconds, UTC)
        except (ValueError, OverflowError, OSError):
            return ""
    else:
        return ""
    try:
        moment = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return ""
    if moment.year not in _YEARS:
        return ""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds_of(duration: object) -> int | None:
    """A duration as Codex writes it: `{secs, nanos}`."""
    fields = record(duration)
    seconds, nanos = number_of(fields.get("secs")), number_of(fields.get("nanos"))
    return None if seconds is None else seconds * 1000 + (nanos or 0) // 1_000_000
