"""Law 3: a snapshot, and the events after its cursor, are a fresh snapshot. Here for sessions and their list."""

import random

import msgspec
import pytest

from ekiden.kernel.cursors import parse_cursor
from ekiden.kernel.ids import Prefix, new_id
from ekiden.sessions.wire import (
    FeedApproval,
    FeedApprovalEnd,
    FeedMessage,
    FeedSession,
    FeedTurn,
    Holder,
    Host,
    Session,
    SessionState,
)
from sessions.room import DESK, PHONE, Follower, Room, counted, items_entry, message_item, shown_of

pytestmark = pytest.mark.anyio

NATIVE = ("one", "two", "three")


class ListFollower:
    """A client of the list: sessions by id, from the page and the team's events."""

    def __init__(self, sessions: tuple[Session, ...]) -> None:
        self.sessions = {session.report.session_id: session for session in sessions}

    def apply(self, events: list) -> None:
        """Takes the events of the topic `team`."""
        for event in events:
            if "team" not in event.topics:
                continue
            if event.kind == "session.reported":
                session = msgspec.json.decode(event.body, type=Session)
                self.sessions[session.report.session_id] = session
            elif event.kind == "session.counted":
                session_id = event.topics[0].removeprefix("session:")
                self.sessions[session_id] = counted(self.sessions[session_id], event)
            elif event.kind == "host.changed":
                host = msgspec.json.decode(event.body, type=Host)
                for session_id, session in self.sessions.items():
                    if session.host_id == host.host_id:
                        one = Follower.__new__(Follower)
                        one.session = session
                        one._host(host)
                        self.sessions[session_id] = one.session


class Life:
    """Things that happen in a room, drawn by chance; refusals are part of life."""

    def __init__(self, room: Room, seed: int) -> None:
        self.room = room
        self.chance = random.Random(seed)
        self.ids = {name: room.report(name).session_id for name in NATIVE}
        self.turns = 0
        self.line = 0
        self.marks = dict.fromkeys(NATIVE, "")

    async def step(self) -> None:
        """One thing happens."""
        room, chance = self.room, self.chance
        name = chance.choice(NATIVE)
        session_id = self.ids[name]
        view = await room.view(session_id)
        what = chance.randrange(12)
        room.clock.advance(chance.choice([0, 0.001, 5]))
        if what == 0:
            await room.lose()
        elif what == 1:
            await room.back()
        elif what == 2:
            holder = chance.choice([None, Holder(1, "Terminal", "", "", True, "permission prompt")])
            report = room.report(
                name, state=chance.choice(list(SessionState)), title=f"{chance.random()}", holder=holder
            )
            await room.tell(FeedSession(report))
        elif what in (3, 4):
            self.turns += chance.randrange(2)
            state = chance.choice(["running", "running", "completed", "interrupted", "lost"])
            proof = f"2026-01-01T00:00:00.{self.line:06}Z"
            await room.tell(FeedTurn(session_id, f"trn_{self.turns}", state, proof_at=proof))
        elif what in (5, 6):
            await room.tell(FeedApproval(room.approval(session_id, turn_id=f"trn_{self.turns}")))
        elif what == 7 and view.approvals:
            asked = chance.choice(view.approvals)
            if asked.state == "open":
                await room.answer(asked, chance.choice(["yes", "no"]), chance.choice([PHONE, DESK]))
            else:
                await room.tell(FeedApprovalEnd(asked.approval_id, chance.choice(["settled", "withdrawn"])))
        elif what == 8 and view.session.state is not SessionState.GONE and view.session.report.state != "gone":
            await room.send(session_id, "hello")
        elif what == 9 and view.messages:
            message = chance.choice(view.messages)
            if message.state == "stored" and chance.random() < 0.3:
                await room.cancel(message.message_id)
            else:
                state = chance.choice(["placed", "seen", "failed"])
                await room.tell(FeedMessage(message.message_id, state, how="queued"))
        elif what == 10:
            other = new_id(Prefix.HOST)
            await room.arrive(other, "Other")
            await room.tell(FeedSession(room.report("x", host_id=other)), host_id=other)
        else:
            self.line += 1
            mark = f"m{self.line}"
            item = message_item(f"itm_{chance.randrange(5)}", str(self.line))
            await room.tell(items_entry(session_id, self.marks[name], mark, item))
            self.marks[name] = mark


@pytest.mark.parametrize("seed", range(6))
async def test_following_from_any_snapshot_gives_the_fresh_one(room: Room, seed: int) -> None:
    """Clients that read their snapshots at different moments of a random life end with the same screens."""
    for name in NATIVE:
        await room.session(name)
    life = Life(room, seed)
    followers: list[tuple[int, Follower]] = []
    lists: list[tuple[int, ListFollower]] = []
    for number in range(150):
        if number % 15 == 0:
            view = await room.view(life.chance.choice(list(life.ids.values())))
            followers.append((parse_cursor(view.cursor).seq, Follower(view)))
            page = await room.page(limit=1_000)
            lists.append((parse_cursor(page.cursor).seq, ListFollower(page.sessions)))
        await life.step()
    for after, follower in followers:
        follower.apply(await room.events(after))
        assert follower.shown() == shown_of(await room.view(follower.session.report.session_id))
    fresh = await room.page(limit=1_000)
    for after, listed in lists:
        listed.apply(await room.events(after))
        assert listed.sessions == {session.report.session_id: session for session in fresh.sessions}


async def test_events_that_a_snapshot_holds_already_do_no_harm(room: Room) -> None:
    """Following from before the snapshot, as a client does that pages through a list, ends the same."""
    for name in NATIVE:
        await room.session(name)
    life = Life(room, 99)
    start = await room.head()
    for _ in range(80):
        await life.step()
    view = await room.view(life.ids["one"])
    follower = Follower(view)
    follower.apply(await room.events(start))
    assert follower.shown() == shown_of(view)
