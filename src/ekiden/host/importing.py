"""Importing session files into the store: facts, line starts, the copy and the search. Newest first.

A file is read once, as a stream, in slices; each slice and the position behind it are committed together, so
an import that is killed goes on where it was, and repeating one changes nothing. What was appended later is
read from that position on, after a few lines before it so that results find their calls.

Small amounts are imported by a thread of the host. A large backlog (a first start) is imported by a process of
its own with low priority, which ends when it is done: so its memory goes away, and the host's event loop never
waits for its work. The two share nothing but the database.
"""

import argparse
import asyncio
import contextlib
import importlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ekiden.host import copies
from ekiden.host.copies import Placed
from ekiden.host.follow import joined, primed_fold, snapshot
from ekiden.host.lines import (
    ByteSource,
    NewlineIndex,
    fingerprint,
    head_of,
    last_line_end,
    lines_forward,
    window_start,
)
from ekiden.host.store import (
    FILE_COLUMNS,
    FileRow,
    Store,
    encode_facts,
    file_row,
    newlines_of,
    packed_newlines,
    put_revision,
)
from ekiden.host.unpacked import Opener
from ekiden.kernel.errors import EkidenError, Unavailable
from ekiden.kernel.limits import (
    COPY_CHUNK_ITEMS_MAX,
    IMPORT_SHOWN_S,
    IMPORT_SLICE_BYTES,
    PEEK_HEAD_BYTES,
    PEEK_TAIL_BYTES,
)
from ekiden.transcript.items import Item
from ekiden.transcript.reading import Drift, Facts
from ekiden.vendors.port import FoundFile, Vendor

_log = logging.getLogger(__name__)

_SWITCH_S = 0.0005
"""The importing thread computes without a pause: the event loop gets the interpreter back this soon."""

_SLICE_ITEMS = 4 * COPY_CHUNK_ITEMS_MAX

Stopped = Callable[[], bool]


def peek(source: ByteSource, vendor: Vendor, file: FoundFile) -> tuple[Facts, bool]:
    """(what the two ends of a file tell, whether these ends are the whole). Counts of a part are left out."""
    size = source.size()
    end = last_line_end(source, size)
    fold = vendor.fold(file)
    if end <= PEEK_HEAD_BYTES + PEEK_TAIL_BYTES:
        for line in lines_forward(source, 0, end):
            fold.feed(line)
        return snapshot(fold.facts), True
    head_end = last_line_end(source, PEEK_HEAD_BYTES) or PEEK_HEAD_BYTES
    for line in lines_forward(source, 0, head_end):
        fold.feed(line)
    for line in lines_forward(source, max(head_end, window_start(source, end, PEEK_TAIL_BYTES)), end):
        fold.feed(line)
    facts = snapshot(fold.facts)
    facts.rows = facts.unknown_rows = facts.unreadable_rows = 0
    facts.unknown_kinds = {}
    facts.drift = Drift.NONE
    return facts, False


