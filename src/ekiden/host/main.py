"""A host as one value: this computer's sessions, found, followed, driven and told to a hub.

`Host(settings, client, host_id).run()` is all that a program needs. The client carries the host's own key.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ekiden import __version__
from ekiden.client.client import Client
from ekiden.host import copies
from ekiden.host.catalogue import POLLING, Catalogue
from ekiden.host.importing import Importer, worker_command
from ekiden.host.link import Link
from ekiden.host.outbox import Outbox
from ekiden.host.pages import Pages
from ekiden.host.projects import Projects
from ekiden.host.requests import Requests
from ekiden.host.seating import Seating
from ekiden.host.sessions import Followed, Tracked, report_of
from ekiden.host.store import Store, files, files_by_id, indexed_share
from ekiden.host.supervise import Supervisor
from ekiden.host.unpacked import Opener
from ekiden.kernel.errors import Invalid, NotFound, StoreHeld
from ekiden.kernel.limits import (
    COPY_BYTES_MAX_DEFAULT,
    HOST_FOLDERS_MAX,
    IMPORT_HERE_BYTES_MAX,
    IMPORT_QUIET_S,
    SURVIVOR_S,
)
from ekiden.sessions.wire import HostReport, SessionReport, SessionState, VendorInfo
from ekiden.vendors.port import Environment, Program, Vendor

_log = logging.getLogger(__name__)
_SCANNED_S = 30.0
_TELL_HOST_S = 5.0
_PROGRAMS_S = 60.0


def vendors_here(environment: Environment) -> list[Vendor]:
    """The vendors that this program knows, for the HOME (and, for the demo, `EKIDEN_HOME`) of `environment`."""
    from ekiden.vendors import claude, codex
    from ekiden.vendors.demo.vendor import demo_vendor

    home = Path(environment.get("HOME") or Path.home())
    vendors: list[Any] = [claude.vendor(home, environment), codex.vendor(home, environment)]
    if environment.get("EKIDEN_HOME"):
        vendors.append(demo_vendor(environment))
    return vendors


@dataclass(frozen=True, slots=True)
class HostSettings:
    """Where a host keeps its things and what it works with.

    `home` takes `host.db` (0600). `environment` is what vendors' programs get a part of. `EKIDEN_COPY_BYTES_MAX`
    in it bounds the copy of what is visible in the sessions, in bytes.
    """

    home: Path
    name: str
    environment: Environment
    vendors: Sequence[Vendor]
    vendors_from: str = "ekiden.host.main:vendors_here"
    """`module:function` that makes the same vendors from an environment, for the importing process; empty to
    import large backlogs by a thread of this process."""
    import_here_bytes_max: int = IMPORT_HERE_BYTES_MAX
    """A backlog larger than this is imported by a process of its own."""
    import_quiet_s: float = IMPORT_QUIET_S
    survivor_s: float = SURVIVOR_S
    tools: bool = True
    """Whether owned sessions get Ekiden's own tools."""

    @property
    def copy_bytes_max(self) -> int:
        """The bound of the copy in bytes.

        Raises:
            Invalid: if the setting is no number.
        """
        text = self.environment.get("EKIDEN_COPY_BYTES_MAX", "")
        if not text:
            return COPY_BYTES_MAX_DEFAULT
        if not text.isdigit():
            raise Invalid("EKIDEN_COPY_BYTES_MAX must be a number of bytes.", value=text[:40])
        return int(text)


@dataclass(slots=True)
class _Facts:
    """What a host says of itself that takes a look at the disk."""

    indexed_share: float = 0.0
    copy_bytes: int = 0
    programs: Mapping[str, Program | None] = field(default_factory=dict[str, "Program | None"])
    notices: Mapping[str, Sequence[str]] = field(default_factory=dict[str, "Sequence[str]"])


