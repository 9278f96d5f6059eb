"""Copies a whole log from one engine into the other: to move house, to back Postgres up, to restore there.

Tables are copied in the order of their keys, in pieces of `MOVE_PIECE_ROWS` rows. The target keeps beside each
piece, in the same transaction, how far it is, with a hash over all that was copied; so a copy that was ended
anywhere goes on where it was. At the end the target is read again from the first row to the last and must give the
same counts and hashes. Until then it is marked as unfinished and no hub opens it. The source is only read.
"""

import asyncio
import hashlib
import os
import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec

from ekiden.kernel import limits
from ekiden.kernel.clock import Clock, SystemClock, iso
from ekiden.kernel.errors import Conflict, NotFound, StoreHeld, Unavailable
from ekiden.log.appending import storable_text
from ekiden.log.lock import take_lock
from ekiden.log.migrations import MOVING, migrate, read_migrations, refuse_newer, version_of
from ekiden.log.open import new_log_id
from ekiden.log.sqlite_connection import connect as connect_sqlite
from ekiden.log.sqlite_connection import own, translated
from ekiden.log.sqlite_files import make_private_file, make_private_folder, sync_file

NOT_COPIED = ("meta", "batches", "bus_frames")
"""What a database says of itself, and which commits of a node were the last."""


class Table(msgspec.Struct, frozen=True):
    """A table: its columns in order, and those of its key."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]


class Copied(msgspec.Struct, frozen=True):
    """How far a table is: the key of its last row, how many rows, and the hash over them."""

    last: tuple[Any, ...] = ()
    rows: int = 0
    hash: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Moved:
    """What was copied and compared: rows by table, and how many events are among them."""

    log_id: str
    rows: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def events(self) -> int:
        return self.rows.get("events", 0)


Progress = Callable[[str, int], None]
"""Hears, after each piece, of a table's name and how many of its rows are there."""