class _Import:
    """The import of one file, from where it stands to its last newline."""

    def __init__(self, store: Store, vendor: Vendor, row: FileRow, source: ByteSource) -> None:
        self.store = store
        self.vendor = vendor
        self.row = row
        self.source = source
        self.revision = row.revision
        self.head: str = row.head
        self.position = row.indexed_to
        self.newlines = NewlineIndex()
        self.base = row.facts if row.facts_whole and row.facts is not None else Facts()

    def run(self, stopped: Stopped) -> bool:
        """Imports; False if it was stopped before the end."""
        source, row = self.source, self.row
        head = head_of(source)
        if self.position and (
            head != self.head
            or source.size() < self.position
            or fingerprint(source, self.position) != row.fingerprint
        ):
            self.revision += 1
            self.position = 0
            self.base = Facts()
            revision = self.revision
            self.store.write(lambda connection: put_revision(connection, row.id, revision, head)).result()
        elif self.position:
            revision, self.newlines = self.store.read(lambda connection: newlines_of(connection, row.id))
            if revision != self.revision or self.newlines.end != self.position:
                return True  # the follower has begun a new revision meanwhile: the row is wanted again
        self.head = head
        size = source.size()
        end = last_line_end(source, size, not_before=self.position)
        fold = primed_fold(self.vendor, row.found(), source, self.position)
        primed = snapshot(fold.facts)
        slice_start = self.position
        newlines = self.newlines
        gathered: dict[str, Placed] = {}
        for line in lines_forward(source, self.position, end, number=newlines.rows + 1):
            items = fold.feed(line)
            if items:
                self._gather(items, line.start, gathered)
            newlines.add(line)
            if line.end - slice_start >= IMPORT_SLICE_BYTES or len(gathered) >= _SLICE_ITEMS:
                self.position = slice_start = newlines.end
                self._commit(gathered, joined(self.base, primed, fold.facts), done=False)
                gathered = {}
                if stopped():
                    return False
        self.position = end
        for item in fold.finish():  # a notice of a whole reading stands where its row does, not at the end
            self._gather([item], min(end, item.source.start), gathered)
        self._commit(gathered, joined(self.base, primed, fold.facts), done=True)
        return True

    def _gather(self, items: Sequence[Item], start: int, gathered: dict[str, Placed]) -> None:
        for item in items:
            known = gathered.get(item.id)
            gathered[item.id] = Placed(item, known.start if known else start)

    def _commit(self, gathered: Mapping[str, Placed], facts: Facts, *, done: bool) -> None:
        row, position, revision = self.row, self.position, self.revision
        placed = sorted(gathered.values(), key=copies.standing)
        packed = encode_facts(facts)
        newlines = packed_newlines(self.newlines)
        rows = self.newlines.rows
        mark = fingerprint(self.source, position)

        def work(connection: Any) -> None:
            taken = connection.execute(
                "UPDATE files SET indexed_to = ?, rows = ?, newlines = ?, facts = ?, facts_whole = 1, head = ?,"
                " fingerprint = ?, wanted = wanted AND NOT (? AND size = ? AND modified_at = ?)"
                " WHERE id = ? AND revision = ? AND deleted_at = ''",
                (
                    position,
                    rows,
                    newlines,
                    packed,
                    self.head,
                    mark,
                    done,
                    row.size,
                    row.modified_at,
                    row.id,
                    revision,
                ),
            ).rowcount
            if not taken:
                return
            for first in range(0, len(placed), COPY_CHUNK_ITEMS_MAX):
                copies.keep(connection, row.id, revision, placed[first : first + COPY_CHUNK_ITEMS_MAX])

        self.store.write(work).result()


def import_row(
    store: Store,
    opener: Opener,
    vendor: Vendor,
    row: FileRow,
    *,
    stopped: Stopped = lambda: False,
) -> bool:
    """Imports one file as far as it goes; False if stopped before that."""
    try:
        with opener.open(vendor, row.found()) as opened:
            whole = _Import(store, vendor, row, opened.source).run(stopped)
    except Exception as error:
        # Gone or not readable: it is wanted again when discovery finds it changed. A reader that fails on one
        # file must not hold up the others.
        if not isinstance(error, EkidenError | OSError):
            _log.exception("A session file of %s could not be imported.", row.vendor)
        store.write(
            lambda connection: connection.execute(
                "UPDATE files SET wanted = 0 WHERE id = ? AND size = ? AND modified_at = ?",
                (row.id, row.size, row.modified_at),
            )
        ).result()
        return True
    return whole


def next_wanted(connection: Any, skip: Sequence[int] = ()) -> FileRow | None:
    """The newest file that has something to import."""
    marks = ",".join("?" * len(skip))
    row = connection.execute(
        f"SELECT {FILE_COLUMNS} FROM files WHERE wanted AND gone_at = '' AND deleted_at = ''"  # noqa: S608 (columns)
        f" AND id NOT IN ({marks}) ORDER BY modified_at DESC LIMIT 1",
        tuple(skip),
    ).fetchone()
    return file_row(row) if row else None


def wanted_bytes(connection: Any) -> int:
    """How much there is to import."""
    return int(
        connection.execute(
            "SELECT TOTAL(MAX(0, size - indexed_to)) FROM files WHERE wanted AND gone_at = '' AND deleted_at = ''"
        ).fetchone()[0]
    )


def import_all(
    store: Store,
    opener: Opener,
    vendors: Mapping[str, Vendor],
    *,
    copy_bytes_max: int,
    stopped: Stopped = lambda: False,
) -> list[int]:
    """Imports everything that is wanted, newest first, then brings the copy under its bound. Returns the ids of
    the files that it has read or whose copy it has dropped.

    A file that grows while it is read is left for the next call, so one busy session cannot hold up the end.
    """
    seen: list[int] = []
    while not stopped():
        row = store.read(lambda connection: next_wanted(connection, seen[-500:]))
        if row is None or row.id in seen:
            break
        seen.append(row.id)
        vendor = vendors.get(row.vendor)
        if vendor is not None:
            import_row(store, opener, vendor, row, stopped=stopped)
    if seen:
        seen += store.write(lambda connection: copies.trim(connection, copy_bytes_max)).result()
    return seen


