"""What lives of one team while the hub runs: its newest frames, its growing items, its hosts."""

from collections.abc import Callable, Sequence

from ekiden.hub import frames
from ekiden.hub.growing import GrowingItems
from ekiden.hub.hosts import HostLinks
from ekiden.hub.ring import Ring
from ekiden.kernel.clock import Clock
from ekiden.log.port import Event, Log
from ekiden.sessions.wire import FeedGrew, FeedGrown

TeamHostChanged = Callable[[str, str, bool, str], None]
"""Told (team id, host id, whether it is here, when it was last seen)."""


class Live:
    """One team's live state. All of it is used on the event loop only."""

    def __init__(self, team_id: str, log: Log, clock: Clock, host_changed: TeamHostChanged) -> None:
        self.team_id = team_id
        self.log = log
        self.ring = Ring()
        self.growing = GrowingItems(clock)
        self._host_changed = host_changed
        self.hosts = HostLinks(clock, self.ring.put, self._note_host)

    def take(self, events: Sequence[Event]) -> None:
        """Newly committed events, in order."""
        for event in events:
            self.ring.put(frames.stored(event, self.log.log_id))
            self.growing.note(event)

    def grow(self, told: FeedGrew | FeedGrown, host_id: str) -> None:
        """A piece of a growing item, from the host that runs its turn."""
        for frame in self.growing.grow(told, host_id):
            self.ring.put(frame)

    def _note_host(self, host_id: str, here: bool, seen_at: str) -> None:
        if here:
            self.growing.host_here(host_id)
        else:
            self.growing.host_lost(host_id)
        self._host_changed(self.team_id, host_id, here, seen_at)
