"""Messages, interrupts, approvals, hosts: each verb as people and the hub use it."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from ekiden.kernel.errors import Conflict, EkidenError, NotFound, TooLarge, TooMany
from ekiden.kernel.ids import Prefix, new_id
from ekiden.kernel.limits import MESSAGES_WAITING_PER_SESSION_MAX
from ekiden.sessions.wire import (
    Ability,
    FeedApproval,
    FeedApprovalEnd,
    FeedGrew,
    FeedMessage,
    FeedSession,
    FeedTurn,
    Holder,
    Host,
    Rung,
    SessionState,
)
from ekiden.transcript.items import ItemKind
from sessions.room import DESK, PHONE, Room, items_entry, message_item

pytestmark = pytest.mark.anyio


async def test_a_message_is_stored_told_to_its_host_and_placed(room: Room) -> None:
    """From stored to seen, with the count of waiting messages and the host's work following."""
    session_id = await room.session()
    head = await room.head()
    sent = await room.send(session_id, "hello")
    assert (sent.state, sent.sent_by, sent.sent_by_id) == ("stored", "Phone", "pri_phone")
    stored, counted = await room.events(head)
    assert (stored.kind, counted.kind) == ("message.stored", "session.counted")
    assert stored.topics == (f"session:{session_id}", f"host:{room.host_id}")
    assert counted.topics == (f"session:{session_id}", "team")
    assert (await room.work()).messages == (sent,)
    assert (await room.view(session_id)).session.messages_waiting == 1
    await room.tell(FeedMessage(sent.message_id, "placed", turn_id="trn_1", how="new_turn"))
    assert (await room.work()).messages == ()
    view = await room.view(session_id)
    assert (view.session.messages_waiting, view.messages[0].how) == (0, "new_turn")
    await room.tell(FeedMessage(sent.message_id, "seen"))
    assert (await room.view(session_id)).messages == ()


async def test_messages_have_the_order_in_which_they_were_stored(room: Room) -> None:
    """Clocks that run backwards, ids that sort otherwise and messages of one instant change nothing of it."""
    session_id = await room.session()
    sent: list[str] = []
    for step, by in ((600, PHONE), (-1200, DESK), (0, PHONE), (0, DESK), (-5, PHONE)):
        room.clock.advance(step)
        message_id = f"msg_{'zyxwv'[len(sent)] * 20}"
        sent.append((await room.send(session_id, f"m{len(sent)}", by, message_id)).message_id)
    assert [message.message_id for message in (await room.work()).messages] == sent
    assert [message.message_id for message in (await room.view(session_id)).messages] == sent


async def test_the_same_message_told_twice_is_one(room: Room) -> None:
    """A repeat is recognised by the client's id and changes nothing, whatever became of it since."""
    session_id = await room.session()
    message_id = new_id(Prefix.MESSAGE)
    first = await room.send(session_id, "hello", message_id=message_id)
    head = await room.head()
    assert await room.send(session_id, "hello", message_id=message_id) == first
    assert await room.head() == head
    await room.tell(FeedMessage(message_id, "placed", how="queued"))
    assert (await room.send(session_id, "hello", message_id=message_id)).state == "placed"
    with pytest.raises(Conflict):
        await room.send(session_id, "other", message_id=message_id)


async def test_the_queue_is_bounded_and_says_so(room: Room) -> None:
    """One more than fits is refused by name; when one is cancelled there is room again."""
    session_id = await room.session()
    for number in range(MESSAGES_WAITING_PER_SESSION_MAX):
        last = await room.send(session_id, str(number))
    with pytest.raises(TooMany):
        await room.send(session_id, "one more")
    await room.cancel(last.message_id)
    assert (await room.send(session_id, "one more")).state == "stored"


async def test_a_text_that_no_event_can_hold_is_refused_whole(room: Room) -> None:
    """Within the bound of characters, but escaped too large: nothing of it is stored."""
    session_id = await room.session()
    head = await room.head()
    with pytest.raises(TooLarge):
        await room.send(session_id, "\u0001" * 199_999 + "x")
    assert await room.head() == head


async def test_a_broken_text_is_stored_as_one_that_can_be_told(room: Room) -> None:
    """Half of a surrogate pair becomes U+FFFD before it is stored."""
    session_id = await room.session()
    assert (await room.send(session_id, "a\ud83db")).text == "a\ufffdb"


