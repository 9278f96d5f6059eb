"""What the hub asks a host, answered: pages, items, raw lines, search, and the verbs that change something.

Requests run side by side, a bounded number at once. A changing one that is asked again, because its answer was
lost on the way, is answered from memory.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec

from ekiden.host import copies
from ekiden.host.catalogue import Catalogue
from ekiden.host.pages import Pages
from ekiden.host.sessions import Tracked, session_id_of
from ekiden.host.store import FileRow, Store, files_of, indexed_share
from ekiden.host.supervise import Supervisor
from ekiden.host.words import terms_of
from ekiden.kernel.errors import EkidenError, Invalid, NotFound, TooMany
from ekiden.kernel.limits import (
    HOST_REQUESTS_AT_ONCE,
    HOST_REQUESTS_OPEN_MAX,
    HOST_REQUESTS_REMEMBERED_MAX,
    PAGE_ROWS_DEFAULT,
    PAGE_ROWS_MAX,
    PROVISIONAL_AFTER_S,
    SEARCH_QUERY_CHARS_MAX,
)
from ekiden.sessions.wire import (
    ItemPage,
    Quote,
    RawPage,
    SearchHit,
    SearchPage,
    SessionState,
    StartSession,
)
from ekiden.transcript.items import Item

_log = logging.getLogger(__name__)
CHANGING = frozenset({"continue", "release", "fork", "quote", "start"})


class HostRequest(msgspec.Struct, frozen=True):
    """Body of a `host.request` frame."""

    request_id: str
    verb: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")
    within_s: float = 0.0


class Problem(msgspec.Struct, frozen=True):
    """Why a request was refused, as the hub hands it on."""

    code: str
    status: int
    message: str
    hint: str = ""
    details: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


class HostAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Body of `POST /v1/hosts/{host_id}/answers`."""

    request_id: str
    ok: bool
    result: Any = None
    problem: Problem | None = None


class _Session(msgspec.Struct, frozen=True):
    session_id: str
    before: str = ""
    after: str = ""
    limit: int | None = None
    thread: str = ""
    item_id: str = ""
    quote: Quote | None = None


class _Search(msgspec.Struct, frozen=True):
    text: str
    limit: int | None = None
    after: str = ""


