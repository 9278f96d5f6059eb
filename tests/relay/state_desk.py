"""State on a real log: channels, and callers with maps of their own, who go through the room's own endpoints."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ekiden.access.rights import allows
from ekiden.crypto import keys as crypto_keys
from ekiden.crypto import statements
from ekiden.crypto.chain import Checkpoints, HubKey
from ekiden.crypto.directory import DirectoryPage, Entry, NewEntry, add_entry
from ekiden.crypto.epochs import Epochs, EpochView, NewEpoch, Share
from ekiden.crypto.keys import MemberKeys
from ekiden.hub.people import TeamPeople
from ekiden.kernel.door import HubFacts
from ekiden.kernel.ids import Prefix, derived_id, new_id
from ekiden.log.open import open_log
from ekiden.log.port import Actor, Command, Event
from ekiden.log.queries import joined, load_queries, room_queries
from ekiden.relay import leases, status
from ekiden.relay.keeping import text_of
from ekiden.relay.notary import TeamNotary, link_of
from ekiden.relay.port import Ports
from ekiden.relay.routes import Relay
from ekiden.relay.routes_members import Trust
from ekiden.relay.routes_state import State
from ekiden.relay.wire import Attachment, Channel, Edit, Message, Messages, NewMember, Post, Posted, Signature
from ekiden.relay.wire_state import (
    AttachmentBytes,
    ClearStatus,
    Evidence,
    Exported,
    Lease,
    Leases,
    Purge,
    Purges,
    ReleaseLease,
    SetStatus,
    Status,
    Statuses,
    StatusRule,
    StatusRules,
    TakeLease,
)
from ekiden.testing.clock import StillClock

PORTS = Ports(TeamPeople(), notary=TeamNotary())
STATE = State(PORTS)
_TALK = Relay(PORTS)
_TRUST = Trust(PORTS)
TEAM = "tem_00000000000000000001"
ALL = {"*": ["read", "admin"]}

QUERIES = joined(
    room_queries("ekiden.relay"),
    room_queries("ekiden.access"),
    room_queries("ekiden.hub"),
    load_queries(
        "test",
        """
-- name: add_channel
-- A channel as it is.
INSERT INTO channels (team_id, channel_id, name, private, state, channel)
VALUES (:team_id, :channel_id, :name, 0, :state, :channel)
ON CONFLICT (team_id, channel_id) DO UPDATE SET state = excluded.state, channel = excluded.channel;

-- name: uses
-- Which attachments messages have.
SELECT DISTINCT sha256 FROM attachment_uses WHERE team_id = :team_id AND message_id <> '';

