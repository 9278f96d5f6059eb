"""The host's database over time: an older one is taken up with all that is in it, a newer one is left alone."""

import sqlite3
from pathlib import Path

import pytest

from ekiden.host.store import SCHEMA_VERSION, Store, file_of, put_files
from ekiden.kernel.errors import StoreNewer
from ekiden.vendors.port import FoundFile


def found(size: int) -> FoundFile:
    return FoundFile(Path("/sessions/s.jsonl"), "s", size, 1.0)


def make(path: Path, *, with_told_from: bool) -> None:
    """A database of version 1, in either of its two forms, with a file and a piece of its copy."""
    store = Store(path)
    store.write(lambda connection: put_files(connection, "line", [found(700)], lambda _: 300)).result()
    store.write(lambda c: c.execute("INSERT INTO copies VALUES (1, 0, 0, 1, x'00')")).result()
    store.close()
    connection = sqlite3.connect(path)
    if not with_told_from:
        connection.execute("ALTER TABLE files DROP COLUMN told_from")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()


@pytest.mark.parametrize(("with_told_from", "told_from"), [(False, 700), (True, 300)])
def test_an_older_database_is_taken_up(tmp_path: Path, with_told_from: bool, told_from: int) -> None:
    """What is known and copied stays; where the place from which to tell was not kept, what is there is history.
    Opening it once more changes nothing."""
    path = tmp_path / "host.db"
    make(path, with_told_from=with_told_from)
    for _ in range(2):
        store = Store(path)
        row = store.read(lambda connection: file_of(connection, "line", "s"))
        assert row is not None
        assert (row.size, row.told_from) == (700, told_from)
        assert store.read(lambda connection: connection.execute("SELECT COUNT(*) FROM copies").fetchone()) == (1,)
        assert store.read(lambda c: c.execute("PRAGMA user_version").fetchone()) == (SCHEMA_VERSION,)
        more = FoundFile(Path("/sessions/t.jsonl"), "t", 5, 1.0)
        store.write(lambda connection, more=more: put_files(connection, "line", [more])).result()
        store.close()


def test_a_newer_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    """With words that say what to do."""
    path = tmp_path / "host.db"
    Store(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    with pytest.raises(StoreNewer, match="newer Ekiden"):
        Store(path)
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION + 1,)
    connection.close()
