"""The host's own database: an index of the native files, a copy of what is visible in them, and what it owns.

`host.db` in the host's home, mode 0600, WAL. All writes of a process go through one thread, several to a
commit; reads use a connection per thread and never wait for it. The importing process opens the same file:
its transactions are short, and SQLite's own lock puts the two in turn.

The copy is kept under a bound in bytes. What goes over it is dropped oldest session first, those whose file
still exists before those whose copy is the only one, and the session is marked (`trimmed`).
"""

import asyncio
import contextlib
import os
import sqlite3
import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import msgspec

from ekiden.host.lines import NewlineIndex
from ekiden.kernel.errors import StoreNewer, Unavailable
from ekiden.transcript.reading import Facts
from ekiden.vendors.port import FoundFile

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], Any]

SCHEMA_VERSION = 2
_TELL_FROM_HERE = (
    "ALTER TABLE files ADD COLUMN told_from INTEGER NOT NULL DEFAULT 0",
    "UPDATE files SET told_from = size",
)
"""Version 2: what lies in a file at the change is history."""
_BATCH_MAX = 256
_BUSY_S = 30.0

encode_facts = msgspec.json.Encoder().encode
decode_facts = msgspec.json.Decoder(Facts).decode


@dataclass(frozen=True, slots=True)
class FileRow:
    """A native file as the store knows it; see `schema.sql` for the fields."""

    id: int
    vendor: str
    native_id: str
    thread: str
    path: str
    size: int
    modified_at: float
    compressed: bool
    archived: bool
    head: str
    revision: int
    indexed_to: int
    fingerprint: str
    rows: int
    wanted: bool
    facts: Facts | None
    facts_whole: bool
    gone_at: str
    trimmed: bool
    deleted_at: str
    told: str
    proof_at: float
    told_from: int

    def is_there(self) -> bool:
        """Whether something lies at its path at this moment."""
        return os.path.lexists(self.path)

    def found(self) -> FoundFile:
        """The file as its vendor's discovery would give it."""
        return FoundFile(
            Path(self.path),
            self.native_id,
            self.size,
            self.modified_at,
            compressed=self.compressed,
            archived=self.archived,
            thread=self.thread,
        )


# Put into statements below, where a list of columns cannot be a parameter.
FILE_COLUMNS = (
    "id, vendor, native_id, thread, path, size, modified_at, compressed, archived, head, revision, indexed_to,"
    " fingerprint, rows, wanted, facts, facts_whole, gone_at, trimmed, deleted_at, told, proof_at,"
    " told_from"
)


def file_row(values: Sequence[Any]) -> FileRow:
    """A row of `FILE_COLUMNS`."""
    fields = list(values)
    for position in (7, 8, 14, 16, 18):
        fields[position] = bool(fields[position])
    fields[15] = decode_facts(fields[15]) if fields[15] is not None else None
    return FileRow(*fields)


