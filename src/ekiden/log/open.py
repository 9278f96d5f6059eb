"""Opens the log that belongs to a place: takes the lock, makes or migrates the database, starts the engine."""

import asyncio
import secrets
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from ekiden.kernel.clock import Clock, iso
from ekiden.kernel.errors import Unavailable
from ekiden.log.lock import DataLock, take_lock
from ekiden.log.migrations import migrate, read_migrations
from ekiden.log.sqlite import SqliteLog
from ekiden.log.sqlite_connection import connect, own, translated
from ekiden.log.sqlite_files import make_private_file, make_private_folder

MEMORY = ":memory:"
_LOG_ID_LETTERS = "abcdefghjkmnpqrstvwxyz0123456789"


def new_log_id() -> str:
    """Eight fresh letters that name one history of events."""
    return "".join(secrets.choice(_LOG_ID_LETTERS) for _ in range(8))


async def open_log(location: str, *, clock: Clock, queries: Mapping[str, str]) -> SqliteLog:
    """Opens the log in the file `location`, or a new one in memory for `:memory:`; makes what is missing.

    `queries` are the rooms' named queries (`log.queries.joined`). `SqliteLog.announce` tells the url at which the
    holder answers, once it is known.

    Raises:
        StoreHeld: if another hub has the data.
        StoreNewer: if a newer Ekiden wrote it; nothing is touched.
        Unavailable: if the file is not Ekiden's, or the disk refuses.
    """
    path = None if location == MEMORY else Path(location)
    connection, lock = await asyncio.to_thread(_prepare, path, iso(clock.now()))
    log_id: str = dict(connection.execute(own("meta")).fetchall())["log_id"]
    return SqliteLog(connection, path, log_id=log_id, queries=queries, clock=clock, lock=lock)


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