async def test_messages_are_taken_only_by_sessions_that_can_place_them(room: Room) -> None:
    """Held, unowned or gone: the sender is told why, and nothing is stored that nobody will see."""
    held = Ability("queue", False, "held", "A terminal has this session.")
    for native_id, fields, why in (
        ("held", {"rung": Rung.HELD, "abilities": (held,)}, "held"),
        ("file", {"rung": Rung.FILE}, "not_owned"),
    ):
        session_id = await room.session(native_id, **fields)
        with pytest.raises(Conflict) as refused:
            await room.send(session_id, "hello")
        assert refused.value.details["why"] == why
    gone = await room.session("gone", state=SessionState.GONE)
    with pytest.raises(Conflict):
        await room.send(gone, "hello")
    assert (await room.work()).messages == ()


async def test_cancelled_and_sent_are_told_apart(room: Room) -> None:
    """A cancelled message leaves the work of the host; what the host has placed cannot be cancelled."""
    session_id = await room.session()
    first, second = await room.send(session_id, "1"), await room.send(session_id, "2")
    cancelled = await room.cancel(first.message_id, DESK)
    assert cancelled.state == "cancelled"
    assert await room.cancel(first.message_id) == cancelled
    assert (await room.work()).messages == (second,)
    await room.tell(FeedMessage(second.message_id, "placed", how="new_turn"))
    with pytest.raises(Conflict) as refused:
        await room.cancel(second.message_id)
    assert refused.value.details["state"] == "placed"


async def test_a_message_placed_before_its_cancellation_arrived_is_shown_as_placed(room: Room) -> None:
    """Both devices learn what happened, not what was wished."""
    session_id = await room.session()
    sent = await room.send(session_id, "1")
    await room.cancel(sent.message_id)
    await room.tell(FeedMessage(sent.message_id, "placed", turn_id="trn_1", how="new_turn"))
    (shown,) = (await room.view(session_id)).messages
    assert shown.state == "placed"
    assert shown.reason
    assert (await room.view(session_id)).session.messages_waiting == 0


async def test_an_interrupt_is_the_hosts_work_until_the_turn_has_ended(room: Room) -> None:
    """Asked by two devices it is asked once; the end of the turn settles it."""
    session_id = await room.session()
    await room.tell(FeedTurn(session_id, "trn_1", "running"))
    head = await room.head()
    assert (await room.interrupt(session_id, "trn_1", PHONE)).by == "Phone"
    assert (await room.interrupt(session_id, "trn_1", DESK)).by == "Phone"
    assert await room.kinds(head) == ["turn.interrupt_asked"]
    assert [asked.turn_id for asked in (await room.work()).interrupts] == ["trn_1"]
    await room.tell(FeedTurn(session_id, "trn_1", "interrupted"))
    assert (await room.work()).interrupts == ()
    for turn_id in ("trn_1", "trn_2"):
        with pytest.raises(Conflict):
            await room.interrupt(session_id, turn_id)


async def test_an_interrupt_never_hits_a_later_turn(room: Room) -> None:
    """The turn that was seen has ended and another runs: refused, with the one that runs."""
    session_id = await room.session()
    await room.tell(FeedTurn(session_id, "trn_1", "running"), FeedTurn(session_id, "trn_1", "completed"))
    await room.tell(FeedTurn(session_id, "trn_2", "running"))
    with pytest.raises(Conflict) as refused:
        await room.interrupt(session_id, "trn_1")
    assert refused.value.details["turn_id"] == "trn_2"
    assert (await room.work()).interrupts == ()


async def test_a_turn_known_only_from_the_report_can_be_interrupted(room: Room) -> None:
    """Where the host can interrupt it, the report's turn is the one that a person sees."""
    session_id = await room.session(
        rung=Rung.HELD, state=SessionState.RUNNING, turn_id="trn_7", abilities=(Ability("interrupt", True),)
    )
    await room.interrupt(session_id, "trn_7")
    assert [asked.turn_id for asked in (await room.work()).interrupts] == ["trn_7"]


