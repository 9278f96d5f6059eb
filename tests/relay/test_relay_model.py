"""The room against a simple model: whatever is posted, edited, deleted, acked, joined and left, in any order,
every page, count, receipt and delivery is what plain lists and sets say."""

import asyncio
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ekiden.kernel.errors import Conflict, EkidenError, Forbidden, Invalid, NotFound
from ekiden.relay.wire import Budgets
from postgres_server import fresh_database
from relay.room import Room, open_room
from twins import seeded

NAMES = ("ann", "bob", "carol", "dave")
WHO = st.sampled_from(NAMES)
LIMITS = st.integers(1, 6)
ASKS = st.sampled_from(["", "ack", "answer"])
RANK = {"answer": 0, "ack": 1, "": 2}
FREE = Budgets(hops=10_000, pair=10_000, thread=10_000, damper=10_000)


@dataclass
class Said:
    """A message as the model remembers it."""

    message_id: str
    number: int
    sender: str
    text: str
    root: int
    mentions: list[str]
    asks: str = ""
    deleted: bool = False
    edits: int = 0


@dataclass
class Waits:
    """A mention as the model remembers it; `order` is when it was made."""

    asks: str
    order: int
    state: str = "stored"

    @property
    def open(self) -> bool:
        """Whether it waits still: an answer that was asked for is waited for beyond the ack."""
        return self.state in ("stored", "offered", "surfaced") or (self.state, self.asks) == ("acked", "answer")


@dataclass
class Model:
    said: list[Said] = field(default_factory=list)
    acked: dict[str, set[int]] = field(default_factory=lambda: {name: set() for name in NAMES})
    members: set[str] = field(default_factory=lambda: {"ann"})
    was_member: set[str] = field(default_factory=lambda: {"ann"})
    deliveries: dict[tuple[str, int], Waits] = field(default_factory=dict)
    made: int = 0

    def unread(self, who: str) -> list[int]:
        return [one.number for one in self.said if one.sender != who and one.number not in self.acked[who]]

    def join_once(self, who: str) -> None:
        """Who first posts or acks becomes a member; who left comes back only by asking."""
        if who not in self.was_member:
            self.members.add(who)
            self.was_member.add(who)

    def waiting(self, who: str) -> list[tuple[int, str]]:
        """(number, state) of what waits for somebody, the most important first."""
        entries = [
            (RANK[waits.asks], waits.order, number, waits.state)
            for (principal, number), waits in self.deliveries.items()
            if principal == who
            and (
                waits.state in ("stored", "offered", "surfaced")
                or (waits.state, waits.asks) == ("acked", "answer")
            )
        ]
        return [(number, state) for _, _, number, state in sorted(entries)]


