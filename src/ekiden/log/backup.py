"""Backups: checked before they are trusted, restored without a moment in which nothing is there.

A backup is made by `Log.backup` while the hub runs. Restoring makes a new history: it gets a `log_id` of its
own, so that clients which saw events that the backup lacks read snapshots anew instead of believing that they
are up to date.
"""

import contextlib
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from ekiden.kernel.clock import Clock, iso
from ekiden.kernel.errors import Conflict, EkidenError, NotFound, Unavailable
from ekiden.log.lock import take_lock
from ekiden.log.migrations import read_migrations, refuse_newer, version_of
from ekiden.log.open import new_log_id
from ekiden.log.sqlite_connection import own, translated
from ekiden.log.sqlite_files import copy_database, make_private_folder, sync_file

_SIDE_FILES = ("-wal", "-shm")


@dataclass(frozen=True, slots=True)
class BackupFacts:
    """What a backup holds: its history's id, its schema's number, when that history began, how many events.
    After a restore, `kept` is where the former database lies; empty if there was none."""

    log_id: str
    schema: int
    made_at: str
    events: int
    kept: str = ""


def check_backup(backup: Path) -> BackupFacts:
    """Makes sure that `backup` is a whole database of Ekiden's that this program can read.

    Raises:
        NotFound: if there is no such file.
        StoreNewer: if a newer Ekiden wrote it.
        Unavailable: if it is not a database of Ekiden's, or is damaged.
    """
    if not backup.is_file():
        raise NotFound(f"There is no file {backup}.")
    try:
        connection = sqlite3.connect(f"{backup.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        try:
            return _facts(connection)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise _damaged(str(error)) from error


def restore(backup: Path, database: Path, *, clock: Clock, replace: bool = False) -> BackupFacts:
    """Puts a backup in the place of `database`; what was there is kept beside it as `.before-restore`.

    Returns what was restored, with its new `log_id`. Nothing is changed unless all of it works.

    Raises:
        NotFound, StoreNewer, Unavailable: see `check_backup`.
        Conflict: if `database` exists and `replace` is not set.
        StoreHeld: if a hub has it.
    """
    facts = check_backup(backup)
    make_private_folder(database.parent)
    lock = take_lock(database, since=iso(clock.now()))
    try:
        if database.exists() and not replace:
            raise Conflict(
                f"{database} exists already.", hint="Say that it is to be replaced; the old one is kept beside it."
            )
        fresh = database.with_name(database.name + ".restoring")
        fresh.unlink(missing_ok=True)
        try:
            log_id = _copy_as_new_history(backup, fresh)
            kept = set_aside(database)
            os.replace(fresh, database)
            sync_file(database.parent)
        finally:
            fresh.unlink(missing_ok=True)
    except sqlite3.Error as error:
        raise translated(error) from error
    except OSError as error:
        raise Unavailable(f"The backup could not be restored: {error.strerror}.") from error
    finally:
        lock.release()
    return BackupFacts(log_id, facts.schema, facts.made_at, facts.events, kept)


def _facts(connection: sqlite3.Connection) -> BackupFacts:
    version = version_of(connection)
    refuse_newer(version, read_migrations()[-1].number)
    if version == 0:
        raise _damaged("it is empty")
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise _damaged(str(found))
    known = dict(connection.execute(own("meta")).fetchall())
    events = connection.execute("SELECT count(*) FROM events").fetchone()[0]
    return BackupFacts(known["log_id"], version, known.get("made_at", ""), events)


def _copy_as_new_history(backup: Path, fresh: Path) -> str:
    source = sqlite3.connect(f"{backup.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    with contextlib.closing(source):
        copy_database(source, fresh)
    log_id = new_log_id()
    copy = sqlite3.connect(str(fresh), isolation_level=None)
    with contextlib.closing(copy):
        copy.execute("PRAGMA synchronous = FULL")
        copy.execute(own("set_meta"), ("log_id", log_id))
    sync_file(fresh)
    return log_id


def place_aside(database: Path) -> Path:
    """A free name beside a database for what was there before a restore."""
    number = 1
    while True:
        kept = database.with_name(f"{database.name}.before-restore" + (f"-{number}" if number > 1 else ""))
        if not kept.exists():
            return kept
        number += 1


def set_aside(database: Path) -> str:
    """Moves a database out of the way, with what is still in its side files; never over an earlier one. Returns
    its new place, or nothing if there is none."""
    if not database.exists():
        return ""
    kept = place_aside(database)
    for side in _SIDE_FILES:
        side_file = database.with_name(database.name + side)
        if side_file.exists():
            os.replace(side_file, kept.with_name(kept.name + side))
    os.replace(database, kept)
    return str(kept)


def _damaged(what: str) -> EkidenError:
    return Unavailable(f"The backup cannot be used: {what}.", hint="Take an older backup.", reason=what)
