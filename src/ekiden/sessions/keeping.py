"""A session as the tables hold it: loaded, changed, kept, and told in events.

Whatever changes here is told: each function that writes a row appends the event that says so, in the same
transaction. `session.reported` carries the whole `Session`, so a client that follows puts it in the place of the
one that it has; where only counts have changed, `session.counted` carries those. They are never to be added up.
"""

from dataclasses import dataclass

import msgspec

from ekiden.kernel.canonical import whole_text
from ekiden.kernel.limits import LIST_CURSOR_EVENTS_MAX, LIST_WORDS_CHARS_MAX
from ekiden.log.port import Actor, Reading, Row, Transaction
from ekiden.sessions.rules import (
    OPEN,
    UNSETTLED,
    ApprovalState,
    MessageState,
    Turn,
    TurnState,
    decide_end,
    lost_turn,
    shown_state,
    sort_time,
    with_turn,
)
from ekiden.sessions.wire import (
    Approval,
    FeedTurn,
    Host,
    HostReport,
    Message,
    Rung,
    Session,
    SessionCounts,
    SessionReport,
    SessionState,
)

_encode = msgspec.json.Encoder().encode
_report = msgspec.json.Decoder(SessionReport).decode
_host_report = msgspec.json.Decoder(HostReport).decode
decode_approval = msgspec.json.Decoder(Approval).decode
decode_message = msgspec.json.Decoder(Message).decode

TEAM = "team"


def session_topic(session_id: str) -> str:
    """The topic of one session."""
    return f"session:{session_id}"


def host_topic(host_id: str) -> str:
    """The topic of one host's own work."""
    return f"host:{host_id}"


def column(text: str) -> str:
    """`text` as every engine can keep and compare it: without U+0000 and broken surrogate halves, which become
    U+FFFD. JSON needs no such care: it spells them out."""
    return whole_text(text).replace("\0", "\ufffd")


def text_of(value: object) -> str:
    """`value` as JSON text for a column."""
    return _encode(value).decode()


@dataclass(slots=True)
class KeptHost:
    """A host as its table holds it."""

    host_id: str
    report: HostReport
    here: bool
    seen_at: str

    def shown(self) -> Host:
        """As clients see it."""
        return Host(host_id=self.host_id, report=self.report, here=self.here, seen_at=self.seen_at)


def host_of(row: Row) -> KeptHost:
    """A row of the query `host` or `hosts`."""
    return KeptHost(row["host_id"], _host_report(row["report"]), bool(row["here"]), row["seen_at"])


async def load_host(reading: Reading, host_id: str) -> KeptHost | None:
    """The host, or None if it never reported."""
    row = await reading.row("sessions.host", team_id=reading.team_id, host_id=host_id)
    return host_of(row) if row is not None else None


async def tell_host(tx: Transaction, host: KeptHost, actor: Actor) -> None:
    """Keeps a host that has changed and says so."""
    await tx.run(
        "sessions.put_host",
        team_id=tx.team_id,
        host_id=host.host_id,
        name=column(host.report.name),
        report=text_of(host.report),
        here=int(host.here),
        seen_at=host.seen_at,
    )
    tx.append("host.changed", host.shown(), topics=(host_topic(host.host_id), TEAM), actor=actor)


@dataclass(slots=True)
class KeptSession:
    """A session as its table holds it. `place` is where it stands in the list (`rules.sort_time`), `kept_report`
    the report in its row, both None before it is kept for the first time; `changed` says that it is to be told."""

    report: SessionReport
    host_id: str
    host_name: str
    host_here: bool
    host_seen_at: str
    mark: str = ""
    approvals_open: int = 0
    messages_waiting: int = 0
    place: str | None = None
    kept_report: SessionReport | None = None
    changed: bool = False

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.report.session_id

    def shown(self) -> Session:
        """As clients see it."""
        return Session(
            report=self.report,
            host_id=self.host_id,
            host_name=self.host_name,
            host_here=self.host_here,
            host_seen_at=self.host_seen_at,
            state=shown_state(self.report.state, host_here=self.host_here),
            approvals_open=self.approvals_open,
            messages_waiting=self.messages_waiting,
        )


def session_of(row: Row) -> Session:
    """A row of a list query as clients see it."""
    report = _report(row["report"])
    here = bool(row["host_here"])
    return Session(
        report=report,
        host_id=row["host_id"],
        host_name=row["host_name"],
        host_here=here,
        host_seen_at=row["host_seen_at"],
        state=shown_state(report.state, host_here=here),
        approvals_open=row["approvals_open"],
        messages_waiting=row["messages_waiting"],
    )


