"""What is long over is let go of; what is shown, waits or decides who was first stays."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from ekiden.hub import tidying
from ekiden.hub.chores import Chores
from ekiden.hub.people import TeamPeople
from ekiden.hub.tidying import own_chores
from ekiden.hub.wiring import ROOMS
from ekiden.kernel.errors import AlreadyAnswered
from ekiden.kernel.limits import CHORE_RETENTION_EVERY_S
from ekiden.log.open import open_log
from ekiden.log.queries import joined, room_queries
from ekiden.relay.port import Ports
from ekiden.sessions import retention
from ekiden.sessions.keeping import load_approval, load_message, load_turn
from ekiden.sessions.wire import FeedApproval, FeedApprovalEnd, FeedMessage, FeedTurn
from ekiden.testing.clock import StillClock
from sessions.room import DESK, PHONE, TEAM, Room

pytestmark = pytest.mark.anyio
DAY_S = 86_400.0


@pytest.fixture
async def room(log_place: str) -> AsyncIterator[Room]:
    clock = StillClock()
    log = await open_log(log_place, clock=clock, queries=joined(*(room_queries(of) for of in ROOMS)))
    opened = Room(log, clock)
    await opened.arrive()
    yield opened
    await log.close()


async def tidy(room: Room) -> None:
    chores = own_chores(room.clock, 0.0, 90 * DAY_S, Ports(TeamPeople()))
    await Chores(room.log, TEAM, "node", room.clock, chores).look()


async def a_turn(room: Room, session_id: str, number: int) -> tuple[str, str, str]:
    """One that was asked for, asked, was answered and ended: its message, approval and own id."""
    sent = await room.send(session_id, f"please {number}")
    turn_id = f"trn_{number}"
    approval = room.approval(session_id, turn_id=turn_id)
    await room.tell(
        FeedMessage(sent.message_id, "seen", turn_id=turn_id, how="new_turn"),
        FeedTurn(session_id, turn_id, "running"),
        FeedApproval(approval),
    )
    (shown,) = (await room.view(session_id)).approvals
    await room.answer(shown, "yes", PHONE)
    await room.tell(FeedApprovalEnd(shown.approval_id, "settled"), FeedTurn(session_id, turn_id, "completed"))
    return sent.message_id, shown.approval_id, turn_id


async def test_of_what_ended_long_ago_a_receipt_stays_and_of_turns_the_newest(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A late answer is told who was first, a message that comes again is known, and nothing shown changes but that
    the receipts of what was seen so long ago go."""
    monkeypatch.setattr(retention, "RETENTION_ROWS_MAX", 2)
    monkeypatch.setattr(tidying, "RETENTION_ROWS_MAX", 2)
    session_id = await room.session()
    old = [await a_turn(room, session_id, number) for number in range(5)]
    waiting = await room.send(session_id, "and then?")
    other_id = await room.session("other")
    asked = room.approval(other_id, turn_id="trn_open")
    await room.tell(FeedTurn(other_id, "trn_open", "running"), FeedApproval(asked))
    room.clock.advance(91 * DAY_S)
    young = await a_turn(room, session_id, 5)
    before = [await room.view(of) for of in (session_id, other_id)]
    await tidy(room)

    async def left(message_id: str, approval_id: str, turn_id: str) -> tuple[str, str, bool]:
        async def question(reading):
            message = await load_message(reading, message_id)
            approval = await load_approval(reading, approval_id)
            assert message is not None
            assert approval is not None
            turn = await load_turn(reading, session_id, turn_id)
            return message[0].text, approval[0].command, turn is not None

        return await room.log.ask(TEAM, question)

    assert [await left(*ids) for ids in old] == [("", "", False)] * 5
    assert await left(*young) == ("please 5", "ls", True)
    assert [message.message_id for message in before[0].seen] == [ids[0] for ids in (*old, young)]
    before[0] = msgspec.structs.replace(before[0], seen=before[0].seen[-1:])
    assert [await room.view(of) for of in (session_id, other_id)] == before
    assert [message.message_id for message in before[0].messages] == [waiting.message_id]
    assert [approval.command for approval in before[1].approvals] == ["ls"]
    for number, (message_id, approval_id, _) in enumerate(old):
        late = room.approval(session_id, approval_id)
        with pytest.raises(AlreadyAnswered) as refused:
            await room.answer(late, "no", DESK)
        assert (refused.value.details["option"], refused.value.details["by"]) == ("yes", "Phone")
        head = await room.head()
        again = await room.send(session_id, f"please {number}", PHONE, message_id)
        assert (again.message_id, again.state) == (message_id, "seen")
        assert await room.head() == head


async def test_what_was_let_go_of_is_not_looked_at_again(room: Room) -> None:
    """Once per row: the next round finds nothing, and changes nothing."""
    session_id = await room.session()
    for number in range(3):
        await a_turn(room, session_id, number)
    room.clock.advance(91 * DAY_S)
    await room.send(session_id, "now")
    await tidy(room)
    head = await room.head()
    for find in retention.ALL:
        count, _ = await room.log.ask(TEAM, lambda reading, find=find: find(reading, head + 1))
        assert count == 0
    room.clock.advance(CHORE_RETENTION_EVERY_S)
    await tidy(room)
    assert await room.head() == head
