"""A door of one room, without a network: calls run on a real log in memory."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ekiden.access.gate import AccessGate, open_home
from ekiden.access.rights import allows
from ekiden.access.rules import Identity
from ekiden.kernel.door import HubFacts
from ekiden.log.open import open_log
from ekiden.log.port import Actor, Command, Event, Written
from ekiden.log.queries import room_queries
from ekiden.testing.clock import StillClock


@dataclass
class RoomCall:
    """`ekiden.kernel.door.Call` for one room."""

    log: Any
    hub: HubFacts
    team_id: str
    actor: Actor
    permissions: Mapping[str, Sequence[str]]
    from_loopback: bool = True
    parameters: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    command: Command | None = None
    kind: str = "person"

    def may(self, verb: str, resource: str) -> bool:
        return allows(self.permissions, verb, resource)

    async def write(self, verb: Callable[[Any], Awaitable[object]]) -> Written:
        return await self.log.write(self.team_id, verb, command=self.command)

    async def ask(self, question: Callable[[Any], Awaitable[Any]]) -> Any:
        return await self.log.ask(self.team_id, question)


@dataclass
class Room:
    """An opened access room with its owner's key."""

    log: Any
    clock: StillClock
    gate: AccessGate
    team_id: str
    owner_key: str
    owner: Identity

    def call(self, identity: Identity | None = None, **also: Any) -> RoomCall:
        """A call by `identity` (the owner if none is named)."""
        who = identity or self.owner
        hub = HubFacts("0", "boot", self.log.log_id, "http://127.0.0.1:7433")
        actor = Actor(who.principal_id, who.key_id, who.name)
        return RoomCall(self.log, hub, self.team_id, actor, who.permissions, kind=who.kind.value, **also)

    def stranger(self, **also: Any) -> RoomCall:
        """A call at an open endpoint."""
        hub = HubFacts("0", "boot", self.log.log_id, "http://127.0.0.1:7433")
        return RoomCall(self.log, hub, self.team_id, Actor(""), {}, **also)

    async def told(self) -> list[Event]:
        """All events of the access topic so far."""
        return list(await self.log.events(self.team_id, 0, topics=["access"], limit=10_000))


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
async def room(clock: StillClock, log_place: str) -> AsyncIterator[Room]:
    log = await open_log(log_place, clock=clock, queries=room_queries("ekiden.access"))
    team_id, owner_key = await open_home(log, clock)
    gate = AccessGate(log, clock)
    yield Room(log, clock, gate, team_id, owner_key, await gate.identify(owner_key))
    await log.close()