async def load_session(reading: Reading, session_id: str) -> KeptSession | None:
    """The session, or None if the hub has no such."""
    row = await reading.row("sessions.session", team_id=reading.team_id, session_id=session_id)
    if row is None:
        return None
    report = _report(row["report"])
    return KeptSession(
        report=report,
        host_id=row["host_id"],
        host_name=row["host_name"],
        host_here=bool(row["host_here"]),
        host_seen_at=row["host_seen_at"],
        mark=row["mark"],
        approvals_open=row["approvals_open"],
        messages_waiting=row["messages_waiting"],
        place=row["updated_at"],
        kept_report=report,
    )


async def tell_counts(tx: Transaction, kept: KeptSession, actor: Actor) -> None:
    """Keeps what is counted of a session and says so, where nothing else of it has changed, as with each message:
    no report is encoded, no index and no text written."""
    counts = SessionCounts(kept.session_id, kept.approvals_open, kept.messages_waiting)
    tx.append("session.counted", counts, topics=(session_topic(kept.session_id), TEAM), actor=actor)
    kept.changed = False
    await tx.put(
        "sessions.set_counts",
        team_id=tx.team_id,
        session_id=kept.session_id,
        mark=kept.mark,
        approvals_open=kept.approvals_open,
        messages_waiting=kept.messages_waiting,
    )


async def tell_session(tx: Transaction, kept: KeptSession, actor: Actor) -> None:
    """Keeps a session as it is now and says so."""
    report = kept.report
    seq = tx.append("session.reported", kept.shown(), topics=(session_topic(kept.session_id), TEAM), actor=actor)
    place = sort_time(report.updated_at, tx.now)
    kept.changed = False
    if kept.place is not None and kept.place != place:
        await tx.put(
            "sessions.add_move",
            team_id=tx.team_id,
            session_id=kept.session_id,
            seq=seq,
            updated_at=kept.place,
        )
        await tx.put("sessions.forget_moves", team_id=tx.team_id, before=seq - LIST_CURSOR_EVENTS_MAX)
    words = "\n".join((report.title, report.project, report.cwd)).casefold()[:LIST_WORDS_CHARS_MAX]
    await tx.put(
        "sessions.put_session",
        team_id=tx.team_id,
        session_id=kept.session_id,
        host_id=kept.host_id,
        vendor=column(report.vendor),
        project=column(report.project),
        words=column(words),
        state=report.state.value,
        updated_at=place,
        report=text_of(report),
        waits=int(report.holder is not None and bool(report.holder.waits_for)),
        mark=kept.mark,
        approvals_open=kept.approvals_open,
        messages_waiting=kept.messages_waiting,
    )
    kept.place, kept.kept_report = place, report


# --- turns -------------------------------------------------------------------------------------------------


def _turn_of(row: Row | None) -> Turn | None:
    if row is None:
        return None
    return Turn(row["turn_id"], TurnState(row["state"]), row["reason"], row["proof_at"], row["interrupt_by"])


async def load_turn(reading: Reading, session_id: str, turn_id: str) -> Turn | None:
    """The turn, or None."""
    return _turn_of(
        await reading.row("sessions.turn", team_id=reading.team_id, session_id=session_id, turn_id=turn_id)
    )


async def running_turn(reading: Reading, session_id: str) -> Turn | None:
    """The session's one running turn, or None."""
    row = await reading.row("sessions.running_turn", team_id=reading.team_id, session_id=session_id)
    return _turn_of(row)


async def put_turn(tx: Transaction, session_id: str, turn: Turn, seq: int) -> None:
    """Keeps a turn, first told in the event `seq`."""
    await tx.run(
        "sessions.put_turn",
        team_id=tx.team_id,
        session_id=session_id,
        turn_id=turn.turn_id,
        state=turn.state.value,
        reason=column(turn.reason),
        proof_at=column(turn.proof_at),
        interrupt_by=column(turn.interrupt_by),
        seq=seq,
    )


async def tell_turn(tx: Transaction, kept: KeptSession, turn: Turn, actor: Actor) -> None:
    """Keeps a turn as it is now and says so. What it asked ends with it: where it was lost, nobody knows what
    became of its open requests; where it ended, nobody waits for an answer any more."""
    body = FeedTurn(
        session_id=kept.session_id,
        turn_id=turn.turn_id,
        state=turn.state.value,
        reason=turn.reason,
        proof_at=turn.proof_at,
    )
    seq = tx.append("turn.changed", _untagged(body), topics=(session_topic(kept.session_id), TEAM), actor=actor)
    await put_turn(tx, kept.session_id, turn, seq)
    if turn.state is TurnState.LOST:
        await end_approvals(tx, kept, OPEN, ApprovalState.UNKNOWN, turn.reason, actor, turn_id=turn.turn_id)
    elif turn.state is not TurnState.RUNNING:
        await end_approvals(
            tx,
            kept,
            UNSETTLED,
            ApprovalState.WITHDRAWN,
            "The turn ended before this was seen to be settled.",
            actor,
            turn_id=turn.turn_id,
        )
    kept.report = with_turn(kept.report, turn)
    kept.changed = True


