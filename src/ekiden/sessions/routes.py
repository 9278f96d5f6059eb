"""The sessions room at the door: which paths there are, what a key needs for them, and what hosts are asked.

What is about one session needs a right on that session. An approval or message that belongs to a session which the
key may not read answers like one that does not exist.
"""

import asyncio
import base64
import binascii
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from ekiden.kernel.door import Call, Endpoint, Need
from ekiden.kernel.errors import Forbidden, HostAway, HostSilent, Invalid, NotFound, VendorFailed
from ekiden.kernel.ids import Prefix, checked_id, new_id
from ekiden.kernel.limits import (
    HOST_REQUEST_S,
    HOST_SLOW_REQUEST_S,
    PAGE_ROWS_DEFAULT,
    PAGE_ROWS_MAX,
    SEARCH_QUERY_CHARS_MAX,
)
from ekiden.log.port import Reading, Transaction
from ekiden.sessions import feed, verbs, views
from ekiden.sessions.keeping import load_approval, load_message, load_session
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
    SearchHit,
    SearchPage,
    SendMessage,
    SessionPage,
    SessionView,
    StartSession,
    Welcome,
    Work,
)
from ekiden.transcript.items import Item

Answer = TypeVar("Answer")


def _limit(call: Call) -> int:
    text = call.query.get("limit", "")
    if not text:
        return PAGE_ROWS_DEFAULT
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or int(text) == 0:
        raise Invalid("`limit` is a number from 1.", hint=f"At most {PAGE_ROWS_MAX} are given at once.")
    return min(int(text), PAGE_ROWS_MAX)


def _may_read_session(call: Call, session_id: str) -> bool:
    return call.may("read", f"session:{session_id}")


def _may_read_host(call: Call, host_id: str) -> bool:
    return call.may("read", "team") or call.may("read", f"host:{host_id}")


async def _ask_host(
    call: Call,
    host_id: str,
    verb: str,
    arguments: object,
    answer: type[Answer],
    *,
    within_s: float = HOST_REQUEST_S,
) -> Answer:
    """Asks a host; what it refuses with goes on to the caller as it is."""
    told = await call.request_host(host_id, verb, arguments, within_s=within_s)
    try:
        return msgspec.json.decode(told, type=answer)
    except msgspec.MsgspecError as error:
        raise VendorFailed(
            "The computer answered in a form that this hub does not understand.",
            hint="The two may be of different versions of Ekiden.",
            verb=verb,
            said=str(error),
        ) from error


async def _host_of(call: Call, session_id: str) -> str:
    async def question(reading: Reading) -> str:
        kept = await load_session(reading, session_id)
        if kept is None:
            raise NotFound
        return kept.host_id

    return await call.ask(question)


async def _ask_session(
    call: Call, verb: str, answer: type[Answer], *, within_s: float = HOST_REQUEST_S, **arguments: object
) -> Answer:
    """Asks the host that has the session of the path."""
    session_id = call.parameters["session_id"]
    host_id = await _host_of(call, session_id)
    return await _ask_host(call, host_id, verb, {"session_id": session_id, **arguments}, answer, within_s=within_s)


# --- hosts -------------------------------------------------------------------------------------------------


async def report_host(call: Call, body: HostReport) -> Any:
    """`Welcome`."""

    async def verb(tx: Transaction) -> Welcome:
        return await verbs.report_host(
            tx, call.parameters["host_id"], body, actor=call.actor, boot_id=call.hub.boot_id
        )

    return await call.write(verb)


async def feed_host(call: Call, body: Feed) -> Any:
    """`FeedAnswer`. Pieces of growing items are sent on after the commit, in order."""
    passing: list[FeedGrew | FeedGrown] = []

    async def verb(tx: Transaction) -> FeedAnswer:
        passing.clear()
        return await feed.take_feed(
            tx,
            call.parameters["host_id"],
            body.entries,
            actor=call.actor,
            boot_id=call.hub.boot_id,
            passing=passing,
        )

    written = await call.write(verb)
    for piece in passing:
        call.grow(piece)
    return written


async def work_of_host(call: Call) -> Work:
    """What the host still has to do."""
    return await call.ask(
        lambda reading: views.work_of_host(reading, call.parameters["host_id"], log_id=call.hub.log_id)
    )