class RelayMachine(RuleBasedStateMachine):
    """`place` is set by the subclass: where the log lies."""

    postgres = False

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp(prefix="ekiden-relay-"))
        self.model = Model()
        self.room: Room | None = None

    def run(self, awaitable: Any) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(awaitable, 30))

    def teardown(self) -> None:
        if self.room is not None:
            self.run(self.opened.__aexit__(None, None, None))
        self.run(self.loop.shutdown_default_executor())
        self.loop.close()
        shutil.rmtree(self.folder)

    @initialize()
    def open(self) -> None:
        self.opened = open_room(fresh_database() if self.postgres else str(self.folder / "ekiden.db"))
        self.room = self.run(self.opened.__aenter__())
        for name in NAMES[1:]:
            self.room.agent(name)
        self.run(self.room.make(budgets=FREE))

    def told(self, awaitable: Any, refusal: type[EkidenError] | None) -> Any:
        """What came of it: an answer, or the refusal that the model expects."""
        if refusal is None:
            return self.run(awaitable)
        with pytest.raises(refusal):
            self.run(awaitable)
        return None

    def one_of(self, index: int) -> Said | None:
        return self.model.said[index % len(self.model.said)] if self.model.said else None

    # What may happen

    @rule(
        who=WHO,
        called=st.lists(WHO, max_size=3, unique=True),
        asks=ASKS,
        at=st.integers(0, 30),
        reply=st.booleans(),
    )
    def post(self, who: str, called: list[str], asks: str, at: int, reply: bool) -> None:
        model = self.model
        to = self.one_of(at) if reply else None
        root = to if to is None or not to.root else model.said[to.root - 1]
        text = f"word{len(model.said)} {' '.join('@' + name for name in called)}"
        posted = self.run(
            self.room.post(
                who,
                text,
                asks=asks if called else "",
                thread_id=root.message_id if root else "",
                answers=to.message_id if to else "",
            )
        )
        model.join_once(who)
        number = len(model.said) + 1
        assert posted.message.number == number
        assert [mention.name for mention in posted.message.mentions] == called
        model.said.append(
            Said(
                posted.message.message_id,
                number,
                who,
                text,
                root.number if root else 0,
                called,
                asks * bool(called),
            )
        )
        if to is not None:
            answered = model.deliveries.get((who, to.number))
            if answered is not None:
                answered.state = "answered"
        for name in called:
            if name != who:
                model.made += 1
                model.deliveries[name, number] = Waits(asks, model.made)

    @rule(who=WHO, upto=st.integers(0, 40))
    def ack_upto(self, who: str, upto: int) -> None:
        model = self.model
        wrong = upto == 0 or upto > len(model.said)
        self.told(self.room.ack(who, upto), Invalid if wrong else None)
        if not wrong:
            model.join_once(who)
            model.acked[who] |= set(range(1, upto + 1))
            self.settle(who, range(1, upto + 1), "acked")

    @rule(who=WHO, at=st.integers(0, 30), more=st.integers(0, 30), declines=st.booleans())
    def ack_one(self, who: str, at: int, more: int, declines: bool) -> None:
        one, other = self.one_of(at), self.one_of(more)
        if one is None or other is None:
            return
        fields = {"declined": True, "reason": "no"} if declines else {}
        self.run(self.room.ack(who, 0, one.message_id, other.message_id, **fields))
        self.model.join_once(who)
        self.model.acked[who] |= {one.number, other.number}
        self.settle(who, (one.number, other.number), "declined" if declines else "acked")

    def settle(self, who: str, numbers: Any, state: str) -> None:
        for number in numbers:
            waits = self.model.deliveries.get((who, number))
            before = ("stored", "offered", "surfaced", *(("acked",) if state == "declined" else ()))
            if waits is not None and waits.state in before:
                waits.state = state

    @rule(who=WHO, at=st.integers(0, 30))
    def offer(self, who: str, at: int) -> None:
        one = self.one_of(at)
        if one is None:
            return
        self.run(self.room.offer(who, one.message_id))
        waits = self.model.deliveries.get((who, one.number))
        if waits is not None and waits.state == "stored":
            waits.state = "offered"

    @rule(who=WHO, at=st.integers(0, 30), called=st.lists(WHO, max_size=2, unique=True))
    def edit(self, who: str, at: int, called: list[str]) -> None:
        one = self.one_of(at)
        if one is None:
            return
        text = f"edited{one.number}.{one.edits} {' '.join('@' + name for name in called)}"
        refusal = Forbidden if who != one.sender else Conflict if one.deleted else None
        self.told(self.room.edit(who, one.message_id, text), refusal)
        if refusal is None:
            for name in called:
                if name != who and name not in one.mentions:
                    self.model.made += 1
                    self.model.deliveries[name, one.number] = Waits(one.asks, self.model.made)
            one.text, one.edits, one.mentions = text, one.edits + 1, called

    @rule(who=WHO, at=st.integers(0, 30))
    def delete(self, who: str, at: int) -> None:
        one = self.one_of(at)
        if one is None:
            return
        refusal = Forbidden if who not in (one.sender, "ann") else None
        self.told(self.room.delete(who, one.message_id), refusal)
        if refusal is None and not one.deleted:
            one.deleted, one.text, one.mentions = True, "", []
            for name in NAMES:
                waits = self.model.deliveries.get((name, one.number))
                if waits is not None and waits.open:
                    waits.state = "expired"

    @rule(who=WHO, there=st.booleans())
    def join_or_leave(self, who: str, there: bool) -> None:
        model = self.model
        if there:
            self.run(self.room.join(who))
            model.members.add(who)
            model.was_member.add(who)
        else:
            self.told(self.room.leave(who), None if who in model.members else NotFound)
            model.members.discard(who)

    # What is asked

    @rule(
        who=WHO,
        limit=LIMITS,
        backwards=st.booleans(),
        kind=st.sampled_from(["all", "unread", "me", "thread", "sender"]),
        at=st.integers(0, 30),
    )
    def read_pages(self, who: str, limit: int, backwards: bool, kind: str, at: int) -> None:
        model, one = self.model, self.one_of(at)
        if one is None:
            return
        root = model.said[one.root - 1] if one.root else one
        asked, expected = {
            "all": ({}, [said.number for said in model.said]),
            "unread": ({"unread": True}, model.unread(who)),
            "me": ({"mentions": True}, sorted(number for name, number in model.deliveries if name == who)),
            "thread": (
                {"thread": root.message_id},
                [said.number for said in model.said if root.number in (said.number, said.root)],
            ),
            "sender": (
                {"sender": self.room.id_of(one.sender)},
                [said.number for said in model.said if said.sender == one.sender],
            ),
        }[kind]
        seen: list[int] = []
        cursor = "0" if not backwards else ""
        while True:
            way = {"before" if backwards else "after": cursor} if cursor else {}
            if backwards and not cursor:
                way = {"before": str(len(model.said) + 1)}
            page = self.run(self.room.page(who, limit=limit, **asked, **way))
            numbers = [message.number for message in page.messages]
            assert numbers == sorted(numbers)
            for message in page.messages:
                said = model.said[message.number - 1]
                assert (message.text, message.edits) == (said.text, said.edits)
            seen = numbers + seen if backwards else seen + numbers
            if kind == "unread":
                assert page.total_unread == len(model.unread(who))
            cursor = page.before if backwards else page.after
            if not cursor:
                break
        assert seen == expected

    @rule(at=st.integers(0, 30), limit=LIMITS)
    def who_lags(self, at: int, limit: int) -> None:
        one = self.one_of(at)
        if one is None:
            return
        model = self.model
        lagging = {name for name in model.members if name != one.sender and one.number not in model.acked[name]}
        seen: list[str] = []
        after = ""
        while True:
            page = self.run(self.room.laggards(one.message_id, limit=limit, after=after))
            assert (page.members, page.acked) == (len(model.members), len(model.members) - len(lagging))
            seen += [receipt.name for receipt in page.lagging]
            after = page.next
            if not after:
                break
        assert sorted(seen) == sorted(lagging)

    @invariant()
    def agrees(self) -> None:
        if self.room is None:
            return
        model = self.model
        for name in NAMES:
            receipt = self.run(self.room.receipt(name))
            numbers = {
                number for low, high in ((1, receipt.acked_to), *receipt.also) for number in range(low, high + 1)
            }
            own = {said.number for said in model.said if said.sender == name}
            assert numbers - own == model.acked[name] - own
            assert numbers <= model.acked[name] | own
            unread = self.run(self.room.channel(by=name)).unread
            assert unread == (len(model.unread(name)) if name in model.members else None)
            waiting = self.run(self.room.mentions(name))
            notices = {"declined", "expired"}
            found = [
                (hit.message.number, str(entry.state))
                for hit, entry in zip(waiting.mentions, waiting.deliveries, strict=True)
                if entry.why not in notices
            ]
            assert found == model.waiting(name)
            expected = {"build": len(model.unread(name))} if name in model.members and model.unread(name) else {}
            assert {entry.channel: entry.unread for entry in waiting.channels} == expected


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_the_room_does_what_the_model_does(engine: str) -> None:
    case = type(f"RelayMachineOn{engine.title()}", (RelayMachine,), {"postgres": engine == "postgres"}).TestCase
    case.settings = settings(max_examples=60 if engine == "sqlite" else 6, stateful_step_count=30, deadline=None)
    seeded(case)("runTest").runTest()