class Store(Protocol):
    """One side of a copy."""

    async def tables(self) -> list[Table]: ...

    async def rows(self, table: Table, after: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """The next piece of a table after a key, in the order of keys; all from the start for an empty key."""
        ...

    async def meta(self) -> dict[str, str]: ...


class Target(Store, Protocol):
    """The side that is written."""

    async def add(self, table: Table, rows: Sequence[tuple[Any, ...]], meta: tuple[str, str]) -> None:
        """Adds rows and says one thing of the database, both or nothing."""
        ...

    async def finish(self, meta: dict[str, str], forget: Sequence[str]) -> None:
        """Says what the database is from now on, and what it no longer is."""
        ...


async def copy(source: Store, target: Target, *, log_id: str = "", progress: Progress | None = None) -> Moved:
    """Copies all of `source` into `target`, goes on where an earlier copy ended, and compares. The target gets the
    source's `log_id`, unless another is given.

    Raises:
        Conflict: if the target holds something else.
        Unavailable: if the two differ at the end.
    """
    said = await source.meta()
    known = await target.meta()
    if known.get(MOVING) != said["log_id"]:
        if MOVING in known or await _holds_something(target):
            raise Conflict(
                "The target holds data already.",
                hint="Name an empty database, or the one of a move that was ended.",
            )
        await target.finish({MOVING: said["log_id"]}, ())
    tables = await source.tables()
    if sorted(tables, key=lambda table: table.name) != sorted(await target.tables(), key=lambda table: table.name):
        raise Conflict(
            "The two databases do not have the same tables.", hint="Start this Ekiden on the source once."
        )
    copied: dict[str, Copied] = {}
    for table in tables:
        kept = known.get(_mark(table), "") if MOVING in known else ""
        copied[table.name] = await _copy_table(
            source, target, table, msgspec.json.decode(kept, type=Copied) if kept else Copied(), progress
        )
    for table in tables:
        found = await _read_again(target, table)
        if (found.rows, found.hash) != (copied[table.name].rows, copied[table.name].hash):
            raise Unavailable(
                f"The copy of {table.name} differs: it has {found.rows} rows of {copied[table.name].rows}.",
                hint="The source is untouched. Empty the target and begin anew.",
            )
    name = log_id or said["log_id"]
    await target.finish(
        {"log_id": name, "made_at": said.get("made_at", "")}, [MOVING, *(_mark(table) for table in tables)]
    )
    return Moved(name, {table.name: copied[table.name].rows for table in tables})


def _mark(table: Table) -> str:
    return f"{MOVING}.{table.name}"


async def _holds_something(target: Target) -> bool:
    for table in await target.tables():
        if await target.rows(table, ()):
            return True
    return False


async def _copy_table(
    source: Store, target: Target, table: Table, copied: Copied, progress: Progress | None
) -> Copied:
    if copied.whole:
        return copied
    adding: asyncio.Task[None] | None = None
    try:
        async with aclosing(_pieces(source, table, copied.last)) as pieces:
            async for rows in pieces:
                before, copied = copied, _further(table, copied, rows)  # while the piece before it is written
                if adding is not None:
                    await adding
                    if progress is not None:
                        progress(table.name, before.rows)
                mark = (_mark(table), msgspec.json.encode(copied).decode())
                adding = asyncio.ensure_future(target.add(table, rows, mark))
                await asyncio.sleep(0)  # it begins now
        if adding is not None:
            await adding
            if progress is not None:
                progress(table.name, copied.rows)
    finally:
        if adding is not None:
            await asyncio.gather(adding, return_exceptions=True)
    return copied


async def _read_again(target: Target, table: Table) -> Copied:
    copied = Copied()
    async with aclosing(_pieces(target, table, ())) as pieces:
        async for rows in pieces:
            copied = _further(table, copied, rows)
    return copied


async def _pieces(store: Store, table: Table, after: tuple[Any, ...]) -> AsyncGenerator[list[tuple[Any, ...]]]:
    """All pieces of a table after a key, up to the first that is not full; each is read while the one before it is
    worked on."""
    reading = asyncio.ensure_future(store.rows(table, after))
    try:
        full = True
        while full:
            rows = await reading
            full = len(rows) == limits.MOVE_PIECE_ROWS
            if full:
                reading = asyncio.ensure_future(store.rows(table, _key_of(table, rows[-1])))
                await asyncio.sleep(0)  # it begins now, not when this one has been worked on
            yield rows
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


def _key_of(table: Table, row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(row[table.columns.index(column)] for column in table.key)


def _further(table: Table, copied: Copied, rows: Sequence[tuple[Any, ...]]) -> Copied:
    """How far a table is after one more piece. Pieces are equally long on both sides, so that hashes compare."""
    if not rows:
        return msgspec.structs.replace(copied, whole=True)
    digest = hashlib.sha256(copied.hash.encode() + msgspec.json.encode(rows)).hexdigest()
    return Copied(_key_of(table, rows[-1]), copied.rows + len(rows), digest, len(rows) < limits.MOVE_PIECE_ROWS)


def select_piece(table: Table, after: bool, mark: str) -> str:
    """The statement that reads a piece; its parameters are the key after which it begins."""
    where = ""
    if after:
        marks = ", ".join(f"{mark}{number}" for number in range(1, len(table.key) + 1))
        where = f" WHERE ({', '.join(table.key)}) > ({marks})"
    return (
        f"SELECT {', '.join(table.columns)} FROM {table.name}{where}"  # noqa: S608 - names of our own schema
        f" ORDER BY {', '.join(table.key)} LIMIT {limits.MOVE_PIECE_ROWS}"
    )


def _storable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row as either engine can hold it: Postgres knows no NUL in a text."""
    return tuple(storable_text(value) if isinstance(value, str) else value for value in row)


class SqliteStore:
    """A database file of SQLite's, as source or target. Its work is done on threads, for a hub may be at work."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def tables(self) -> list[Table]:
        return await asyncio.to_thread(self._tables)

    async def rows(self, table: Table, after: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        def look() -> list[tuple[Any, ...]]:
            rows = self._connection.execute(select_piece(table, bool(after), "?"), after).fetchall()
            # One look at all of them as JSON costs less than one at each.
            return [_storable(row) for row in rows] if b"\\u0000" in msgspec.json.encode(rows) else rows

        return await asyncio.to_thread(look)

    async def meta(self) -> dict[str, str]:
        return dict(self._connection.execute(own("meta")).fetchall())

    async def add(self, table: Table, rows: Sequence[tuple[Any, ...]], meta: tuple[str, str]) -> None:
        def put() -> None:
            marks = ", ".join("?" for _ in table.columns)
            columns = ", ".join(table.columns)
            self._connection.execute("BEGIN")
            self._connection.executemany(
                f"INSERT INTO {table.name} ({columns}) VALUES ({marks})",  # noqa: S608 - names of our own schema
                rows,
            )
            self._connection.execute(own("set_meta"), meta)
            self._connection.execute("COMMIT")

        await asyncio.to_thread(put)

    async def finish(self, meta: dict[str, str], forget: Sequence[str]) -> None:
        self._connection.execute("BEGIN")
        self._connection.executemany(own("set_meta"), list(meta.items()))
        self._connection.executemany("DELETE FROM meta WHERE name = ?", [(name,) for name in forget])
        self._connection.execute("COMMIT")

    def _tables(self) -> list[Table]:
        names = [
            name
            for (name,) in self._connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name"
            )
            if name not in NOT_COPIED
        ]
        found: list[Table] = []
        for name in names:
            columns = self._connection.execute(f"PRAGMA table_info({name})").fetchall()
            key = sorted((column for column in columns if column[5]), key=lambda column: column[5])
            found.append(Table(name, tuple(column[1] for column in columns), tuple(column[1] for column in key)))
        return found


@asynccontextmanager
async def sqlite_source(database: Path, clock: Clock) -> AsyncGenerator[SqliteStore]:
    """A stopped hub's database file, read only.

    Raises:
        NotFound: if there is none.
        StoreHeld: if a hub has it.
        StoreNewer, Conflict: if its schema is not the one of this program.
    """
    if not database.is_file():  # noqa: ASYNC240 - one look, before anything runs beside it
        raise NotFound(f"There is no data in {database}.")
    lock = take_lock(database, since=iso(clock.now()))
    try:
        connection = connect_sqlite(database, reader=True)
        try:
            of_this_program(connection)
            connection.execute("BEGIN")
            yield SqliteStore(connection)
        except sqlite3.Error as error:
            raise translated(error) from error
        finally:
            connection.close()
    finally:
        lock.release()


def of_this_program(connection: sqlite3.Connection) -> None:
    """Refuses a database whose schema is not the one of this program.

    Raises:
        StoreNewer, Conflict: if it is of a newer one, or of an older one.
    """
    version, newest = version_of(connection), read_migrations()[-1].number
    refuse_newer(version, newest)
    if version < newest:
        raise Conflict(
            "The database is of an older Ekiden.",
            hint="Start this Ekiden on it once, then stop it again.",
            schema=version,
        )


@asynccontextmanager
async def sqlite_target(part: Path, clock: Clock) -> AsyncGenerator[SqliteStore]:
    """The file `part`, made if there is none, for a copy that is moved to its place by `put_in_place`."""
    make_private_folder(part.parent)
    if not part.exists():  # noqa: ASYNC240 - one look, before anything runs beside it
        make_private_file(part)
    connection = connect_sqlite(part)
    try:
        migrate(connection, read_migrations(), log_id=new_log_id(), made_at=iso(clock.now()))
        connection.execute("PRAGMA synchronous = NORMAL")
        yield SqliteStore(connection)
        connection.execute("PRAGMA journal_mode = DELETE").fetchall()
    except sqlite3.Error as error:
        raise translated(error) from error
    finally:
        connection.close()


def put_in_place(part: Path, target: Path) -> None:
    """Gives a finished copy its name.

    Raises:
        Conflict: if something has that name.
    """
    sync_file(part)
    try:
        os.link(part, target)
    except FileExistsError:
        raise Conflict(f"{target} exists already.", hint="Name a file that does not exist yet.") from None
    part.unlink()
    sync_file(target.parent)


async def copy_out(url: str, target: Path, *, stopped: bool = False, progress: Progress | None = None) -> Moved:
    """Copies the log at a Postgres `url`, as it is at one moment, into the new file `target`, mode 0600, whole or
    not at all. With `stopped` no hub may be at work, and an earlier copy that was ended is gone on with.

    Raises:
        Conflict: if `target` exists.
        StoreHeld: if a hub is at work and must not be.
        Unavailable: if disk or database refuse.
    """
    from ekiden.log.postgres_move import postgres_source

    if target.exists():  # noqa: ASYNC240 - one look, before anything runs beside it
        raise Conflict(f"{target} exists already.", hint="Name a file that does not exist yet.")
    part = target.with_name(target.name + (".moving" if stopped else f".{os.getpid()}.part"))
    clock = SystemClock()
    try:
        async with postgres_source(url, stopped=stopped) as source, sqlite_target(part, clock) as copied:
            moved = await copy(source, copied, progress=progress)
        put_in_place(part, target)
    except OSError as error:
        raise Unavailable(f"The copy could not be written: {error.strerror}.", target=str(target)) from error
    finally:
        if not stopped:
            for side in ("", "-wal", "-shm"):
                part.with_name(part.name + side).unlink(missing_ok=True)
    return moved


async def copy_in(database: Path, url: str, *, log_id: str = "", progress: Progress | None = None) -> Moved:
    """Copies a stopped hub's database file into the Postgres database at `url`, or goes on with that.

    Raises:
        NotFound, StoreHeld, StoreNewer, Conflict, Unavailable: see above.
    """
    from ekiden.log.postgres_move import postgres_target

    clock = SystemClock()
    async with sqlite_source(database, clock) as source, postgres_target(url, clock) as target:
        return await copy(source, target, log_id=log_id, progress=progress)


async def restore_in(backup: Path, url: str, *, kept: Path) -> tuple[Moved, str]:
    """Puts a backup's log in the place of the one at a Postgres `url`, in one transaction, with a `log_id` of its
    own. What was there is first copied into the new file `kept`; returns also that file's name, empty if nothing
    was there.

    Raises:
        StoreHeld: if a hub is at work on the database.
        StoreNewer, Conflict, Unavailable: if either cannot be used; then nothing has changed.
    """
    from ekiden.log.postgres_move import postgres_target

    clock = SystemClock()
    async with sqlite_source(backup, clock) as source, postgres_target(url, clock) as target:
        was_there = await _holds_something(target)
        if was_there:
            await copy_out(url, kept)
        async with target.at_once():
            await target.empty()
            moved = await copy(source, target, log_id=new_log_id())
    return moved, str(kept) if was_there else ""


def held_by_nodes(count: int) -> StoreHeld:
    """That hubs are at work on a database that must be still."""
    return StoreHeld(
        f"The database is in use: {count} Ekiden {'is' if count == 1 else 'are'} at work on it.",
        hint="Stop all of them first.",
    )