def _untagged(turn: FeedTurn) -> dict[str, str]:
    return {
        "session_id": turn.session_id,
        "turn_id": turn.turn_id,
        "state": turn.state,
        "reason": turn.reason,
        "proof_at": turn.proof_at,
    }


async def lose_runtime(tx: Transaction, kept: KeptSession, reason: str, actor: Actor) -> None:
    """Nobody can be proven to run this session for Ekiden any more: its running turn is lost, and what it asked
    is unknown. Never does this allow or deny anything."""
    turn = await running_turn(tx, kept.session_id)
    if turn is not None:
        await tell_turn(tx, kept, lost_turn(turn, reason), actor)
    if kept.report.rung is Rung.OWNED and kept.report.state in (SessionState.RUNNING, SessionState.WAITING):
        kept.report = msgspec.structs.replace(kept.report, state=SessionState.LOST)
        kept.changed = True
    await end_approvals(tx, kept, OPEN, ApprovalState.UNKNOWN, reason, actor)


# --- approvals ---------------------------------------------------------------------------------------------


async def load_approval(reading: Reading, approval_id: str) -> tuple[Approval, str] | None:
    """The approval and its host's id, or None."""
    row = await reading.row("sessions.approval", team_id=reading.team_id, approval_id=approval_id)
    return (decode_approval(row["body"]), row["host_id"]) if row is not None else None


async def approvals_shown(reading: Reading, session_id: str) -> tuple[Approval, ...]:
    """The session's approvals that have not ended, in the order in which they were asked."""
    rows = await reading.rows("sessions.approvals_shown", team_id=reading.team_id, session_id=session_id)
    return tuple(decode_approval(row["body"]) for row in rows)


async def tell_approval(tx: Transaction, kept: KeptSession, approval: Approval, actor: Actor) -> None:
    """Keeps an approval as it is now and says so: asked, answered or ended."""
    state = ApprovalState(approval.state)
    kind = {ApprovalState.OPEN: "approval.asked", ApprovalState.ANSWERED: "approval.answered"}.get(
        state, "approval.ended"
    )
    seq = tx.append(
        kind, approval, topics=(session_topic(kept.session_id), TEAM, host_topic(kept.host_id)), actor=actor
    )
    await tx.run(
        "sessions.put_approval",
        team_id=tx.team_id,
        approval_id=approval.approval_id,
        session_id=approval.session_id,
        host_id=kept.host_id,
        turn_id=approval.turn_id,
        state=state.value,
        seq=seq,
        body=text_of(approval),
    )


async def end_approvals(
    tx: Transaction,
    kept: KeptSession,
    states: frozenset[ApprovalState],
    end: ApprovalState,
    reason: str,
    actor: Actor,
    *,
    turn_id: str = "",
    other_than: str = "",
) -> None:
    """Ends all approvals of the session that are in one of `states`: only those of the turn `turn_id`, or those of
    every turn but `other_than`, if one of them is given."""
    for approval in await approvals_shown(tx, kept.session_id):
        if approval.state not in states or (turn_id and approval.turn_id != turn_id):
            continue
        if other_than and approval.turn_id == other_than:
            continue
        ended = decide_end(approval, end.value, reason)
        if ended is not None:
            await tell_approval(tx, kept, ended, actor)
            if approval.state == ApprovalState.OPEN:
                kept.approvals_open -= 1
                kept.changed = True


# --- messages ----------------------------------------------------------------------------------------------


async def load_message(reading: Reading, message_id: str) -> tuple[Message, str] | None:
    """The message and its host's id, or None."""
    row = await reading.row("sessions.message", team_id=reading.team_id, message_id=message_id)
    return (decode_message(row["body"]), row["host_id"]) if row is not None else None


async def tell_message(
    tx: Transaction, kept: KeptSession, message: Message, was: Message | None, actor: Actor
) -> None:
    """Keeps a message as it is now and says so; `was` is what it was before, None for a new one."""
    kind = "message.changed" if was is not None else "message.stored"
    seq = tx.append(kind, message, topics=(session_topic(kept.session_id), host_topic(kept.host_id)), actor=actor)
    await tx.put(
        "sessions.put_message",
        team_id=tx.team_id,
        message_id=message.message_id,
        session_id=message.session_id,
        host_id=kept.host_id,
        state=message.state,
        seq=seq,
        body=text_of(message),
    )
    more = int(message.state == MessageState.STORED) - int(was is not None and was.state == MessageState.STORED)
    if more:
        kept.messages_waiting += more
        kept.changed = True
