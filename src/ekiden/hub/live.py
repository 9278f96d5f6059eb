"""What lives of one team while the hub runs: its newest frames, its growing items, its hosts."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import msgspec

from ekiden.hub import frames
from ekiden.hub.growing import GrowingItems
from ekiden.hub.hosts import HostLinks
from ekiden.hub.ring import Ring
from ekiden.kernel.clock import Clock
from ekiden.log.port import Event, Log
from ekiden.log.redacting import REDACTED, Redacted
from ekiden.sessions.wire import FeedGrew, FeedGrown

TeamHostChanged = Callable[[str, str, bool, str], None]
"""Told (team id, host id, whether it is here, when it was last seen)."""


class OtherNodes(Protocol):
    """The same hub's other nodes, for one team."""

    def grow(self, told: FeedGrew | FeedGrown, host_id: str) -> None:
        """Takes a piece here and tells it to them."""
        ...

    def note(self, event: Event) -> None:
        """A newly committed event."""
        ...


class Live:
    """One team's live state. All of it is used on the event loop only."""

    def __init__(self, team_id: str, log: Log, clock: Clock, host_changed: TeamHostChanged) -> None:
        self.team_id = team_id
        self.log = log
        self.ring = Ring()
        self.growing = GrowingItems(clock)
        self._host_changed = host_changed
        self.hosts = HostLinks(clock, self.ring.put, self._note_host)
        self.others: OtherNodes | None = None

    def take(self, events: Sequence[Event]) -> None:
        """Newly committed events, in order."""
        for event in events:
            if event.kind == REDACTED:
                self._redact(event)
            self.ring.put(frames.stored(event, self.log.log_id))
            self.growing.note(event)
            if self.others is not None:
                self.others.note(event)

    def _redact(self, event: Event) -> None:
        """What events said that are redacted is in nobody's memory here either."""
        for seq, digest in msgspec.json.decode(event.body, type=Redacted).events:
            self.ring.replace(seq, partial(frames.redacted, digest=digest))

    def grow(self, told: FeedGrew | FeedGrown, host_id: str) -> None:
        """A piece of a growing item, from the host that runs its turn."""
        if self.others is not None:
            self.others.grow(told, host_id)
        else:
            self.take_growth(told, host_id)

    def take_growth(self, told: FeedGrew | FeedGrown, host_id: str) -> None:
        """Puts a piece where it belongs, and before those who follow here."""
        for frame in self.growing.grow(told, host_id):
            self.ring.put(frame)

    def _note_host(self, host_id: str, here: bool, seen_at: str) -> None:
        if here:
            self.growing.host_here(host_id)
        else:
            self.growing.host_lost(host_id)
        self._host_changed(self.team_id, host_id, here, seen_at)
