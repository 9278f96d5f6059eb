"""A log that moves between engines is whole, compared, and the same afterwards; the source stays as it is."""

import asyncio
import sqlite3

import pytest
from tests.log.conftest import QUERIES, appends

from ekiden.cli.keeping import back_up, restore
from ekiden.kernel import limits
from ekiden.kernel.errors import Conflict, EkidenError, StoreHeld, Unavailable
from ekiden.log.move import copy_in, copy_out
from ekiden.log.open import open_log
from ekiden.log.port import Command
from ekiden.log.postgres_connection import connect, end
from postgres_server import fresh_database

pytestmark = pytest.mark.anyio


@pytest.fixture
async def source(tmp_path, clock):
    """A stopped hub's database with some of everything."""
    path = tmp_path / "data" / "ekiden.db"
    await fill(str(path), clock)
    return path


async def fill(place, clock, events=40):
    async def verb(tx):
        tx.append(
            "test.said", {"text": "é\0", "n": tx.seq}, topics=["team", f"session:{tx.seq % 3}"], actor=_actor()
        )

    log = await open_log(place, clock=clock, queries=QUERIES)
    for number in range(events):
        await log.write(f"tem_{number % 2}", verb, command=Command(f"c{number}", "pri_1", "d"))
    await log.forget("tem_0", 3)
    await log.close()
    return log.log_id


def _actor():
    from ekiden.log.port import Actor

    return Actor("pri_1", "key_1", "Zoë \0")


async def seen(place, clock):
    """All that a log shows."""
    log = await open_log(place, clock=clock, queries=QUERIES)
    try:
        return (
            log.log_id,
            [await log.bounds(team) for team in ("tem_0", "tem_1")],
            [list(await log.events(team, 0, limit=1000)) for team in ("tem_0", "tem_1")],
            [list(await log.events("tem_0", 0, topics=["session:1"], limit=1000))],
        )
    finally:
        await log.close()


async def test_there_and_back_all_is_the_same_and_the_source_is_untouched(source, postgres_url, clock, tmp_path):
    before, bytes_before = await seen(str(source), clock), source.read_bytes()
    moved = await copy_in(source, postgres_url)
    assert source.read_bytes() == bytes_before
    assert moved.events == sum(len(events) for events in before[2])
    assert await seen(postgres_url, clock) == before
    back = tmp_path / "back" / "ekiden.db"
    await copy_out(postgres_url, back, stopped=True)
    assert await seen(str(back), clock) == before
    assert back.stat().st_mode & 0o777 == 0o600
    log = await open_log(postgres_url, clock=clock, queries=QUERIES)
    assert (await log.write("tem_1", appends(), command=Command("c1", "pri_1", "d"))).repeated
    assert (await log.write("tem_1", appends())).seq == 21
    await log.close()


class Ended(Exception):
    """The move was ended here."""


@pytest.mark.parametrize("pieces", [1, 4, 9])
@pytest.mark.parametrize("way", ["in", "out"])
async def test_a_move_that_is_ended_anywhere_goes_on_and_no_hub_opens_it_meanwhile(
    source, postgres_url, clock, tmp_path, monkeypatch, pieces, way
):
    monkeypatch.setattr(limits, "MOVE_PIECE_ROWS", 5)
    before = await seen(str(source), clock)
    told = []

    def ends(table, rows):
        told.append((table, rows))
        if len(told) == pieces:
            raise Ended

    back = tmp_path / "back" / "ekiden.db"
    if way == "out":
        await copy_in(source, postgres_url)

    async def move(progress=None):
        if way == "in":
            await copy_in(source, postgres_url, progress=progress)
        else:
            await copy_out(postgres_url, back, stopped=True, progress=progress)

    with pytest.raises(Ended):
        await move(ends)
    if way == "in":
        with pytest.raises(Unavailable, match="has not ended"):
            await open_log(postgres_url, clock=clock, queries=QUERIES)
    else:
        assert not back.exists()
    again = []
    await move(lambda table, rows: again.append((table, rows)))
    assert not set(told) & set(again), "what was there was not copied a second time"
    assert await seen(postgres_url if way == "in" else str(back), clock) == before


