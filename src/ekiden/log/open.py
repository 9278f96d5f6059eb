"""Opens the log that belongs to a place: takes the lock, makes or migrates the database, starts the engine."""

import asyncio
import secrets
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ekiden.kernel.clock import Clock, iso
from ekiden.kernel.errors import Invalid, Unavailable
from ekiden.log.lock import DataLock, take_lock
from ekiden.log.migrations import migrate, read_migrations
from ekiden.log.sqlite import SqliteLog
from ekiden.log.sqlite_connection import connect, own, translated
from ekiden.log.sqlite_files import make_private_file, make_private_folder
from ekiden.log.wakeups import Wakeups

if TYPE_CHECKING:
    from ekiden.log.postgres import PostgresLog

MEMORY = ":memory:"
POSTGRES_SCHEMES = ("postgresql://", "postgres://")
_LOG_ID_LETTERS = "abcdefghjkmnpqrstvwxyz0123456789"


def new_log_id() -> str:
    """Eight fresh letters that name one history of events."""
    return "".join(secrets.choice(_LOG_ID_LETTERS) for _ in range(8))


async def open_log(
    location: str,
    *,
    clock: Clock,
    queries: Mapping[str, str],
    wakeups: Wakeups | None = None,
    lock: DataLock | None = None,
) -> "SqliteLog | PostgresLog":
    """Opens the log at `location`; makes what is missing. That is a file, a new one in memory for `:memory:`, or a
    database of Postgres for `postgresql://…`.

    `queries` are the rooms' named queries (`log.queries.joined`). `announce` of the log tells the url at which the
    holder answers, once it is known. `wakeups` carry news between the nodes of one Postgres database, by NOTIFY if
    nothing is given; the log closes them. `lock` is on the home of a hub whose log is in Postgres; the log
    announces the hub there, and lets it go when it is closed.

    Raises:
        StoreHeld: if another hub has the data.
        StoreNewer: if a newer Ekiden wrote it; nothing is touched.
        Unavailable: if the data is not Ekiden's, or disk or database refuse.
        Invalid: if the location is the url of something else.
    """
    if location.startswith(POSTGRES_SCHEMES):
        return await _open_postgres(location, clock, queries, wakeups, lock)
    if "://" in location:
        raise Invalid(
            "The database is named by a file, or by postgresql://USER@HOST/NAME.",
            hint="Other databases do not fit.",
        )
    path = None if location == MEMORY else Path(location)
    connection, lock = await asyncio.to_thread(_prepare, path, iso(clock.now()))
    log_id: str = dict(connection.execute(own("meta")).fetchall())["log_id"]
    return SqliteLog(connection, path, log_id=log_id, queries=queries, clock=clock, lock=lock)


async def _open_postgres(
    url: str, clock: Clock, queries: Mapping[str, str], wakeups: Wakeups | None, lock: DataLock | None
) -> "PostgresLog":
    try:
        from ekiden.log.postgres_open import open_postgres
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise Unavailable(
            "Postgres needs a driver that is not installed.",
            hint="Install it with: pip install 'ekiden[postgres]'",
        ) from error
    return await open_postgres(url, clock=clock, queries=queries, log_id=new_log_id(), wakeups=wakeups, lock=lock)


def _prepare(path: Path | None, now: str) -> tuple[sqlite3.Connection, DataLock | None]:
    """The writer's connection to a migrated database, and the lock on it."""
    if path is None:
        connection = connect(MEMORY)
        migrate(connection, read_migrations(), log_id=new_log_id(), made_at=now)
        return connection, None
    try:
        make_private_folder(path.parent)
        lock = take_lock(path, since=now)
    except OSError as error:
        raise Unavailable(
            f"The data folder {path.parent} cannot be used: {error.strerror}.", hint="Name another folder."
        ) from error
    try:
        if not path.exists():
            make_private_file(path)
        connection = connect(path)
        try:
            migrate(connection, read_migrations(), log_id=new_log_id(), made_at=now)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        lock.release()
        raise translated(error) from error
    except BaseException:
        lock.release()
        raise
    return connection, lock
