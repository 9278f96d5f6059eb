"""What people and the hub do to sessions: one function per verb, one transaction each.

A verb returns the answer of its request. What a host tells is in `feed.py`. Which rights a verb needs is the
door's business (`routes.py`); here everything named exists, or is refused as not found.
"""

import msgspec

from ekiden.kernel.errors import Conflict, NotFound, TooLarge
from ekiden.kernel.limits import EVENT_BODY_BYTES_MAX, KIB
from ekiden.log.port import Actor, Reading, Transaction
from ekiden.sessions.keeping import (
    KeptHost,
    KeptSession,
    host_topic,
    load_approval,
    load_host,
    load_message,
    load_session,
    load_turn,
    lose_runtime,
    put_turn,
    running_turn,
    session_topic,
    tell_approval,
    tell_counts,
    tell_host,
    tell_message,
    tell_session,
)
from ekiden.sessions.rules import (
    Person,
    decide_answer,
    decide_cancel,
    decide_interrupt,
    decide_send,
    refuse_unable,
)
from ekiden.sessions.wire import (
    AnswerApproval,
    Approval,
    HostReport,
    InterruptAsked,
    Message,
    SendMessage,
    SessionState,
    Welcome,
)

HUB = Actor(principal_id="hub", name="hub")
"""Who acts when the hub itself notices something."""

_BODY_BYTES_MAX = EVENT_BODY_BYTES_MAX - 16 * KIB
"""What a person may put into an event: some room is left for what is said of it later."""
_encode = msgspec.json.Encoder().encode


def _person(actor: Actor) -> Person:
    return Person(actor.principal_id, actor.name)


async def _session(tx: Transaction, session_id: str) -> KeptSession:
    kept = await load_session(tx, session_id)
    if kept is None:
        raise NotFound
    return kept


def _bounded(body: object) -> None:
    size = len(_encode(body))
    if size > _BODY_BYTES_MAX:
        raise TooLarge("This is too large to be kept in one piece.", size=size, max=_BODY_BYTES_MAX)


# --- hosts -------------------------------------------------------------------------------------------------


async def report_host(tx: Transaction, host_id: str, report: HostReport, *, actor: Actor, boot_id: str) -> Welcome:
    """A host says what it is; the answer says how far the items of each of its sessions were told.

    Whether it counts as connected is not decided here but by `host_back` and `host_lost`.
    """
    known = await load_host(tx, host_id)
    if known is None:
        await tell_host(tx, KeptHost(host_id, report, here=False, seen_at=tx.now), actor)
    elif known.report != report:
        known.report = report
        await tell_host(tx, known, actor)
    rows = await tx.rows("sessions.marks_of_host", team_id=tx.team_id, host_id=host_id)
    threads: dict[str, dict[str, str]] = {}
    for row in await tx.rows("sessions.thread_marks_of_host", team_id=tx.team_id, host_id=host_id):
        threads.setdefault(row["session_id"], {})[row["thread"]] = row["mark"]
    return Welcome(boot_id=boot_id, marks={row["session_id"]: row["mark"] for row in rows}, threads=threads)


async def host_back(tx: Transaction, host_id: str, at: str = "") -> None:
    """The host is connected (again), since `at` (now, if empty). Turns of ours that were lost with it stay lost
    until it speaks of them: that it is back is no proof that they run. A host that never reported itself is kept
    as one without a name."""
    host = await load_host(tx, host_id)
    if host is not None and host.here:
        return
    report = host.report if host is not None else HostReport(name=host_id, platform="", ekiden_version="")
    await tell_host(tx, KeptHost(host_id, report, here=True, seen_at=at or tx.now), HUB)
    for kept in await _in_motion(tx, host_id):
        # What the host said of these while it did not count as connected is shown from now on.
        if kept.report.state in (SessionState.RUNNING, SessionState.WAITING):
            await tell_session(tx, kept, HUB)


async def _in_motion(tx: Transaction, host_id: str) -> list[KeptSession]:
    rows = await tx.rows("sessions.sessions_of_host_in_motion", team_id=tx.team_id, host_id=host_id)
    return [await _session(tx, row["session_id"]) for row in rows]


