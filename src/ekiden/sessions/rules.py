"""What may become of approvals, messages, turns and session views: pure decisions, no clock, no input, no output.

Each state machine is a StrEnum and a table of moves. A `decide_…` function takes what is known and what is told,
and gives what it becomes: a changed value, `None` where nothing changes, or a refusal from the error tree. Who is
second never changes anything: what was decided first stands, and the refusal says what that was.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import TypeVar

import msgspec

from ekiden.kernel import canonical
from ekiden.kernel.clock import iso
from ekiden.kernel.errors import AlreadyAnswered, Conflict, Invalid, TooLarge, TooMany
from ekiden.kernel.limits import (
    APPROVALS_OPEN_PER_SESSION_MAX,
    MESSAGE_CHARS_MAX,
    MESSAGES_WAITING_PER_SESSION_MAX,
)
from ekiden.sessions.wire import (
    AnswerApproval,
    Approval,
    Message,
    Rung,
    SendMessage,
    SessionReport,
    SessionState,
)


class ApprovalState(StrEnum):
    """Where a request to a person stands. Nothing but a person's answer leads to `answered`."""

    OPEN = "open"
    ANSWERED = "answered"
    SETTLED = "settled"
    WITHDRAWN = "withdrawn"
    UNKNOWN = "unknown"


APPROVAL_MOVES: Mapping[ApprovalState, frozenset[ApprovalState]] = {
    ApprovalState.OPEN: frozenset(
        {ApprovalState.ANSWERED, ApprovalState.SETTLED, ApprovalState.WITHDRAWN, ApprovalState.UNKNOWN}
    ),
    ApprovalState.ANSWERED: frozenset({ApprovalState.SETTLED, ApprovalState.WITHDRAWN, ApprovalState.UNKNOWN}),
    # A host that comes back may know what became of it; it can never be opened again.
    ApprovalState.UNKNOWN: frozenset({ApprovalState.SETTLED, ApprovalState.WITHDRAWN}),
    ApprovalState.SETTLED: frozenset(),
    ApprovalState.WITHDRAWN: frozenset(),
}

OPEN = frozenset({ApprovalState.OPEN})

UNSETTLED = frozenset({ApprovalState.OPEN, ApprovalState.ANSWERED, ApprovalState.UNKNOWN})
"""The states of the approvals in a session's view; those that have ended leave it."""


class MessageState(StrEnum):
    """Where a person's message stands. `stored` promises no more than that it is on the hub's disk."""

    STORED = "stored"
    PLACED = "placed"
    SEEN = "seen"
    CANCELLED = "cancelled"
    FAILED = "failed"


MESSAGE_MOVES: Mapping[MessageState, frozenset[MessageState]] = {
    MessageState.STORED: frozenset(
        {MessageState.PLACED, MessageState.SEEN, MessageState.CANCELLED, MessageState.FAILED}
    ),
    # From `queued` to `new_turn` is a move from placed to placed.
    MessageState.PLACED: frozenset({MessageState.PLACED, MessageState.SEEN, MessageState.FAILED}),
    # The runtime may have taken a message before the cancellation reached its host. What happened is shown.
    MessageState.CANCELLED: frozenset({MessageState.PLACED, MessageState.SEEN}),
    # Given up, and then found in the session's own file.
    MessageState.FAILED: frozenset({MessageState.SEEN}),
    MessageState.SEEN: frozenset(),
}

MESSAGES_SHOWN = frozenset({MessageState.STORED, MessageState.PLACED, MessageState.FAILED})
"""The states of the `messages` in a session's view; those seen are among its items, their receipts in `seen`."""


class TurnState(StrEnum):
    """Where a turn stands. `lost`: it ran, and its writer can no longer be proven alive."""

    RUNNING = "running"
    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    LOST = "lost"


_TURN_ENDS = frozenset({TurnState.COMPLETED, TurnState.INTERRUPTED, TurnState.FAILED})

TURN_MOVES: Mapping[TurnState, frozenset[TurnState]] = {
    # From running to running is fresh proof.
    TurnState.RUNNING: frozenset({TurnState.RUNNING, TurnState.LOST}) | _TURN_ENDS,
    TurnState.LOST: frozenset({TurnState.RUNNING}) | _TURN_ENDS,
    TurnState.COMPLETED: frozenset(),
    TurnState.INTERRUPTED: frozenset(),
    TurnState.FAILED: frozenset(),
}

State = TypeVar("State", bound=StrEnum)


def _word(kind: type[State], text: str, noun: str) -> State:
    try:
        return kind(text)
    except ValueError:
        raise Invalid(
            f"{text[:40]!r} is not a state of {noun}.", hint=f"The states are {', '.join(kind)}."
        ) from None


