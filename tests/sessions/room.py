"""The sessions room on a real log in a file, with a host that tests speak for, and a client that follows."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from ekiden.kernel.clock import Clock
from ekiden.kernel.ids import Prefix, derived_id, new_id
from ekiden.kernel.limits import MESSAGES_SEEN_MAX
from ekiden.log.open import open_log
from ekiden.log.port import Actor, Event, Log
from ekiden.log.queries import room_queries
from ekiden.sessions import feed, verbs, views
from ekiden.sessions.wire import (
    AnswerApproval,
    Approval,
    ApprovalOption,
    FeedAnswer,
    FeedEntry,
    FeedGrew,
    FeedGrown,
    FeedItems,
    FeedSession,
    Host,
    HostReport,
    Hosts,
    Inbox,
    InterruptAsked,
    Message,
    Rung,
    SendMessage,
    Session,
    SessionCounts,
    SessionPage,
    SessionReport,
    SessionState,
    SessionView,
    Stale,
    Welcome,
    Work,
)
from ekiden.testing.clock import StillClock
from ekiden.transcript.items import Item, ItemKind, Role, Source, Text
from twins import Twins

TEAM = "tem_00000000000000000001"
PHONE = Actor("pri_phone", "key_phone", "Phone")
DESK = Actor("pri_desk", "key_desk", "Desk")
HOST_ACTOR = Actor("pri_host", "key_host", "Workstation")

OPTIONS = (ApprovalOption("yes", "Allow", "allow_once"), ApprovalOption("no", "Deny", "deny"))


def message_item(item_id: str, text: str, role: Role = Role.ASSISTANT) -> Item:
    """A whole message item."""
    return Item(id=item_id, kind=ItemKind.MESSAGE, source=Source("s.jsonl"), role=role, content=(Text(text),))


class Room:
    """The room as its callers use it: each method is one write or one question."""

    def __init__(self, log: Log, clock: StillClock, host_id: str = "") -> None:
        self.log = log
        self.clock = clock
        self.host_id = host_id or new_id(Prefix.HOST)
        self.passed: list[FeedGrew | FeedGrown] = []

    async def write(self, verb: Callable[[Any], Awaitable[object]], kind: type[Any]) -> Any:
        """Runs a verb and decodes its answer."""
        return msgspec.json.decode((await self.log.write(TEAM, verb)).answer, type=kind)

    async def arrive(self, host_id: str = "", name: str = "Workstation") -> Welcome:
        """A host reports itself and is connected."""
        host_id = host_id or self.host_id
        await self.log.write(TEAM, lambda tx: verbs.host_back(tx, host_id))
        report = HostReport(name=name, platform="linux", ekiden_version="0")
        return await self.write(
            lambda tx: verbs.report_host(tx, host_id, report, actor=HOST_ACTOR, boot_id="boot"), Welcome
        )

    async def back(self, host_id: str = "") -> None:
        """The hub sees the host connected."""
        await self.log.write(TEAM, lambda tx: verbs.host_back(tx, host_id or self.host_id))

    async def lose(self, host_id: str = "") -> None:
        """The hub sees the host gone."""
        await self.log.write(TEAM, lambda tx: verbs.host_lost(tx, host_id or self.host_id))

    def report(self, native_id: str = "native", **fields: Any) -> SessionReport:
        """A report of an owned session of this host."""
        fields.setdefault("rung", Rung.OWNED)
        vendor = fields.pop("vendor", "demo")
        host_id = fields.pop("host_id", self.host_id)
        return SessionReport(
            session_id=derived_id(Prefix.SESSION, host_id, vendor, native_id),
            vendor=vendor,
            native_id=native_id,
            **fields,
        )

    async def tell(self, *entries: FeedEntry, host_id: str = "") -> FeedAnswer:
        """The host tells; what passes by is in `passed`."""
        self.passed.clear()
        return await self.write(
            lambda tx: feed.take_feed(
                tx,
                host_id or self.host_id,
                entries,
                actor=HOST_ACTOR,
                boot_id="boot",
                passing=self.passed,
            ),
            FeedAnswer,
        )

    async def session(self, native_id: str = "native", **fields: Any) -> str:
        """A session that the host has reported; its id."""
        report = self.report(native_id, **fields)
        answer = await self.tell(FeedSession(report))
        assert not answer.refused
        return report.session_id

    def approval(self, session_id: str, approval_id: str = "", turn_id: str = "trn_1", **fields: Any) -> Approval:
        """A request to run a command."""
        return Approval(
            approval_id=approval_id or new_id(Prefix.APPROVAL),
            session_id=session_id,
            turn_id=turn_id,
            question="run_command",
            title=fields.pop("title", "Run a command"),
            tool="Bash",
            detail=msgspec.Raw(b'{"command":"ls"}'),
            command="ls",
            cwd="/home/someone",
            options=OPTIONS,
            **fields,
        )

    async def answer(self, approval: Approval, option: str, by: Actor = PHONE, **fields: Any) -> Approval:
        """A person answers what the room shows of `approval`."""
        fields.setdefault("digest", approval.digest)
        body = AnswerApproval(option=option, **fields)
        return await self.write(
            lambda tx: verbs.answer_approval(tx, approval.approval_id, body, actor=by), Approval
        )

    async def send(self, session_id: str, text: str, by: Actor = PHONE, message_id: str = "") -> Message:
        """A person sends a message."""
        chosen = message_id or new_id(Prefix.MESSAGE)
        return await self.write(
            lambda tx: verbs.send_message(tx, session_id, SendMessage(text), message_id=chosen, actor=by), Message
        )

    async def cancel(self, message_id: str, by: Actor = PHONE) -> Message:
        """A person takes a message back."""
        return await self.write(lambda tx: verbs.cancel_message(tx, message_id, actor=by), Message)

    async def interrupt(self, session_id: str, turn_id: str, by: Actor = PHONE) -> InterruptAsked:
        """A person wants a turn to stop."""
        return await self.write(lambda tx: verbs.ask_interrupt(tx, session_id, turn_id, actor=by), InterruptAsked)

    async def view(self, session_id: str) -> SessionView:
        """One session."""
        return await self.log.ask(
            TEAM, lambda reading: views.view_session(reading, session_id, log_id=self.log.log_id, growing=())
        )

    async def page(
        self,
        after: str = "",
        limit: int = 50,
        may_see: Callable[[str], bool] | None = None,
        **filters: str,
    ) -> SessionPage:
        """A page of the list."""
        return await self.log.ask(
            TEAM,
            lambda reading: views.list_sessions(
                reading,
                log_id=self.log.log_id,
                filters=views.Filters(**filters),
                after=after,
                limit=limit,
                may_see=may_see,
            ),
        )

    async def work(self, host_id: str = "") -> Work:
        """What the host still has to do."""
        return await self.log.ask(
            TEAM,
            lambda reading: views.work_of_host(reading, host_id or self.host_id, log_id=self.log.log_id),
        )

    async def hosts(self) -> Hosts:
        """All computers."""
        return await self.log.ask(
            TEAM, lambda reading: views.list_hosts(reading, log_id=self.log.log_id, may_see=lambda _: True)
        )

    async def inbox(self) -> Inbox:
        """What waits for a person who may see all."""
        return await self.log.ask(
            TEAM, lambda reading: views.inbox(reading, log_id=self.log.log_id, may_see=lambda _: True)
        )

    async def events(self, after: int = 0) -> list[Event]:
        """All events after a seq."""
        return list(await self.log.events(TEAM, after, limit=100_000))

    async def kinds(self, after: int) -> list[str]:
        """The kinds of all events after a seq."""
        return [event.kind for event in await self.events(after)]

    async def head(self) -> int:
        """The newest event's seq."""
        return (await self.log.bounds(TEAM))[1]


