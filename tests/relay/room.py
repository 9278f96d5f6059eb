"""The relay room on a real log, with people and agents that tests speak for. Each method is one write or
question."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ekiden.access.names import canonical_name
from ekiden.access.rights import allows
from ekiden.kernel.ids import Prefix, derived_id, new_id
from ekiden.log.open import open_log
from ekiden.log.port import Actor, Event, Log, Reading, Transaction
from ekiden.log.queries import joined, load_queries, room_queries
from ekiden.relay import attachments, channels, messages, receiving, views
from ekiden.relay.keeping import Caller
from ekiden.relay.port import Known, Notice, Ports
from ekiden.relay.wire import (
    Ack,
    ChangeChannel,
    ChangeThread,
    Channel,
    Channels,
    Edit,
    Laggards,
    Member,
    Members,
    Mentions,
    Message,
    Messages,
    NewChannel,
    NewMember,
    Post,
    Posted,
    Receipt,
    RelaySearch,
    Thread,
    Threads,
    Way,
)
from ekiden.testing.clock import StillClock

TEAM = "tem_00000000000000000001"
ALL = {"*": ["read", "admin"]}
AGENT = {"channel:*": ["read", "post", "ack", "mention", "lease", "status:*"]}


QUERIES = joined(
    room_queries("ekiden.relay"),
    load_queries(
        "test",
        """
