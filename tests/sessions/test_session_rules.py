"""The state machines by table: each move of a table happens, every other is refused and changes nothing."""

import itertools

import msgspec
import pytest

from ekiden.kernel.errors import AlreadyAnswered, Conflict, EkidenError, Invalid, TooLarge, TooMany
from ekiden.kernel.limits import (
    APPROVALS_OPEN_PER_SESSION_MAX,
    MESSAGE_CHARS_MAX,
    MESSAGES_WAITING_PER_SESSION_MAX,
)
from ekiden.sessions import rules
from ekiden.sessions.rules import ApprovalState, MarkFits, MessageState, Person, Turn, TurnState
from ekiden.sessions.wire import (
    Ability,
    AnswerApproval,
    Approval,
    ApprovalOption,
    Message,
    Rung,
    SendMessage,
    SessionReport,
    SessionState,
)

PHONE = Person("pri_phone", "Phone")
DESK = Person("pri_desk", "Desk")
AT = "2026-01-01T00:00:00.000Z"


def approval(state: ApprovalState = ApprovalState.OPEN, **fields: object) -> Approval:
    asked = Approval(
        approval_id="apr_1",
        session_id="ses_1",
        turn_id="trn_1",
        question="run_command",
        title="Run",
        tool="Bash",
        command="ls",
        options=(ApprovalOption("yes", "Allow", "allow_once"), ApprovalOption("no", "Deny", "deny")),
    )
    asked = msgspec.structs.replace(asked, digest=rules.digest_of(asked), state=state.value)
    return msgspec.structs.replace(asked, **fields)


def message(state: MessageState, **fields: object) -> Message:
    known = Message("msg_1", "ses_1", "hello", state.value, "Phone", "pri_phone", AT)
    return msgspec.structs.replace(known, **fields)


@pytest.mark.parametrize(("now", "told"), list(itertools.product(ApprovalState, ApprovalState)))
def test_an_approval_ends_only_by_the_table(now: ApprovalState, told: ApprovalState) -> None:
    """A host can end an approval where the table has the move; it can never open it or answer it."""
    known = approval(now)
    if told is now:
        assert rules.decide_end(known, told, "why") is None
    elif told in rules.APPROVAL_MOVES[now] and told is not ApprovalState.ANSWERED:
        ended = rules.decide_end(known, told, "why")
        assert ended is not None
        assert (ended.state, ended.reason) == (told, "why")
    else:
        with pytest.raises(Conflict):
            rules.decide_end(known, told, "why")


def test_only_a_persons_answer_leads_to_answered() -> None:
    """No table row but that of an open approval leads to `answered`, and hosts cannot take it."""
    sources = [state for state, moves in rules.APPROVAL_MOVES.items() if ApprovalState.ANSWERED in moves]
    assert sources == [ApprovalState.OPEN]


def test_an_answer_says_who_what_and_when() -> None:
    """The approval keeps the option, the device, the principal and the time."""
    open_one = approval()
    answered = rules.decide_answer(open_one, AnswerApproval("no", open_one.digest, message="Not here."), PHONE, AT)
    assert (answered.state, answered.answer, answered.message) == ("answered", "no", "Not here.")
    assert (answered.answered_by, answered.answered_by_id, answered.answered_at) == ("Phone", "pri_phone", AT)


@pytest.mark.parametrize("after", [None, ApprovalState.SETTLED, ApprovalState.WITHDRAWN, ApprovalState.UNKNOWN])
@pytest.mark.parametrize("option", ["yes", "no", "never offered"])
@pytest.mark.parametrize("by", [PHONE, DESK])
def test_the_second_answer_learns_of_the_first(after: ApprovalState | None, option: str, by: Person) -> None:
    """Whatever became of it since, and whatever the second says, it is told option, who, device and time."""
    open_one = approval()
    known = rules.decide_answer(open_one, AnswerApproval("yes", open_one.digest), PHONE, AT)
    if after is not None:
        ended = rules.decide_end(known, after, "")
        assert ended is not None
        known = ended
    with pytest.raises(AlreadyAnswered) as refused:
        rules.decide_answer(known, AnswerApproval(option, known.digest), by, "2026-01-01T00:00:09.000Z")
    details = refused.value.details
    assert (details["option"], details["by_id"], details["device"], details["at"]) == (
        "yes",
        "pri_phone",
        "Phone",
        AT,
    )


@pytest.mark.parametrize("state", [ApprovalState.SETTLED, ApprovalState.WITHDRAWN, ApprovalState.UNKNOWN])
def test_what_ended_without_an_answer_takes_none(state: ApprovalState) -> None:
    """An approval that its runtime settled, withdrew or lost is refused in its state, not answered after all."""
    known = approval(state)
    with pytest.raises(Conflict) as refused:
        rules.decide_answer(known, AnswerApproval("yes", known.digest), PHONE, AT)
    assert not isinstance(refused.value, AlreadyAnswered)
    assert refused.value.details["state"] == state