class Importer:
    """Runs imports for a host: `poke` when files changed; `imported` is called on the loop with the ids of the
    files that were read, or None if that may be any."""

    def __init__(
        self,
        store: Store,
        opener: Opener,
        vendors: Mapping[str, Vendor],
        *,
        copy_bytes_max: int,
        here_bytes_max: int,
        quiet_s: float,
        worker: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        imported: Callable[[Sequence[int] | None], None] = lambda _: None,
    ) -> None:
        """`worker` is the command of the importing process; empty to import everything by a thread."""
        self._store = store
        self._opener = opener
        self._vendors = vendors
        self._copy_bytes_max = copy_bytes_max
        self._here_bytes_max = here_bytes_max
        self._quiet_s = quiet_s
        self._worker = worker
        self._environment = environment
        self._imported = imported
        self._poked = asyncio.Event()
        self._stop = threading.Event()
        self.working = False

    def poke(self) -> None:
        """Something may be wanted."""
        self._poked.set()

    async def run(self) -> None:
        """Imports whenever poked, until cancelled."""
        sys.setswitchinterval(_SWITCH_S)
        try:
            while True:
                await self._poked.wait()
                await asyncio.sleep(self._quiet_s)
                self._poked.clear()
                self.working = True
                try:
                    await self._once()
                finally:
                    self.working = False
        finally:
            self._stop.set()

    async def _once(self) -> None:
        backlog = await asyncio.to_thread(self._store.read, wanted_bytes)
        if self._worker and backlog > self._here_bytes_max:
            await self._elsewhere()
        thread = asyncio.create_task(
            asyncio.to_thread(
                import_all,
                self._store,
                self._opener,
                self._vendors,
                copy_bytes_max=self._copy_bytes_max,
                stopped=self._stop.is_set,
            )
        )
        try:
            self._imported(await asyncio.shield(thread))
        except asyncio.CancelledError:
            self._stop.set()
            with contextlib.suppress(Exception):
                await thread
            raise

    async def _elsewhere(self) -> None:
        process = await asyncio.create_subprocess_exec(
            *self._worker,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            env=dict(self._environment) if self._environment is not None else None,
        )
        try:
            while True:
                try:
                    await asyncio.wait_for(process.wait(), IMPORT_SHOWN_S)
                    return
                except TimeoutError:
                    self._imported(None)
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
                await process.wait()
            self._imported(None)


def worker_command(home: Path, vendors_from: str, copy_bytes_max: int) -> list[str]:
    """The command that imports everything in a process of its own. `vendors_from` is `module:function`."""
    return [
        sys.executable,
        "-m",
        "ekiden.host.importing",
        "--home",
        str(home),
        "--vendors-from",
        vendors_from,
        "--copy-bytes-max",
        str(copy_bytes_max),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """The importing process. It ends when everything is imported, when it is told to, or when the host is gone
    (its standard input ends)."""
    parser = argparse.ArgumentParser(prog="ekiden-import")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--vendors-from", required=True)
    parser.add_argument("--copy-bytes-max", type=int, required=True)
    given = parser.parse_args(arguments)
    stop = threading.Event()

    def stop_soon(_number: int, _frame: object) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, stop_soon)
    with contextlib.suppress(OSError):
        os.nice(10)

    def wait_for_host() -> None:
        with contextlib.suppress(OSError, ValueError):
            os.read(0, 1)
        stop.set()

    threading.Thread(target=wait_for_host, daemon=True).start()
    module, _, name = given.vendors_from.partition(":")
    vendors: Sequence[Vendor] = getattr(importlib.import_module(module), name)(os.environ)
    store = Store(given.home / "host.db")
    opener = Opener(given.home / "unpacked")
    try:
        import_all(
            store,
            opener,
            {vendor.name: vendor for vendor in vendors},
            copy_bytes_max=given.copy_bytes_max,
            stopped=stop.is_set,
        )
    except Unavailable as error:
        print(error.message, file=sys.stderr)
        return 1
    finally:
        opener.close()
        store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
