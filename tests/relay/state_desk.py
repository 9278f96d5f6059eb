"""State on a real log: channels, and callers with maps of their own, who go through the room's own endpoints."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ekiden.access.rights import allows
from ekiden.hub.people import TeamPeople
from ekiden.kernel.door import HubFacts
from ekiden.kernel.ids import Prefix, derived_id, new_id
from ekiden.log.open import open_log
from ekiden.log.port import Actor, Command, Event
from ekiden.log.queries import joined, load_queries, room_queries
from ekiden.relay import leases, status
from ekiden.relay.keeping import text_of
from ekiden.relay.port import Ports
from ekiden.relay.routes_state import State
from ekiden.relay.wire import Channel
from ekiden.relay.wire_state import (
    ClearStatus,
    Lease,
    Leases,
    ReleaseLease,
    SetStatus,
    Status,
    Statuses,
    StatusRule,
    StatusRules,
    TakeLease,
)
from ekiden.testing.clock import StillClock

_STATE = State(Ports(TeamPeople()))
TEAM = "tem_00000000000000000001"
ALL = {"*": ["read", "admin"]}

QUERIES = joined(
    room_queries("ekiden.relay"),
    room_queries("ekiden.access"),
    load_queries(
        "test",
        """
-- name: add_channel
-- A channel as it is.
INSERT INTO channels (team_id, channel_id, name, private, state, channel)
VALUES (:team_id, :channel_id, :name, 0, :state, :channel)
ON CONFLICT (team_id, channel_id) DO UPDATE SET state = excluded.state, channel = excluded.channel;

-- name: add_head
-- How far its numbers reach.
INSERT INTO channel_heads (team_id, channel_id, first_number, last_number, spoken_number, members)
VALUES (:team_id, :channel_id, 1, 0, 0, 0) ON CONFLICT (team_id, channel_id) DO NOTHING;

-- name: add_principal
-- Somebody of a kind.
INSERT INTO principals (principal_id, team_id, kind, name, canonical, host_id, made_at)
VALUES (:principal_id, :team_id, :kind, :name, :name, '', '');
""",
    ),
)


@dataclass
class StateCall:
    """`ekiden.kernel.door.Call` as far as state uses it."""

    log: Any
    hub: HubFacts
    actor: Actor
    permissions: Mapping[str, Sequence[str]]
    parameters: Mapping[str, str]
    query: Mapping[str, str] = field(default_factory=dict)
    command: Command | None = None
    from_loopback: bool = True
    team_id: str = TEAM

    def may(self, verb: str, resource: str) -> bool:
        return allows(self.permissions, verb, resource)

    async def write(self, verb: Callable[[Any], Awaitable[object]]) -> Any:
        return await self.log.write(self.team_id, verb, command=self.command)

    async def ask(self, question: Callable[[Any], Awaitable[Any]]) -> Any:
        return await self.log.ask(self.team_id, question)


class Caller:
    """Somebody with a key, at one channel."""

    def __init__(self, desk: "Desk", name: str, permissions: Mapping[str, Sequence[str]], channel: str) -> None:
        self.desk = desk
        self.actor = Actor(derived_id(Prefix.PRINCIPAL, name), derived_id(Prefix.KEY, name), name)
        self.permissions = permissions
        self.channel = channel

    def call(self, query: Mapping[str, object] | None = None, **parameters: str) -> StateCall:
        """A request of this caller."""
        asked = {name: str(value) for name, value in (query or {}).items()}
        return StateCall(
            self.desk.log,
            self.desk.hub,
            self.actor,
            self.permissions,
            {"channel": self.channel, **parameters},
            asked,
        )

    async def _written(self, written: Awaitable[Any], kind: type[Any]) -> Any:
        return msgspec.json.decode((await written).answer, type=kind)

    async def set(self, key: str, value: Any = None, **fields: Any) -> Status:
        """Sets a key."""
        body = SetStatus(value=value, **fields)
        return await self._written(_STATE.set_status(self.call(key=key), body), Status)

    async def clear(self, key: str, if_version: int | None = None) -> Status:
        """Clears a key."""
        body = ClearStatus(if_version)
        return await self._written(_STATE.clear_status(self.call(key=key), body), Status)

    async def get(self, key: str) -> Status:
        """One key now."""
        return await _STATE.view_status(self.call(key=key))

    async def list(self, **query: object) -> Statuses:
        """All keys now."""
        return await _STATE.list_statuses(self.call(query))

    async def history(self, key: str, **query: object) -> Statuses:
        """A key's lines."""
        return await _STATE.status_history(self.call(query, key=key))

    async def changes(self, **query: object) -> Statuses:
        """All lines of the channel."""
        return await _STATE.status_changes(self.call(query))

    async def rules(self, *rules: StatusRule) -> StatusRules:
        """Sets the channel's rules."""
        return await self._written(_STATE.put_rules(self.call(), StatusRules(rules)), StatusRules)

    async def take(self, name: str, lease_s: int = 60, fence: int = 0, note: str = "") -> Lease:
        """Takes or renews a lease."""
        body = TakeLease(lease_s, fence, note)
        return await self._written(_STATE.take_lease(self.call(name=name), body), Lease)

    async def release(self, name: str, fence: int = 0) -> Lease:
        """Lets a lease go."""
        return await self._written(_STATE.release_lease(self.call(name=name), ReleaseLease(fence)), Lease)

    async def lease(self, name: str) -> Lease:
        """One lease now."""
        return await _STATE.view_lease(self.call(name=name))

    async def leases(self, **query: object) -> Leases:
        """All leases of the channel."""
        return await _STATE.list_leases(self.call(query))