@asynccontextmanager
async def open_room(place: Path | str, clock: Clock | None = None, host_id: str = "") -> AsyncIterator[Room]:
    """A room on a log in a folder or at a place of `open_log`'s, with its host connected; opening the same again
    finds what is there."""
    still = clock if isinstance(clock, StillClock) else StillClock()
    location = str(place / "ekiden.db") if isinstance(place, Path) else place
    log = await open_log(location, clock=still, queries=room_queries("ekiden.sessions"))
    try:
        room = Room(log, still, host_id)
        await room.arrive()
        yield room
    finally:
        await log.close()


@asynccontextmanager
async def open_twin_rooms(folder: Path, url: str) -> AsyncIterator[Any]:
    """A room on SQLite and one on Postgres as one (`Twins`), at one time, with one host, under one log's name."""
    clock, host_id = StillClock(), new_id(Prefix.HOST)
    async with open_room(folder, clock, host_id) as one, open_room(url, clock, host_id) as other:
        other.log.log_id = one.log.log_id
        yield Twins(one, other)


def counted(session: Session, event: Event) -> Session:
    """The session with the counts that a `session.counted` tells of it."""
    counts = msgspec.json.decode(event.body, type=SessionCounts)
    assert counts.session_id == session.report.session_id
    return msgspec.structs.replace(
        session, approvals_open=counts.approvals_open, messages_waiting=counts.messages_waiting
    )


