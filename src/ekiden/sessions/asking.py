"""What the hub does not keep and asks hosts for: pages, search, and the verbs that carry a session on.

A session is asked of the host that has it. What a host refuses with goes to the caller as it is; an answer of
another form than asked for is not passed on. Search asks all connected hosts at once and names those away.
Who asked for a verb that changes something is an event of its own, in the session's topic and in the audit trail.
"""

import asyncio
import base64
import binascii
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from ekiden.kernel.door import Call
from ekiden.kernel.errors import Forbidden, HostAway, HostSilent, Invalid, NotFound, VendorFailed
from ekiden.kernel.limits import (
    HOST_REQUEST_S,
    HOST_SLOW_REQUEST_S,
    PAGE_ROWS_DEFAULT,
    PAGE_ROWS_MAX,
    SEARCH_QUERY_CHARS_MAX,
)
from ekiden.log.port import Reading, Transaction
from ekiden.sessions import views
from ekiden.sessions.keeping import host_topic, load_session, session_topic
from ekiden.sessions.wire import (
    Carried,
    ItemPage,
    Quote,
    RawPage,
    SearchHit,
    SearchPage,
    StartSession,
)
from ekiden.transcript.items import Item

Answer = TypeVar("Answer")
AUDIT_TOPIC = "access"
"""What is announced there stands in the audit trail."""


def limit_of(call: Call) -> int:
    """How many rows the caller wants at most; a large number is the largest page.

    Raises:
        Invalid: if it is no number from 1.
    """
    text = call.query.get("limit", "")
    if not text:
        return PAGE_ROWS_DEFAULT
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or int(text) == 0:
        raise Invalid("`limit` is a number from 1.", hint=f"At most {PAGE_ROWS_MAX} are given at once.")
    return min(int(text), PAGE_ROWS_MAX)


def may_read_session(call: Call, session_id: str) -> bool:
    """Whether the key may know of a session."""
    return call.may("read", f"session:{session_id}")


def may_read_host(call: Call, host_id: str) -> bool:
    """Whether the key may know of a host."""
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


async def _ask_session(call: Call, verb: str, answer: type[Answer], **arguments: object) -> Answer:
    """Asks the host that has the session of the path."""
    session_id = call.parameters["session_id"]
    host_id = await _host_of(call, session_id)
    return await _ask_host(call, host_id, verb, {"session_id": session_id, **arguments}, answer)


async def _change_session(call: Call, verb: str, **arguments: object) -> Carried:
    """Asks the host that has the session of the path for a verb that changes something; who asks is told first."""
    session_id = call.parameters["session_id"]
    host_id = await _host_of(call, session_id)
    await _tell_who_asks(call, verb, host_id, session_id)
    body = {"session_id": session_id, **arguments}
    return await _ask_host(call, host_id, verb, body, Carried, within_s=HOST_SLOW_REQUEST_S)


async def _tell_who_asks(call: Call, verb: str, host_id: str, session_id: str = "") -> None:
    """Says in the log who wants what done, before anybody does it; once for a command, however often it comes."""
    topic = session_topic(session_id) if session_id else host_topic(host_id)

    async def told(tx: Transaction) -> dict[str, bool]:
        body = {"verb": verb, "session_id": session_id, "host_id": host_id}
        tx.append("session.asked", body, topics=(topic, AUDIT_TOPIC), actor=call.actor)
        return {"asked": True}

    await call.write(told)


async def page_items(call: Call) -> ItemPage:
    """A page of items, from the host."""
    return await _ask_session(
        call,
        "page",
        ItemPage,
        before=call.query.get("before", ""),
        after=call.query.get("after", ""),
        limit=limit_of(call),
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
        limit=limit_of(call),
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
    share = -(-limit_of(call) // max(1, len(here)))

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
            host.report.name for host in hosts if host.host_id in silent and may_read_host(call, host.host_id)
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
            if hosts.get(hit.session_id) == host_id and may_read_session(call, hit.session_id)
        ]
        for host_id, page in pages.items()
    ]


def _taking_turns(lists: Sequence[Sequence[SearchHit]]) -> list[SearchHit]:
    longest = max((len(hits) for hits in lists), default=0)
    return [hits[index] for index in range(longest) for hits in lists if index < len(hits)]


async def start_session(call: Call, body: StartSession) -> Carried:
    """Starts a session on a host. The key needs `start` on that host, or on all sessions."""
    if not (call.may("start", f"host:{body.host_id}") or call.may("start", "session:*")):
        raise Forbidden("This key may not start sessions there.")

    async def question(reading: Reading) -> bool:
        known = await views.list_hosts(reading, log_id="", may_see=lambda host_id: host_id == body.host_id)
        return bool(known.hosts)

    if not await call.ask(question):
        raise NotFound
    await _tell_who_asks(call, "start", body.host_id)
    return await _ask_host(call, body.host_id, "start", body, Carried, within_s=HOST_SLOW_REQUEST_S)


async def continue_session(call: Call) -> Carried:
    """Ekiden becomes the session's one writer, or says who holds it."""
    return await _change_session(call, "continue")


async def release_session(call: Call) -> Carried:
    """Ends Ekiden's ownership; the session can be carried on by whoever comes next."""
    return await _change_session(call, "release")


async def fork_session(call: Call) -> Carried:
    """A new native session with this one's history."""
    return await _change_session(call, "fork")


async def quote_session(call: Call, body: Quote) -> Carried:
    """A new session with an extract of this one."""
    return await _change_session(call, "quote", quote=body)