# --- approvals ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Person:
    """Who acts, as others are told: the principal's id and the name of its device."""

    id: str
    name: str


def digest_of(approval: Approval) -> str:
    """SHA-256 over all that a person is shown of a request, and over nothing else."""
    return canonical.digest(
        [
            approval.session_id,
            approval.turn_id,
            approval.question,
            approval.title,
            approval.tool,
            approval.detail,
            approval.command,
            approval.cwd,
            approval.diff,
            approval.options,
        ]
    )


def decide_ask(known: Approval | None, asked: Approval, *, open_now: int, at: str) -> Approval | None:
    """A host says that a turn asks. An approval that is known already stays as it is, whatever its state: to
    ask again after `unknown` takes a new approval id.

    Args:
        open_now: how many approvals of the session are open.

    Raises:
        Conflict: the id belongs to a request of another session.
        TooMany: `APPROVALS_OPEN_PER_SESSION_MAX` are open.
    """
    if known is not None:
        if known.session_id != asked.session_id:
            raise Conflict("This approval id belongs to a request of another session.")
        return None
    if open_now >= APPROVALS_OPEN_PER_SESSION_MAX:
        raise TooMany("Too many requests of this session wait for a person.", max=APPROVALS_OPEN_PER_SESSION_MAX)
    return msgspec.structs.replace(
        asked,
        state=ApprovalState.OPEN.value,
        digest=asked.digest or digest_of(asked),
        asked_at=asked.asked_at or at,
        answer="",
        answered_by="",
        answered_by_id="",
        answered_at="",
        reason="",
        message="",
        answers=msgspec.Raw(b"null"),
    )


def decide_answer(known: Approval, answer: AnswerApproval, by: Person, at: str) -> Approval:
    """A person answers. The first answer wins; it must be for what was shown and one that is offered.

    Raises:
        AlreadyAnswered: somebody was first; details say who, what, on which device, when.
        Conflict: the request has ended without an answer, its host was lost, or something else was shown.
        Invalid: the option was not offered.
    """
    state = ApprovalState(known.state)
    if known.answer and state is not ApprovalState.OPEN:
        raise AlreadyAnswered(
            f"{known.answered_by or 'Somebody'} answered first.",
            option=known.answer,
            by=known.answered_by or known.answered_by_id,
            by_id=known.answered_by_id,
            device=known.answered_by,
            at=known.answered_at,
            state=known.state,
        )
    if state is ApprovalState.UNKNOWN:
        raise Conflict(
            "The computer that asked was lost, so nobody can say whether it still waits.",
            hint="If the turn still runs, it asks again when its computer is back.",
            state=known.state,
        )
    if state is not ApprovalState.OPEN:
        raise Conflict(
            "The session no longer waits for an answer to this.", state=known.state, reason=known.reason
        )
    if answer.digest != known.digest:
        raise Conflict(
            "The answer is not for what this request asks now.",
            hint="Read the request again and answer what it shows.",
            state=known.state,
        )
    if answer.option not in {option.id for option in known.options}:
        raise Invalid(
            "This answer was not offered.", options=[option.id for option in known.options], option=answer.option
        )
    return msgspec.structs.replace(
        known,
        state=ApprovalState.ANSWERED.value,
        answer=answer.option,
        answered_by=by.name or by.id,
        answered_by_id=by.id,
        answered_at=at,
        message=answer.message,
        answers=answer.answers if answer.answers is not None else msgspec.Raw(b"null"),
    )


def decide_end(known: Approval, state: str, reason: str) -> Approval | None:
    """What became of a request at its runtime: settled, withdrawn or unknown.

    Raises:
        Conflict: it has ended otherwise already, or `state` is not an end.
    """
    told = _word(ApprovalState, state, "an approval")
    now = ApprovalState(known.state)
    if told is now:
        return None
    if told in (ApprovalState.OPEN, ApprovalState.ANSWERED) or told not in APPROVAL_MOVES[now]:
        raise Conflict(f"An approval that is {now} does not become {told}.", state=known.state)
    return msgspec.structs.replace(known, state=told.value, reason=reason)


# --- messages ----------------------------------------------------------------------------------------------