class Follower:
    """A client that read a snapshot and applies the events after its cursor, by what docs/door.md says."""

    def __init__(self, view: SessionView) -> None:
        self.session = view.session
        self.approvals = {approval.approval_id: approval for approval in view.approvals}
        self.messages = {message.message_id: message for message in (*view.seen, *view.messages)}
        self.items: dict[str, Item] = {}
        self.marks: list[Stale] = []

    def apply(self, events: Sequence[Event]) -> None:
        """Takes events in order; those of other sessions are passed over."""
        session_id = self.session.report.session_id
        for event in events:
            if event.kind == "host.changed":
                self._host(msgspec.json.decode(event.body, type=Host))
            if event.topics[0] != f"session:{session_id}":
                continue
            if event.kind == "session.reported":
                self.session = msgspec.json.decode(event.body, type=Session)
            elif event.kind == "session.counted":
                self.session = counted(self.session, event)
            elif event.kind.startswith("approval."):
                approval = msgspec.json.decode(event.body, type=Approval)
                self.approvals[approval.approval_id] = approval
                if approval.state in ("settled", "withdrawn"):
                    del self.approvals[approval.approval_id]
            elif event.kind.startswith("message."):
                message = msgspec.json.decode(event.body, type=Message)
                self.messages[message.message_id] = message
                if message.state == "cancelled":
                    del self.messages[message.message_id]
            elif event.kind == "items.added":
                for item in msgspec.json.decode(event.body, type=feed.ItemsAdded).items:
                    self.items[item.id] = item

    def _host(self, host: Host) -> None:
        if host.host_id != self.session.host_id:
            return
        state = self.session.report.state
        if not host.here and state in (SessionState.RUNNING, SessionState.WAITING):
            state = SessionState.LOST
        self.session = msgspec.structs.replace(
            self.session,
            host_name=host.report.name,
            host_here=host.here,
            host_seen_at=host.seen_at,
            state=state,
        )

    def shown(self) -> tuple[Session, list[Approval], list[Message], list[Message]]:
        """What this client shows, in the order of the screen's own keys."""
        messages = sorted(self.messages.values(), key=lambda message: message.message_id)
        return (
            self.session,
            sorted(self.approvals.values(), key=lambda approval: approval.approval_id),
            [message for message in messages if message.state != "seen"],
            [message for message in messages if message.state == "seen"][-MESSAGES_SEEN_MAX:],
        )


def shown_of(view: SessionView) -> tuple[Session, list[Approval], list[Message], list[Message]]:
    """A fresh snapshot in the same form as `Follower.shown`."""
    return Follower(view).shown()


def items_entry(session_id: str, after: str, mark: str, *items: Item) -> FeedItems:
    """A feed entry with whole items."""
    return FeedItems(session_id=session_id, items=items, after=after, mark=mark)