def test_an_answer_is_bound_to_what_was_shown_and_offered() -> None:
    """Another digest, none, or an option that was not offered is refused."""
    known = approval()
    with pytest.raises(Conflict):
        rules.decide_answer(known, AnswerApproval("yes", ""), PHONE, AT)
    with pytest.raises(Conflict):
        rules.decide_answer(known, AnswerApproval("yes", "0" * 64), PHONE, AT)
    with pytest.raises(Invalid) as refused:
        rules.decide_answer(known, AnswerApproval("Allow", known.digest), PHONE, AT)
    assert refused.value.details["options"] == ["yes", "no"]


@pytest.mark.parametrize(
    "change",
    [
        {"command": "ls -l"},
        {"cwd": "/"},
        {"detail": msgspec.Raw(b'{"a":1}')},
        {"diff": "+x"},
        {"tool": "Write"},
        {"title": "Other"},
        {"question": "other"},
        {"turn_id": "trn_2"},
        {"options": (ApprovalOption("yes", "Deny", "deny"),)},
    ],
)
def test_the_digest_changes_with_all_that_is_shown(change: dict[str, object]) -> None:
    """There is nothing on the card that an answer is not bound to."""
    known = approval()
    assert rules.digest_of(msgspec.structs.replace(known, **change)) != known.digest


@pytest.mark.parametrize("state", list(ApprovalState))
def test_asking_again_under_the_same_id_changes_nothing(state: ApprovalState) -> None:
    """A host that repeats itself opens nothing again, not even what is unknown."""
    assert rules.decide_ask(approval(state), approval(), open_now=0, at=AT) is None


def test_a_host_cannot_ask_something_that_is_answered_already() -> None:
    """Whatever answer a host puts into what it asks is not taken over."""
    forged = approval(ApprovalState.ANSWERED, answer="yes", answered_by="Phone", answered_by_id="pri_phone")
    asked = rules.decide_ask(None, forged, open_now=0, at=AT)
    assert asked is not None
    assert (asked.state, asked.answer, asked.answered_by, asked.answered_by_id) == ("open", "", "", "")


def test_open_approvals_are_bounded_and_ids_belong_to_one_session() -> None:
    """A session asks at most so much at once; an id of another session's request is refused."""
    with pytest.raises(TooMany):
        rules.decide_ask(None, approval(), open_now=APPROVALS_OPEN_PER_SESSION_MAX, at=AT)
    with pytest.raises(Conflict):
        rules.decide_ask(approval(), approval(session_id="ses_2"), open_now=0, at=AT)


@pytest.mark.parametrize(("now", "told"), list(itertools.product(MessageState, MessageState)))
def test_a_message_moves_only_by_the_table(now: MessageState, told: MessageState) -> None:
    """What a host says of a message is taken where the table has the move, and refused otherwise."""
    known = message(now)
    if told is now and told is not MessageState.PLACED:
        assert rules.decide_message(known, told, turn_id="trn_1", how="queued", reason="") is None
    elif told in rules.MESSAGE_MOVES[now]:
        became = rules.decide_message(known, told, turn_id="trn_1", how="queued", reason="")
        assert became is not None
        assert (became.state, became.turn_id, became.how) == (told, "trn_1", "queued")
    else:
        with pytest.raises(Conflict):
            rules.decide_message(known, told, turn_id="", how="", reason="")


def test_a_message_that_was_placed_twice_in_the_same_way_is_no_news() -> None:
    """From queued to a turn of its own is news; the same again is not."""
    queued = rules.decide_message(message(MessageState.STORED), "placed", turn_id="", how="queued", reason="")
    assert queued is not None
    assert rules.decide_message(queued, "placed", turn_id="", how="queued", reason="") is None
    begun = rules.decide_message(queued, "placed", turn_id="trn_2", how="new_turn", reason="")
    assert begun is not None
    assert (begun.how, begun.turn_id) == ("new_turn", "trn_2")


def test_a_cancellation_that_came_too_late_is_shown_as_what_happened() -> None:
    """The runtime took the message although it was cancelled here: it counts as placed, with the reason."""
    became = rules.decide_message(
        message(MessageState.CANCELLED), "placed", turn_id="t", how="new_turn", reason=""
    )
    assert became is not None
    assert became.state == "placed"
    assert "cancellation" in became.reason


@pytest.mark.parametrize("state", list(MessageState))
def test_a_message_is_taken_back_only_while_it_is_stored(state: MessageState) -> None:
    """Cancelling twice is one cancellation; what is on its way cannot be cancelled."""
    if state is MessageState.STORED:
        cancelled = rules.decide_cancel(message(state), DESK)
        assert cancelled is not None
        assert cancelled.state == "cancelled"
    elif state is MessageState.CANCELLED:
        assert rules.decide_cancel(message(state), DESK) is None
    else:
        with pytest.raises(Conflict) as refused:
            rules.decide_cancel(message(state), DESK)
        assert refused.value.details["state"] == state