@dataclass
class Desk:
    """A log with channels."""

    log: Any
    clock: StillClock
    hub: HubFacts

    async def channel(self, name: str = "build", **fields: Any) -> Channel:
        """A channel as it is kept; made anew under the same id it is changed."""
        channel = Channel(
            channel_id=fields.pop("channel_id", "") or derived_id(Prefix.CHANNEL, name), name=name, **fields
        )

        async def verb(tx: Any) -> None:
            await tx.run(
                "test.add_channel",
                team_id=TEAM,
                channel_id=channel.channel_id,
                name=name,
                private=int(channel.private),
                state=channel.state.value,
                channel=text_of(channel),
            )
            await tx.run("test.add_head", team_id=TEAM, channel_id=channel.channel_id)

        await self.log.write(TEAM, verb)
        return channel

    async def principal(self, caller: Caller, kind: str) -> None:
        """Says of what kind a caller is."""

        async def verb(tx: Any) -> None:
            await tx.run(
                "test.add_principal",
                principal_id=caller.actor.principal_id,
                team_id=TEAM,
                kind=kind,
                name=caller.actor.name,
            )

        await self.log.write(TEAM, verb)

    def caller(
        self, name: str = "Ada", permissions: Mapping[str, Sequence[str]] = ALL, channel: str = "build"
    ) -> Caller:
        """Somebody with a map."""
        return Caller(self, name, permissions, channel)

    async def tidy(self) -> None:
        """What the chore does: says of all whose time is over that it is."""

        async def verb(tx: Any) -> int:
            return await status.expire_statuses(tx) + await leases.end_leases(tx)

        while (await self.log.write(TEAM, verb)).answer != b"0":
            pass

    async def events(self, after: int = 0) -> list[Event]:
        """All events after a seq."""
        return list(await self.log.events(TEAM, after, limit=100_000))

    async def head(self) -> int:
        """The newest event's seq."""
        return (await self.log.bounds(TEAM))[1]


@asynccontextmanager
async def open_desk(place: str, clock: StillClock | None = None) -> AsyncIterator[Desk]:
    """A desk on a log with the channel `build`."""
    still = clock or StillClock()
    log = await open_log(place, clock=still, queries=QUERIES)
    try:
        desk = Desk(log, still, HubFacts("0", new_id(Prefix.EVENT), log.log_id, "http://127.0.0.1:7433"))
        await desk.channel()
        yield desk
    finally:
        await log.close()
