"""A channel or a thread as pages that can be checked with no hub (`ekiden.crypto.verify`).

The first page has the epochs; then come the directory of member keys, the notes of purges, the messages, and
every line of status. What is written while the pages are read comes too, or comes not: each page says what it
is.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import assert_never

import msgspec

from ekiden.kernel import limits
from ekiden.kernel.errors import Invalid
from ekiden.log.port import Reading, Row
from ekiden.relay.directory import read_directory
from ekiden.relay.epochs import all_epochs
from ekiden.relay.keeping import decode_message
from ekiden.relay.notary import with_signature
from ekiden.relay.retention import list_purges
from ekiden.relay.team_key import known_team_key
from ekiden.relay.wire import Channel
from ekiden.relay.wire_state import Exported, Status

_status = msgspec.json.Decoder(Status).decode
_replace = msgspec.structs.replace


class Part(StrEnum):
    """What a page holds."""

    DIRECTORY = "d"
    PURGES = "p"
    MESSAGES = "m"
    STATUSES = "s"


async def export(
    reading: Reading, channel: Channel, *, log_id: str, after: str, limit: int, thread: str
) -> Exported:
    """A page. `after`: `next` of the page before; `thread`: only the messages of that thread.

    Raises:
        Invalid: if `after` is no place in an export.
    """
    part, place = _place(after)
    key = await known_team_key(reading)
    page = Exported(
        channel=_replace(channel, unread=None),
        messages=(),
        hub_key=key.public_key if key is not None else "",
        team_id=reading.team_id,
        thread=thread,
    )
    match part:
        case Part.DIRECTORY:
            entries = await read_directory(reading, after=int(place), limit=limit)
            page = _replace(page, directory=entries.entries, next=_next(part, entries.next))
            if not after:
                page = _replace(page, epochs=await all_epochs(reading, channel, limits.EPOCHS_EXPORTED_MAX))
        case Part.PURGES:
            notes = await list_purges(reading, channel, log_id=log_id, after=place, limit=limit)
            page = _replace(page, purges=notes.purges, next=_next(part, notes.next))
        case Part.MESSAGES:
            rows = await reading.rows(
                "relay.messages_to_export",
                team_id=reading.team_id,
                channel_id=channel.channel_id,
                after=int(place),
                thread_id=thread,
                most=limit + 1,
            )
            shown = _cut(rows, limit, "message")
            more = str(shown[-1]["number"]) if len(shown) < len(rows) else ""
            page = _replace(
                page,
                messages=tuple(
                    with_signature(decode_message(row["message"]), reading.team_id, key.seed if key else None)
                    for row in shown
                ),
                next=_next(part, more) if more or not thread else "",
            )
        case Part.STATUSES:
            rows = await reading.rows(
                "relay.status_changes",
                team_id=reading.team_id,
                channel_id=channel.channel_id,
                after=int(place),
                most=limit + 1,
            )
            shown = _cut(rows, limit, "status")
            more = str(shown[-1]["seq"]) if len(shown) < len(rows) else ""
            page = _replace(
                page,
                statuses=tuple(_status(row["status"]) for row in shown),
                next=_next(part, more),
            )
        case _:
            assert_never(part)
    return page


def _cut(rows: Sequence[Row], limit: int, column: str) -> list[Row]:
    """At most `limit` rows, and about `EXPORT_PAGE_BYTES_MAX` of them; one at least."""
    size = 0
    for count, row in enumerate(rows[:limit]):
        size += len(row[column])
        if size > limits.EXPORT_PAGE_BYTES_MAX and count:
            return list(rows[:count])
    return list(rows[:limit])


def _place(after: str) -> tuple[Part, str]:
    if not after:
        return Part.DIRECTORY, "0"
    name, _, place = after.partition(".")
    if name not in set(Part) or not (place.isascii() and place.isdigit() and len(place) < 18):
        raise Invalid("This is no place in an export.", hint="Start again without `after`.")
    return Part(name), place


def _next(part: Part, more: str) -> str:
    """Where the next page begins: further in the same part, or at the next one; "" after the last."""
    if more:
        return f"{part}.{more}"
    parts = list(Part)
    following = parts.index(part) + 1
    return f"{parts[following]}.0" if following < len(parts) else ""