-- name: add_head
-- How far its numbers reach.
INSERT INTO channel_heads (team_id, channel_id, first_number, last_number, spoken_seq, members)
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

    # Talk

    async def post(self, text: str = "", **fields: Any) -> Message:
        """Says something."""
        body = Post(text=text, **fields)
        return (await self._written(_TALK.post_message(self.call(), body), Posted)).message

    async def posted(self, call: StateCall, text: str) -> Message:
        """Says something with a request of its own."""
        return (await self._written(_TALK.post_message(call, Post(text=text)), Posted)).message

    async def attach(self, data: bytes) -> Attachment:
        """Puts bytes into the channel."""
        digest = hashlib.sha256(data).hexdigest()
        call = self.call(sha256=digest)
        return await self._written(_TALK.put_attachment(call, AttachmentBytes(data)), Attachment)

    async def edit(self, message_id: str, text: str, **fields: Any) -> Message:
        """Says it otherwise."""
        call = self.call(message_id=message_id)
        return (await self._written(_TALK.edit_message(call, Edit(text, **fields)), Posted)).message

    async def delete(self, message_id: str) -> Message:
        """Takes it back."""
        return await self._written(_TALK.delete_message(self.call(message_id=message_id)), Message)

    async def read(self, **query: object) -> Messages:
        """A page of messages."""
        page = await _TALK.list_messages(self.call(query))
        return page if isinstance(page, Messages) else msgspec.json.decode(page, type=Messages)

    async def join(self) -> None:
        """Follows the channel."""
        await _TALK.put_member(self.call(principal_id="me"), NewMember())

    async def leave(self) -> None:
        """Follows it no more."""
        await _TALK.drop_member(self.call(principal_id="me"))

    # What is kept

    async def purge(self, before_number: int = 0, before: str = "") -> Purges:
        """Takes the oldest messages away."""
        return await STATE.purge(self.call(), Purge(before_number, before))

    async def purges(self, **query: object) -> Purges:
        """Notes of what was taken away."""
        return await STATE.list_purges(self.call(query))

    async def export(self, thread: str = "", limit: int = 50) -> list[Exported]:
        """All pages."""
        pages: list[Exported] = []
        after = ""
        while True:
            call = self.call({"thread": thread, "limit": limit, "after": after})
            pages.append(await STATE.export(call))
            after = pages[-1].next
            if not after:
                return pages

    # Keys

    async def enter(self, entry: NewEntry) -> Entry:
        """Puts an entry into the directory."""
        return await self._written(_TRUST.add_entry(self.call(), entry), Entry)

    async def directory(self, **query: object) -> DirectoryPage:
        """A page of the directory."""
        return await _TRUST.read_directory(self.call(query))

    async def enrol(self, keys: MemberKeys | None = None) -> MemberKeys:
        """Puts a member key of its own into the directory."""
        keys = keys or MemberKeys.new()
        entry = add_entry(
            keys, team=TEAM, principal=self.actor.principal_id, label="a program", at="2026-01-01T00:00:00Z"
        )
        await self.enter(entry)
        return keys

    async def open_epoch(self, body: NewEpoch) -> EpochView:
        """Opens an epoch."""
        return await self._written(_TRUST.open_epoch(self.call(), body), EpochView)

    async def share_epoch(self, epoch: int, body: Share) -> EpochView:
        """Gives an epoch's key on."""
        return await self._written(_TRUST.share_epoch(self.call(epoch=str(epoch)), body), EpochView)

    async def epochs(self, **query: object) -> Epochs:
        """A page of the channel's epochs."""
        return await _TRUST.read_epochs(self.call(query))

    async def hub_key(self) -> HubKey:
        """The hub's key."""
        return await _TRUST.hub_key(self.call())

    async def checkpoints(self, **query: object) -> Checkpoints:
        """A page of checkpoints."""
        return await _TRUST.list_checkpoints(self.call(query))

    async def set(self, key: str, value: Any = None, **fields: Any) -> Status:
        """Sets a key."""
        body = SetStatus(value=value, **fields)
        return await self._written(STATE.set_status(self.call(key=key), body), Status)

    async def clear(self, key: str, if_version: int | None = None, signature: Signature | None = None) -> Status:
        """Clears a key."""
        body = ClearStatus(if_version, signature)
        return await self._written(STATE.clear_status(self.call(key=key), body), Status)

    async def get(self, key: str) -> Status:
        """One key now."""
        return await STATE.view_status(self.call(key=key))

    async def list(self, **query: object) -> Statuses:
        """All keys now."""
        return await STATE.list_statuses(self.call(query))

    async def history(self, key: str, **query: object) -> Statuses:
        """A key's lines."""
        return await STATE.status_history(self.call(query, key=key))

    async def changes(self, **query: object) -> Statuses:
        """All lines of the channel."""
        return await STATE.status_changes(self.call(query))

    async def rules(self, *rules: StatusRule) -> StatusRules:
        """Sets the channel's rules."""
        return await self._written(STATE.put_rules(self.call(), StatusRules(rules)), StatusRules)

    async def take(
        self, name: str, lease_s: int = 60, fence: int = 0, note: str = "", signature: Signature | None = None
    ) -> Lease:
        """Takes or renews a lease."""
        body = TakeLease(lease_s, fence, note, signature)
        return await self._written(STATE.take_lease(self.call(name=name), body), Lease)

    async def release(self, name: str, fence: int = 0) -> Lease:
        """Lets a lease go."""
        return await self._written(STATE.release_lease(self.call(name=name), ReleaseLease(fence)), Lease)

    async def lease(self, name: str) -> Lease:
        """One lease now."""
        return await STATE.view_lease(self.call(name=name))

    async def leases(self, **query: object) -> Leases:
        """All leases of the channel."""
        return await STATE.list_leases(self.call(query))