def decide_send(
    known: Message | None,
    message_id: str,
    session_id: str,
    sent: SendMessage,
    *,
    waiting: int,
    by: Person,
    at: str,
) -> Message | None:
    """A person sends a message; `None` if this very message is stored already (told a second time).

    Raises:
        Invalid, TooLarge: no text, or too much of it.
        Conflict: the id was used for another message.
        TooMany: `MESSAGES_WAITING_PER_SESSION_MAX` messages wait.
    """
    text = canonical.whole_text(sent.text)
    if known is not None:
        # Of a message that ended long ago only the receipt is left (`retention`), which has no text.
        known_text = known.text or text
        if (known.session_id, known_text, known.sent_by_id) != (session_id, text, by.id):
            raise Conflict("This message id was used for another message.", hint="Choose a new one.")
        return None
    if not text.strip():
        raise Invalid("The message is empty.")
    if len(text) > MESSAGE_CHARS_MAX:
        raise TooLarge(
            f"A message has at most {MESSAGE_CHARS_MAX} characters.", size=len(text), max=MESSAGE_CHARS_MAX
        )
    if waiting >= MESSAGES_WAITING_PER_SESSION_MAX:
        raise TooMany(
            f"{waiting} messages wait for this session already.",
            hint="Cancel some, or wait until the session has taken them.",
            max=MESSAGES_WAITING_PER_SESSION_MAX,
        )
    return Message(
        message_id=message_id,
        session_id=session_id,
        text=text,
        state=MessageState.STORED.value,
        sent_by=by.name or by.id,
        sent_by_id=by.id,
        sent_at=at,
        steer=sent.steer,
    )


def decide_cancel(known: Message, by: Person) -> Message | None:
    """A person takes a message back, which works only while it is stored; `None` if that was done before.

    Raises:
        Conflict: the runtime has it, or it failed; details say which.
    """
    state = MessageState(known.state)
    if state is MessageState.CANCELLED:
        return None
    if state is not MessageState.STORED:
        raise Conflict(
            f"The message is {state} already and cannot be taken back.", state=known.state, how=known.how
        )
    return msgspec.structs.replace(
        known, state=MessageState.CANCELLED.value, reason=f"cancelled by {by.name or by.id}"
    )


def decide_message(known: Message, state: str, *, turn_id: str, how: str, reason: str) -> Message | None:
    """A host says what became of a message. `None` if it is news no more.

    Raises:
        Conflict: the message went another way already.
    """
    told = _word(MessageState, state, "a message")
    now = MessageState(known.state)
    if now is MessageState.CANCELLED and told in (MessageState.PLACED, MessageState.SEEN):
        reason = reason or "The runtime had taken it before the cancellation came."
    became = msgspec.structs.replace(
        known, state=told.value, turn_id=turn_id or known.turn_id, how=how or known.how, reason=reason
    )
    if became == known or (now is told and told is not MessageState.PLACED):
        return None
    if told not in MESSAGE_MOVES[now]:
        raise Conflict(f"A message that is {now} does not become {told}.", state=known.state)
    return became


# --- turns -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of a session. `interrupt_by` is the name of who asked first that it stop, or empty."""

    turn_id: str
    state: TurnState
    reason: str = ""
    proof_at: str = ""
    interrupt_by: str = ""


def decide_turn(
    known: Turn | None, running: Turn | None, turn_id: str, state: str, *, reason: str, proof_at: str
) -> tuple[Turn, ...]:
    """A host says that a turn began, still runs, ended or was lost; gives every turn that changes by it.

    A session has one running turn: where another still counts as running, that one is lost.

    Args:
        known: the turn with this id, if the hub has one.
        running: the session's running turn, if there is one.

    Raises:
        Conflict: the turn has ended already, or a lost one is said to run without fresh proof.
    """
    told = _word(TurnState, state, "a turn")
    before: tuple[Turn, ...] = ()
    if told is TurnState.RUNNING and running is not None and running.turn_id != turn_id:
        before = (
            replace(running, state=TurnState.LOST, reason="Another turn began before this one was seen to end."),
        )
    if known is None:
        return (*before, Turn(turn_id, told, reason, proof_at))
    became = replace(known, state=told, reason=reason, proof_at=proof_at or known.proof_at)
    if became == known or (known.state is told and told in (*_TURN_ENDS, TurnState.LOST)):
        return ()
    if told not in TURN_MOVES[known.state]:
        raise Conflict(f"A turn that is {known.state} does not become {told}.", state=known.state.value)
    if known.state is TurnState.LOST and told is TurnState.RUNNING and proof_at <= known.proof_at:
        raise Conflict("A lost turn counts as running again only with newer proof.", proof_at=known.proof_at)
    return (*before, became)


def lost_turn(running: Turn, reason: str) -> Turn:
    """A running turn whose writer can no longer be proven alive."""
    return replace(running, state=TurnState.LOST, reason=reason)


