"""Requests that wait for an event: woken by the commit, never by looking again and again.

A bell is rung on the event loop by the log's follower. Whoever waits looks at the log only before it waits and
after the bell rang, so nothing that was committed between the two is missed.
"""

import asyncio
from collections.abc import Sequence

from ekiden.kernel.errors import TooMany
from ekiden.kernel.limits import BELLS_PER_TOPIC_MAX
from ekiden.log.port import Event


class Bell:
    """See `kernel.door.Bell`."""

    __slots__ = ("_bells", "_deadline", "_rang", "place")

    def __init__(self, bells: "Bells", place: tuple[str, str], within_s: float) -> None:
        self._bells = bells
        self._rang = asyncio.Event()
        self._deadline = asyncio.get_running_loop().time() + within_s
        self.place = place

    def __enter__(self) -> "Bell":
        self._bells.hang(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._bells.take_down(self)

    def ring(self) -> None:
        """Lets who waits go on."""
        self._rang.set()

    async def rung(self) -> bool:
        """Waits for the next ring; False once the time is over or the hub ends."""
        try:
            async with asyncio.timeout_at(self._deadline):
                await self._rang.wait()
        except TimeoutError:
            return False
        self._rang.clear()
        return not self._bells.closed


class Bells:
    """All bells of a hub, by team and topic."""

    def __init__(self) -> None:
        self.closed = False
        self._hanging: dict[tuple[str, str], list[Bell]] = {}

    def bell(self, team_id: str, topic: str, within_s: float) -> Bell:
        """A bell for the events of a team's topic; its `with` block hangs it."""
        return Bell(self, (team_id, topic), within_s)

    def hang(self, bell: Bell) -> None:
        """Lets a bell be rung from now on.

        Raises:
            TooMany: if `BELLS_PER_TOPIC_MAX` wait for its topic already.
        """
        hanging = self._hanging.setdefault(bell.place, [])
        if len(hanging) >= BELLS_PER_TOPIC_MAX:
            raise TooMany("Too many requests wait for the same.", max=BELLS_PER_TOPIC_MAX, retry_after_s=1)
        hanging.append(bell)
        if self.closed:
            bell.ring()

    def take_down(self, bell: Bell) -> None:
        """Forgets a bell."""
        hanging = self._hanging.get(bell.place, [])
        if bell in hanging:
            hanging.remove(bell)
        if not hanging:
            self._hanging.pop(bell.place, None)

    def waits(self, team_id: str, topic: str) -> bool:
        """Whether somebody waits for a topic at this moment, at this node. May be asked from any thread."""
        return (team_id, topic) in self._hanging

    def note(self, team_id: str, events: Sequence[Event]) -> None:
        """Rings for newly committed events."""
        if not self._hanging:
            return
        for topic in {topic for event in events for topic in event.topics}:
            for bell in self._hanging.get((team_id, topic), ()):
                bell.ring()

    def close(self) -> None:
        """Lets all who wait go on, now and later: the hub ends."""
        self.closed = True
        for hanging in self._hanging.values():
            for bell in hanging:
                bell.ring()
