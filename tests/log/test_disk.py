"""What happens when the disk, or another process, is in the way. Real files, real locks, real processes."""

import asyncio
import sqlite3
import subprocess
import sys
import threading

import pytest
from tests.log.conftest import BOUND_S, QUERIES, TEAM, WHO, appends, in_one_batch

from ekiden.kernel import limits
from ekiden.kernel.errors import Unavailable
from ekiden.log.open import open_log
from ekiden.log.port import Command

pytestmark = pytest.mark.anyio

HOLDS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
print("free", flush=True)
"""


class ForeignWriter:
    """Another process that holds a write transaction until it is told to end."""

    def __init__(self, path):
        self._process = subprocess.Popen(
            [sys.executable, "-c", HOLDS, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout.readline() == "held\n"

    def end(self):
        out, _ = self._process.communicate("\n", timeout=BOUND_S)
        assert out == "free\n"


async def seqs(log):
    return [event.seq for event in await log.events(TEAM, 0, limit=10_000)]


async def test_files_are_the_owner_s_alone(file_log, tmp_path):
    await file_log.write(TEAM, appends())
    await file_log.events(TEAM, 0, limit=1)
    modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "data").iterdir()}
    assert {"ekiden.db", "ekiden.db-wal", "ekiden.db-shm", "ekiden.db.lock"} <= set(modes)
    assert set(modes.values()) == {0o600}
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


async def test_an_acknowledged_write_has_been_synced(file_log):
    """The pragmas that law 1 rests on, read back from the writing connection."""

    def look(connection):
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]

    assert await file_log._chore(look) == ["wal", 2]


async def test_a_full_disk_is_told_seen_and_gone_again(file_log):
    """Nothing is acknowledged that was not stored; what fitted stays; the log works again when there is room."""
    await file_log.write(TEAM, appends())

    async def allow(pages):
        await file_log._chore(lambda connection: connection.execute(f"PRAGMA max_page_count = {pages}").fetchall())

    used = await file_log._chore(lambda connection: connection.execute("PRAGMA page_count").fetchone()[0])
    await allow(used + 20)
    big = appends(body={"text": "x" * 200_000})
    command = Command("c", "pri_1", "d")
    outcomes = await in_one_batch(
        file_log, file_log.write(TEAM, appends()), file_log.write(TEAM, big, command=command)
    )
    assert all(isinstance(outcome, Unavailable) for outcome in outcomes)
    assert "full" in outcomes[0].message
    assert not file_log.health.ok
    assert "full" in file_log.health.reason
    assert file_log.health.since
    assert await seqs(file_log) == [1]
    assert (await file_log.write(TEAM, appends())).seq == 2
    assert file_log.health.ok
    await allow(1_000_000)
    written = await file_log.write(TEAM, big, command=command)
    assert (written.seq, written.repeated) == (3, False)
    assert await seqs(file_log) == [1, 2, 3]


async def test_a_disk_that_fills_up_inside_a_verb_loses_the_batch_and_nothing_else(file_log):
    await file_log.write(TEAM, appends())
    used = await file_log._chore(lambda connection: connection.execute("PRAGMA page_count").fetchone()[0])
    await file_log._chore(lambda connection: connection.execute(f"PRAGMA max_page_count = {used + 5}").fetchall())

    async def puts(tx):
        tx.append("test.said", {}, topics=["team"], actor=WHO)
        await tx.run("test.put", name="big", value="x" * 500_000)

    outcomes = await in_one_batch(
        file_log, file_log.write(TEAM, appends()), file_log.write(TEAM, puts), file_log.write(TEAM, appends())
    )
    assert all(isinstance(outcome, Unavailable) for outcome in outcomes)
    assert await seqs(file_log) == [1]
    assert (await file_log.write(TEAM, appends())).seq == 2


async def test_a_writer_from_outside_is_waited_for_and_nothing_is_lost_or_doubled(file_log, tmp_path):
    """Many callers, each with a command id, while another process holds the database; all are sent twice."""
    foreign = ForeignWriter(tmp_path / "data" / "ekiden.db")
    commands = [Command(f"c{number}", "pri_1", "d") for number in range(200)]
    tasks = [asyncio.ensure_future(file_log.write(TEAM, appends(), command=command)) for command in commands]
    # Readers are not in its way meanwhile.
    assert await seqs(file_log) == []
    assert not any(task.done() for task in tasks)
    await asyncio.to_thread(foreign.end)
    first = await asyncio.gather(*tasks)
    again = [await file_log.write(TEAM, appends(), command=command) for command in commands]
    assert sorted(written.seq for written in first) == list(range(1, 201))
    assert all(written.repeated for written in again)
    assert [written.answer for written in again] == [written.answer for written in first]
    assert await seqs(file_log) == list(range(1, 201))


async def test_a_writer_from_outside_that_stays_too_long_means_an_error_and_nothing_stored(
    tmp_path, clock, monkeypatch
):
    monkeypatch.setattr(limits, "LOG_FOREIGN_WRITER_WAIT_S", 0.05)
    path = tmp_path / "ekiden.db"
    log = await open_log(str(path), clock=clock, queries=QUERIES)
    foreign = ForeignWriter(path)
    command = Command("c", "pri_1", "d")
    with pytest.raises(Unavailable, match="another process"):
        await log.write(TEAM, appends(), command=command)
    assert not log.health.ok
    assert await seqs(log) == []
    await asyncio.to_thread(foreign.end)
    assert not (await log.write(TEAM, appends(), command=command)).repeated
    assert log.health.ok
    assert await seqs(log) == [1]
    await log.close()


async def test_events_that_another_process_put_in_are_gone_on_from(file_log, tmp_path):
    """Nobody should, but if it happens no seq is given twice."""
    await file_log.write(TEAM, appends())
    other = sqlite3.connect(tmp_path / "data" / "ekiden.db")
    other.execute("INSERT INTO events SELECT team_id, 2, kind, topics, at, '', '', '', body FROM events")
    other.execute("UPDATE teams SET head = 2")
    other.commit()
    other.close()
    assert (await file_log.write(TEAM, appends())).seq == 3
    assert await seqs(file_log) == [1, 2, 3]


async def test_the_write_ahead_log_is_bounded_and_taken_back_when_nobody_writes(tmp_path, clock, monkeypatch):
    monkeypatch.setattr(limits, "LOG_CHECKPOINT_BYTES", 64 * 4096)
    monkeypatch.setattr(limits, "LOG_CHECKPOINT_IDLE_S", 0.02)
    path = tmp_path / "ekiden.db"
    log = await open_log(str(path), clock=clock, queries=QUERIES)
    for _ in range(40):
        await log.write(TEAM, appends(body={"text": "x" * 100_000}))
    wal = path.with_name("ekiden.db-wal")
    assert wal.stat().st_size < 40 * 100_000 / 2
    taken_back = threading.Event()
    log._writer._idle_chores.append(lambda _: taken_back.set())
    await log.write(TEAM, appends())
    assert await asyncio.to_thread(taken_back.wait, BOUND_S)
    alone = tmp_path / "alone.db"
    alone.write_bytes(path.read_bytes())  # the database file by itself has all of it now
    connection = sqlite3.connect(alone)
    assert connection.execute("SELECT count(*) FROM events").fetchone() == (41,)
    connection.close()
    await log.close()


async def test_readers_that_never_stop_cannot_make_the_write_ahead_log_grow_for_ever(tmp_path, clock, monkeypatch):
    """While one long reader keeps the log from beginning anew it grows; soon after that reader it is cut, though
    other readers follow one another without a pause."""
    monkeypatch.setattr(limits, "LOG_WAL_BYTES_MAX", 500_000)
    monkeypatch.setattr(limits, "LOG_WAL_LOOK_COMMITS", 2)
    path = tmp_path / "ekiden.db"
    log = await open_log(str(path), clock=clock, queries=QUERIES)
    wal = path.with_name("ekiden.db-wal")
    looked, go_on, stop = threading.Event(), threading.Event(), False

    async def long_question(reading):
        await reading.row("test.count_events", team_id=TEAM)
        looked.set()
        return go_on.wait(BOUND_S)

    async def read_on():
        while not stop:
            await seqs(log)

    async def write_until(condition):
        for _ in range(100):
            await log.write(TEAM, appends(body={"text": "x" * 100_000}))
            if condition(wal.stat().st_size):
                return
        raise AssertionError(f"the write-ahead log has {wal.stat().st_size} bytes")

    long = asyncio.ensure_future(log.ask(TEAM, long_question))
    assert await asyncio.to_thread(looked.wait, BOUND_S)
    short = asyncio.ensure_future(read_on())
    await write_until(lambda size: size > 1_500_000)
    go_on.set()
    assert await long
    await write_until(lambda size: size <= 500_000)
    stop = True
    await short
    await log.close()


async def test_old_answers_are_dropped_when_nobody_writes(tmp_path, clock, monkeypatch):
    monkeypatch.setattr(limits, "LOG_CHECKPOINT_IDLE_S", 0.02)
    log = await open_log(str(tmp_path / "ekiden.db"), clock=clock, queries=QUERIES)

    def count(connection):
        return connection.execute("SELECT count(*) FROM commands").fetchone()[0]

    await log.write(TEAM, appends(), command=Command("old", "pri_1", "d"))
    clock.advance(limits.COMMAND_ANSWERS_KEPT_S + 1)
    tidied = threading.Event()
    log._writer._idle_chores.append(lambda _: tidied.set())
    await log.write(TEAM, appends(), command=Command("new", "pri_1", "d"))
    assert await asyncio.to_thread(tidied.wait, BOUND_S)
    assert await log._chore(count) == 1
    assert (await log.write(TEAM, appends(), command=Command("new", "pri_1", "d"))).repeated
    await log.close()


@pytest.mark.parametrize("where", ["below a file", "a folder"])
async def test_a_place_that_cannot_hold_a_database_is_told_in_words(tmp_path, clock, where):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    place = tmp_path / "file" / "data" / "ekiden.db" if where == "below a file" else tmp_path / "folder"
    with pytest.raises(Unavailable) as refused:
        await open_log(str(place), clock=clock, queries=QUERIES)
    assert refused.value.message
    assert (tmp_path / "file").read_text() == "x"


async def test_the_write_ahead_log_is_taken_back_while_writing_goes_on_and_not_by_the_writer(
    tmp_path, clock, monkeypatch
):
    monkeypatch.setattr(limits, "LOG_CHECKPOINT_AHEAD_COMMANDS", 8)
    path = tmp_path / "ekiden.db"
    log = await open_log(str(path), clock=clock, queries=QUERIES)
    before = path.stat().st_size
    for _ in range(1_000):
        await log.write(TEAM, appends(body={"text": "x" * 20_000}))
        if path.stat().st_size > before + 100_000:
            break
    else:
        raise AssertionError("nothing was taken back")
    assert path.with_name("ekiden.db-wal").stat().st_size < limits.LOG_CHECKPOINT_BYTES
    await log.close()