async def test_a_copy_that_differs_is_found_out(source, postgres_url, monkeypatch):
    """A row that changes in the target on its way: the counts agree, the hashes do not."""
    from ekiden.log.postgres_move import PostgresStore

    add = PostgresStore.add

    async def adds_wrongly(self, table, rows, meta):
        if table.name == "events":
            rows = [(*rows[0][:-1], "{}"), *rows[1:]]
        await add(self, table, rows, meta)

    monkeypatch.setattr(PostgresStore, "add", adds_wrongly)
    with pytest.raises(Unavailable, match="events differs"):
        await copy_in(source, postgres_url)


async def test_nothing_is_copied_over_something_or_under_a_hub_at_work(source, postgres_url, clock, tmp_path):
    await fill(postgres_url, clock, 2)
    with pytest.raises(Conflict):
        await copy_in(source, postgres_url)
    log = await open_log(postgres_url, clock=clock, queries=QUERIES)
    await present(postgres_url)
    with pytest.raises(StoreHeld):
        await copy_in(source, postgres_url)
    with pytest.raises(StoreHeld):
        await copy_out(postgres_url, tmp_path / "out.db", stopped=True)
    await log.close()
    held = await open_log(str(source), clock=clock, queries=QUERIES)
    with pytest.raises(StoreHeld):
        await copy_in(source, fresh_database())
    await held.close()


async def present(url):
    """Waits until a hub at work on the database says so."""
    from ekiden.log.postgres_migrations import present as count

    connection = await connect(url)
    async with asyncio.timeout(20):
        while not await count(connection):  # noqa: ASYNC110 - the other side is a database
            await asyncio.sleep(0.01)
    await end(connection)


async def test_a_backup_of_either_engine_is_restored_into_either(tmp_path, clock):
    """As a history of its own, and what was there is kept."""
    home, url = tmp_path / "home", fresh_database()
    (home).mkdir()
    await fill(str(home / "ekiden.db"), clock)
    await fill(url, clock)
    for number, taken_from in enumerate(("", url)):
        tar = tmp_path / f"{number}.tar"
        made = await asyncio.to_thread(back_up, home, tar, taken_from)
        assert "ekiden.db" in made.holds
        before = await seen(taken_from or str(home / "ekiden.db"), clock)
        for into in (fresh_database(), ""):
            place = into or str(home / "ekiden.db")
            kept = (await asyncio.to_thread(restore, home, tar, into)).kept
            after = await seen(place, clock)
            assert after[1:] == before[1:]
            assert after[0] != before[0]
            assert bool(kept) == (not into)


async def test_a_restore_into_postgres_keeps_what_was_there_and_a_failing_one_changes_nothing(
    tmp_path, postgres_url, clock, monkeypatch
):
    from ekiden.log.postgres_move import PostgresStore

    home = tmp_path / "home"
    home.mkdir()
    await fill(postgres_url, clock, 6)
    await asyncio.to_thread(back_up, home, tmp_path / "six.tar", postgres_url)
    log = await open_log(postgres_url, clock=clock, queries=QUERIES)
    await log.write("tem_0", appends())
    await present(postgres_url)
    with pytest.raises(StoreHeld):
        await asyncio.to_thread(restore, home, tmp_path / "six.tar", postgres_url)
    await log.close()
    before = await seen(postgres_url, clock)

    async def fails(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(PostgresStore, "finish", fails)
        with pytest.raises(EkidenError):
            await asyncio.to_thread(restore, home, tmp_path / "six.tar", postgres_url)
    assert await seen(postgres_url, clock) == before
    restored = await asyncio.to_thread(restore, home, tmp_path / "six.tar", postgres_url)
    kept = sqlite3.connect(restored.kept)
    assert kept.execute("SELECT head FROM teams WHERE team_id = 'tem_0'").fetchone() == (before[1][0][1],)
    kept.close()
    assert (await seen(postgres_url, clock))[1][0] == (3, 3)