class Host:
    """Finds, follows and drives the sessions of this computer for one hub."""

    def __init__(self, settings: HostSettings, client: Client, host_id: str) -> None:
        self.settings = settings
        self.host_id = host_id
        self.client = client
        self._facts = _Facts()
        self._projects = Projects()
        self._look_fault = ""

    async def run(self) -> None:
        """Works until cancelled; then ends what it has started, and closes.

        Raises:
            StoreHeld: if another host has the same home.
            Unauthenticated, Forbidden: if the hub does not let this host in any more.
        """
        home = self.settings.home
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _held(home):
            store = await asyncio.to_thread(Store, home / "host.db")
            opener = Opener(home / "unpacked")
            try:
                await self._run(store, opener)
            finally:
                opener.close()
                await asyncio.to_thread(store.close)

    async def _run(self, store: Store, opener: Opener) -> None:
        settings = self.settings
        catalogue = Catalogue(
            self.host_id,
            settings.vendors,
            store,
            opener,
            changed=self._changed,
            grew=self._grew,
            wanted=lambda: importer.poke(),
            idle_line=self._idle_line,
            is_own=self._is_own,
        )
        self.catalogue = catalogue
        outbox = self.outbox = Outbox(self.client, self.host_id, catalogue, store, self._report_of)
        pages = Pages(store, opener, self._vendor)
        supervisor = self.supervisor = Supervisor(
            settings.environment,
            catalogue=catalogue,
            outbox=outbox,
            store=store,
            pages=pages,
            seating=Seating(self.client, self.host_id, settings.home) if settings.tools else None,
            survivor_s=settings.survivor_s,
        )
        outbox.items_told = supervisor.items_came
        requests = Requests(
            self.host_id,
            catalogue=catalogue,
            supervisor=supervisor,
            pages=pages,
            store=store,
            state_of=self._state_of,
        )
        imported: asyncio.Queue[Sequence[int] | None] = asyncio.Queue()
        importer = Importer(
            store,
            opener,
            catalogue.vendors,
            copy_bytes_max=settings.copy_bytes_max,
            here_bytes_max=settings.import_here_bytes_max,
            quiet_s=settings.import_quiet_s,
            worker=worker_command(settings.home, settings.vendors_from, settings.copy_bytes_max)
            if settings.vendors_from
            else (),
            environment=settings.environment,
            imported=imported.put_nowait,
        )
        link = Link(
            self.client,
            self.host_id,
            catalogue=catalogue,
            outbox=outbox,
            supervisor=supervisor,
            requests=requests,
            report=lambda: self._host_report(catalogue),
        )
        await catalogue.load()
        await self._look(store)
        work: list[Any] = [
            catalogue.run(),
            importer.run(),
            self._adopt(imported, catalogue, store),
            self._connect(catalogue, supervisor, link),
            outbox.run(),
            supervisor.run(),
            self._tell_host(link, store),
        ]
        tasks = [asyncio.ensure_future(one) for one in work]
        try:
            # Not `gather`: a cancellation must leave the telling at work until the runtimes have said their last.
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await supervisor.close()
            if outbox.connected.is_set() and not link.problem:
                await outbox.drained(2.0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await requests.close()
            outbox.close()

    async def _connect(self, catalogue: Catalogue, supervisor: Supervisor, link: Link) -> None:
        """The hub is greeted once the first scan is through, so that it hears of all sessions in one go; a store
        that is slow to look through does not hold that up for long."""
        await supervisor.recover()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(catalogue.scanned.wait(), _SCANNED_S)
        await link.run()

    def _vendor(self, name: str) -> Vendor:
        for vendor in self.settings.vendors:
            if vendor.name == name:
                return vendor
        raise NotFound(f"This computer has no {name!r} any more.")

    def _is_own(self, pid: int) -> bool:
        return self.supervisor.is_own(pid)

    def _grew(self, followed: Followed) -> None:
        self.outbox.grew_file(followed)

    def _idle_line(self, tracked: Tracked) -> None:
        self.outbox.idle_line(tracked)

    def _changed(self, tracked: Tracked) -> None:
        if tracked.owner is not None and tracked.ownership is not None:
            self.supervisor.owner_seen(tracked)
        self.outbox.changed(tracked)

    def _report_of(self, tracked: Tracked) -> SessionReport:
        installed = self._facts.programs.get(tracked.vendor.name) is not None
        extra = frozenset({POLLING}) if self.catalogue.polling else frozenset[str]()
        return report_of(tracked, self._projects, installed=installed, extra=extra)

    def _state_of(self, tracked: Tracked) -> SessionState:
        return self._report_of(tracked).state

    def _host_report(self, catalogue: Catalogue) -> HostReport:
        vendors: list[VendorInfo] = []
        folders: dict[str, float] = {}
        counts: dict[str, int] = {}
        for tracked in catalogue.sessions.values():
            if not tracked.listed:
                continue
            counts[tracked.vendor.name] = counts.get(tracked.vendor.name, 0) + 1
            cwd = tracked.facts.cwd or tracked.cwd
            at = tracked.row.modified_at if tracked.row else 0.0
            if cwd and at >= folders.get(cwd, -1.0):
                folders[cwd] = at
        for vendor in self.settings.vendors:
            program = self._facts.programs.get(vendor.name)
            vendors.append(
                VendorInfo(
                    name=vendor.name,
                    label=vendor.label,
                    installed=program is not None,
                    version=program.version if program else "",
                    sessions=counts.get(vendor.name, 0),
                    can_start=program is not None,
                    notices=tuple(self._facts.notices.get(vendor.name, ())),
                )
            )
        notices: list[str] = []
        if catalogue.polling:
            notices.append(f"polling: {catalogue.why_polling}")
        notices.extend(f"{what}_not_found: {vendor}: {why}" for (vendor, what), why in catalogue.faults.items())
        if self.outbox.dropped:
            notices.append(f"feed_dropped: {self.outbox.dropped}")
        if self.outbox.refused:
            notices.append(f"feed_refused: {self.outbox.refused}")
        newest = sorted(folders, key=lambda folder: -folders[folder])
        return HostReport(
            name=self.settings.name,
            platform=f"{platform.system()} {platform.machine()}",
            ekiden_version=__version__,
            vendors=tuple(vendors),
            copy_bytes=self._facts.copy_bytes,
            copy_bytes_max=self.settings.copy_bytes_max,
            indexed_share=round(self._facts.indexed_share, 2),
            notices=tuple(notices),
            folders=tuple(newest[:HOST_FOLDERS_MAX]),
        )

    async def _look(self, store: Store) -> None:
        """Finds out what takes a look at the disk."""

        def look() -> None:
            self._facts.programs = {vendor.name: vendor.discovery.program() for vendor in self.settings.vendors}
            self._facts.notices = {vendor.name: vendor.discovery.notices() for vendor in self.settings.vendors}
            self._facts.indexed_share = store.read(indexed_share)
            self._facts.copy_bytes = store.read(copies.copy_bytes)

        await asyncio.to_thread(look)

    async def _tell_host(self, link: Link, store: Store) -> None:
        while True:
            await asyncio.sleep(_TELL_HOST_S)
            try:
                await self._look(store)
            except Exception as error:
                self._look_failed(error)
            else:
                self._look_fault = ""
            await link.tell_host()

    def _look_failed(self, error: Exception) -> None:
        """What was known stays; the reason is logged once."""
        what = f"{type(error).__name__}: {error}"
        if what != self._look_fault:
            self._look_fault = what
            _log.warning("Looking at the programs here failed: %s", what, exc_info=error)

    async def _adopt(
        self, imported: "asyncio.Queue[Sequence[int] | None]", catalogue: Catalogue, store: Store
    ) -> None:
        """Takes what the import has learnt into what is told of the sessions."""
        while True:
            ids = await imported.get()
            rows = await asyncio.to_thread(
                store.read,
                lambda connection, ids=ids: list(
                    files(connection) if ids is None else files_by_id(connection, ids)
                ),
            )
            catalogue.adopt_facts(rows)


@contextlib.contextmanager
def _held(home: Path) -> Any:
    """Holds a home for one host."""
    descriptor = os.open(home / "host.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreHeld("Another Ekiden works with this data folder already.", home=str(home)) from None
        yield
    finally:
        os.close(descriptor)
