"""Restoring: only what is whole and ours, never over something by accident, never a moment with nothing."""

import os
import sqlite3

import pytest
from tests.log.conftest import QUERIES, TEAM, appends

from ekiden.kernel.errors import Conflict, NotFound, StoreHeld, StoreNewer, Unavailable
from ekiden.log import backup as backups
from ekiden.log.backup import check_backup, restore
from ekiden.log.lock import holder_of
from ekiden.log.open import open_log
from ekiden.log.port import Command

pytestmark = pytest.mark.anyio


@pytest.fixture
def database(tmp_path):
    return tmp_path / "data" / "ekiden.db"


@pytest.fixture
def copy(tmp_path):
    return tmp_path / "copy.db"


async def opened(path, clock):
    return await open_log(str(path), clock=clock, queries=QUERIES)


async def filled(path, clock, events, copy=None):
    """A closed database with so many events; copied to `copy` while it ran."""
    log = await opened(path, clock)
    for number in range(events):
        await log.write(TEAM, appends(), command=Command(f"c{number}", "pri_1", "d"))
    if copy is not None:
        await log.backup(copy)
    await log.close()
    return log.log_id


async def count(path, clock):
    log = await opened(path, clock)
    events = await log.events(TEAM, 0, limit=1000)
    await log.close()
    return len(events)


async def test_a_restored_log_has_all_of_the_backup_and_a_history_of_its_own(database, copy, clock, tmp_path):
    """Cursors of the old history are told apart: after a restore a seq may mean another event."""
    log_id = await filled(database, clock, 5, copy)
    elsewhere = tmp_path / "new" / "ekiden.db"
    facts = restore(copy, elsewhere, clock=clock)
    assert facts.events == 5
    assert facts.log_id != log_id
    log = await opened(elsewhere, clock)
    assert log.log_id == facts.log_id
    assert [event.seq for event in await log.events(TEAM, 0, limit=10)] == [1, 2, 3, 4, 5]
    assert (await log.write(TEAM, appends(), command=Command("c0", "pri_1", "d"))).repeated
    assert (await log.write(TEAM, appends())).seq == 6
    await log.close()
    assert elsewhere.stat().st_mode & 0o777 == 0o600
    assert elsewhere.parent.stat().st_mode & 0o777 == 0o700
    assert check_backup(copy).log_id == log_id


async def test_what_was_there_is_replaced_only_when_told_and_kept(database, copy, clock):
    await filled(database, clock, 3, copy)
    await filled(database, clock, 8)
    with pytest.raises(Conflict):
        restore(copy, database, clock=clock)
    assert await count(database, clock) == 8
    restore(copy, database, clock=clock, replace=True)
    assert await count(database, clock) == 3
    restore(copy, database, clock=clock, replace=True)
    assert check_backup(database.with_name("ekiden.db.before-restore")).events == 8
    assert check_backup(database.with_name("ekiden.db.before-restore-2")).events == 3


async def test_what_was_still_in_the_side_files_is_kept_and_does_not_leak_into_the_restored(database, copy, clock):
    """A database whose hub was killed: its newest events are in the write-ahead log only."""
    await filled(database, clock, 2, copy)
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute(
        "INSERT INTO events SELECT team_id, 3, kind, topics, at, '', '', '', body FROM events WHERE seq = 1"
    )
    connection.commit()
    left = {
        name: database.with_name(name).read_bytes() for name in ("ekiden.db", "ekiden.db-wal", "ekiden.db-shm")
    }
    connection.close()
    for name, content in left.items():
        database.with_name(name).write_bytes(content)
    restore(copy, database, clock=clock, replace=True)
    assert await count(database, clock) == 2
    kept = sqlite3.connect(database.with_name("ekiden.db.before-restore"))
    assert kept.execute("SELECT count(*) FROM events").fetchone() == (3,)
    kept.close()


async def test_nothing_is_restored_under_a_hub_that_runs(database, copy, clock):
    log = await opened(database, clock)
    log.announce("http://127.0.0.1:7433")
    await log.write(TEAM, appends())
    await log.backup(copy)
    with pytest.raises(StoreHeld) as refused:
        restore(copy, database, clock=clock, replace=True)
    assert refused.value.details["url"] == "http://127.0.0.1:7433"
    assert (await log.write(TEAM, appends())).seq == 2
    await log.close()


async def damage(kind, copy, clock):
    if kind == "missing":
        copy.unlink()
    elif kind == "text":
        copy.write_text("-- a dump, not a database\n" * 100)
    elif kind == "empty":
        copy.write_bytes(b"")
    elif kind == "cut":
        copy.write_bytes(copy.read_bytes()[: copy.stat().st_size // 2])
    elif kind == "bytes turned":
        content = bytearray(copy.read_bytes())
        for at in range(4096, len(content), 4096):  # the head of every page but the first
            content[at : at + 40] = os.urandom(40)
        copy.write_bytes(content)
    else:
        connection = sqlite3.connect(copy)
        if kind == "newer":
            connection.execute("UPDATE meta SET value = '9999' WHERE name = 'schema_version'")
        else:
            connection.execute("PRAGMA application_id = 1")
        connection.commit()
        connection.close()


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("missing", NotFound),
        ("text", Unavailable),
        ("empty", Unavailable),
        ("cut", Unavailable),
        ("bytes turned", Unavailable),
        ("other program's", Unavailable),
        ("newer", StoreNewer),
    ],
)
async def test_what_is_damaged_foreign_or_newer_is_refused_and_nothing_changes(database, copy, clock, kind, error):
    await filled(database, clock, 4, copy)
    await damage(kind, copy, clock)
    before = database.read_bytes()
    with pytest.raises(error):
        restore(copy, database, clock=clock, replace=True)
    assert database.read_bytes() == before
    assert sorted(file.name for file in database.parent.iterdir()) == ["ekiden.db", "ekiden.db.lock"]
    assert holder_of(database) is None


@pytest.mark.parametrize("fails_at", ["copy_database", "set_aside"])
async def test_a_restore_that_fails_half_way_leaves_what_was_there(database, copy, clock, monkeypatch, fails_at):
    await filled(database, clock, 4, copy)

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backups, fails_at, fails)
    with pytest.raises(Unavailable, match="No space"):
        restore(copy, database, clock=clock, replace=True)
    assert await count(database, clock) == 4
    assert not database.with_name("ekiden.db.restoring").exists()


async def test_a_backup_into_a_place_that_cannot_be_written_says_so(database, clock, tmp_path):
    log = await opened(database, clock)
    with pytest.raises(Unavailable):
        await log.backup(tmp_path / "nowhere" / "copy.db")
    assert (await log.write(TEAM, appends())).seq == 1
    await log.close()