class Requests:
    """Answers the requests of one host."""

    def __init__(
        self,
        host_id: str,
        *,
        catalogue: Catalogue,
        supervisor: Supervisor,
        pages: Pages,
        store: Store,
        state_of: Callable[[Tracked], SessionState],
    ) -> None:
        self._host_id = host_id
        self._catalogue = catalogue
        self._supervisor = supervisor
        self._pages = pages
        self._store = store
        self._state_of = state_of
        self._open = 0
        self._slots = asyncio.Semaphore(HOST_REQUESTS_AT_ONCE)
        self._changing: OrderedDict[str, asyncio.Task[HostAnswer]] = OrderedDict()

    async def answer(self, request: HostRequest) -> HostAnswer:
        """The answer to one request; a refusal is an answer too."""
        if request.verb in CHANGING:
            task = self._changing.get(request.request_id)
            if task is None:
                task = asyncio.create_task(self._answered(request))
                self._changing[request.request_id] = task
                while len(self._changing) > HOST_REQUESTS_REMEMBERED_MAX:
                    oldest = next(iter(self._changing))
                    if not self._changing[oldest].done():
                        break
                    del self._changing[oldest]
            return await asyncio.shield(task)
        return await self._answered(request)

    async def _answered(self, request: HostRequest) -> HostAnswer:
        try:
            if self._open >= HOST_REQUESTS_OPEN_MAX:
                raise TooMany("This computer has too many requests open.", max=HOST_REQUESTS_OPEN_MAX)
            self._open += 1
            try:
                if request.verb in CHANGING:
                    result = await self._change(request)
                else:
                    async with self._slots:
                        result = await self._read(request)
            finally:
                self._open -= 1
        except EkidenError as error:
            return HostAnswer(request.request_id, False, problem=_problem(error))
        except msgspec.DecodeError as error:
            refused = Invalid(f"The request is not of the form that is asked for: {error}")
            return HostAnswer(request.request_id, False, problem=_problem(refused))
        except Exception:
            _log.exception("A %s request failed.", request.verb)
            failed = EkidenError("This computer could not answer; its log has the reason.")
            return HostAnswer(request.request_id, False, problem=_problem(failed))
        return HostAnswer(request.request_id, True, result)

    async def _change(self, request: HostRequest) -> Any:
        if request.verb == "start":
            asked = msgspec.json.decode(request.arguments, type=StartSession)
            return await self._supervisor.start(asked, request.request_id)
        session = msgspec.json.decode(request.arguments, type=_Session)
        if request.verb == "continue":
            return await self._supervisor.continue_(session.session_id)
        if request.verb == "release":
            return await self._supervisor.release(session.session_id)
        if request.verb == "fork":
            return await self._supervisor.fork(session.session_id)
        if session.quote is None:
            raise Invalid("A quote needs to say for which vendor.")
        return await self._supervisor.quote(session.session_id, session.quote, request.request_id)

    async def _read(self, request: HostRequest) -> Any:
        if request.verb == "search":
            return await self._search(msgspec.json.decode(request.arguments, type=_Search))
        asked = msgspec.json.decode(request.arguments, type=_Session)
        tracked = self._catalogue.by_id.get(asked.session_id)
        if tracked is None:
            raise NotFound
        if request.verb == "page":
            return await self._page(tracked, asked)
        if request.verb == "item":
            return await asyncio.to_thread(self._item, tracked, asked.item_id)
        if request.verb == "raw":
            row = await self._row_now(tracked, asked.thread)
            if row is None:
                return RawPage((), "")
            return await asyncio.to_thread(self._pages.raw, row, before=asked.before, limit=asked.limit)
        raise Invalid(f"This host does not know the request {request.verb[:40]!r}.")

    async def _page(self, tracked: Tracked, asked: _Session) -> ItemPage:
        row = await self._row_now(tracked, asked.thread)
        if row is None:
            return ItemPage(items=(), before="")
        running = self._state_of(tracked) in (SessionState.RUNNING, SessionState.WAITING)
        return await asyncio.to_thread(
            self._pages.page,
            row,
            before=asked.before,
            after=asked.after,
            limit=asked.limit,
            running=running,
            idle_open_line=time.time() - row.modified_at > PROVISIONAL_AFTER_S,
        )

    def _rows(self, tracked: Tracked) -> list[FileRow]:
        """The session's main file and those of its sub-agents, from the store."""
        return self._store.read(lambda connection: files_of(connection, tracked.vendor.name, tracked.native_id))

    async def _row_now(self, tracked: Tracked, thread: str) -> FileRow | None:
        """The file to read for a page: where it lies at this moment, whether it was seen before or not."""
        row = await asyncio.to_thread(self._row, tracked, thread)
        if row is None or not (row.gone_at or row.is_there()):
            await self._catalogue.find(tracked)
            row = await asyncio.to_thread(self._row, tracked, thread)
        if row is None and thread:
            raise NotFound("This session has no such thread.")
        return row if row is not None and not row.deleted_at else None

    def _row(self, tracked: Tracked, thread: str) -> FileRow | None:
        return next((row for row in self._rows(tracked) if row.thread == thread), None)

    def _item(self, tracked: Tracked, item_id: str) -> Item:
        for row in self._rows(tracked):
            try:
                return self._pages.item(row, item_id)
            except NotFound:
                continue
        raise NotFound("This session has no such item.")

    async def _search(self, asked: _Search) -> SearchPage:
        if len(asked.text) > SEARCH_QUERY_CHARS_MAX:
            raise Invalid(f"A search has at most {SEARCH_QUERY_CHARS_MAX} characters.")
        terms = terms_of(asked.text)
        limit = max(1, min(asked.limit or PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX))
        share = await asyncio.to_thread(self._store.read, indexed_share)
        if not terms:
            return SearchPage(hits=(), indexed_share=share)
        last = asked.after.rpartition("~")[2]
        if asked.after and not (last.isascii() and last.isdigit() and len(last) < 18):
            raise Invalid("The cursor is not one that this search gave out.", hint="Start without a cursor.")
        finds = await asyncio.to_thread(
            self._store.read,
            lambda connection: copies.find(connection, terms, limit=limit, after=asked.after),
        )
        hits: list[SearchHit] = []
        for found in finds:
            session_id = session_id_of(self._host_id, found.vendor, found.native_id)
            tracked = self._catalogue.by_id.get(session_id)
            if tracked is None or not tracked.listed:
                continue
            title = tracked.shown_title
            hits.append(
                SearchHit(
                    session_id=session_id,
                    item_id=found.item_id,
                    title=title[:200],
                    at=found.at,
                    excerpt=found.excerpt,
                    matches=found.matches,
                )
            )
        more = finds[-1].key if len(finds) == limit else ""
        return SearchPage(hits=tuple(hits), next=more, indexed_share=share)

    async def close(self) -> None:
        """Ends changing requests that are still being answered."""
        tasks = [task for task in self._changing.values() if not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _problem(error: EkidenError) -> Problem:
    details = {name: value for name, value in error.details.items() if value is not None}
    return Problem(error.code, error.status, error.message, error.hint, details)