@dataclass
class Desk:
    """A log with channels."""

    log: Any
    clock: StillClock
    hub: HubFacts

    async def keys(self, *callers: Caller) -> None:
        """Says that callers' keys are there."""

        async def verb(tx: Any) -> None:
            for caller in callers:
                await tx.run(
                    "access.add_key",
                    key_id=caller.actor.key_id,
                    team_id=TEAM,
                    principal_id=caller.actor.principal_id,
                    secret_digest="",
                    permissions="{}",
                    local_line=0,
                    made_at=tx.now,
                    made_by="",
                    expires_at="",
                    parent_key="",
                )

        await self.log.write(TEAM, verb)

    async def people(self, *callers: Caller, kind: str = "agent") -> None:
        """Says that callers are there."""
        for caller in callers:
            await self.principal(caller, kind)

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


class Signer:
    """A member's program that signs what it says in one channel, in a chain."""

    def __init__(self, caller: Caller, keys: MemberKeys, channel_id: str) -> None:
        self.caller = caller
        self.keys = keys
        self.channel_id = channel_id
        self.chain = new_id(Prefix.EVENT)
        self.link = 0
        self.previous = ""

    def signature(self, **fields: Any) -> Signature:
        """The next in the chain, not signed yet."""
        self.link += 1
        return Signature(
            signer=self.keys.member_key_id,
            signature="",
            at="2026-01-01T00:00:00Z",
            chain=self.chain,
            link=self.link,
            previous=self.previous,
            **fields,
        )

    def sign(self, bare: Signature, stated: bytes) -> Signature:
        """Signs it and remembers where the chain is."""
        self.previous = statements.digest(stated)
        return msgspec.structs.replace(bare, signature=crypto_keys.sign(self.keys.sign_seed, stated))

    def status(self, key: str, value: Any, sender: str = "", evidence: Evidence | None = None) -> Signature:
        """A signature of a status value."""
        bare, said = self.signature(), evidence or Evidence()
        stated = statements.status(
            team=TEAM,
            channel=self.channel_id,
            key=key,
            sender=sender or self.caller.actor.principal_id,
            content=statements.status_content(value=value, commit=said.commit, run=said.run, link=said.link),
            link=link_of(bare),
        )
        return self.sign(bare, stated)

    def clear(self, key: str) -> Signature:
        """A signature of taking a value away."""
        bare = self.signature()
        stated = statements.status_clear(
            team=TEAM,
            channel=self.channel_id,
            key=key,
            sender=self.caller.actor.principal_id,
            link=link_of(bare),
        )
        return self.sign(bare, stated)

    def message(self, message_id: str, text: str) -> Signature:
        """A signature of a message."""
        bare = self.signature()
        stated = statements.message(
            team=TEAM,
            channel=self.channel_id,
            thread="",
            message=message_id,
            sender=self.caller.actor.principal_id,
            content=statements.message_content(text=text),
            link=link_of(bare),
        )
        return self.sign(bare, stated)

    def edit(self, message: Message, text: str) -> Signature:
        """A signature of a new text."""
        assert message.countersign is not None
        bare = self.signature(replaces=message.countersign.statement)
        stated = statements.edit(
            team=TEAM,
            channel=self.channel_id,
            thread=message.thread_id,
            message=message.message_id,
            sender=self.caller.actor.principal_id,
            content=statements.message_content(text=text),
            replaces=bare.replaces,
            link=link_of(bare),
        )
        return self.sign(bare, stated)

    def lease(self, name: str, lease_s: int, fence: int = 0) -> Signature:
        """A signature of taking a lease."""
        bare = Signature(self.keys.member_key_id, "", "2026-01-01T00:00:00Z")
        stated = statements.lease(
            team=TEAM,
            channel=self.channel_id,
            name=name,
            sender=self.caller.actor.principal_id,
            lease_s=lease_s,
            fence=fence,
            note="",
            link=link_of(bare),
        )
        return msgspec.structs.replace(bare, signature=crypto_keys.sign(self.keys.sign_seed, stated))
