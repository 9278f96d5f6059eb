"""Backup and restore of Ekiden's databases as one tar file.

A backup is taken from a running hub without asking it: SQLite's own online copy, or one transaction of Postgres,
sees one committed state. It has one form, whichever engine it is taken from, and is restored into either. A
restore checks everything before it touches anything, moves what was there aside, and gives the log a new name, so
that a client's old cursor is known to be of another history.
"""

import asyncio
import contextlib
import os
import sqlite3
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ekiden.cli.place import DATABASE
from ekiden.kernel.clock import SystemClock
from ekiden.kernel.errors import Conflict, Invalid, NotFound, Unavailable
from ekiden.log.backup import check_backup, place_aside, set_aside
from ekiden.log.backup import restore as restore_log
from ekiden.log.move import copy_out, restore_in
from ekiden.log.sqlite_files import copy_database, make_private_folder, sync_file

HOST_DATABASE = "host.db"
_DATABASES = (DATABASE, HOST_DATABASE)


@dataclass(frozen=True, slots=True)
class BackedUp:
    """The file that was made."""

    file: str
    size: int
    holds: list[str]


@dataclass(frozen=True, slots=True)
class Restored:
    """`kept` is the file with the log that was there before; empty if none was."""

    home: str
    kept: str


def back_up(home: Path, target: Path, database_url: str = "") -> BackedUp:
    """Writes the databases below `home`, or the log at `database_url` and the rest below `home`, into the new file
    `target`, whole or not at all, mode 0600.

    Raises:
        NotFound: if there is no data.
        Conflict: if `target` exists.
        Unavailable: if the disk refuses.
    """
    if not database_url and not (home / DATABASE).exists():
        raise NotFound(f"There is no data in {home}.", hint="`ekiden up` makes it; --home names another folder.")
    if target.exists():
        raise Conflict(f"{target} exists already.", hint="Name a file that does not exist yet.")
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with tempfile.TemporaryDirectory(prefix=".ekiden-backup-", dir=target.parent) as folder:
            names = [name for name in _DATABASES if (database_url and name == DATABASE) or (home / name).exists()]
            for name in names:
                if database_url and name == DATABASE:
                    asyncio.run(copy_out(database_url, Path(folder) / name))
                else:
                    _copy(home / name, Path(folder) / name)
            with contextlib.closing(
                os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "wb")
            ) as file:
                with tarfile.open(fileobj=file, mode="w") as archive:
                    for name in names:
                        archive.add(Path(folder) / name, name)
                file.flush()
                os.fsync(file.fileno())
        os.link(part, target)
        sync_file(target.parent)
    except FileExistsError:
        raise Conflict(f"{target} exists already.", hint="Name a file that does not exist yet.") from None
    except (OSError, sqlite3.Error) as error:
        raise Unavailable(f"The backup could not be written: {error}") from error
    finally:
        part.unlink(missing_ok=True)
    return BackedUp(str(target), target.stat().st_size, names)


def _copy(source: Path, target: Path) -> None:
    connection = sqlite3.connect(source, timeout=10)
    try:
        copy_database(connection, target)
    finally:
        connection.close()


def restore(home: Path, backup: Path, database_url: str = "") -> Restored:
    """Puts the databases in `backup` in the place of those below `home`; the log into `database_url`, if it is
    given.

    Raises:
        NotFound, Invalid, Unavailable: if the file is not there, is no backup, or is damaged; then nothing has
            changed.
        StoreHeld: if Ekiden runs on this data.
        StoreNewer: if a newer Ekiden made the backup.
    """
    make_private_folder(home)
    with tempfile.TemporaryDirectory(prefix=".restoring-", dir=home) as name:
        folder = Path(name)
        found = _unpacked(backup, folder)
        for file in found[1:]:
            _check_whole(folder / file)
        if database_url:
            check_backup(folder / DATABASE)
            kept_at = place_aside(home / DATABASE)
            _, kept = asyncio.run(restore_in(folder / DATABASE, database_url, kept=kept_at))
        else:
            kept = restore_log(folder / DATABASE, home / DATABASE, clock=SystemClock(), replace=True).kept
        for file in found[1:]:
            set_aside(home / file)
            (folder / file).replace(home / file)
        sync_file(home)
    return Restored(str(home), kept)


def _unpacked(backup: Path, folder: Path) -> list[str]:
    """Takes the known files out of the archive, by name, as plain files; nothing else in it is touched."""
    try:
        with tarfile.open(backup, "r:") as archive:
            members = {member.name: member for member in archive if member.isreg()}
            found = [name for name in _DATABASES if name in members]
            for name in found:
                source = archive.extractfile(members[name])
                assert source is not None
                target = folder / name
                with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    while piece := source.read(1 << 20):
                        file.write(piece)
                    file.flush()
                    os.fsync(file.fileno())
    except FileNotFoundError:
        raise NotFound(f"There is no file {backup}.") from None
    except (tarfile.TarError, EOFError) as error:
        raise Invalid(f"{backup} is no backup of Ekiden's.", said=str(error)) from error
    except OSError as error:
        raise Unavailable(f"The backup cannot be read or unpacked: {error}") from error
    if DATABASE not in found:
        raise Invalid(f"{backup} is no backup of Ekiden's: it holds no {DATABASE}.")
    return found


def _check_whole(file: Path) -> None:
    connection = sqlite3.connect(file)
    try:
        (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        said = str(error)
    finally:
        connection.close()
    if said != "ok":
        raise Invalid(f"The backup's {file.name} is damaged.", said=said)
