"""The sessions room at the door: which paths there are, and what a key needs for them.

What is about one session needs a right on that session. An approval or message that belongs to a session which the
key may not read answers like one that does not exist.
"""

from typing import Any

from ekiden.kernel.door import Call, Endpoint, Need
from ekiden.kernel.errors import Forbidden, NotFound
from ekiden.kernel.ids import Prefix, checked_id, new_id
from ekiden.kernel.limits import FEED_ENTRIES_MAX, PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX
from ekiden.log.port import Transaction
from ekiden.sessions import feed, verbs, views
from ekiden.sessions.asking import (
    continue_session,
    fork_session,
    limit_of,
    may_read_host,
    may_read_session,
    page_items,
    page_raw,
    quote_session,
    release_session,
    search,
    start_session,
    whole_item,
)
from ekiden.sessions.keeping import load_approval, load_message
from ekiden.sessions.passing import hear_pieces, only_pieces
from ekiden.sessions.wire import (
    AnswerApproval,
    Approval,
    Carried,
    Feed,
    FeedAnswer,
    FeedGrew,
    FeedGrown,
    HostReport,
    Hosts,
    Inbox,
    Interrupt,
    InterruptAsked,
    ItemPage,
    Message,
    Quote,
    RawPage,
    SearchPage,
    SendMessage,
    SessionPage,
    SessionView,
    StartSession,
    Welcome,
    Work,
)
from ekiden.transcript.items import Item

# --- hosts -------------------------------------------------------------------------------------------------


async def report_host(call: Call, body: HostReport) -> Any:
    """`Welcome`."""

    async def verb(tx: Transaction) -> Welcome:
        return await verbs.report_host(
            tx, call.parameters["host_id"], body, actor=call.actor, boot_id=call.hub.boot_id
        )

    return await call.write(verb)


async def feed_host(call: Call, body: Feed) -> Any:
    """`FeedAnswer`. Pieces of growing items are sent on after the commit, in order; where there is nothing else,
    they wait for none."""
    host_id, boot_id = call.parameters["host_id"], call.hub.boot_id
    passing: list[FeedGrew | FeedGrown] = []

    async def verb(tx: Transaction) -> FeedAnswer:
        passing.clear()
        return await feed.take_feed(tx, host_id, body.entries, actor=call.actor, boot_id=boot_id, passing=passing)

    answer: Any = None
    entries = body.entries
    if only_pieces(entries) and len(entries) <= FEED_ENTRIES_MAX:
        answer = await call.ask(
            lambda reading: hear_pieces(reading, host_id, entries, boot_id=boot_id, passing=passing)
        )
    if answer is None:
        answer = await call.write(verb)
    for piece in passing:
        call.grow(piece)
    return answer


async def work_of_host(call: Call) -> Work:
    """What the host still has to do."""
    return await call.ask(
        lambda reading: views.work_of_host(reading, call.parameters["host_id"], log_id=call.hub.log_id)
    )


async def list_hosts(call: Call) -> Hosts:
    """The hosts that the key may know of."""
    return await call.ask(
        lambda reading: views.list_hosts(
            reading, log_id=call.hub.log_id, may_see=lambda host_id: may_read_host(call, host_id)
        )
    )


# --- reading -----------------------------------------------------------------------------------------------


async def list_sessions(call: Call) -> SessionPage:
    """The sessions that the key may read."""
    filters = views.Filters(
        vendor=call.query.get("vendor", ""),
        project=call.query.get("project", ""),
        state=call.query.get("state", ""),
        text=call.query.get("text", ""),
    )
    limit = limit_of(call)
    return await call.ask(
        lambda reading: views.list_sessions(
            reading,
            log_id=call.hub.log_id,
            filters=filters,
            after=call.query.get("after", ""),
            limit=limit,
            may_see=None
            if call.may("read", "session:*")
            else lambda session_id: may_read_session(call, session_id),
        )
    )


async def view_session(call: Call) -> SessionView:
    """One session with what is open, waits and grows in it."""
    session_id = call.parameters["session_id"]
    return await call.ask(
        lambda reading: views.view_session(
            reading, session_id, log_id=call.hub.log_id, growing=call.growing(session_id)
        )
    )


async def inbox(call: Call) -> Inbox:
    """What waits for the caller."""
    return await call.ask(
        lambda reading: views.inbox(
            reading,
            log_id=call.hub.log_id,
            may_see=lambda session_id: may_read_session(call, session_id),
        )
    )


# --- messages, turns, approvals ----------------------------------------------------------------------------


async def send_message(call: Call, body: SendMessage) -> Any:
    """`Message`, stored."""
    fresh = not body.message_id
    message_id = new_id(Prefix.MESSAGE) if fresh else checked_id(Prefix.MESSAGE, body.message_id)

    async def verb(tx: Transaction) -> Message:
        return await verbs.send_message(
            tx, call.parameters["session_id"], body, message_id=message_id, actor=call.actor, fresh=fresh
        )

    return await call.write(verb)


def _refuse_unless(call: Call, right: str, session_id: str) -> None:
    if not may_read_session(call, session_id) and not call.may(right, f"session:{session_id}"):
        raise NotFound
    if not call.may(right, f"session:{session_id}"):
        raise Forbidden("This key may see this, but not do that.", needs=right)


async def cancel_message(call: Call) -> Any:
    """`Message`, cancelled."""
    message_id = call.parameters["message_id"]
    known = await call.ask(lambda reading: load_message(reading, message_id))
    if known is None:
        raise NotFound
    _refuse_unless(call, "steer", known[0].session_id)
    return await call.write(lambda tx: verbs.cancel_message(tx, message_id, actor=call.actor))