def proven_turn(lost: Turn) -> Turn:
    """A lost turn of which its runtime has just been heard: it runs. When it was last proven stays by the host's
    clock, so that the host's next proof is never older than one of another clock."""
    return replace(lost, state=TurnState.RUNNING, reason="")


def decide_interrupt(
    running: Turn | None, seen: Turn | None, report: SessionReport, turn_id: str, by: Person
) -> Turn | None:
    """A person wants the turn that they see to stop; `None` if that was asked before.

    Args:
        running: the session's running turn, if the hub has one.
        seen: what the hub has of the turn `turn_id`.

    Raises:
        Conflict: another turn runs by now, or none; or the session cannot be interrupted.
    """
    in_motion = report.state in (SessionState.RUNNING, SessionState.WAITING, SessionState.LOST)
    now = running.turn_id if running is not None else report.turn_id if in_motion else ""
    if now == turn_id and seen is not None and seen.state not in (TurnState.RUNNING, TurnState.LOST):
        now = ""
    if now != turn_id or not now:
        raise Conflict(
            "Another turn runs by now." if now else "No turn runs.", turn_id=now, state=report.state.value
        )
    refuse_unable(report, "interrupt")
    reported = TurnState.LOST if report.state is SessionState.LOST else TurnState.RUNNING
    known = seen or Turn(turn_id, reported, proof_at=report.proof_at)
    if known.interrupt_by:
        return None
    return replace(known, interrupt_by=by.name or by.id)


# --- sessions ----------------------------------------------------------------------------------------------


def shown_state(reported: SessionState, *, host_here: bool) -> SessionState:
    """The state that people see: a turn counts as running only while its writer can be proven alive."""
    if reported in (SessionState.RUNNING, SessionState.WAITING) and not host_here:
        return SessionState.LOST
    return reported


def with_turn(report: SessionReport, turn: Turn) -> SessionReport:
    """The report with what is known of a turn since: so that the list never says `idle` of a turn that runs."""
    match turn.state:
        case TurnState.RUNNING:
            waits = report.state is SessionState.WAITING and report.turn_id == turn.turn_id
            state = SessionState.WAITING if waits else SessionState.RUNNING
        case TurnState.LOST | TurnState.COMPLETED | TurnState.INTERRUPTED | TurnState.FAILED:
            in_motion = report.state in (SessionState.RUNNING, SessionState.WAITING, SessionState.LOST)
            if report.turn_id != turn.turn_id or not in_motion:
                return report
            state = SessionState.LOST if turn.state is TurnState.LOST else SessionState.IDLE
    return msgspec.structs.replace(
        report, state=state, turn_id=turn.turn_id, proof_at=turn.proof_at or report.proof_at
    )


def refuse_unable(report: SessionReport, ability: str) -> None:
    """Passes if the session can do it. An ability that is not listed is there only where Ekiden owns the session.

    Raises:
        Conflict: with the stable word (`why`) and the detail that the host gave.
    """
    for known in report.abilities:
        if known.name == ability:
            if not known.can:
                raise Conflict(
                    known.detail or f"This session cannot do this now: {ability}.",
                    ability=ability,
                    why=known.why,
                    detail=known.detail,
                    rung=report.rung.value,
                )
            return
    if report.rung is not Rung.OWNED:
        raise Conflict(
            "Ekiden does not drive this session.",
            hint="Continue it here first.",
            ability=ability,
            why="not_owned",
            rung=report.rung.value,
        )


def sort_time(updated_at: str, now: str) -> str:
    """`updated_at` in one spelling that sorts by time, never later than `now`; empty where it is no time.

    A clock that runs ahead must not hold a session at the top of the list for good.
    """
    return min(_one_spelling(updated_at), now)


@lru_cache(maxsize=1_024)
def _one_spelling(time: str) -> str:
    """Kept, because a session is told far more often than its time changes."""
    try:
        seconds = datetime.fromisoformat(time)
        if seconds.tzinfo is None:
            seconds = seconds.replace(tzinfo=UTC)
        return iso(seconds.timestamp())
    except (ValueError, OverflowError, OSError):
        return ""


class MarkFits(StrEnum):
    """Whether an items entry is to be taken."""

    TAKE = "take"
    KEEP_MARK = "keep_mark"
    """Items without a native line: taken, and the mark stays."""
    STALE = "stale"


def decide_mark(held: str, after: str) -> MarkFits:
    """Compare-and-set of the place in a session's file up to which items were told."""
    if after == "*":
        return MarkFits.KEEP_MARK
    return MarkFits.TAKE if after == held else MarkFits.STALE