async def test_an_answer_is_the_hosts_work_until_the_runtime_took_it(room: Room) -> None:
    """The answer goes to the host with all that the person added."""
    session_id = await room.session()
    await room.tell(FeedApproval(room.approval(session_id)))
    (asked,) = (await room.view(session_id)).approvals
    head = await room.head()
    answered = await room.answer(asked, "no", message="Not now.", answers=msgspec.Raw(b'{"color":"red"}'))
    event = (await room.events(head))[0]
    assert event.kind == "approval.answered"
    assert event.topics == (f"session:{session_id}", "team", f"host:{room.host_id}")
    assert (await room.view(session_id)).session.approvals_open == 0
    (work,) = (await room.work()).approvals
    assert (work.answer, work.message, bytes(work.answers)) == ("no", "Not now.", b'{"color":"red"}')
    assert work == answered
    await room.tell(FeedApprovalEnd(asked.approval_id, "settled"))
    assert (await room.work()).approvals == ()


async def test_an_approval_is_there_for_whoever_comes_late(room: Room) -> None:
    """Asked while nobody looks, it is in the view, the list and the inbox of everyone who comes later."""
    session_id = await room.session(title="Work")
    await room.tell(FeedApproval(room.approval(session_id)))
    for _ in range(2):
        assert len((await room.view(session_id)).approvals) == 1
        assert (await room.page()).sessions[0].approvals_open == 1
        (entry,) = (await room.inbox()).entries
        assert (entry.kind, entry.session and entry.session.report.title) == ("approval", "Work")


async def test_losing_a_host_allows_nothing_and_leaves_nothing_running(room: Room) -> None:
    """Running turns are lost with the time, open approvals unknown; answers given before stay the host's work."""
    running = await room.session("running")
    idle = await room.session("idle")
    mirrored = await room.session("mirrored", rung=Rung.HELD, state=SessionState.WAITING, turn_id="trn_5")
    await room.tell(
        FeedTurn(running, "trn_1", "running"),
        FeedApproval(room.approval(running)),
        FeedApproval(room.approval(running)),
    )
    given, left = (await room.view(running)).approvals
    await room.answer(given, "yes")
    head = await room.head()
    room.clock.advance(60)
    await room.lose()
    kinds = await room.kinds(head)
    assert kinds[0] == "host.changed"
    assert sorted(kinds[1:]) == ["approval.ended", "session.reported", "session.reported", "turn.changed"]
    view = await room.view(running)
    assert view.session.state is SessionState.LOST
    assert (view.session.host_here, view.session.host_seen_at) == (False, "2026-01-01T00:01:00.000Z")
    assert {approval.approval_id: approval.state for approval in view.approvals} == {
        given.approval_id: "answered",
        left.approval_id: "unknown",
    }
    assert (await room.view(mirrored)).session.state is SessionState.LOST
    assert (await room.view(idle)).session.state is SessionState.IDLE
    assert [approval.approval_id for approval in (await room.work()).approvals] == [given.approval_id]
    with pytest.raises(Conflict):
        await room.answer(left, "yes")
    head = await room.head()
    await room.lose()
    assert await room.head() == head


async def test_a_host_that_is_back_is_no_proof_that_its_turns_run(room: Room) -> None:
    """They stay lost until it reports them; then they run again, and what they ask gets a new id."""
    report = room.report(state=SessionState.RUNNING, turn_id="trn_1", proof_at="2026-01-01T00:00:01Z")
    session_id = report.session_id
    await room.tell(
        FeedSession(report),
        FeedTurn(session_id, "trn_1", "running", proof_at="2026-01-01T00:00:01Z"),
        FeedApproval(room.approval(session_id)),
    )
    (asked,) = (await room.view(session_id)).approvals
    await room.lose()
    await room.back()
    assert (await room.view(session_id)).session.state is SessionState.LOST
    await room.tell(FeedSession(msgspec.structs.replace(report, proof_at="2026-01-01T00:01:00Z")))
    assert (await room.view(session_id)).session.state is SessionState.RUNNING
    await room.interrupt(session_id, "trn_1")
    await room.tell(FeedApproval(asked))
    assert [approval.state for approval in (await room.view(session_id)).approvals] == ["unknown"]
    await room.tell(FeedApproval(room.approval(session_id)))
    states = sorted(approval.state for approval in (await room.view(session_id)).approvals)
    assert states == ["open", "unknown"]


@pytest.mark.parametrize("rung", [Rung.HELD, Rung.FILE])
async def test_a_turn_outside_is_shown_as_its_host_saw_it_once_it_is_back(room: Room, rung: Rung) -> None:
    """The host watches such a session and says when its view of it changes: back without a word, nothing has."""
    session_id = await room.session(state=SessionState.RUNNING, turn_id="trn_1", rung=rung)
    await room.lose()
    assert (await room.view(session_id)).session.state is SessionState.LOST
    await room.back()
    assert (await room.view(session_id)).session.state is SessionState.RUNNING


