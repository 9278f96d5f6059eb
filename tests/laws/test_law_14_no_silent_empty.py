"""Law 14: no silent empty: an unknown form, a dead writer, a lost host is a visible state. The sessions' part."""

import pytest

from ekiden.kernel.errors import Conflict
from ekiden.sessions.wire import FeedSession, FeedTurn, Rung, SessionState
from sessions.room import Room

pytestmark = pytest.mark.anyio


async def test_what_a_host_says_of_an_unreadable_session_is_shown_as_it_is(room: Room) -> None:
    """Drift, unknown rows and notices go to every client unchanged, in the list and in the view."""
    report = room.report(
        rows=40, messages=0, unknown_rows=40, drift="nothing_parsed", notices=("source_gone",), rung=Rung.FILE
    )
    await room.tell(FeedSession(report))
    assert (await room.page()).sessions[0].report == report
    assert (await room.view(report.session_id)).session.report == report


@pytest.mark.parametrize("state", [SessionState.RUNNING, SessionState.WAITING])
async def test_a_dead_writer_is_never_shown_as_running(room: Room, state: SessionState) -> None:
    """With its host away a session is lost, says since when, and stands in the inbox; nothing goes on spinning."""
    report = room.report(state=state, turn_id="trn_1", proof_at="2026-01-01T00:00:00Z")
    await room.tell(FeedSession(report))
    room.clock.advance(90)
    await room.lose()
    shown = (await room.page()).sessions[0]
    assert (shown.state, shown.host_here) == (SessionState.LOST, False)
    assert (shown.report.proof_at, shown.host_seen_at) == ("2026-01-01T00:00:00Z", "2026-01-01T00:01:30.000Z")
    inbox = await room.inbox()
    assert [entry.kind for entry in inbox.entries] == ["lost"]
    assert inbox.running == ()


async def test_a_turn_that_the_host_lost_is_visible(room: Room) -> None:
    """The host can no longer prove the writer alive: lost, with the reason, until it ends or speaks again."""
    session_id = await room.session()
    await room.tell(
        FeedTurn(session_id, "trn_1", "running"), FeedTurn(session_id, "trn_1", "lost", "no heartbeat")
    )
    assert (await room.view(session_id)).session.state is SessionState.LOST
    assert [entry.kind for entry in (await room.inbox()).entries] == ["lost"]


async def test_a_message_that_cannot_be_placed_is_refused_in_words(room: Room) -> None:
    """Never `stored` for what nobody will see: the refusal says what to do instead."""
    session_id = await room.session(rung=Rung.FILE)
    with pytest.raises(Conflict) as refused:
        await room.send(session_id, "hello")
    assert refused.value.hint


async def test_an_entry_that_is_not_taken_is_said(room: Room) -> None:
    """A host learns of each entry that the hub dropped, with its place and reason."""
    session_id = await room.session()
    answer = await room.tell(FeedTurn(session_id, "trn_1", "paused"), FeedTurn(session_id, "trn_2", "running"))
    assert [(refused.index, refused.code) for refused in answer.refused] == [(0, "invalid")]
    assert answer.refused[0].message
