"""Entries for the hub that are told at one time, bound by their encoded size.

An entry that is larger than the bound is alone in its batch.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from ekiden.host.sessions import Tracked
from ekiden.kernel.limits import FEED_BYTES_MAX, FEED_ENTRIES_MAX
from ekiden.sessions.wire import FeedEntry, FeedGrew, FeedSession

_encode = msgspec.json.Encoder().encode


def nothing() -> None:
    """Follows most entries."""


@dataclass(slots=True)
class Batch:
    """Entries on their way, and what becomes true once they are taken."""

    entries: list[FeedEntry] = field(default_factory=list[FeedEntry])
    then: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    """For each entry, what follows once it is taken."""
    reports: list[tuple[Tracked, str, str]] = field(default_factory=list[tuple[Tracked, str, str]])
    size: int = 0

    def add(self, entry: FeedEntry, then: Callable[[], None] = nothing) -> None:
        self.size += len(_encode(entry))
        self.entries.append(entry)
        self.then.append(then)

    def part(self, first: int, end: int) -> "Batch":
        """The entries `first` to `end` with all that hangs on them."""
        entries = self.entries[first:end]
        sessions = {entry.session.session_id for entry in entries if isinstance(entry, FeedSession)}
        reports = [one for one in self.reports if one[0].session_id in sessions]
        return Batch(entries, self.then[first:end], reports)

    @property
    def grows(self) -> bool:
        return any(isinstance(entry, FeedGrew) for entry in self.entries)

    @property
    def full(self) -> bool:
        return len(self.entries) >= FEED_ENTRIES_MAX or self.size >= FEED_BYTES_MAX // 2