def test_a_message_id_names_one_message() -> None:
    """The same again is the same; another text, session or sender under that id is refused."""

    def send(text: str, by: Person = PHONE, session_id: str = "ses_1") -> Message | None:
        known = message(MessageState.PLACED)
        return rules.decide_send(known, "msg_1", session_id, SendMessage(text), waiting=0, by=by, at=AT)

    assert send("hello") is None
    for other in (lambda: send("bye"), lambda: send("hello", DESK), lambda: send("hello", PHONE, "ses_2")):
        with pytest.raises(Conflict):
            other()


@pytest.mark.parametrize(
    ("text", "waiting", "error"),
    [
        ("", 0, Invalid),
        (" \n\t", 0, Invalid),
        ("x" * (MESSAGE_CHARS_MAX + 1), 0, TooLarge),
        ("x", MESSAGES_WAITING_PER_SESSION_MAX, TooMany),
    ],
)
def test_what_is_no_message_or_too_much_is_refused(text: str, waiting: int, error: type[EkidenError]) -> None:
    """Empty texts, texts over the bound and messages over the queue's bound are refused by name."""
    with pytest.raises(error):
        rules.decide_send(None, "msg_1", "ses_1", SendMessage(text), waiting=waiting, by=PHONE, at=AT)


@pytest.mark.parametrize(("now", "told"), list(itertools.product(TurnState, TurnState)))
def test_a_turn_moves_only_by_the_table(now: TurnState, told: TurnState) -> None:
    """A turn that has ended stays as it ended; a lost one may end, or run again with newer proof."""
    known = Turn("trn_1", now, proof_at="2026-01-01T00:00:01Z")
    running = known if now is TurnState.RUNNING else None
    newer = "2026-01-01T00:00:02Z"
    if told in rules.TURN_MOVES[now]:
        (became,) = rules.decide_turn(known, running, "trn_1", told, reason="", proof_at=newer)
        assert (became.state, became.proof_at) == (told, newer)
    elif told is now:
        assert rules.decide_turn(known, running, "trn_1", told, reason="", proof_at=newer) == ()
    else:
        with pytest.raises(Conflict):
            rules.decide_turn(known, running, "trn_1", told, reason="", proof_at=newer)


@pytest.mark.parametrize("proof_at", ["", "2026-01-01T00:00:01Z", "2026-01-01T00:00:00Z"])
def test_a_lost_turn_does_not_run_again_without_newer_proof(proof_at: str) -> None:
    """Old proof, or none, leaves it lost."""
    lost = Turn("trn_1", TurnState.LOST, proof_at="2026-01-01T00:00:01Z")
    with pytest.raises(Conflict):
        rules.decide_turn(lost, None, "trn_1", "running", reason="", proof_at=proof_at)


def test_a_session_has_one_running_turn() -> None:
    """When another turn begins, the one that still counted as running is lost, not forgotten."""
    first = Turn("trn_1", TurnState.RUNNING)
    lost, begun = rules.decide_turn(None, first, "trn_2", "running", reason="", proof_at="")
    assert (lost.turn_id, lost.state) == ("trn_1", TurnState.LOST)
    assert (begun.turn_id, begun.state) == ("trn_2", TurnState.RUNNING)


def test_words_that_are_no_state_are_refused() -> None:
    """A host of another version that uses a new word is told so."""
    for decide in (
        lambda: rules.decide_end(approval(), "paused", ""),
        lambda: rules.decide_message(message(MessageState.STORED), "paused", turn_id="", how="", reason=""),
        lambda: rules.decide_turn(None, None, "t", "paused", reason="", proof_at=""),
    ):
        with pytest.raises(Invalid):
            decide()


def report(state: SessionState, turn_id: str = "", **fields: object) -> SessionReport:
    known = SessionReport("ses_1", "demo", "n", state=state, turn_id=turn_id, rung=Rung.OWNED)
    return msgspec.structs.replace(known, **fields)


def test_an_interrupt_is_for_the_turn_that_was_seen() -> None:
    """Another turn, or none, is a conflict that names what runs now; a second wish is the first one's."""
    running = Turn("trn_2", TurnState.RUNNING)
    runs = report(SessionState.RUNNING, "trn_2")
    asked = rules.decide_interrupt(running, running, runs, "trn_2", PHONE)
    assert asked is not None
    assert asked.interrupt_by == "Phone"
    assert rules.decide_interrupt(asked, asked, runs, "trn_2", DESK) is None
    with pytest.raises(Conflict) as refused:
        rules.decide_interrupt(running, None, runs, "trn_1", PHONE)
    assert refused.value.details["turn_id"] == "trn_2"
    for turn_id in ("trn_2", ""):
        with pytest.raises(Conflict):
            rules.decide_interrupt(None, None, report(SessionState.IDLE, "trn_2"), turn_id, PHONE)