async def list_hosts(call: Call) -> Hosts:
    """The hosts that the key may know of."""
    return await call.ask(
        lambda reading: views.list_hosts(
            reading, log_id=call.hub.log_id, may_see=lambda host_id: _may_read_host(call, host_id)
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
    limit = _limit(call)
    return await call.ask(
        lambda reading: views.list_sessions(
            reading,
            log_id=call.hub.log_id,
            filters=filters,
            after=call.query.get("after", ""),
            limit=limit,
            may_see=None
            if call.may("read", "session:*")
            else lambda session_id: _may_read_session(call, session_id),
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


async def page_items(call: Call) -> ItemPage:
    """A page of items, from the host."""
    return await _ask_session(
        call,
        "page",
        ItemPage,
        before=call.query.get("before", ""),
        after=call.query.get("after", ""),
        limit=_limit(call),
        thread=call.query.get("thread", ""),
    )


async def whole_item(call: Call) -> Item:
    """One item, as whole as it can be sent, from the host."""
    return await _ask_session(call, "item", Item, item_id=call.parameters["item_id"])


async def page_raw(call: Call) -> RawPage:
    """Lines of the native file, from the host."""
    return await _ask_session(
        call,
        "raw",
        RawPage,
        before=call.query.get("before", ""),
        limit=_limit(call),
        thread=call.query.get("thread", ""),
    )


_decode_places = msgspec.json.Decoder(dict[str, str]).decode


def _read_places(text: str) -> dict[str, str]:
    """Where the search goes on at each host, from what `_write_places` wrote."""
    try:
        return _decode_places(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise Invalid("This is no place in a search.", hint="Start again without `after`.") from None


def _write_places(places: dict[str, str]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(places)).decode().rstrip("=") if places else ""


async def search(call: Call) -> SearchPage:
    """Asks all connected hosts at once. Finds of several hosts take turns, each host's own order kept."""
    text = call.query.get("text", "").strip()
    if not text:
        raise Invalid("Say what to look for: `text`.")
    if len(text) > SEARCH_QUERY_CHARS_MAX:
        raise Invalid(f"The text has at most {SEARCH_QUERY_CHARS_MAX} characters.")
    after = call.query.get("after", "")
    places = _read_places(after) if after else None
    known = await call.ask(
        lambda reading: views.list_hosts(reading, log_id=call.hub.log_id, may_see=lambda _: True)
    )
    hosts = [host for host in known.hosts if places is None or host.host_id in places]
    here = [host for host in hosts if call.host_here(host.host_id)]
    silent = {host.host_id for host in hosts if not call.host_here(host.host_id)}
    share = -(-_limit(call) // max(1, len(here)))

    async def ask(host_id: str) -> SearchPage | None:
        arguments = {"text": text, "limit": share, "after": (places or {}).get(host_id, "")}
        try:
            return await _ask_host(call, host_id, "search", arguments, SearchPage)
        except (HostAway, HostSilent):
            return None

    answers = await asyncio.gather(*(ask(host.host_id) for host in here))
    pages: dict[str, SearchPage] = {}
    for host, page in zip(here, answers, strict=True):
        if page is None:
            silent.add(host.host_id)
        else:
            pages[host.host_id] = page
    hits = await _own_hits(call, pages)
    return SearchPage(
        hits=tuple(_taking_turns(hits)),
        next=_write_places({host_id: page.next for host_id, page in pages.items() if page.next}),
        indexed_share=min((page.indexed_share for page in pages.values()), default=0.0),
        away=tuple(
            host.report.name for host in hosts if host.host_id in silent and _may_read_host(call, host.host_id)
        ),
    )


async def _own_hits(call: Call, pages: dict[str, SearchPage]) -> list[list[SearchHit]]:
    """Each host's finds, without those in sessions that are not its own or that the key may not read."""

    async def question(reading: Reading) -> dict[str, str]:
        hosts: dict[str, str] = {}
        for session_id in {hit.session_id for page in pages.values() for hit in page.hits}:
            kept = await load_session(reading, session_id)
            if kept is not None:
                hosts[session_id] = kept.host_id
        return hosts

    hosts = await call.ask(question)
    return [
        [
            hit
            for hit in page.hits
            if hosts.get(hit.session_id) == host_id and _may_read_session(call, hit.session_id)
        ]
        for host_id, page in pages.items()
    ]


def _taking_turns(lists: Sequence[Sequence[SearchHit]]) -> list[SearchHit]:
    longest = max((len(hits) for hits in lists), default=0)
    return [hits[index] for index in range(longest) for hits in lists if index < len(hits)]


async def inbox(call: Call) -> Inbox:
    """What waits for the caller."""
    return await call.ask(
        lambda reading: views.inbox(
            reading,
            log_id=call.hub.log_id,
            may_see=lambda session_id: _may_read_session(call, session_id),
        )
    )


# --- carrying on -------------------------------------------------------------------------------------------


async def start_session(call: Call, body: StartSession) -> Carried:
    """Starts a session on a host. The key needs `start` on that host, or on all sessions."""
    if not (call.may("start", f"host:{body.host_id}") or call.may("start", "session:*")):
        raise Forbidden("This key may not start sessions there.")

    async def question(reading: Reading) -> bool:
        known = await views.list_hosts(reading, log_id="", may_see=lambda host_id: host_id == body.host_id)
        return bool(known.hosts)

    if not await call.ask(question):
        raise NotFound
    return await _ask_host(call, body.host_id, "start", body, Carried, within_s=HOST_SLOW_REQUEST_S)


async def continue_session(call: Call) -> Carried:
    """Ekiden becomes the session's one writer, or says who holds it."""
    return await _ask_session(call, "continue", Carried, within_s=HOST_SLOW_REQUEST_S)


async def release_session(call: Call) -> Carried:
    """Ends Ekiden's ownership; the session can be carried on by whoever comes next."""
    return await _ask_session(call, "release", Carried, within_s=HOST_SLOW_REQUEST_S)


async def fork_session(call: Call) -> Carried:
    """A new native session with this one's history."""
    return await _ask_session(call, "fork", Carried, within_s=HOST_SLOW_REQUEST_S)


async def quote_session(call: Call, body: Quote) -> Carried:
    """A new session with an extract of this one."""
    return await _ask_session(call, "quote", Carried, within_s=HOST_SLOW_REQUEST_S, quote=body)


# --- messages, turns, approvals ----------------------------------------------------------------------------


async def send_message(call: Call, body: SendMessage) -> Any:
    """`Message`, stored."""
    message_id = checked_id(Prefix.MESSAGE, body.message_id) if body.message_id else new_id(Prefix.MESSAGE)

    async def verb(tx: Transaction) -> Message:
        return await verbs.send_message(
            tx, call.parameters["session_id"], body, message_id=message_id, actor=call.actor
        )

    return await call.write(verb)


def _refuse_unless(call: Call, right: str, session_id: str) -> None:
    if not _may_read_session(call, session_id) and not call.may(right, f"session:{session_id}"):
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