async def host_lost(tx: Transaction, host_id: str, at: str = "") -> None:
    """The host is gone, last seen `at`: its running turns are lost, its open approvals unknown. Nothing is allowed
    or denied by this. Lost a second time, nothing changes."""
    host = await load_host(tx, host_id)
    if host is None:
        return
    was_here = host.here
    if was_here:
        host.here, host.seen_at = False, at or tx.now
        await tell_host(tx, host, HUB)
    for kept in await _in_motion(tx, host_id):
        await lose_runtime(tx, kept, "The connection to its computer was lost.", HUB)
        if kept.changed or was_here:
            await tell_session(tx, kept, HUB)


async def hosts_marked_here(reading: Reading) -> tuple[str, ...]:
    """Ids of the hosts that count as connected: after a start of the hub, those that must come back or be lost."""
    rows = await reading.rows("sessions.hosts", team_id=reading.team_id)
    return tuple(row["host_id"] for row in rows if row["here"])


# --- messages ----------------------------------------------------------------------------------------------


async def send_message(
    tx: Transaction, session_id: str, sent: SendMessage, *, message_id: str, actor: Actor, fresh: bool = False
) -> Message:
    """Stores a message for a session, after those that are there. Its host places it. `fresh` says that the id was
    made for this very message, so that none of that id needs to be looked for.

    Raises:
        NotFound: no such session.
        Conflict: the session cannot take messages (details say why), or the id was used for another one.
        Invalid, TooLarge, TooMany: see `rules.decide_send`.
    """
    kept = await _session(tx, session_id)
    known = None if fresh else await load_message(tx, message_id)
    if known is None:
        if kept.report.state is SessionState.GONE:
            raise Conflict("The session's own file is gone; it can only be read.", state=kept.report.state.value)
        refuse_unable(kept.report, "queue")
    message = decide_send(
        known[0] if known is not None else None,
        message_id,
        session_id,
        sent,
        waiting=kept.messages_waiting,
        by=_person(actor),
        at=tx.now,
    )
    if message is None:
        assert known is not None
        return known[0]
    _bounded(message)
    await tell_message(tx, kept, message, None, actor)
    await tell_counts(tx, kept, actor)
    return message


async def cancel_message(tx: Transaction, message_id: str, *, actor: Actor) -> Message:
    """Takes a message back while it is stored.

    Raises:
        NotFound, Conflict: see `rules.decide_cancel`.
    """
    known = await load_message(tx, message_id)
    if known is None:
        raise NotFound
    message = decide_cancel(known[0], _person(actor))
    if message is None:
        return known[0]
    kept = await _session(tx, message.session_id)
    await tell_message(tx, kept, message, known[0], actor)
    await tell_counts(tx, kept, actor)
    return message


# --- turns and approvals -----------------------------------------------------------------------------------


async def ask_interrupt(tx: Transaction, session_id: str, turn_id: str, *, actor: Actor) -> InterruptAsked:
    """Asks the session's host to stop the turn that the person sees. Asked again, nothing is asked anew.

    Raises:
        NotFound: no such session.
        Conflict: another turn runs by now (details say which), none does, or it cannot be interrupted.
    """
    kept = await _session(tx, session_id)
    seen = await load_turn(tx, session_id, turn_id)
    asked = decide_interrupt(await running_turn(tx, session_id), seen, kept.report, turn_id, _person(actor))
    if asked is None:
        assert seen is not None
        return InterruptAsked(session_id=session_id, turn_id=turn_id, by=seen.interrupt_by)
    answer = InterruptAsked(session_id=session_id, turn_id=turn_id, by=asked.interrupt_by)
    seq = tx.append(
        "turn.interrupt_asked",
        answer,
        topics=(session_topic(session_id), host_topic(kept.host_id)),
        actor=actor,
    )
    await put_turn(tx, session_id, asked, seq)
    return answer


async def answer_approval(tx: Transaction, approval_id: str, answer: AnswerApproval, *, actor: Actor) -> Approval:
    """Answers an approval; the first answer wins.

    Raises:
        NotFound: no such approval.
        AlreadyAnswered, Conflict, Invalid: see `rules.decide_answer`.
        TooLarge: what is added for the agent is too large.
    """
    known = await load_approval(tx, approval_id)
    if known is None:
        raise NotFound
    answered = decide_answer(known[0], answer, _person(actor), tx.now)
    _bounded(answered)
    kept = await _session(tx, answered.session_id)
    await tell_approval(tx, kept, answered, actor)
    kept.approvals_open -= 1
    await tell_counts(tx, kept, actor)
    return answered
