"""What can be asked about sessions without asking a host: each function is a question on one view of the log.

The list is paged as it stood when its first page was read: a session that moves meanwhile keeps its place in the
pages that follow, so that the pages together hold each session once. What changed since comes as events after the
page's cursor.
"""

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from ekiden.kernel.cursors import Cursor
from ekiden.kernel.errors import Invalid, NotFound
from ekiden.kernel.limits import (
    INBOX_ENTRIES_MAX,
    LIST_CURSOR_EVENTS_MAX,
    MESSAGES_SEEN_MAX,
    MESSAGES_SHOWN_MAX,
    PAGE_ROWS_MAX,
    SEARCH_QUERY_CHARS_MAX,
)
from ekiden.log.port import Reading, Row
from ekiden.sessions.keeping import (
    approvals_shown,
    column,
    decode_approval,
    decode_message,
    host_of,
    load_session,
    session_of,
)
from ekiden.sessions.wire import (
    Growing,
    Host,
    Hosts,
    Inbox,
    InboxEntry,
    InterruptAsked,
    Session,
    SessionPage,
    SessionState,
    SessionView,
    Work,
)

MaySee = Callable[[str], bool]
"""Whether the caller may read the session with this id."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Which sessions a list holds; empty lets everything pass. `text` is looked for in title and folder."""

    vendor: str = ""
    project: str = ""
    state: str = ""
    text: str = ""

    def parameters(self) -> dict[str, str]:
        """As the list queries take them.

        Raises:
            Invalid: an unknown state, or a text over `SEARCH_QUERY_CHARS_MAX`.
        """
        if self.state and self.state not in set(SessionState):
            raise Invalid(f"{self.state[:40]!r} is not a state.", hint=f"The states: {', '.join(SessionState)}.")
        if len(self.text) > SEARCH_QUERY_CHARS_MAX:
            raise Invalid(f"The text has at most {SEARCH_QUERY_CHARS_MAX} characters.")
        wanted = column(self.text).casefold()
        for letter in ("\\", "%", "_"):
            wanted = wanted.replace(letter, "\\" + letter)
        return {
            "vendor": column(self.vendor),
            "project": column(self.project),
            "state": self.state,
            "pattern": f"%{wanted}%" if wanted else "",
        }


class _Place(msgspec.Struct, frozen=True, array_like=True):
    """A place in the list as it stood at the event `as_of` of the log `log_id`."""

    log_id: str
    as_of: int
    updated_at: str
    session_id: str


_decode_place = msgspec.json.Decoder(_Place).decode


