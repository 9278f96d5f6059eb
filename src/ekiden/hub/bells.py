"""Requests that wait for an event: woken by the commit, never by looking again and again.

A bell is rung on the event loop by the log's follower. Whoever waits looks at the log only before it waits and
after the bell rang, so nothing that was committed between the two is missed.

Each node also knows what is waited for at the others, as they tell it on the bus. That is a hint: it may be some
moments old.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from ekiden.kernel.errors import TooMany
from ekiden.kernel.limits import BELLS_PER_TOPIC_MAX, WAITS_TOLD_MAX
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
        self.changed: Callable[[str, str, bool], None] | None = None
        """Is told of a team's topic when somebody begins to wait for it here, and when nobody does any more."""
        self._hanging: dict[tuple[str, str], list[Bell]] = {}
        self._elsewhere: dict[str, dict[tuple[str, str], None]] = {}

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
        if len(hanging) == 1 and self.changed is not None:
            self.changed(*bell.place, True)
        if self.closed:
            bell.ring()

    def take_down(self, bell: Bell) -> None:
        """Forgets a bell."""
        hanging = self._hanging.get(bell.place, [])
        if bell in hanging:
            hanging.remove(bell)
        if not hanging and self._hanging.pop(bell.place, None) is not None and self.changed is not None:
            self.changed(*bell.place, False)

    def waits(self, team_id: str, topic: str) -> bool:
        """Whether somebody waits for a topic at this moment, here or, as far as is known, at another node. May be
        asked from any thread."""
        place = (team_id, topic)
        return place in self._hanging or any(place in places for places in tuple(self._elsewhere.values()))

    # The other nodes

    def told(self) -> dict[str, tuple[str, ...]]:
        """What is waited for here, by team: at most `WAITS_TOLD_MAX` topics, those that came first."""
        by_team: dict[str, list[str]] = {}
        for team_id, topic in islice(self._hanging, WAITS_TOLD_MAX):
            by_team.setdefault(team_id, []).append(topic)
        return {team_id: tuple(topics) for team_id, topics in by_team.items()}

    def hear(self, node_id: str, told: Mapping[str, Sequence[str]]) -> None:
        """All that is waited for at another node."""
        places = ((team_id, topic) for team_id, topics in told.items() for topic in topics)
        self._elsewhere[node_id] = dict.fromkeys(islice(places, WAITS_TOLD_MAX))

    def hear_of(self, node_id: str, team_id: str, topic: str, *, waits: bool) -> None:
        """That somebody begins to wait for a topic at another node, or that nobody does any more."""
        places = self._elsewhere.setdefault(node_id, {})
        if not waits:
            places.pop((team_id, topic), None)
        elif len(places) < WAITS_TOLD_MAX:
            places[team_id, topic] = None

    def forget(self, node_id: str) -> None:
        """A node is gone, and with it who waited there."""
        self._elsewhere.pop(node_id, None)

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