async def ask_interrupt(call: Call, body: Interrupt) -> Any:
    """`InterruptAsked`."""
    return await call.write(
        lambda tx: verbs.ask_interrupt(tx, call.parameters["session_id"], body.turn_id, actor=call.actor)
    )


async def answer_approval(call: Call, body: AnswerApproval) -> Any:
    """`Approval`, answered."""
    approval_id = call.parameters["approval_id"]
    known = await call.ask(lambda reading: load_approval(reading, approval_id))
    if known is None:
        raise NotFound
    _refuse_unless(call, "approve", known[0].session_id)
    return await call.write(lambda tx: verbs.answer_approval(tx, approval_id, body, actor=call.actor))


_LIMIT = ("limit", f"at most this many (default {PAGE_ROWS_DEFAULT}, never over {PAGE_ROWS_MAX})")
_THREAD = ("thread", "a sub-agent's thread instead of the conversation itself")
_HOST = Need("feed", "host:{host_id}")
_READ = Need("read", "session:{session_id}")
_STEER = Need("steer", "session:{session_id}")
_START = Need("start", "session:{session_id}")

ENDPOINTS = (
    Endpoint("GET", "/v1/hosts", list_hosts, "The computers that agents run on", answer=Hosts),
    Endpoint(
        "PUT",
        "/v1/hosts/{host_id}",
        report_host,
        "A host says what it is, and learns how far its sessions were told",
        body=HostReport,
        answer=Welcome,
        need=_HOST,
        repeatable=True,
        audience="host",
    ),
    Endpoint(
        "POST",
        "/v1/hosts/{host_id}/feed",
        feed_host,
        "A host tells what happens in its sessions",
        body=Feed,
        answer=FeedAnswer,
        need=_HOST,
        repeatable=True,
        audience="host",
    ),
    Endpoint(
        "GET",
        "/v1/hosts/{host_id}/work",
        work_of_host,
        "What a host still has to do",
        answer=Work,
        need=_HOST,
        audience="host",
    ),
    Endpoint(
        "GET",
        "/v1/sessions",
        list_sessions,
        "Sessions, newest first",
        answer=SessionPage,
        query=(
            _LIMIT,
            ("after", "`next` of the page before"),
            ("vendor", "only this vendor's"),
            ("project", "only those of this folder"),
            ("state", "only those in this state"),
            ("text", "only those with this in their title or folder"),
        ),
    ),
    Endpoint(
        "GET",
        "/v1/sessions/{session_id}",
        view_session,
        "One session with its open approvals, waiting messages and growing items",
        answer=SessionView,
        need=_READ,
    ),
    Endpoint(
        "GET",
        "/v1/sessions/{session_id}/items",
        page_items,
        "A page of its items, the newest without a cursor",
        answer=ItemPage,
        need=_READ,
        query=(_LIMIT, ("before", "towards the beginning"), ("after", "towards the end"), _THREAD),
    ),
    Endpoint(
        "GET",
        "/v1/sessions/{session_id}/items/{item_id}",
        whole_item,
        "One item, whole",
        answer=Item,
        need=_READ,
    ),
    Endpoint(
        "GET",
        "/v1/sessions/{session_id}/raw",
        page_raw,
        "Lines of the native file as they are",
        answer=RawPage,
        need=_READ,
        query=(_LIMIT, ("before", "towards the beginning"), _THREAD),
    ),
    Endpoint(
        "GET",
        "/v1/search",
        search,
        "Full text in all sessions of all connected computers",
        answer=SearchPage,
        query=(_LIMIT, ("text", "what to look for"), ("after", "`next` of the page before")),
    ),
    Endpoint("GET", "/v1/inbox", inbox, "What waits for me, and what runs", answer=Inbox),
    Endpoint(
        "POST",
        "/v1/sessions",
        start_session,
        "Starts a session",
        body=StartSession,
        answer=Carried,
        status=201,
    ),
    Endpoint(
        "POST",
        "/v1/sessions/{session_id}/continue",
        continue_session,
        "Carries the session on here",
        answer=Carried,
        need=_START,
    ),
    Endpoint(
        "POST",
        "/v1/sessions/{session_id}/release",
        release_session,
        "Ends the resident process; the session can be carried on anywhere",
        answer=Carried,
        need=_START,
    ),
    Endpoint(
        "POST",
        "/v1/sessions/{session_id}/fork",
        fork_session,
        "A new native session with this one's history",
        answer=Carried,
        need=_START,
        status=201,
    ),
    Endpoint(
        "POST",
        "/v1/sessions/{session_id}/quote",
        quote_session,
        "A new session with an attributed extract of this one",
        body=Quote,
        answer=Carried,
        need=_START,
        status=201,
    ),
    Endpoint(
        "POST",
        "/v1/sessions/{session_id}/messages",
        send_message,
        "Stores a message; its computer places it",
        body=SendMessage,
        answer=Message,
        need=_STEER,
        status=201,
    ),
    Endpoint(
        "DELETE",
        "/v1/messages/{message_id}",
        cancel_message,
        "Takes a message back while it is stored",
        answer=Message,
    ),
    Endpoint(
        "POST",
        "/v1/sessions/{session_id}/interrupt",
        ask_interrupt,
        "Asks the turn that the person sees to stop",
        body=Interrupt,
        answer=InterruptAsked,
        need=_STEER,
        status=202,
    ),
    Endpoint(
        "POST",
        "/v1/approvals/{approval_id}/answer",
        answer_approval,
        "Answers an approval; the first answer wins",
        body=AnswerApproval,
        answer=Approval,
    ),
)
"""Everything that the sessions room offers at the door."""