def _write_place(place: _Place) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def _read_place(text: str, log_id: str, head: int) -> _Place:
    try:
        place = _decode_place(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        place = None
    if place is None or place.log_id != log_id or not 0 <= place.as_of <= head:
        raise Invalid("This is no place in the list.", hint="Start again without `after`.")
    if place.as_of < head - LIST_CURSOR_EVENTS_MAX:
        raise Invalid("Too much has happened since the first page.", hint="Start again without `after`.")
    return place


async def list_sessions(
    reading: Reading, *, log_id: str, filters: Filters, after: str, limit: int, may_see: MaySee | None
) -> SessionPage:
    """A page of the list, newest first.

    Args:
        after: `next` of the page before, or empty.
        limit: at most this many sessions, 1 to `PAGE_ROWS_MAX`.
        may_see: None if the caller may read every session.

    Raises:
        Invalid: see `Filters`; or `after` is no place in this list.
    """
    parameters = filters.parameters()
    place = _read_place(after, log_id, reading.seq) if after else None
    as_of = place.as_of if place is not None else reading.seq
    found: list[Row] = []
    while len(found) <= limit:
        most = limit + 1 if may_see is None else PAGE_ROWS_MAX
        if place is None:
            rows = await reading.rows("sessions.newest_sessions", team_id=reading.team_id, most=most, **parameters)
        else:
            rows = await reading.rows(
                "sessions.older_sessions",
                team_id=reading.team_id,
                as_of=as_of,
                place=place.updated_at,
                session_id=place.session_id,
                most=most,
                **parameters,
            )
        found.extend(row for row in rows if may_see is None or may_see(row["session_id"]))
        if len(rows) < most:
            break
        place = _Place(log_id, as_of, rows[-1]["place"], rows[-1]["session_id"])
    shown = found[:limit]
    return SessionPage(
        sessions=tuple(session_of(row) for row in shown),
        next=_write_place(_Place(log_id, as_of, shown[-1]["place"], shown[-1]["session_id"]))
        if len(found) > limit
        else "",
        cursor=str(Cursor(log_id, as_of)),
        total=await _count(reading, parameters, may_see),
    )


async def _count(reading: Reading, parameters: dict[str, str], may_see: MaySee | None) -> int:
    if may_see is None:
        row = await reading.row("sessions.count_sessions", team_id=reading.team_id, **parameters)
        assert row is not None
        return row["total"]
    rows = await reading.rows("sessions.session_ids", team_id=reading.team_id, **parameters)
    return sum(may_see(row["session_id"]) for row in rows)


async def view_session(
    reading: Reading, session_id: str, *, log_id: str, growing: tuple[Growing, ...]
) -> SessionView:
    """One session with its unsettled approvals, the messages that are not among its items, and the newest that
    are; all in order.

    Raises:
        NotFound
    """
    kept = await load_session(reading, session_id)
    if kept is None:
        raise NotFound
    whose = {"team_id": reading.team_id, "session_id": session_id}
    messages = await reading.rows("sessions.messages_shown", **whose, most=MESSAGES_SHOWN_MAX)
    seen = await reading.rows("sessions.messages_seen", **whose, most=MESSAGES_SEEN_MAX)
    return SessionView(
        session=kept.shown(),
        approvals=await approvals_shown(reading, session_id),
        messages=tuple(decode_message(row["body"]) for row in reversed(messages)),
        growing=growing,
        cursor=str(Cursor(log_id, reading.seq)),
        seen=tuple(decode_message(row["body"]) for row in reversed(seen)),
    )


async def list_hosts(reading: Reading, *, log_id: str, may_see: MaySee) -> Hosts:
    """All hosts that the caller may know of. `may_see` takes a host's id."""
    rows = await reading.rows("sessions.hosts", team_id=reading.team_id)
    hosts: list[Host] = [host_of(row).shown() for row in rows if may_see(row["host_id"])]
    return Hosts(hosts=tuple(hosts), cursor=str(Cursor(log_id, reading.seq)))


async def work_of_host(reading: Reading, host_id: str, *, log_id: str) -> Work:
    """What a host still has to do."""
    known = {"team_id": reading.team_id, "host_id": host_id}
    messages = await reading.rows("sessions.messages_stored_of_host", **known)
    approvals = await reading.rows("sessions.approvals_answered_of_host", **known)
    interrupts = await reading.rows("sessions.interrupts_of_host", **known)
    return Work(
        messages=tuple(decode_message(row["body"]) for row in messages),
        approvals=tuple(decode_approval(row["body"]) for row in approvals),
        interrupts=tuple(
            InterruptAsked(session_id=row["session_id"], turn_id=row["turn_id"], by=row["interrupt_by"])
            for row in interrupts
        ),
        cursor=str(Cursor(log_id, reading.seq)),
    )


async def inbox(reading: Reading, *, log_id: str, may_see: MaySee) -> Inbox:
    """What of all sessions waits for a person: open approvals first, in the order in which they were asked, then
    programs outside Ekiden that ask their own person, then turns that were lost; and what runs."""
    motion = await reading.rows("sessions.sessions_in_motion", team_id=reading.team_id, most=INBOX_ENTRIES_MAX)
    sessions = {row["session_id"]: session_of(row) for row in motion if may_see(row["session_id"])}
    asked = await reading.rows("sessions.approvals_open", team_id=reading.team_id, most=INBOX_ENTRIES_MAX)
    approvals = [decode_approval(row["body"]) for row in asked if row["session_id"] in sessions]
    entries = [
        InboxEntry(
            kind="approval",
            id=approval.approval_id,
            title=approval.title,
            at=approval.asked_at,
            session=sessions[approval.session_id],
            approval=approval,
        )
        for approval in approvals
    ]
    entries += [_held(session) for session in sessions.values() if _waits(session)]
    entries += [_lost(session) for session in sessions.values() if session.state is SessionState.LOST]
    running = (SessionState.RUNNING, SessionState.WAITING)
    return Inbox(
        entries=tuple(entries[:INBOX_ENTRIES_MAX]),
        running=tuple(session for session in sessions.values() if session.state in running),
        cursor=str(Cursor(log_id, reading.seq)),
    )


def _waits(session: Session) -> bool:
    return session.report.holder is not None and bool(session.report.holder.waits_for)


def _held(session: Session) -> InboxEntry:
    holder = session.report.holder
    assert holder is not None
    return InboxEntry(
        kind="held",
        id=session.report.session_id,
        title=session.report.title,
        at=session.report.updated_at,
        session=session,
        detail=f"{holder.program}: {holder.waits_for}",
    )


def _lost(session: Session) -> InboxEntry:
    return InboxEntry(
        kind="lost",
        id=session.report.session_id,
        title=session.report.title,
        at=session.report.proof_at or session.host_seen_at,
        session=session,
        detail=session.report.turn_id,
    )
