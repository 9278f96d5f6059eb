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
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ekiden.host.follow import Growth, Tail, parse_mark
from ekiden.host.importing import peek_row
from ekiden.host.lines import head_of, last_line_end
from ekiden.host.sessions import Tracked, session_id_of
from ekiden.host.store import FileRow, Store, files, put_files, put_gone, put_revision
from ekiden.host.unpacked import Opener
from ekiden.host.watch import Changes, Watcher
from ekiden.kernel.clock import iso
from ekiden.kernel.errors import EkidenError
from ekiden.kernel.limits import (
    OWNERS_CHECK_S,
    PROVISIONAL_AFTER_S,
    ROOTS_CHECK_S,
    SWEEP_POLLING_S,
    SWEEP_S,
    SWEEP_SHARE_MAX,
    TAIL_CATCH_UP_BYTES_MAX,
    TAIL_FOLD_IDLE_S,
    TAIL_FOLDS_MAX,
    TAIL_READ_BYTES_MAX,
)
from ekiden.transcript.items import Item
from ekiden.transcript.reading import Facts
from ekiden.vendors.port import FoundFile, Owner, Vendor

_log = logging.getLogger(__name__)
_PUT_MAX = 500
_PEEK_YIELD_S = 0.001
_READ_HERE_BYTES_MAX = 256 * 1024
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
        grew: Callable[[Tracked], None],
        wanted: Callable[[], None],
        idle_line: Callable[[Tracked], None] = lambda _: None,
        is_own: Callable[[int], bool] = lambda _: False,
        watcher: Callable[[Callable[[Changes], None]], Watcher] = Watcher,
    ) -> None:
        """`changed`: a session's report may differ. `grew`: its file has new bytes. `wanted`: there is something
        to import. `idle_line`: its last line is open and was not added to for a while. `is_own`: whether a pid
        is of this host's own runs."""
        self.host_id = host_id
        self.vendors = {vendor.name: vendor for vendor in vendors}
        self.sessions: dict[Key, Tracked] = {}
        self.by_id: dict[str, Tracked] = {}
        self.scanned = asyncio.Event()
        """Set after the first whole scan."""
        self._store = store
        self._opener = opener
        self._changed = changed
        self._grew = grew
        self._wanted = wanted
        self._is_own = is_own
        self._idle_line = idle_line
        self._by_path: dict[str, tuple[str, FoundFile]] = {}
        self._files: dict[tuple[str, str, str], FoundFile] = {}
        self._watcher = watcher(self._heard)
        self._touched: dict[tuple[str, str, str], tuple[str, FoundFile]] = {}
        self._hot: OrderedDict[str, float] = OrderedDict()
        self._sweep_now = asyncio.Event()
        self._owners_now = asyncio.Event()
        self._flush_now = asyncio.Event()
        self._first_scan = True
        self._polling = False
        self._scan_s = 0.0
        self._active: set[str] = set()
        self._marks: Mapping[str, str] = {}

    # What there is

    def tracked(self, vendor: str, native_id: str) -> Tracked:
        """The session, made if it is not known yet."""
        found = self.sessions.get((vendor, native_id))
        if found is None:
            found = Tracked(session_id_of(self.host_id, vendor, native_id), self.vendors[vendor], native_id)
            self.sessions[(vendor, native_id)] = found
            self.by_id[found.session_id] = found
            found.hub_mark = self._marks.get(found.session_id, "")
            found.known_to_hub = found.session_id in self._marks
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
        if found.thread:
            return
        tracked = self.tracked(vendor, found.native_id)
        earlier = tracked.row
        tracked.row = row
        if earlier is None:
            tracked.start_at = found.size
            tracked.proof_at = row.proof_at
        if row.facts is not None and (tracked.tail is None or tracked.tail.facts is None):
            tracked.facts = row.facts
        if tracked.tail is not None:
            tracked.tail.file = found

    # Running

    async def run(self) -> None:
        """Scans, watches and checks until cancelled."""
        try:
            await asyncio.gather(self._sweeps(), self._owners(), self._flushes(), self._rests())
        finally:
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
        """Watches roots that have appeared; True if there is a new one."""
        appeared = False
        for vendor in self.vendors.values():
            for root in vendor.discovery.roots():
                text = os.fspath(root)
                if self._watcher.watches(text):
                    continue
                there = _is_folder(root)
                if there:
                    self._watcher.add([text])
                    appeared = appeared or text in checked
                    checked.discard(text)
                else:
                    checked.add(text)
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
            found = await asyncio.to_thread(_all_files, vendor)
            titles[vendor.name] = await asyncio.to_thread(vendor.discovery.titles)
            fresh.extend(await self._scanned(vendor, found))
        for (vendor_name, native_id), tracked in self.sessions.items():
            title = titles[vendor_name].get(native_id, "")
            if title != tracked.title:
                tracked.title = title
                self._changed(tracked)
        self._scan_s = time.monotonic() - began
        self._first_scan = False
        self.scanned.set()
        self._wanted()
        await self._peek(fresh)

    async def _scanned(self, vendor: Vendor, found: Sequence[FoundFile]) -> list[Tracked]:
        name = vendor.name
        best: dict[tuple[str, str, str], FoundFile] = {}
        for file in found:
            key = (name, file.native_id, file.thread)
            best[key] = _better(best.get(key), file)
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
        rows = await self._store.wrote(lambda connection: put_files(connection, vendor, found))
        fresh: list[Tracked] = []
        for file, row in zip(found, rows, strict=True):
            key = (vendor, file.native_id, file.thread)
            known = self._files.get(key)
            new = (vendor, file.native_id) not in self.sessions
            self._remember(vendor, file, row)
            if file.thread:
                continue
            tracked = self.tracked(vendor, file.native_id)
            if new and not self._first_scan:
                tracked.start_at = 0
            if tracked.row is not None and tracked.row.facts is None and tracked.facts.rows == 0:
                fresh.append(tracked)
            grown = known is None or known.size != file.size or known.modified_at != file.modified_at
            if grown and not self._first_scan:
                self._active.add(tracked.session_id)
                self._grew(tracked)
            elif tracked.hub_mark:
                self.set_mark(tracked, tracked.hub_mark)
            self._changed(tracked)
        return fresh

    async def _gone(self, keys: Sequence[tuple[str, str, str]]) -> None:
        ids: list[int] = []
        at = iso(time.time())
        for key in keys:
            file = self._files.pop(key)
            self._by_path.pop(os.fspath(file.path), None)
            tracked = self.sessions.get(key[:2])
            if tracked is not None and tracked.row is not None and not key[2]:
                ids.append(tracked.row.id)
                tracked.row = replace(tracked.row, gone_at=at)
                self._changed(tracked)
        await self._store.wrote(lambda connection: put_gone(connection, ids, at))

    async def _peek(self, fresh: Sequence[Tracked]) -> None:
        """Learns title and folder of sessions that are not imported yet, from the two ends of their files."""
        for tracked in sorted(fresh, key=lambda one: -(one.row.modified_at if one.row else 0)):
            row = tracked.row
            if row is None or tracked.facts.rows or tracked.facts.first_prompt:
                continue
            facts = await asyncio.to_thread(peek_row, self._store, self._opener, tracked.vendor, row)
            if facts is not None and not (tracked.tail and tracked.tail.facts):
                tracked.facts = facts
                self._changed(tracked)
            await asyncio.sleep(_PEEK_YIELD_S)

    # Hearing

    def _heard(self, changes: Changes) -> None:
        if changes.missed:
            self._sweep_now.set()
        for folder in changes.new_folders:
            for path in _below(folder):
                self._look_at(path)
        for path in changes.paths:
            self._look_at(path)

    def _look_at(self, path: str) -> None:
        known = self._by_path.get(path)
        if known is not None and self._touch_known(path, *known):
            return
        for vendor in self.vendors.values():
            file = vendor.discovery.recognise(Path(path))
            if file is not None:
                key = (vendor.name, file.native_id, file.thread)
                self._touched[key] = (vendor.name, _better(self._files.get(key), file, newest=True))
                self._flush_now.set()
                return
        if known is not None:
            self._sweep_now.set()
        else:
            self._owners_now.set()

    def _touch_known(self, path: str, vendor: str, file: FoundFile) -> bool:
        try:
            info = os.lstat(path)
        except OSError:
            return False
        now = replace(file, size=info.st_size, modified_at=info.st_mtime)
        self._touched[(vendor, file.native_id, file.thread)] = (vendor, now)
        if not file.thread:
            tracked = self.sessions.get((vendor, file.native_id))
            if tracked is not None and tracked.tail is not None:
                tracked.tail.file = now
            if tracked is not None and tracked.row is not None and not tracked.row.gone_at:
                self._active.add(tracked.session_id)
                self._grew(tracked)
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
            self._wanted()
            if fresh:
                await self._peek(fresh)

    # Reading what was appended

    def set_marks(self, marks: Mapping[str, str]) -> None:
        """What the hub holds, after connecting. Sessions whose file goes further are said to have grown."""
        self._marks = marks
        for session_id, tracked in self.by_id.items():
            tracked.known_to_hub = session_id in marks
            self.set_mark(tracked, marks.get(session_id, ""))
            if not tracked.known_to_hub:
                tracked.told_core = tracked.told_whole = ""
                self._changed(tracked)

    def set_mark(self, tracked: Tracked, mark: str) -> None:
        """The hub holds `mark` for this session: reading goes on there."""
        tracked.hub_mark = mark
        if tracked.tail is not None and tracked.tail.mark != mark:
            tracked.tail = None
        held = parse_mark(mark)
        row = tracked.row
        if held is not None and row is not None and not (row.gone_at or row.compressed) and row.size > held.offset:
            self._grew(tracked)

    async def growth(self, tracked: Tracked) -> tuple[Growth, str] | None:
        """(what was appended since the last call, the mark behind it), or None if there is nothing to read."""
        row = tracked.row
        if row is None or row.gone_at or row.deleted_at:
            return None
        try:
            tail = tracked.tail
            if tail is None:
                tail = await asyncio.to_thread(self._make_tail, tracked, row)
                tracked.tail = tail
            large = row.size - tail.offset > _READ_HERE_BYTES_MAX or row.compressed or tail.resting
            growth = await asyncio.to_thread(tail.read) if large else tail.read()
        except EkidenError:
            self._sweep_now.set()
            return None
        self._hot[tracked.session_id] = time.monotonic()
        self._hot.move_to_end(tracked.session_id)
        if growth.rewritten:
            tracked.notices.add("rewritten")
            self._store.write(lambda connection: put_revision(connection, row.id, tail.revision, tail.head))
            tracked.row = replace(row, revision=tail.revision, head=tail.head, indexed_to=0)
            self._wanted()
        if growth.lines:
            if tracked.session_id in self._active:
                tracked.grew_at = time.time()
            if tail.facts is not None:
                tracked.facts = _with(tracked.facts, tail.facts)
            self._changed(tracked)
        return growth, tail.mark

    def _make_tail(self, tracked: Tracked, row: FileRow) -> Tail:
        with self._opener.open(tracked.vendor, row.found()) as opened:
            source = opened.source
            head = head_of(source)
            end = last_line_end(source, source.size())
            revision = row.revision + (1 if row.head and head and head != row.head else 0)
            held = parse_mark(tracked.hub_mark)
            if held is not None and held.head == head and held.revision == revision and held.offset <= end:
                offset = held.offset
            elif held is not None:
                offset = 0
            else:
                offset = last_line_end(source, min(tracked.start_at, source.size())) if head else 0
            if end - offset > TAIL_CATCH_UP_BYTES_MAX:
                tracked.notices.add("skipped_live")
                offset = last_line_end(source, end - TAIL_READ_BYTES_MAX)
        tail = Tail(tracked.vendor, row.found(), self._opener, head=head, revision=revision, offset=offset)
        if row.facts is not None and row.facts_whole and row.indexed_to == offset:
            tail.set_base(row.facts)
        return tail

    async def _rests(self) -> None:
        """Shows idle open lines as provisional, and gives up folds that are not needed now."""
        while True:
            await asyncio.sleep(min(5.0, PROVISIONAL_AFTER_S / 3))
            now = time.monotonic()
            for session_id, at in list(self._hot.items()):
                tracked = self.by_id.get(session_id)
                if tracked is None or tracked.tail is None:
                    del self._hot[session_id]
                    continue
                tail = tracked.tail
                if now - at > PROVISIONAL_AFTER_S and tail.size > tail.offset:
                    self._idle_line(tracked)
                if now - at > TAIL_FOLD_IDLE_S or len(self._hot) > TAIL_FOLDS_MAX:
                    tail.rest()
                    del self._hot[session_id]

    async def open_line(self, tracked: Tracked) -> list[Item]:
        """Provisional items of a last line that nobody has ended, once for each form of it."""
        tail = tracked.tail
        if tail is None or tracked.provisional_of == (tail.offset, tail.size):
            return []
        tracked.provisional_of = (tail.offset, tail.size)
        try:
            return await asyncio.to_thread(tail.open_line)
        except EkidenError:
            return []

    def adopt_facts(self, rows: Iterable[FileRow]) -> None:
        """Takes what the import has learnt."""
        for row in rows:
            tracked = self.sessions.get((row.vendor, row.native_id))
            if tracked is None or row.thread:
                continue
            tracked.row = row
            if row.facts is not None and row.facts_whole:
                tracked.facts = row.facts
                if tracked.tail is not None and row.indexed_to >= tracked.tail.offset:
                    tracked.tail.rest()
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
            for native_id, owner in (await asyncio.to_thread(vendor.discovery.owners)).items():
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

    async def owner_now(self, tracked: Tracked) -> Owner | None:
        """Asks the vendor at this moment who writes the session; None if nobody outside does."""
        owners = await asyncio.to_thread(tracked.vendor.discovery.owners)
        owner = owners.get(tracked.native_id)
        return None if owner is None or self._is_own(owner.pid) else owner


