"""The sessions that Ekiden owns: begun, continued, forked, quoted, released; each with one process at most.

Before a process is started for a session, and again right before it starts, the vendor is asked whether a live
process outside holds it; then it is refused with who that is and what can be done instead. Every process of ours
carries the tag of its run, and the run is in the database before the process is there: so after a crash of this
host its survivors are found, given a little time to finish, and ended, before anything is started anew.

Messages wait here, in the order of the hub, until no turn runs; each is recorded before it is handed over, so
that it is handed over once. One whose outcome a crash left open is looked for in the session's file, and fails
openly if it is not there: it is never repeated.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ekiden.host import processes
from ekiden.host.catalogue import Catalogue
from ekiden.host.environment import runtime_environment
from ekiden.host.outbox import Outbox
from ekiden.host.owned import Owned
from ekiden.host.pages import Pages
from ekiden.host.placing import Placing
from ekiden.host.quoting import extract_of
from ekiden.host.recovery import TOLD_S, Recovery
from ekiden.host.seating import Seating
from ekiden.host.sessions import Tracked
from ekiden.host.store import Store
from ekiden.kernel.clock import iso
from ekiden.kernel.errors import (
    Conflict,
    EkidenError,
    HeldElsewhere,
    Invalid,
    NotFound,
    TooMany,
    Unavailable,
    VendorFailed,
)
from ekiden.kernel.ids import Prefix, derived_id, new_id
from ekiden.kernel.limits import (
    END_KILL_S,
    HOST_END_S,
    OWNED_RUNTIMES_MAX,
    PAGE_ROWS_MAX,
    RUNTIME_IDLE_S,
    RUNTIME_START_S,
    SURVIVOR_S,
)
from ekiden.sessions.wire import (
    Approval,
    Carried,
    FeedApprovalEnd,
    InterruptAsked,
    Quote,
    StartSession,
)
from ekiden.transcript.items import Item, ItemKind, Role
from ekiden.vendors.port import Begin, Runtime, Vendor

_log = logging.getLogger(__name__)


class Supervisor:
    """Owns the runtimes of one host."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        catalogue: Catalogue,
        outbox: Outbox,
        store: Store,
        pages: Pages,
        seating: Seating | None = None,
        idle_s: float = RUNTIME_IDLE_S,
        survivor_s: float = SURVIVOR_S,
    ) -> None:
        self._environment = environment
        self._catalogue = catalogue
        self._outbox = outbox
        self._store = store
        self._pages = pages
        self._seating = seating
        self._idle_s = idle_s
        self._owned: dict[str, Owned] = {}
        self._starting = 0
        self._locks: dict[str, asyncio.Lock] = {}
        self._run_ids: set[str] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ready = asyncio.Event()
        self.closing = False
        self.recovery = Recovery(
            self._run_ids, self.spawn, catalogue=catalogue, outbox=outbox, store=store, survivor_s=survivor_s
        )
        self.placing = Placing(self, catalogue=catalogue, outbox=outbox, store=store)

    # What is ours

    def is_own(self, pid: int) -> bool:
        """Whether a process belongs to a run of this host."""
        if any(owned.runtime.pid == pid for owned in self._owned.values()):
            return True
        return processes.run_of(pid) in self._run_ids

    def owned(self, session_id: str) -> Owned | None:
        """The session's live runtime, or None."""
        owned = self._owned.get(session_id)
        return owned if owned is not None and not owned.ended.is_set() else None

    def _beside(self, owned: Owned) -> list[Owned]:
        return [
            other
            for other in self._owned.values()
            if other is not owned and other.runtime.pid == owned.runtime.pid and not other.ended.is_set()
        ]

    def _lock(self, session_id: str) -> asyncio.Lock:
        return self._locks.setdefault(session_id, asyncio.Lock())

    def spawn(self, work: Any, name: str) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("%s failed.", task.get_name(), exc_info=task.exception())

    async def recover(self) -> None:
        """Takes up what an earlier run of this host has left; nothing is started before."""
        await self.recovery.run()
        if self._seating is not None:
            await asyncio.to_thread(self._seating.clear)
        self._ready.set()

    async def survivors_gone(self, session_id: str) -> None:
        """Returns once nothing of an earlier run writes the session any more."""
        await self.recovery.survivors_gone(session_id)

    # Verbs

    async def start(self, asked: StartSession, request_id: str) -> Carried:
        """Begins a session.

        Raises:
            Invalid: for an unknown vendor or a folder that is not there.
            VendorFailed: if its program does not start.
        """
        vendor = self._vendor(asked.vendor)
        begin = Begin(cwd=_folder(asked.cwd), model=asked.model)
        owned = await self._begin(vendor, begin, origin="started", title=asked.message)
        await self._first_message(owned, request_id, asked.message)
        return await self._carried(owned.tracked, "start")

    async def continue_(self, session_id: str) -> Carried:
        """Makes a session Ekiden's own, so that it can be carried on from anywhere.

        Raises:
            NotFound: no such session.
            HeldElsewhere: a live process outside Ekiden writes it. `details`: who, pid, since, instead.
        """
        tracked = self._tracked(session_id)
        await self.own(tracked)
        return await self._carried(tracked, "continue", carried="the whole conversation")

    async def fork(self, session_id: str) -> Carried:
        """Begins a session with this one's history, and leaves this one as it is."""
        tracked = self._tracked(session_id)
        begin = Begin(cwd=self._cwd(tracked), fork_of=tracked.native_id)
        owned = await self._begin(
            tracked.vendor, begin, origin="fork", parent=tracked.session_id, title=tracked.shown_title
        )
        return await self._carried(owned.tracked, "fork", carried="the whole conversation")

    async def quote(self, session_id: str, quote: Quote, request_id: str) -> Carried:
        """Begins a session of the chosen vendor with an attributed extract of this one."""
        tracked = self._tracked(session_id)
        vendor = self._vendor(quote.vendor)
        items, more = await asyncio.to_thread(self._quoted, tracked, quote.items)
        if not items:
            raise Invalid("There is nothing in this session to quote.")
        extract = extract_of(
            items,
            product=tracked.vendor.label,
            title=tracked.shown_title or "without a title",
            folder=tracked.facts.cwd or tracked.cwd,
            more_before=more,
            message=quote.message,
        )
        begin = Begin(cwd=self._cwd(tracked, or_home=True))
        owned = await self._begin(
            vendor, begin, origin="quote", parent=tracked.session_id, title=quote.message or tracked.shown_title
        )
        await self._first_message(owned, request_id, extract.text)
        return await self._carried(
            owned.tracked, "quote", carried=extract.carried, not_carried=extract.not_carried
        )

    async def release(self, session_id: str) -> Carried:
        """Lets a session go: its process is ended, and Ekiden no longer writes it."""
        tracked = self._tracked(session_id)
        if tracked.ownership is None:
            raise Conflict("Ekiden does not own this session.", state="not_owned")
        async with self._lock(session_id):
            owned = self.owned(session_id)
            if owned is not None:
                await owned.close()
            await self._disown(tracked)
        return await self._carried(tracked, "release")

    async def _disown(self, tracked: Tracked) -> None:
        tracked.ownership = None
        vendor, native_id = tracked.vendor.name, tracked.native_id
        await self._store.wrote(
            lambda connection: connection.execute(
                "UPDATE owned SET released = 1 WHERE vendor = ? AND native_id = ?", (vendor, native_id)
            )
        )
        self._owned.pop(tracked.session_id, None)
        self._outbox.changed(tracked)
        if self._seating is not None:
            await self._seating.leave(tracked.session_id)

    def _quoted(self, tracked: Tracked, item_ids: tuple[str, ...]) -> tuple[list[Item], bool]:
        if tracked.row is None:
            return [], False
        if item_ids:
            return [self._pages.item(tracked.row, item_id) for item_id in item_ids[:PAGE_ROWS_MAX]], False
        page = self._pages.page(tracked.row, limit=PAGE_ROWS_MAX)
        return list(page.items), bool(page.before)

    def _vendor(self, name: str) -> Vendor:
        vendor = self._catalogue.vendors.get(name)
        if vendor is None:
            raise Invalid(f"This computer has no {name[:40]!r}.", vendors=sorted(self._catalogue.vendors))
        return vendor

    def _tracked(self, session_id: str) -> Tracked:
        tracked = self._catalogue.by_id.get(session_id)
        if tracked is None:
            raise NotFound
        return tracked

    def _cwd(self, tracked: Tracked, *, or_home: bool = False) -> Path:
        try:
            return _folder(tracked.facts.cwd or tracked.cwd)
        except Invalid:
            if or_home:
                return _folder(self._environment.get("HOME", "/"))
            raise

    async def _carried(
        self, tracked: Tracked, verb: str, carried: str = "", not_carried: tuple[str, ...] = ()
    ) -> Carried:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._outbox.told(tracked), TOLD_S)
        return Carried(session_id=tracked.session_id, verb=verb, carried=carried, not_carried=not_carried)

    async def _first_message(self, owned: Owned, request_id: str, text: str) -> None:
        """The message that a session begins with is the verb's own; it is no message of the hub's."""
        if text.strip():
            await owned.place(derived_id(Prefix.MESSAGE, request_id, "first"), text, steer=False, told=False)

    # Processes

    async def own(self, tracked: Tracked) -> Owned:
        """The session's live runtime; started if there is none.

        Raises:
            HeldElsewhere, VendorFailed, Invalid, TooMany.
        """
        await self._ready.wait()
        async with self._lock(tracked.session_id):
            owned = self.owned(tracked.session_id)
            if owned is not None:
                return owned
            await self.recovery.survivors_gone(tracked.session_id)
            await self._refuse_if_held(tracked)
            row = tracked.row
            if row is not None and row.gone_at:
                raise Conflict("The session's own file is gone; it can only be read or quoted.", state="gone")
            begin = Begin(cwd=self._cwd(tracked), resume=tracked.native_id, model=tracked.model)
            return await self._begin(
                tracked.vendor,
                begin,
                origin=tracked.origin,
                parent=tracked.parent_session_id,
                title="",
                of=tracked,
            )

    async def _refuse_if_held(self, tracked: Tracked) -> None:
        owner = await self._catalogue.owner_now(tracked)
        if owner is None:
            return
        raise HeldElsewhere(
            f"{owner.program} (pid {owner.pid}) has this session open.",
            hint="Follow it here, end it there first, or fork or quote it.",
            who=owner.program,
            pid=owner.pid,
            since=iso(owner.started_at),
            instead=["fork", "quote"],
        )

    async def _begin(
        self, vendor: Vendor, begin: Begin, *, origin: str, title: str, parent: str = "", of: Tracked | None = None
    ) -> Owned:
        await self._ready.wait()
        if self.closing:
            raise Unavailable("This computer is shutting down.")
        live = sum(1 for owned in self._owned.values() if not owned.ended.is_set())
        if live + self._starting >= OWNED_RUNTIMES_MAX:
            await self._close_one_idle()
        run_id = new_id(Prefix.COMMAND).replace("cmd_", "run_")
        self._run_ids.add(run_id)
        await self._store.wrote(
            lambda connection: connection.execute(
                "INSERT INTO runs (run_id, vendor, native_id) VALUES (?, ?, ?)",
                (run_id, vendor.name, begin.resume),
            )
        )
        if self._seating is not None:
            begin = replace(begin, tools=self._seating.server(run_id))
        runtime = vendor.runtime(begin, runtime_environment(vendor.name, self._environment, run_id))
        self._starting += 1
        ticks = processes.ticks_now()
        try:
            if of is not None:
                await self._refuse_if_held(of)
            await self._started(runtime, vendor)
        except BaseException:
            await asyncio.to_thread(processes.end_all, lambda: processes.of_run(run_id))
            self.recovery.run_over(run_id)
            if self._seating is not None:
                self._seating.over(run_id)
            raise
        finally:
            self._starting -= 1
        started = await asyncio.to_thread(processes.of_run, run_id, runtime.pid)
        residents = processes.begun_since(ticks, started)
        tracked = of or self._catalogue.tracked(vendor.name, runtime.native_id)
        if of is None:
            tracked.origin, tracked.parent_session_id = origin, parent
            tracked.given_title = " ".join(title.split())[:200]
            tracked.cwd, tracked.model = str(begin.cwd), begin.model
        await self._record(run_id, runtime, tracked)
        if self._seating is not None:
            taking = self._seating.take(run_id, vendor.name, runtime.native_id, begin.cwd)
            self.spawn(taking, "taking a session's seat")
        owned = Owned(
            tracked,
            runtime,
            run_id,
            outbox=self._outbox,
            store=self._store,
            beside=self._beside,
            residents=residents,
            find=self._catalogue.find,
        )
        if tracked.row is not None:
            owned.know_texts(await asyncio.to_thread(self.texts_of, tracked))
        self._owned[tracked.session_id] = owned
        self.spawn(self._run(owned), "a session's runtime")
        self._outbox.changed(tracked)
        return owned

    async def _run(self, owned: Owned) -> None:
        try:
            await owned.run()
        finally:
            if self._seating is not None:
                self._seating.over(owned.run_id)

    def texts_of(self, tracked: Tracked) -> list[str]:
        assert tracked.row is not None
        try:
            page = self._pages.page(tracked.row)
        except EkidenError:
            return []
        return [item.text() for item in page.items if item.kind is ItemKind.MESSAGE and item.role is Role.USER]

    async def _started(self, runtime: Runtime, vendor: Vendor) -> None:
        try:
            async with asyncio.timeout(RUNTIME_START_S):
                await runtime.start()
        except BaseException as error:
            with contextlib.suppress(EkidenError, TimeoutError):
                await asyncio.wait_for(runtime.close(), RUNTIME_START_S)
            if isinstance(error, TimeoutError):
                raise VendorFailed(f"{vendor.label} did not start in time.", vendor=vendor.name) from error
            raise

    async def _record(self, run_id: str, runtime: Runtime, tracked: Tracked) -> None:
        process = processes.process_of(runtime.pid)
        started = processes.started_at(process) if process else 0.0
        values = (tracked.vendor.name, tracked.native_id, tracked.cwd, tracked.model, tracked.origin)

        def work(connection: Any) -> None:
            connection.execute(
                "UPDATE runs SET native_id = ?, pid = ?, started_at = ? WHERE run_id = ?",
                (tracked.native_id, runtime.pid, started, run_id),
            )
            connection.execute(
                "INSERT INTO owned (vendor, native_id, cwd, model, origin, parent, title)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (vendor, native_id) DO UPDATE SET released = 0",
                (*values, tracked.parent_session_id, tracked.given_title),
            )

        await self._store.wrote(work)

    async def _close_one_idle(self) -> None:
        idle = [one for one in self._owned.values() if not one.busy and not one.ended.is_set()]
        if not idle:
            raise TooMany("Too many sessions run on this computer.", max=OWNED_RUNTIMES_MAX)
        await min(idle, key=lambda one: one.used_at).close()

    async def run(self) -> None:
        """Closes runtimes that were not used for long; they start again with the next message."""
        while True:
            await asyncio.sleep(min(60.0, self._idle_s))
            for owned in list(self._owned.values()):
                waits = self.placing.waits(owned.session_id)
                if owned.ended.is_set() or owned.busy or waits:
                    continue
                if time.monotonic() - owned.used_at > self._idle_s:
                    await owned.close()

    # Other writers

    def items_came(self, tracked: Tracked, items: list[Item]) -> None:
        """Items have come into a session's file: are they ours?"""
        owned = self.owned(tracked.session_id)
        if owned is not None and tracked.ownership is not None and not tracked.ownership.foreign:
            why = owned.not_ours(items)
            if why:
                self._foreign(owned, why)

    def owner_seen(self, tracked: Tracked) -> None:
        """A live process outside was seen to hold a session."""
        owned = self.owned(tracked.session_id)
        owner = tracked.owner
        if owned is None or owner is None or tracked.ownership is None or tracked.ownership.foreign:
            return
        self._foreign(owned, f"{owner.program} (pid {owner.pid}) has opened this session too.")

    def _foreign(self, owned: Owned, why: str) -> None:
        """Warns, and stops writing: nothing more is sent, and the process goes when its turn is over."""
        tracked = owned.tracked
        assert tracked.ownership is not None
        tracked.ownership.foreign = why
        tracked.notices.add("foreign_writer")
        _log.warning("%s Ekiden stops writing to %s.", why, tracked.session_id)
        self._outbox.changed(tracked)
        self.spawn(self._give_way(owned), "giving way to another writer")

    async def _give_way(self, owned: Owned) -> None:
        await owned.idle.wait()
        async with self._lock(owned.session_id):
            if not owned.ended.is_set():
                await owned.close()
            await self._disown(owned.tracked)

    # What the hub asks

    def take_answer(self, approval: Approval) -> None:
        """A person's answer to a question."""
        owned = self.owned(approval.session_id)
        if owned is None:
            self._outbox.put(
                FeedApprovalEnd(approval.approval_id, "withdrawn", "The program that asked is no longer there.")
            )
            return
        self.spawn(owned.decide(approval), "answering a question")

    def take_interrupt(self, asked: InterruptAsked) -> None:
        """Somebody wants a turn to stop."""
        owned = self.owned(asked.session_id)
        if owned is not None:
            self.spawn(owned.interrupt(asked.turn_id), "stopping a turn")

    def approval_unknown(self, approval: Approval) -> None:
        """The hub lost sight of this computer and no longer knows whether a question waits."""
        owned = self.owned(approval.session_id)
        if owned is not None:
            owned.ask_again(approval.approval_id)

    def met_hub(self, *, anew: bool) -> None:
        """The hub is there (again): what runs is proven, and asked `anew` if it may not know of it."""
        for owned in self._owned.values():
            if not owned.ended.is_set():
                owned.prove()
                if anew:
                    owned.ask_again()

    def _all_of_ours(self) -> dict[int, processes.Process]:
        tagged = processes.tagged()
        return {
            pid: one
            for run_id in self._run_ids
            for pid, one in tagged.get(run_id, {}).items()
            if pid != os.getpid()
        }

    async def close(self) -> None:
        """Ends all runtimes, as a release at shutdown would; ownership stays for the next start. Bounded: what has
        not ended politely by then is killed, and so is what was just being started."""
        self.closing = True
        closing = [asyncio.create_task(one.close()) for one in self._owned.values() if not one.ended.is_set()]
        if closing:
            _, late = await asyncio.wait(closing, timeout=HOST_END_S)
            if late:
                _log.warning("%d programs did not end when asked: they are killed.", len(late))
        if closing or self._starting:
            left = await asyncio.to_thread(processes.end_all, self._all_of_ours, term_s=0.0)
            if left:
                _log.warning("Left over: %s.", ", ".join(process.name for process in left))
            if closing:
                await asyncio.wait(closing, timeout=END_KILL_S)
        for task in closing:
            task.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _folder(text: str) -> Path:
    path = Path(text)
    if not text or not path.is_absolute():
        raise Invalid("A session needs the full path of a folder.", cwd=text)
    if not path.is_dir():
        raise Invalid(f"The folder {text} is not there.", cwd=text)
    return path
