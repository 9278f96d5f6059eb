"""Which sessions there are: finding their files, hearing that they grow, knowing when they are gone.

One scan at the start, newest first and in the background; then changes as the kernel tells them, with a slow
scan beneath. A file that is missing marks its session as gone and deletes nothing. A store of which nothing at
all is there any more (not mounted) changes nothing.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ekiden.host.importing import peek
from ekiden.host.sessions import Followed, Tracked, session_id_of
from ekiden.host.store import FileRow, Store, files, put_facts, put_files, put_gone
from ekiden.host.tails import Tails
from ekiden.host.unpacked import CUT_FRAME, Opener
from ekiden.host.watch import Changes, Watcher
from ekiden.kernel.clock import iso
from ekiden.kernel.errors import NotFound
from ekiden.kernel.limits import (
    OWNERS_CHECK_S,
    ROOTS_CHECK_S,
    SWEEP_POLLING_S,
    SWEEP_S,
    SWEEP_SHARE_MAX,
)
from ekiden.transcript.reading import Facts
from ekiden.vendors.port import FoundFile, Owner, Vendor

_log = logging.getLogger(__name__)
_PUT_MAX = 500
_PEEK_YIELD_S = 0.001
_NEW_SLACK_S = 60.0
"""A file that appears while we watch is new if it was written since this long before the start."""
POLLING = "polling"

Key = tuple[str, str]
"""(vendor, native id)"""


class Catalogue:
    """All sessions of this computer. Lives on one event loop; slow parts run in threads."""

    def __init__(
        self,
        host_id: str,
        vendors: Sequence[Vendor],
        store: Store,
        opener: Opener,
        *,
        changed: Callable[[Tracked], None],
        grew: Callable[[Followed], None],
        wanted: Callable[[], None],
        idle_line: Callable[[Tracked], None] = lambda _: None,
        is_own: Callable[[int], bool] = lambda _: False,
        watcher: Callable[[Callable[[Changes], None]], Watcher] = Watcher,
    ) -> None:
        """`changed`: a session's report may differ. `grew`: one of its files has new bytes. `wanted`: there is
        something to import. `idle_line`: its last line is open and was not added to for a while. `is_own`: whether
        a pid is of this host's own runs."""
        self.host_id = host_id
        self.vendors = {vendor.name: vendor for vendor in vendors}
        self.sessions: dict[Key, Tracked] = {}
        self.by_id: dict[str, Tracked] = {}
        self.scanned = asyncio.Event()
        """Set after the first whole scan."""
        self.faults: dict[tuple[str, str], str] = {}
        """(vendor, what of its store) -> why that could not be looked for the last time."""
        self._store = store
        self._opener = opener
        self._changed = changed
        self._grew = grew
        self._wanted = wanted
        self._is_own = is_own
        self._by_path: dict[str, tuple[str, FoundFile]] = {}
        self._files: dict[tuple[str, str, str], FoundFile] = {}
        self._watcher = watcher(self._heard)
        self._touched: dict[tuple[str, str, str], tuple[str, FoundFile]] = {}
        self._created: set[tuple[str, str, str]] = set()
        self._sweep_now = asyncio.Event()
        self._owners_now = asyncio.Event()
        self._flush_now = asyncio.Event()
        self._first_scan = True
        self._polling = False
        self._scan_s = 0.0
        self._began_at = time.time()
        self._finding = asyncio.Lock()
        self.tails = Tails(
            self.by_id,
            store,
            opener,
            changed=changed,
            grew=grew,
            wanted=wanted,
            idle_line=idle_line,
            missing=self._sweep_now.set,
        )

    # What there is

    def tracked(self, vendor: str, native_id: str) -> Tracked:
        """The session, made if it is not known yet."""
        found = self.sessions.get((vendor, native_id))
        if found is None:
            found = Tracked(session_id_of(self.host_id, vendor, native_id), self.vendors[vendor], native_id)
            self.sessions[(vendor, native_id)] = found
            self.by_id[found.session_id] = found
            self.tails.know(found)
            found.known_to_hub = self.tails.known_to_hub(found.session_id)
        return found

    @property
    def polling(self) -> bool:
        """Whether changes are found by looking instead of being told."""
        return self._polling

    @property
    def why_polling(self) -> str:
        return self._watcher.failed

    async def load(self) -> None:
        """Takes what the store remembers, so that sessions are known before the first scan."""

        def all_rows() -> list[FileRow]:
            return self._store.read(lambda connection: list(files(connection)))

        for row in await asyncio.to_thread(all_rows):
            if row.vendor not in self.vendors:
                continue
            self._remember(row.vendor, row.found(), row)

    def _remember(self, vendor: str, found: FoundFile, row: FileRow) -> None:
        if not row.gone_at:
            self._files[(vendor, found.native_id, found.thread)] = found
            self._by_path[os.fspath(found.path)] = (vendor, found)
        tracked = self.tracked(vendor, found.native_id)
        followed = tracked.followed(found.thread)
        earlier, followed.row = followed.row, row
        if earlier is not None and earlier.path != row.path:
            self._by_path.pop(earlier.path, None)
        if earlier is not None and earlier.found() != found and not found.thread:
            tracked.notices.discard(CUT_FRAME)
        if earlier is None and found.thread:
            self.tails.know(followed)
        if followed.tail is not None:
            followed.tail.file = found
        if found.thread:
            return
        if earlier is None:
            tracked.proof_at = row.proof_at
        if row.facts is not None and (tracked.tail is None or tracked.tail.facts is None):
            tracked.facts = row.facts

    # Running

    async def run(self) -> None:
        """Scans, watches and checks until cancelled."""
        work = (self._sweeps(), self._owners(), self._flushes(), self.tails.run())
        tasks = [asyncio.ensure_future(one) for one in work]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._watcher.close()

    async def _sweeps(self) -> None:
        checked: set[str] = set()
        while True:
            self._sweep_now.clear()
            await self._watch_roots(checked)
            try:
                await self.scan()
            except OSError as error:
                _log.warning("Looking for session files failed: %s", error)
            wait_s = SWEEP_POLLING_S if self._polling else SWEEP_S
            deadline = time.monotonic() + max(wait_s, self._scan_s / SWEEP_SHARE_MAX)
            while time.monotonic() < deadline and not self._sweep_now.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._sweep_now.wait(), min(ROOTS_CHECK_S, wait_s))
                if await self._watch_roots(checked):
                    break

    async def _watch_roots(self, checked: set[str]) -> bool:
        """Watches the roots, or waits for them; True if one has appeared that nobody told of."""
        appeared = False
        for vendor in self.vendors.values():
            for root in vendor.discovery.roots():
                text = os.fspath(root)
                if self._watcher.watches(text):
                    checked.discard(text)
                    continue
                if _is_folder(root):
                    appeared = appeared or text in checked
                    checked.discard(text)
                else:
                    checked.add(text)
                self._watcher.follow([text])
        self._note_polling(bool(self._watcher.failed))
        return appeared

    def _note_polling(self, polling: bool) -> None:
        if polling == self._polling:
            return
        self._polling = polling
        if polling:
            _log.warning("Changes are found by looking, not told: %s.", self._watcher.failed)
        for tracked in self.sessions.values():
            self._changed(tracked)

    async def scan(self) -> None:
        """Looks at every store once. What is new or different is noted; what is missing is marked."""
        began = time.monotonic()
        titles: dict[str, Mapping[str, str]] = {}
        fresh: list[Tracked] = []
        for vendor in self.vendors.values():
            try:
                found = await asyncio.to_thread(_all_files, vendor)
                titles[vendor.name] = await asyncio.to_thread(vendor.discovery.titles)
            except Exception as error:
                self._store_failed(vendor, error, "sessions")
                continue
            self.faults.pop((vendor.name, "sessions"), None)
            fresh.extend(await self._scanned(vendor, found))
        for (vendor_name, native_id), tracked in self.sessions.items():
            if vendor_name not in titles:
                continue
            title = titles[vendor_name].get(native_id, "")
            if title != tracked.title:  # what the session was given here is kept elsewhere, and shows through
                tracked.title = title
                self._changed(tracked)
        self._scan_s = time.monotonic() - began
        self._first_scan = False
        self.scanned.set()
        self._wanted()
        fresh.extend(self.tails.retry())
        await self._peek(fresh)

    def _store_failed(self, vendor: Vendor, error: Exception, what: str) -> None:
        """What was known of a store stays; the others are looked through, and this one again at the next look."""
        why = f"{type(error).__name__}: {error}"
        if self.faults.get((vendor.name, what)) != why:
            self.faults[(vendor.name, what)] = why
            unforeseen = None if isinstance(error, OSError) else error
            _log.warning("The %s of %s cannot be looked for: %s", what, vendor.label, why, exc_info=unforeseen)

    async def _scanned(self, vendor: Vendor, found: Sequence[FoundFile]) -> list[Tracked]:
        name = vendor.name
        best: dict[tuple[str, str, str], FoundFile] = {}
        for file in found:
            key = (name, file.native_id, file.thread)
            best[key] = _better(best.get(key), file)
        self._watcher.hear()  # so that what came while the store was looked through is known as new
        different = [file for key, file in best.items() if self._files.get(key) != file or self._row_missing(key)]
        fresh: list[Tracked] = []
        for first in range(0, len(different), _PUT_MAX):
            fresh.extend(await self._put(name, different[first : first + _PUT_MAX]))
        missing = [key for key in self._files if key[0] == name and key not in best]
        gone = [key for key in missing if best or self._files[key].path.parent.is_dir()]
        if gone:
            await self._gone(gone)
        return fresh

    def _row_missing(self, key: tuple[str, str, str]) -> bool:
        tracked = self.sessions.get(key[:2])
        return not key[2] and (tracked is None or tracked.row is None or bool(tracked.row.gone_at))

    async def _put(self, vendor: str, found: Sequence[FoundFile]) -> list[Tracked]:
        """Notes files in the store and follows what they changed. Returns sessions of which nothing is known."""
        new = {file for file in found if self._is_new(vendor, file)}
        rows = await self._store.wrote(
            lambda connection: put_files(connection, vendor, found, lambda file: 0 if file in new else file.size)
        )
        fresh: list[Tracked] = []
        for file, row in zip(found, rows, strict=True):
            key = (vendor, file.native_id, file.thread)
            known = self._files.get(key)
            self._remember(vendor, file, row)
            tracked = self.tracked(vendor, file.native_id)
            followed = tracked.followed(file.thread)
            grown = known is None or known.size != file.size or known.modified_at != file.modified_at
            if grown and (file in new or not self._first_scan):
                self._grew(followed)
            elif self.tails.met:
                self.tails.set_mark(followed, followed.hub_mark)
            if file.thread:
                continue
            if grown and (file in new or not self._first_scan):
                self.tails.seen_growing(tracked)
            if _unknown(tracked) or (grown and file.compressed):
                fresh.append(tracked)
            self._changed(tracked)
        return fresh

    def _is_new(self, vendor: str, file: FoundFile) -> bool:
        """Whether a file that is not known yet has nothing in it that is older than our watching."""
        tracked = self.sessions.get((vendor, file.native_id))
        if tracked is not None and tracked.begun_here:
            return True
        came = not self._first_scan or (vendor, file.native_id, file.thread) in self._created
        return came and file.modified_at >= self._began_at - _NEW_SLACK_S

    async def find(self, tracked: Tracked) -> None:
        """Looks for the files of a session at this moment, if its file is not where it was or was not seen yet."""
        async with self._finding:
            if tracked.row is not None and (tracked.row.gone_at or tracked.row.is_there()):
                return
            files = await asyncio.to_thread(_all_files, tracked.vendor)
            found = [file for file in files if file.native_id == tracked.native_id]
            if found:
                await self._put(tracked.vendor.name, found)
                self._wanted()

    async def _gone(self, keys: Sequence[tuple[str, str, str]]) -> None:
        ids: list[int] = []
        at = iso(time.time())
        for key in keys:
            file = self._files.pop(key)
            self._by_path.pop(os.fspath(file.path), None)
            tracked = self.sessions.get(key[:2])
            followed = tracked.followed(key[2]) if tracked is not None else None
            if tracked is not None and followed is not None and followed.row is not None:
                ids.append(followed.row.id)
                followed.row = replace(followed.row, gone_at=at)
                if not key[2]:
                    self._changed(tracked)
        await self._store.wrote(lambda connection: put_gone(connection, ids, at))

    async def _peek(self, fresh: Sequence[Tracked]) -> None:
        """Learns title and folder of sessions that are not imported yet, from the two ends of their files; and of
        compressed files whether they break off."""
        for tracked in sorted(fresh, key=lambda one: -(one.row.modified_at if one.row else 0)):
            row = tracked.row
            if row is None or row.gone_at or not (row.compressed or _unknown(tracked)):
                self.tails.readable(tracked, looking=True)
                continue
            try:
                facts, notices = await asyncio.to_thread(self._look, tracked.vendor, row)
            except NotFound:
                continue
            except Exception as error:
                self.tails.failed(tracked, error, looking=True)
                continue
            self.tails.readable(tracked, looking=True)
            if CUT_FRAME in notices and tracked.row is not None and tracked.row.found() == row.found():
                tracked.notices.add(CUT_FRAME)
            if _unknown(tracked) and not (tracked.tail and tracked.tail.facts):
                tracked.facts = facts
            self._changed(tracked)
            await asyncio.sleep(_PEEK_YIELD_S)

    def _look(self, vendor: Vendor, row: FileRow) -> tuple[Facts, tuple[str, ...]]:
        """(what the two ends of a file tell, what is to be said of the file). The facts are kept."""
        with self._opener.open(vendor, row.found()) as opened:
            facts, _ = peek(opened.source, vendor, row.found())
        self._store.write(lambda connection: put_facts(connection, row.id, facts))
        return facts, opened.notices

    # Hearing

    def _heard(self, changes: Changes) -> None:
        if changes.missed:
            self._sweep_now.set()
        for folder in changes.new_folders:
            for path in _below(folder):
                self._look_at(path, created=True)
        for path in changes.paths:
            self._look_at(path, created=path in changes.created)

    def _look_at(self, path: str, *, created: bool) -> None:
        known = self._by_path.get(path)
        if known is not None and self._touch_known(path, *known):
            return
        for vendor in self.vendors.values():
            file = vendor.discovery.recognise(Path(path))
            if file is not None:
                key = (vendor.name, file.native_id, file.thread)
                self._touched[key] = (vendor.name, _better(self._heard_of(key), file, newest=True))
                if created:
                    self._created.add(key)
                self._flush_now.set()
                return
        if known is not None:
            self._sweep_now.set()
        else:
            self._owners_now.set()

    def _heard_of(self, key: tuple[str, str, str]) -> FoundFile | None:
        touched = self._touched.get(key)
        return touched[1] if touched is not None else self._files.get(key)

    def _touch_known(self, path: str, vendor: str, file: FoundFile) -> bool:
        try:
            info = os.lstat(path)
        except OSError:
            return False
        now = replace(file, size=info.st_size, modified_at=info.st_mtime)
        key = (vendor, file.native_id, file.thread)
        best = _better(self._heard_of(key), now, newest=True)
        self._touched[key] = (vendor, best)
        if best is not now:
            self._flush_now.set()
            return True
        tracked = self.tracked(vendor, file.native_id)
        followed = tracked.followed(file.thread)
        if followed.tail is not None:
            followed.tail.file = now
        if followed.row is not None and not followed.row.gone_at:
            if not file.thread:
                self.tails.seen_growing(tracked)
            self._grew(followed)
            return True
        self._flush_now.set()
        return True

    async def _flushes(self) -> None:
        """Brings what was heard into the store: new files at once, growth of known ones a little later."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._flush_now.wait(), 1.0)
            self._flush_now.clear()
            if not self._touched:
                continue
            touched, self._touched = self._touched, {}
            fresh: list[Tracked] = []
            for name in self.vendors:
                found = [file for vendor, file in touched.values() if vendor == name]
                if found:
                    fresh.extend(await self._put(name, found))
            self._created.difference_update(touched)
            self._wanted()
            if fresh:
                await self._peek(fresh)

    def adopt_facts(self, rows: Iterable[FileRow]) -> None:
        """Takes what the import has learnt."""
        for row in rows:
            tracked = self.sessions.get((row.vendor, row.native_id))
            if tracked is not None:
                self.tails.adopt(tracked, row)
                if not row.thread:
                    self._changed(tracked)

    # Who writes

    async def _owners(self) -> None:
        held: set[Key] = set()
        while True:
            began = time.monotonic()
            held = await self.check_owners(held)
            spent = time.monotonic() - began
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._owners_now.wait(), max(OWNERS_CHECK_S, spent / SWEEP_SHARE_MAX))
            self._owners_now.clear()

    async def check_owners(self, held: set[Key]) -> set[Key]:
        """Asks each vendor who writes what; `held` are the sessions that had an owner the last time."""
        now: dict[Key, Owner] = {}
        for vendor in self.vendors.values():
            try:
                owners = await asyncio.to_thread(vendor.discovery.owners)
            except Exception as error:
                self._store_failed(vendor, error, "writers")
                now.update({key: one for key in held if key[0] == vendor.name and (one := self._owner_known(key))})
                continue
            self.faults.pop((vendor.name, "writers"), None)
            for native_id, owner in owners.items():
                if not self._is_own(owner.pid):
                    now[(vendor.name, native_id)] = owner
        for key in held | set(now):
            tracked = self.sessions.get(key)
            if tracked is not None and tracked.owner != now.get(key):
                tracked.owner = now.get(key)
                self._changed(tracked)
        for tracked in list(self.by_id.values()):
            if tracked.facts.turn_open and tracked.grew_at and key_of(tracked) not in now:
                self._changed(tracked)
        return set(now)

    def _owner_known(self, key: Key) -> Owner | None:
        tracked = self.sessions.get(key)
        return tracked.owner if tracked is not None else None

    async def owner_now(self, tracked: Tracked) -> Owner | None:
        """Asks the vendor at this moment who writes the session; None if nobody outside does."""
        owners = await asyncio.to_thread(tracked.vendor.discovery.owners)
        owner = owners.get(tracked.native_id)
        return None if owner is None or self._is_own(owner.pid) else owner


def key_of(tracked: Tracked) -> Key:
    """What the session is called by its vendor."""
    return (tracked.vendor.name, tracked.native_id)


def _better(known: FoundFile | None, file: FoundFile, *, newest: bool = False) -> FoundFile:
    """Of two files of one session, the one to read: the plain one beside its compressed copy, else the newer."""
    if known is None or known.path == file.path or not known.path.exists():
        return file
    if known.compressed != file.compressed:
        return known if file.compressed else file
    return file if newest or file.modified_at >= known.modified_at else known


def _unknown(tracked: Tracked) -> bool:
    """Whether a look at the ends of its file may tell more of a session than is known. A compressed file in which
    nothing was found may be cut, and nobody remembers that."""
    row, facts = tracked.row, tracked.facts
    if row is None:
        return False
    return not facts.messages if row.compressed else row.facts is None and not (facts.rows or facts.first_prompt)


def _all_files(vendor: Vendor) -> list[FoundFile]:
    return list(vendor.discovery.files())


def _is_folder(path: Path) -> bool:
    return path.is_dir()


def _below(folder: str) -> Iterable[str]:
    for top, _, names in os.walk(folder):
        for name in names:
            yield os.path.join(top, name)
