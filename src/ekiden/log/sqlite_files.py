"""Database files: made so that nobody else can read them, and copied while they are in use."""

import os
import sqlite3
from pathlib import Path

from ekiden.kernel.errors import Conflict


def make_private_folder(folder: Path) -> None:
    """Makes a folder (and those above it) that only its owner may enter; one that is there is left alone."""
    missing: list[Path] = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir(mode=0o700, exist_ok=True)


def make_private_file(file: Path) -> None:
    """Makes an empty file that only its owner may read. SQLite gives its side files the same mode.

    Raises:
        FileExistsError: if there is one.
    """
    os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def copy_database(source: sqlite3.Connection, target: Path) -> None:
    """Writes the state that `source` sees now to the new file `target`, mode 0600, whole or not at all.

    The copy is one file without side files. It is made in one step, so that writers cannot make it start over.

    Raises:
        Conflict: if `target` exists.
        sqlite3.Error, OSError: if the disk refuses; then there is no `target`.
    """
    if target.exists():
        raise Conflict(f"{target} exists already.", hint="Name a file that does not exist yet.")
    part = target.with_name(target.name + ".part")
    part.unlink(missing_ok=True)
    make_private_file(part)
    try:
        copy = sqlite3.connect(str(part), isolation_level=None)
        try:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE").fetchall()
        finally:
            copy.close()
        sync_file(part)
        os.link(part, target)  # unlike a rename, this never replaces what has come there meanwhile
        sync_file(target.parent)
    except FileExistsError:
        raise Conflict(f"{target} exists already.", hint="Name a file that does not exist yet.") from None
    finally:
        part.unlink(missing_ok=True)


def sync_file(path: Path) -> None:
    """Has the disk keep a file's content, or a folder's names."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
