"""Law 7: the first answer wins; every loser is told who answered, where, when."""

import asyncio

import pytest

from ekiden.kernel.errors import AlreadyAnswered, Conflict, Invalid
from ekiden.log.port import Actor
from ekiden.sessions.wire import Approval, FeedApproval, FeedApprovalEnd, FeedTurn
from sessions.room import DESK, PHONE, Room

pytestmark = pytest.mark.anyio


async def attempt(room: Room, asked: Approval, option: str, by: Actor) -> Approval | Conflict:
    """An answer, or the refusal of it."""
    try:
        return await room.answer(asked, option, by)
    except Conflict as refused:
        return refused


async def test_of_two_answers_at_once_one_is_taken_a_hundred_times(room: Room) -> None:
    """One device gets the answered approval, the other the winner's option, name and time; the host gets one
    decision, the winner's."""
    session_id = await room.session()
    await room.tell(FeedTurn(session_id, "trn_1", "running"))
    winners: set[str] = set()
    for number in range(100):
        await room.tell(FeedApproval(room.approval(session_id)))
        (asked,) = (await room.view(session_id)).approvals
        pair = [attempt(room, asked, "yes", PHONE), attempt(room, asked, "no", DESK)]
        outcomes = await asyncio.gather(*(pair if number % 2 else reversed(pair)))
        (won,) = [outcome for outcome in outcomes if isinstance(outcome, Approval)]
        (lost,) = [outcome for outcome in outcomes if isinstance(outcome, Conflict)]
        assert isinstance(lost, AlreadyAnswered)
        details = lost.details
        assert (details["option"], details["device"], details["by_id"], details["at"]) == (
            won.answer,
            won.answered_by,
            won.answered_by_id,
            won.answered_at,
        )
        assert (await room.work()).approvals == (won,)
        winners.add(won.answered_by)
        await room.tell(FeedApprovalEnd(asked.approval_id, "settled"))
    assert winners == {"Phone", "Desk"}
    answered = [event for event in await room.events() if event.kind == "approval.answered"]
    assert len(answered) == 100


async def test_whoever_comes_much_later_is_told_the_same(room: Room) -> None:
    """After the runtime took it, after the turn ended: still who, what and when."""
    session_id = await room.session()
    await room.tell(FeedTurn(session_id, "trn_1", "running"), FeedApproval(room.approval(session_id)))
    (asked,) = (await room.view(session_id)).approvals
    won = await room.answer(asked, "no", DESK)
    for entry in (FeedApprovalEnd(asked.approval_id, "settled"), FeedTurn(session_id, "trn_1", "completed")):
        room.clock.advance(5)
        await room.tell(entry)
        with pytest.raises(AlreadyAnswered) as refused:
            await room.answer(asked, "yes", PHONE)
        assert (refused.value.details["device"], refused.value.details["at"]) == ("Desk", won.answered_at)


async def test_an_answer_never_goes_to_the_next_question(room: Room) -> None:
    """The second answer to one request is refused although another one of the same turn is open."""
    session_id = await room.session()
    await room.tell(FeedApproval(room.approval(session_id)), FeedApproval(room.approval(session_id, title="Next")))
    first, second = (await room.view(session_id)).approvals
    await room.answer(first, "yes")
    with pytest.raises(AlreadyAnswered):
        await room.answer(first, "yes", DESK)
    with pytest.raises(Conflict):
        await room.answer(second, "yes", digest=first.digest)
    left = {approval.approval_id: approval.state for approval in (await room.view(session_id)).approvals}
    assert left == {first.approval_id: "answered", second.approval_id: "open"}


async def test_an_option_that_was_not_offered_wins_nothing(room: Room) -> None:
    """It is refused, and the request stays open for the next."""
    session_id = await room.session()
    await room.tell(FeedApproval(room.approval(session_id)))
    (asked,) = (await room.view(session_id)).approvals
    with pytest.raises(Invalid):
        await room.answer(asked, "allow everything", DESK)
    assert (await room.answer(asked, "no", PHONE)).answered_by == "Phone"


async def test_every_card_closes(room: Room) -> None:
    """The answer goes out on the topics of the session, the team and the host."""
    session_id = await room.session()
    await room.tell(FeedApproval(room.approval(session_id)))
    (asked,) = (await room.view(session_id)).approvals
    await room.answer(asked, "yes")
    (event,) = [event for event in await room.events() if event.kind == "approval.answered"]
    assert set(event.topics) == {f"session:{session_id}", "team", f"host:{room.host_id}"}
    assert (await room.inbox()).entries == ()
