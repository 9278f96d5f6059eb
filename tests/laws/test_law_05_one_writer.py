"""Law 5: one writer per running turn, and Ekiden is never the second writer of a session. The hub's part of it."""

import itertools

import pytest

from ekiden.kernel.errors import Conflict
from ekiden.sessions.wire import Ability, FeedSession, FeedTurn, Rung, SessionState
from sessions.room import Room

pytestmark = pytest.mark.anyio


async def test_a_session_never_has_two_running_turns(room: Room) -> None:
    """In whatever order turns are told to begin, at most one counts as running, and the others say why not."""
    session_id = await room.session()
    for order in itertools.permutations(("trn_a", "trn_b", "trn_c")):
        await room.tell(*[FeedTurn(session_id, f"{turn}_{''.join(order)}", "running") for turn in order])
        last = f"{order[-1]}_{''.join(order)}"
        view = await room.view(session_id)
        assert view.session.report.turn_id == last
        for other in order[:-1]:
            with pytest.raises(Conflict) as refused:
                await room.interrupt(session_id, f"{other}_{''.join(order)}")
            assert refused.value.details["turn_id"] == last


@pytest.mark.parametrize("rung", [Rung.HELD, Rung.FILE])
@pytest.mark.parametrize("abilities", [(), (Ability("queue", False, "held", "A terminal writes it."),)])
async def test_nothing_is_queued_for_a_session_that_somebody_else_writes(
    room: Room, rung: Rung, abilities: tuple[Ability, ...]
) -> None:
    """A message to a session that Ekiden does not own would need a second writer: it is refused, not stored."""
    session_id = await room.session(rung=rung, abilities=abilities)
    with pytest.raises(Conflict):
        await room.send(session_id, "hello")
    assert (await room.work()).messages == ()


async def test_what_a_former_owner_left_is_not_done_by_the_next(room: Room) -> None:
    """A session that is let go and then held by a terminal has no turn of ours and no wish to stop one."""
    session_id = await room.session()
    await room.tell(FeedTurn(session_id, "trn_1", "running"))
    await room.interrupt(session_id, "trn_1")
    held = room.report(rung=Rung.HELD, state=SessionState.RUNNING, turn_id="trn_2")
    await room.tell(FeedSession(held), FeedTurn(session_id, "trn_1", "failed"))
    assert (await room.work()).interrupts == ()