def key_of(tracked: Tracked) -> Key:
    return (tracked.vendor.name, tracked.native_id)


def _better(known: FoundFile | None, file: FoundFile, *, newest: bool = False) -> FoundFile:
    """Of two files of one session, the one to read: the plain one beside its compressed copy, else the newer."""
    if known is None or known.path == file.path or not known.path.exists():
        return file
    if known.compressed != file.compressed:
        return known if file.compressed else file
    return file if newest or file.modified_at >= known.modified_at else known


def _all_files(vendor: Vendor) -> list[FoundFile]:
    return list(vendor.discovery.files())


def _is_folder(path: Path) -> bool:
    return path.is_dir()


def _below(folder: str) -> Iterable[str]:
    for top, _, names in os.walk(folder):
        for name in names:
            yield os.path.join(top, name)


def _with(known: Facts, followed: Facts) -> Facts:
    """Facts from following a file's end, completed by what is known of its beginning."""
    if followed.rows >= known.rows:
        merged = replace(followed)
    else:
        merged = replace(followed, rows=known.rows, messages=max(known.messages, followed.messages))
    for name in ("title", "first_prompt", "cwd", "git_branch", "model", "vendor_version", "native_id"):
        if not getattr(merged, name):
            setattr(merged, name, getattr(known, name))
    merged.created_at = known.created_at or merged.created_at
    merged.first_prompt = known.first_prompt or merged.first_prompt
    merged.forked_from = known.forked_from or merged.forked_from
    merged.history_base = known.history_base or merged.history_base
    merged.is_helper = known.is_helper or merged.is_helper
    merged.is_subagent = known.is_subagent or merged.is_subagent
    if known.messages and merged.drift.value == "nothing_parsed":
        merged.drift = known.drift
    return merged