@pytest.mark.parametrize("word", ["piece", "question"])
async def test_a_runtimes_own_word_is_proof_that_its_turn_runs(room: Room, word: str) -> None:
    """After a break of the connection the turn goes on: its next piece or question takes the loss back."""
    session_id = await room.session()
    await room.tell(FeedTurn(session_id, "trn_1", "running", proof_at="2026-01-01T00:00:00Z"))
    await room.lose()
    await room.back()
    other = FeedGrew(session_id, "trn_0", "itm_0", ItemKind.MESSAGE, 0, "late")
    await room.tell(other)
    assert (await room.view(session_id)).session.state is SessionState.LOST
    if word == "piece":
        await room.tell(FeedGrew(session_id, "trn_1", "itm_1", ItemKind.MESSAGE, 3, "more"))
    else:
        await room.tell(FeedApproval(room.approval(session_id)))
    assert (await room.view(session_id)).session.state is SessionState.RUNNING
    await room.interrupt(session_id, "trn_1")


async def test_a_host_may_be_seen_before_it_reports_itself(room: Room) -> None:
    """Its stream may begin before its report arrives; either order gives a host that is here."""
    early, late = new_id(Prefix.HOST), new_id(Prefix.HOST)
    await room.back(early)
    await room.arrive(early, "Early")
    await room.arrive(late, "Late")
    events = [event for event in await room.events() if event.kind == "host.changed"]
    last = {host.host_id: host for host in (msgspec.json.decode(event.body, type=Host) for event in events)}
    assert (last[early].here, last[early].report.name) == (True, "Early")
    assert (last[late].here, last[late].report.name) == (True, "Late")


async def test_the_inbox_holds_what_waits_and_what_runs(room: Room) -> None:
    """Approvals first, in the order in which they were asked; then terminals that ask, then what was lost."""
    asking = await room.session("asking")
    second = await room.session("second")
    await room.session("quiet")
    await room.session(
        "terminal",
        rung=Rung.HELD,
        title="In a terminal",
        holder=Holder(7, "Claude Code in a terminal", "", "registry", True, "permission prompt"),
    )
    lost = await room.session("lost", state=SessionState.LOST)
    await room.tell(FeedTurn(asking, "trn_1", "running"))
    first = room.approval(second, title="First")
    await room.tell(FeedApproval(first), FeedApproval(room.approval(asking, title="Second")))
    inbox = await room.inbox()
    assert [entry.kind for entry in inbox.entries] == ["approval", "approval", "held", "lost"]
    assert inbox.entries[0].id == first.approval_id
    assert "permission prompt" in inbox.entries[2].detail
    assert inbox.entries[3].id == lost
    assert [session.report.session_id for session in inbox.running] == [asking]


@pytest.mark.parametrize(
    "verb",
    [
        lambda room, session_id: room.send(session_id, "hello"),
        lambda room, session_id: room.interrupt(session_id, "trn_1"),
        lambda room, session_id: room.view(session_id),
        lambda room, session_id: room.cancel(new_id(Prefix.MESSAGE)),
        lambda room, session_id: room.answer(room.approval(session_id), "yes"),
    ],
)
async def test_what_does_not_exist_is_not_found(room: Room, verb: Callable[[Room, str], Any]) -> None:
    """Every verb on nothing answers alike, and stores nothing."""
    head = await room.head()
    with pytest.raises(NotFound):
        await verb(room, new_id(Prefix.SESSION))
    assert await room.head() == head


async def test_nothing_that_is_refused_leaves_a_trace(room: Room) -> None:
    """Refusals of every kind: no event, no change of the view."""
    session_id = await room.session()
    await room.tell(
        FeedApproval(room.approval(session_id)), items_entry(session_id, "", "m", message_item("itm_1", "x"))
    )
    (asked,) = (await room.view(session_id)).approvals
    head, before = await room.head(), await room.view(session_id)
    for refused in (
        lambda: room.answer(asked, "maybe"),
        lambda: room.answer(asked, "yes", digest="0"),
        lambda: room.send(session_id, ""),
        lambda: room.interrupt(session_id, "trn_1"),
    ):
        with pytest.raises(EkidenError):
            await refused()
    assert await room.head() == head
    assert await room.view(session_id) == before