class Store:
    """One process's access to `host.db`. `write` may be called from any thread; nothing here needs a loop."""

    def __init__(self, path: Path) -> None:
        """Opens the database; makes it, or brings an older one up to this version, if need be.

        Raises:
            StoreNewer: if a newer Ekiden wrote it.
        """
        self.path = path
        self._queue: SimpleQueue[tuple[Work, Future[Any]] | None] = SimpleQueue()
        self._local = threading.local()
        self._readers: list[sqlite3.Connection] = []
        self._readers_lock = threading.Lock()
        self._closed = False
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        self._writer = self._connect()
        try:
            self._prepare(self._writer)
        except BaseException:
            self._writer.close()
            raise
        self._thread = threading.Thread(target=self._run, name="host-store", daemon=True)
        self._thread.start()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA cache_size = -4096")
        connection.execute("PRAGMA journal_size_limit = 33554432")
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if _version(connection) == SCHEMA_VERSION:
            return
        script = resources.files("ekiden.host").joinpath("schema.sql").read_text("utf-8")
        connection.execute("BEGIN IMMEDIATE")  # another process may do the same at this moment
        try:
            version = _version(connection)
            for statement in _statements(script):
                connection.execute(statement)
            columns = {row[1] for row in connection.execute("PRAGMA table_info(files)")}
            if version < 2 and "told_from" not in columns:
                for statement in _TELL_FROM_HERE:
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def _run(self) -> None:
        while True:
            batch = [self._queue.get()]
            while len(batch) < _BATCH_MAX and not self._queue.empty():
                batch.append(self._queue.get())
            asked = [entry for entry in batch if entry is not None]
            if asked:
                self._commit(asked)
            if len(asked) < len(batch):
                self._writer.close()
                return

    def _commit(self, batch: list[tuple[Work, Future[Any]]]) -> None:
        results: list[tuple[Future[Any], Any, BaseException | None]] = []
        try:
            self._writer.execute("BEGIN IMMEDIATE")
            for work, future in batch:
                self._writer.execute("SAVEPOINT one")
                try:
                    results.append((future, work(self._writer), None))
                except Exception as error:
                    self._writer.execute("ROLLBACK TO one")
                    results.append((future, None, error))
                self._writer.execute("RELEASE one")
            self._writer.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self._writer.execute("ROLLBACK")
            refused = Unavailable(f"The host's database cannot be written: {error}.")
            results = [(future, None, refused) for _, future in batch]
        for future, value, failure in results:
            if not future.set_running_or_notify_cancel():
                continue
            if failure is not None:
                future.set_exception(failure)
            else:
                future.set_result(value)

    def write(self, work: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Runs `work` in a transaction on the writing thread."""
        future: Future[T] = Future()
        if self._closed:
            future.set_exception(Unavailable("The host's database is closed."))
        else:
            self._queue.put((work, future))
        return future

    async def wrote(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """`write`, for code on an event loop."""
        return await asyncio.wrap_future(self.write(work))

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` on this thread's own connection, on one consistent view."""
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._connect()
            self._local.connection = connection
            with self._readers_lock:
                self._readers.append(connection)
        connection.execute("BEGIN")
        try:
            return work(connection)
        finally:
            connection.execute("COMMIT")

    def close(self) -> None:
        """Finishes what was asked and closes; no other thread may be reading any more."""
        if self._closed:
            return
        self._closed = True
        self._queue.put(None)
        self._thread.join()
        for connection in self._readers:
            connection.close()


def _version(connection: sqlite3.Connection) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > SCHEMA_VERSION:
        raise StoreNewer(
            "The host's database was written by a newer Ekiden.", hint="Start that version.", version=version
        )
    return version


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def files(connection: sqlite3.Connection) -> Iterator[FileRow]:
    """All files, newest first."""
    for values in connection.execute(f"SELECT {FILE_COLUMNS} FROM files ORDER BY modified_at DESC"):  # noqa: S608 (columns)
        yield file_row(values)


def file_of(connection: sqlite3.Connection, vendor: str, native_id: str, thread: str = "") -> FileRow | None:
    """One file, or None."""
    row = connection.execute(
        f"SELECT {FILE_COLUMNS} FROM files WHERE vendor = ? AND native_id = ? AND thread = ?",  # noqa: S608 (columns)
        (vendor, native_id, thread),
    ).fetchone()
    return file_row(row) if row else None


def files_by_id(connection: sqlite3.Connection, ids: Sequence[int]) -> Iterator[FileRow]:
    """The files with these ids."""
    for values in connection.execute(
        f"SELECT {FILE_COLUMNS} FROM files WHERE id IN (SELECT value FROM json_each(?))",  # noqa: S608 (columns)
        (msgspec.json.encode(list(ids)).decode(),),
    ):
        yield file_row(values)


def files_of(connection: sqlite3.Connection, vendor: str, native_id: str) -> list[FileRow]:
    """A session's main file, then those of its sub-agents."""
    rows = connection.execute(
        f"SELECT {FILE_COLUMNS} FROM files WHERE vendor = ? AND native_id = ? ORDER BY thread",  # noqa: S608 (columns)
        (vendor, native_id),
    )
    return [file_row(values) for values in rows]


def put_files(
    connection: sqlite3.Connection,
    vendor: str,
    found: Sequence[FoundFile],
    told_from: Callable[[FoundFile], int] = lambda file: file.size,
) -> list[FileRow]:
    """Notes what was found; a file that differs from what is known is wanted for import. Returns the rows.

    `told_from` says of a file that was not known where telling it live begins.
    """
    rows: list[FileRow] = []
    for file in found:
        values = connection.execute(
            "INSERT INTO files"  # noqa: S608 (columns)
            " (vendor, native_id, thread, path, size, modified_at, compressed, archived, told_from)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (vendor, native_id, thread) DO UPDATE SET"
            " wanted = wanted OR size <> excluded.size OR modified_at <> excluded.modified_at"
            "  OR path <> excluded.path,"
            " path = excluded.path, size = excluded.size, modified_at = excluded.modified_at,"
            " compressed = excluded.compressed, archived = excluded.archived, gone_at = ''"
            f" RETURNING {FILE_COLUMNS}",
            (
                vendor,
                file.native_id,
                file.thread,
                os.fspath(file.path),
                file.size,
                file.modified_at,
                file.compressed,
                file.archived,
                told_from(file),
            ),
        ).fetchone()
        rows.append(file_row(values))
    return rows


def put_facts(connection: sqlite3.Connection, file_id: int, facts: Facts) -> None:
    """Keeps what a look at a file's ends told, unless the whole was read already."""
    connection.execute(
        "UPDATE files SET facts = ? WHERE id = ? AND NOT facts_whole", (encode_facts(facts), file_id)
    )


def put_gone(connection: sqlite3.Connection, file_ids: Sequence[int], at: str) -> None:
    """Marks files as gone; their copy stays."""
    connection.executemany(
        "UPDATE files SET gone_at = ? WHERE id = ? AND gone_at = ''", [(at, file_id) for file_id in file_ids]
    )


def put_told(connection: sqlite3.Connection, told: Sequence[tuple[str, int]]) -> None:
    """Keeps the digests of the reports that the hub has taken: (digest, file id)."""
    connection.executemany("UPDATE files SET told = ? WHERE id = ?", told)


def put_revision(connection: sqlite3.Connection, file_id: int, revision: int, head: str) -> None:
    """Begins `revision` of a file that was cut, replaced or rewritten; repeated calls change nothing more."""
    connection.execute(
        "UPDATE files SET revision = ?, head = ?, indexed_to = 0, rows = 0, fingerprint = '', newlines = NULL,"
        " facts = NULL, facts_whole = 0, wanted = 1, told_from = 0 WHERE id = ? AND revision < ?",
        (revision, head, file_id, revision),
    )


def indexed_end(connection: sqlite3.Connection, file_id: int, revision: int) -> int:
    """How many bytes of this revision the import has read."""
    row = connection.execute(
        "SELECT indexed_to FROM files WHERE id = ? AND revision = ?", (file_id, revision)
    ).fetchone()
    return int(row[0]) if row else 0


def newlines_of(connection: sqlite3.Connection, file_id: int) -> tuple[int, NewlineIndex]:
    """(revision, the index of line starts) of a file."""
    row = connection.execute(
        "SELECT revision, newlines, rows, indexed_to FROM files WHERE id = ?", (file_id,)
    ).fetchone()
    if row is None or row[1] is None:
        return (row[0] if row else 0), NewlineIndex()
    offsets = array("Q")
    offsets.frombytes(row[1])
    return row[0], NewlineIndex(offsets.tolist(), row[2], row[3])


def packed_newlines(index: NewlineIndex) -> bytes:
    """The column's form of an index."""
    return array("Q", index.offsets).tobytes()


def indexed_share(connection: sqlite3.Connection) -> float:
    """How much of the session bytes on this computer is imported, 0 to 1."""
    done, all_bytes = connection.execute(
        "SELECT TOTAL(CASE WHEN wanted THEN MIN(indexed_to, size) ELSE size END), TOTAL(size)"
        " FROM files WHERE gone_at = '' AND deleted_at = ''"
    ).fetchone()
    return min(1.0, done / all_bytes) if all_bytes else 1.0