-- name: all_texts
-- Every column that may hold what somebody said.
SELECT 'message' AS place, words || message AS text FROM channel_messages WHERE team_id = :team_id
UNION ALL SELECT 'thread', thread FROM channel_threads WHERE team_id = :team_id
UNION ALL SELECT 'delivery', delivery || reason FROM deliveries WHERE team_id = :team_id
UNION ALL SELECT 'answer', answer FROM commands WHERE team_id = :team_id;
""",
    ),
)


@dataclass
class Team:
    """Who there is: see `relay.port.People`."""

    known_: dict[str, Known] = field(default_factory=dict)
    rights: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    async def named(self, reading: Reading, name: str, now: str) -> Sequence[Known]:
        return [who for who in self.known_.values() if canonical_name(who.name) == canonical_name(name)]

    async def known(self, reading: Reading, principal_id: str) -> Known | None:
        return self.known_.get(principal_id)

    async def may(self, reading: Reading, principal_id: str, verb: str, resource: str, now: str) -> bool:
        held = self.rights.get(principal_id, {})
        return allows(held, verb, resource) or allows(held, "admin", resource)


@dataclass
class Noting:
    """A waker that notes whom it was asked to reach."""

    notices: list[Notice] = field(default_factory=list)

    async def reach(self, tx: Transaction, principal_id: str, kind: str, notice: Notice) -> Way | None:
        self.notices.append(notice)
        return Way.WAITING if kind == "agent" else None


class Room:
    """One team. `who("bob")` is the caller of that name; a name that is not known yet is an agent's."""

    def __init__(self, log: Log, clock: StillClock) -> None:
        self.log = log
        self.clock = clock
        self.team = Team()
        self.noting = Noting()
        self.ports = Ports(self.team, (self.noting,))
        self.person("ann")

    def person(self, name: str, rights: dict[str, list[str]] | None = None) -> str:
        """A person of that name; its id."""
        return self._add(name, "person", ALL if rights is None else rights)

    def agent(self, name: str, rights: dict[str, list[str]] | None = None) -> str:
        """An agent of that name; its id."""
        return self._add(name, "agent", AGENT if rights is None else rights)

    def _add(self, name: str, kind: str, rights: dict[str, list[str]]) -> str:
        principal_id = derived_id(Prefix.PRINCIPAL, name)
        self.team.known_[principal_id] = Known(principal_id, name, kind)
        self.team.rights[principal_id] = rights
        return principal_id

    def id_of(self, name: str) -> str:
        """The id of who has that name."""
        principal_id = derived_id(Prefix.PRINCIPAL, name)
        return principal_id if principal_id in self.team.known_ else self.agent(name)

    def who(self, name: str) -> Caller:
        """The caller of that name."""
        principal_id = self.id_of(name)
        held = self.team.rights[principal_id]
        actor = Actor(principal_id, f"key_{name}", name)
        return Caller(actor, lambda verb, resource: allows(held, verb, resource), self.ports, self.log.log_id)

    async def write(self, verb: Callable[[Any], Awaitable[object]], kind: Any) -> Any:
        """Runs a verb and decodes its answer."""
        return msgspec.json.decode((await self.log.write(TEAM, verb)).answer, type=kind)

    async def ask(self, question: Callable[[Any], Awaitable[Any]]) -> Any:
        return await self.log.ask(TEAM, question)

    # Channels

    async def make(self, name: str = "build", by: str = "ann", **fields: Any) -> Channel:
        return await self.write(
            lambda tx: channels.make_channel(tx, self.who(by), NewChannel(name, **fields)), Channel
        )

    async def change(self, ref: str = "build", by: str = "ann", **fields: Any) -> Channel:
        return await self.write(
            lambda tx: channels.change_channel(tx, self.who(by), ref, ChangeChannel(**fields)), Channel
        )

    async def drop(self, ref: str = "build", by: str = "ann") -> Channel:
        return await self.write(lambda tx: channels.delete_channel(tx, self.who(by), ref), Channel)

    async def channel(self, ref: str = "build", by: str = "ann") -> Channel:
        return await self.ask(lambda reading: views.view_channel(reading, self.who(by), ref))

    async def listed(self, by: str = "ann", after: str = "", limit: int = 50) -> Channels:
        return await self.ask(lambda reading: views.list_channels(reading, self.who(by), after=after, limit=limit))

    async def join(self, name: str, ref: str = "build", by: str = "", role: str = "") -> Member:
        who = "me" if by in ("", name) else self.id_of(name)
        return await self.write(
            lambda tx: channels.put_follower(tx, self.who(by or name), ref, who, NewMember(role)), Member
        )

    async def leave(self, name: str, ref: str = "build", by: str = "") -> Member:
        who = "me" if by in ("", name) else self.id_of(name)
        return await self.write(lambda tx: channels.drop_follower(tx, self.who(by or name), ref, who), Member)

    async def members(self, ref: str = "build", by: str = "ann", after: str = "", limit: int = 50) -> Members:
        return await self.ask(
            lambda reading: views.list_members(reading, self.who(by), ref, after=after, limit=limit)
        )

    # Messages

    async def post(
        self, by: str, text: str = "", ref: str = "build", message_id: str = "", **fields: Any
    ) -> Posted:
        chosen = message_id or new_id(Prefix.MESSAGE)
        return await self.write(
            lambda tx: messages.post(tx, self.who(by), ref, chosen, Post(text=text, **fields)), Posted
        )

    async def edit(self, by: str, message_id: str, text: str, ref: str = "build", **fields: Any) -> Posted:
        return await self.write(
            lambda tx: messages.edit(tx, self.who(by), ref, message_id, Edit(text=text, **fields)), Posted
        )

    async def delete(self, by: str, message_id: str, ref: str = "build") -> Message:
        return await self.write(lambda tx: messages.delete(tx, self.who(by), ref, message_id), Message)

    async def page(self, by: str = "ann", ref: str = "build", **asked: Any) -> Messages:
        return await self.ask(
            lambda reading: views.list_messages(reading, self.who(by), ref, views.Asked(**asked))
        )

    async def message(self, message_id: str, by: str = "ann", ref: str = "build") -> Message:
        return await self.ask(lambda reading: views.view_message(reading, self.who(by), ref, message_id))

    async def threads(self, by: str = "ann", ref: str = "build", **fields: Any) -> Threads:
        asked = {"state": "", "after": "", "limit": 50, **fields}
        return await self.ask(lambda reading: views.list_threads(reading, self.who(by), ref, **asked))

    async def thread(self, thread_id: str, by: str = "ann", ref: str = "build") -> Thread:
        return await self.ask(lambda reading: views.view_thread(reading, self.who(by), ref, thread_id))

    async def change_thread(self, by: str, thread_id: str, ref: str = "build", **fields: Any) -> Thread:
        return await self.write(
            lambda tx: messages.change_thread(tx, self.who(by), ref, thread_id, ChangeThread(**fields)), Thread
        )

    async def search(
        self, text: str, by: str = "ann", channel: str = "", after: str = "", limit: int = 50
    ) -> RelaySearch:
        return await self.ask(
            lambda reading: views.search(
                reading, self.who(by), text=text, channel=channel, after=after, limit=limit
            )
        )

    # Receipts and mentions

    async def ack(self, by: str, upto: int = 0, *named: str, ref: str = "build", **fields: Any) -> Receipt:
        body = Ack(upto=upto, messages=named, **fields)
        return await self.write(lambda tx: receiving.ack(tx, self.who(by), ref, body), Receipt)

    async def receipt(self, by: str, ref: str = "build") -> Receipt:
        return await self.ask(lambda reading: views.own_receipt(reading, self.who(by), ref))

    async def laggards(
        self, message_id: str, by: str = "ann", ref: str = "build", after: str = "", limit: int = 50
    ) -> Laggards:
        return await self.ask(
            lambda reading: views.laggards(reading, self.who(by), ref, message_id, after=after, limit=limit)
        )

    async def mentions(self, by: str, after: str = "", limit: int = 50, newer_than: int = 0) -> Mentions:
        return await self.ask(
            lambda reading: views.mentions(reading, self.who(by), after=after, limit=limit, newer_than=newer_than)
        )

    async def wakes(self, by: str, after: int = 0) -> bool:
        """Whether a request that waits for `by` would be answered."""
        return await self.ask(lambda reading: views.something_waits(reading, self.who(by), after))

    async def offer(self, by: str, *message_ids: str, again: bool = False) -> None:
        await self.log.write(TEAM, lambda tx: receiving.offer(tx, self.id_of(by), message_ids, again=again))

    async def surface(self, by: str, *message_ids: str) -> None:
        await self.log.write(TEAM, lambda tx: receiving.surface(tx, self.id_of(by), message_ids))

    async def expire(self) -> None:
        await self.log.write(TEAM, lambda tx: receiving.expire(tx, self.ports))

    async def put(self, by: str, sha256: str, body: Any, ref: str = "build") -> None:
        await self.log.write(TEAM, lambda tx: attachments.put(tx, self.who(by), ref, sha256, body))

    async def bytes_of(self, by: str, sha256: str, ref: str = "build") -> bytes:
        found = await self.ask(lambda reading: attachments.view(reading, self.who(by), ref, sha256))
        return found.data

    async def drop_attachments(self) -> None:
        await self.log.write(TEAM, attachments.drop_unused)

    async def events(self, after: int = 0) -> list[Event]:
        return list(await self.log.events(TEAM, after, limit=100_000))

    async def head(self) -> int:
        return (await self.log.bounds(TEAM))[1]


@asynccontextmanager
async def open_room(place: str, clock: StillClock | None = None) -> AsyncIterator[Room]:
    """A room on a log at a place of `open_log`'s."""
    still = clock or StillClock()
    log = await open_log(place, clock=still, queries=QUERIES)
    try:
        yield Room(log, still)
    finally:
        await log.close()