def test_a_turn_that_only_the_report_names_can_be_stopped() -> None:
    """The host's report names the turn where the hub has heard of it only there; a turn that ended is over."""
    now = report(SessionState.RUNNING, "trn_2")
    asked = rules.decide_interrupt(None, None, now, "trn_2", PHONE)
    assert asked is not None
    assert (asked.turn_id, asked.state) == ("trn_2", TurnState.RUNNING)
    with pytest.raises(Conflict):
        rules.decide_interrupt(None, Turn("trn_1", TurnState.LOST), now, "trn_1", PHONE)
    with pytest.raises(Conflict):
        rules.decide_interrupt(None, Turn("trn_2", TurnState.COMPLETED), now, "trn_2", PHONE)


@pytest.mark.parametrize("seen", [None, Turn("trn_1", TurnState.LOST)])
def test_a_wish_to_stop_a_lost_turn_does_not_make_it_run(seen: Turn | None) -> None:
    """Only its own runtime can prove that it runs again."""
    asked = rules.decide_interrupt(None, seen, report(SessionState.LOST, "trn_1"), "trn_1", PHONE)
    assert asked is not None
    assert asked.state is TurnState.LOST


def test_what_a_session_cannot_do_is_refused_with_the_hosts_reason() -> None:
    """The stable word and the detail go on; an ability that is not listed is there only for owned sessions."""
    cannot = report(SessionState.IDLE, abilities=(Ability("queue", False, "held", "A terminal has it."),))
    with pytest.raises(Conflict) as refused:
        rules.refuse_unable(cannot, "queue")
    assert (refused.value.details["why"], refused.value.message) == ("held", "A terminal has it.")
    rules.refuse_unable(report(SessionState.IDLE), "queue")
    with pytest.raises(Conflict):
        rules.refuse_unable(report(SessionState.IDLE, rung=Rung.FILE), "queue")


@pytest.mark.parametrize("state", list(SessionState))
@pytest.mark.parametrize("here", [True, False])
def test_a_turn_is_shown_as_running_only_with_its_host(state: SessionState, here: bool) -> None:
    """Without its host a running or waiting session is lost; others stay as they are."""
    shown = rules.shown_state(state, host_here=here)
    moving = state in (SessionState.RUNNING, SessionState.WAITING)
    assert shown == (SessionState.LOST if moving and not here else state)


def test_the_report_follows_the_turn() -> None:
    """A turn that begins makes it run, its end idle; an end of another turn leaves it alone."""
    begun = rules.with_turn(report(SessionState.IDLE), Turn("t", TurnState.RUNNING, proof_at=AT))
    assert (begun.state, begun.turn_id, begun.proof_at) == (SessionState.RUNNING, "t", AT)
    waiting = report(SessionState.WAITING, "t")
    assert rules.with_turn(waiting, Turn("t", TurnState.RUNNING)).state is SessionState.WAITING
    assert rules.with_turn(begun, Turn("t", TurnState.COMPLETED)).state is SessionState.IDLE
    assert rules.with_turn(begun, Turn("t", TurnState.LOST)).state is SessionState.LOST
    assert rules.with_turn(begun, Turn("other", TurnState.COMPLETED)) == begun


@pytest.mark.parametrize(
    ("held", "after", "fits"),
    [
        ("", "", MarkFits.TAKE),
        ("a", "a", MarkFits.TAKE),
        ("a", "", MarkFits.STALE),
        ("", "a", MarkFits.STALE),
        ("a", "*", MarkFits.KEEP_MARK),
    ],
)
def test_a_mark_is_compared_and_set(held: str, after: str, fits: MarkFits) -> None:
    """Items are taken only from where the hub stands."""
    assert rules.decide_mark(held, after) is fits


@pytest.mark.parametrize(
    ("text", "sorted_as"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000Z"),
        ("2026-01-01T01:00:00.5+01:00", "2026-01-01T00:00:00.500Z"),
        ("2026-01-01T00:00:00", "2026-01-01T00:00:00.000Z"),
        ("9999-12-31T23:59:59Z", "2026-06-01T00:00:00.000Z"),
        ("0000-00-00", ""),
        ("yesterday", ""),
        ("", ""),
    ],
)
def test_times_sort_in_one_spelling_and_never_after_now(text: str, sorted_as: str) -> None:
    """A clock that runs ahead holds no session at the top; what is no time sorts last."""
    assert rules.sort_time(text, "2026-06-01T00:00:00.000Z") == sorted_as
