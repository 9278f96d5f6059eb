"""The log's hash chain: its checkpoints verify, also after events are forgotten or redacted, and changes show."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from ekiden.crypto.chain import Checkpoints, redacted
from ekiden.hub.chores import Lease
from ekiden.hub.relay_chores import add_checkpoints, forget_before
from ekiden.kernel import limits
from ekiden.relay import log_chain
from ekiden.relay.log_check import Break, LogCheck, Why, check_log
from relay.state_desk import TEAM, Desk, open_desk

pytestmark = pytest.mark.anyio


class Held(Lease):
    """The lease of a chore, held."""

    async def write(self, verb: Any) -> None:
        await self.log.write(self.team_id, verb)


def chore(desk: Desk) -> Held:
    return Held(desk.log, TEAM, "chain", 1)


async def filled(desk: Desk, count: int) -> None:
    ada = desk.caller()
    for number in range(count):
        await ada.set("k", number)


async def change(place: str, statement: str) -> None:
    """What somebody with access to the database does to it."""
    if place.startswith("postgres"):
        connection = await asyncpg.connect(place)
        await connection.execute(statement)
        await connection.close()
    else:
        database = sqlite3.connect(place)
        database.execute(statement)
        database.commit()
        database.close()


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHECKPOINT_EVENTS", 4)
    monkeypatch.setattr(limits, "CHAIN_PAGE_EVENTS", 3)


async def waits(desk: Desk) -> bool:
    return await desk.log.ask(TEAM, log_chain.checkpoint_waits)


async def test_checkpoints_follow_the_log_and_verify(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        assert not await waits(desk)
        await filled(desk, 10)
        assert await waits(desk)
        await add_checkpoints(chore(desk))
        assert not await waits(desk)
        page: Checkpoints = await desk.caller().checkpoints(limit=2)
        assert [checkpoint.seq for checkpoint in page.checkpoints] == [10, 8]
        rest = await desk.caller().checkpoints(after=page.next)
        assert [checkpoint.seq for checkpoint in rest.checkpoints] == [4]
        check = await check_log(desk.log, TEAM, page.hub_key)
        assert (check.good, check.events, check.checkpoints, check.checked_to) == (True, 10, 3, 10)


async def test_a_checkpoint_comes_after_enough_events_or_long_enough(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        await filled(desk, 4)
        await add_checkpoints(chore(desk))
        await filled(desk, 3)
        assert not await waits(desk)
        desk.clock.advance(limits.CHECKPOINT_S)
        assert await waits(desk)
        await add_checkpoints(chore(desk))
        desk.clock.advance(10 * limits.CHECKPOINT_S)
        assert not await waits(desk), "an idle log needs none"
        await filled(desk, 4)
        assert await waits(desk)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "UPDATE events SET body = replace(body, '\"value\":5', '\"value\":6') WHERE seq = 6",
            Break(Why.CHANGED, 5, 8),
        ),
        ("UPDATE events SET body = 'no JSON' WHERE seq = 6", Break(Why.CHANGED, 5, 8)),
        ("UPDATE events SET kind = 'log.redacted', body = '[' WHERE seq = 6", Break(Why.CHANGED, 5, 8)),
        ("UPDATE events SET topics = 'elsewhere' WHERE seq = 6", Break(Why.CHANGED, 5, 8)),
        ("UPDATE events SET actor_id = 'pri_other' WHERE seq = 6", Break(Why.CHANGED, 5, 8)),
        ("UPDATE events SET at = '2020-01-01T00:00:00.000Z' WHERE seq = 6", Break(Why.CHANGED, 5, 8)),
        ("UPDATE events SET kind = 'status.other' WHERE seq = 6", Break(Why.CHANGED, 5, 8)),
        ("DELETE FROM events WHERE seq = 6", Break(Why.MISSING, 6, 6)),
        ("DELETE FROM events WHERE seq IN (7, 8, 9)", Break(Why.MISSING, 7, 8)),
        ("DELETE FROM events WHERE seq > 10", Break(Why.MISSING, 11, 12)),
        ("DELETE FROM events WHERE seq < 3", Break(Why.MISSING, 1, 2)),
        ("DELETE FROM events WHERE seq < 9", Break(Why.MISSING, 5, 8)),
        ("DELETE FROM events", Break(Why.MISSING, 5, 12)),
        (
            "UPDATE checkpoints SET checkpoint = replace(checkpoint, '\"seq\":8', '\"seq\":7') WHERE seq = 8",
            Break(Why.SIGNATURE, 8, 8),
        ),
        ("UPDATE checkpoints SET checkpoint = 'no JSON' WHERE seq = 8", Break(Why.SIGNATURE, 8, 8)),
        ("UPDATE checkpoints SET seq = 9 WHERE seq = 8", Break(Why.SIGNATURE, 9, 9)),
    ],
)
async def test_a_change_in_the_database_is_found_where_it_is(
    log_place: str, statement: str, expected: Break
) -> None:
    async with open_desk(log_place) as desk:
        await filled(desk, 12)
        await add_checkpoints(chore(desk))
        assert (await check_log(desk.log, TEAM)).good
        await change(log_place, statement)
        breaks = (await check_log(desk.log, TEAM)).breaks
        assert expected in breaks
        beside = [found for found in breaks if found != expected]
        assert beside == ([Break(Why.MISSING, 9, 9)] if "(7, 8, 9)" in statement else [])


async def test_a_body_that_was_replaced_without_a_word_is_found(log_place: str) -> None:
    """The chain itself would bear it: it holds the digest only."""
    async with open_desk(log_place) as desk:
        await filled(desk, 5)
        await add_checkpoints(chore(desk))
        [event] = [event for event in await desk.events() if event.seq == 3]
        await change(log_place, f"UPDATE events SET body = '{redacted(event.body).decode()}' WHERE seq = 3")
        assert (await check_log(desk.log, TEAM)).breaks == [Break(Why.REDACTED, 3, 3)]


async def test_a_redacted_log_verifies_whenever_it_was_redacted(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        await filled(desk, 5)

        async def redact(tx: Any) -> None:
            await tx.redact(2)

        await desk.log.write(TEAM, redact)  # before a checkpoint
        await add_checkpoints(chore(desk))

        async def redact_more(tx: Any) -> None:
            await tx.redact(4, 5)

        await desk.log.write(TEAM, redact_more)  # after it, and told after the newest checkpoint
        assert (await check_log(desk.log, TEAM)).good
        await add_checkpoints(chore(desk))
        assert (await check_log(desk.log, TEAM)).good


async def test_what_is_kept_verifies_after_events_are_forgotten(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        await filled(desk, 10)
        before = await forget_before(chore(desk), 7)
        assert before == 7
        await desk.log.forget(TEAM, before)
        await filled(desk, 3)
        await add_checkpoints(chore(desk))
        check = await check_log(desk.log, TEAM)
        assert (check.good, check.first, check.checked_to) == (True, 7, 13)
        shown = (await desk.caller().checkpoints()).checkpoints
        assert shown[-1].seq == 6, "older ones went with their events"


async def test_a_log_that_was_cut_before_there_were_checkpoints_begins_there(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        await filled(desk, 6)
        await desk.log.forget(TEAM, 4)
        await add_checkpoints(chore(desk))
        check = await check_log(desk.log, TEAM)
        assert (check.good, check.first, check.checked_to) == (True, 4, 6)


async def test_what_no_checkpoint_covers_yet_tells_of_what_is_gone_before_it(log_place: str) -> None:
    """However much was said since the newest checkpoint; and that nothing is missing there is seen as well."""
    async with open_desk(log_place) as desk:
        await filled(desk, 5)
        await add_checkpoints(chore(desk))
        await filled(desk, 3 * limits.CHAIN_PAGE_EVENTS)

        async def redact(tx: Any) -> None:
            await tx.redact(2)

        await desk.log.write(TEAM, redact)
        check = await check_log(desk.log, TEAM)
        assert (check.good, check.checked_to, check.head) == (True, 5, 15)
        await change(log_place, "DELETE FROM events WHERE seq = 7")
        assert (await check_log(desk.log, TEAM)).breaks == [Break(Why.MISSING, 7, 7)]


async def test_another_key_is_not_believed(log_place: str, tmp_path: Path) -> None:
    async with open_desk(log_place) as desk:
        await filled(desk, 5)
        await add_checkpoints(chore(desk))
        async with open_desk(str(tmp_path / "other.db")) as other:
            key = (await other.caller().hub_key()).public_key
        assert {found.why for found in (await check_log(desk.log, TEAM, key)).breaks} == {"signature"}


# The command


async def verify(place: str, *words: str, home: Path) -> subprocess.CompletedProcess[str]:
    """`ekiden verify --log`, as a process of its own."""
    where = ["--database", place] if place.startswith("postgres") else []
    command = [sys.executable, "-m", "ekiden.cli", "verify", "--log", "--home", str(home), *where, *words]
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONWARNINGS": "error"}
    return await asyncio.to_thread(
        subprocess.run, command, env=environment, capture_output=True, text=True, timeout=40
    )


def last_line(done: subprocess.CompletedProcess[str]) -> LogCheck:
    told = json.loads(done.stdout.splitlines()[-1])
    return msgspec.convert({**told, "breaks": []}, LogCheck)


async def contents(place: str) -> list[tuple[Any, ...]]:
    """All that the tables of the check hold."""
    queries = ("SELECT * FROM events ORDER BY seq", "SELECT * FROM checkpoints ORDER BY seq")
    if place.startswith("postgres"):
        connection = await asyncpg.connect(place)
        found = [tuple(row) for query in queries for row in await connection.fetch(query)]
        await connection.close()
        return found
    database = sqlite3.connect(place)
    found = [row for query in queries for row in database.execute(query)]
    database.close()
    return found


async def test_the_command_checks_a_hub_that_runs_and_one_that_is_stopped(log_place: str, tmp_path: Path) -> None:
    """After events were forgotten, too; it changes nothing, and needs nobody's leave."""
    async with open_desk(log_place) as desk:
        await filled(desk, 10)
        await desk.log.forget(TEAM, await forget_before(chore(desk), 7))
        await filled(desk, 3)
        await add_checkpoints(chore(desk))
        await filled(desk, 2)
        before = await contents(log_place)
        running = await verify(log_place, "--json", home=tmp_path)
        assert (running.returncode, running.stderr) == (0, "")
    stopped = await verify(log_place, "--json", home=tmp_path)
    assert (stopped.returncode, stopped.stdout) == (0, running.stdout)
    check = last_line(stopped)
    assert (check.first, check.events, check.checked_to, check.head) == (7, 9, 13, 15)
    assert await contents(log_place) == before
    said = await verify(log_place, home=tmp_path)
    assert said.returncode == 0
    assert "is as the hub has signed it: 9 events from 7 on" in said.stdout
    assert "2 of them came after the last checkpoint" in said.stdout
    assert "--hub-key" in said.stdout, "it says whose key it was"


async def test_the_command_says_what_was_changed_and_ends_with_15(log_place: str, tmp_path: Path) -> None:
    async with open_desk(log_place) as desk:
        await filled(desk, 12)
        await add_checkpoints(chore(desk))
        key = (await desk.caller().hub_key()).public_key
    await change(log_place, "UPDATE events SET actor_id = 'pri_other' WHERE seq = 2")
    await change(log_place, "DELETE FROM events WHERE seq = 6")
    await change(log_place, "UPDATE checkpoints SET checkpoint = replace(checkpoint, 'Z', '') WHERE seq = 12")
    done = await verify(log_place, "--json", "--hub-key", key, home=tmp_path)
    assert done.returncode == 15
    *found, counts = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["why"], one["first"], one["last"]) for one in found] == [
        ("changed", 1, 4),
        ("missing", 6, 6),
        ("signature", 12, 12),
    ]
    assert (counts["good"], counts["checked_to"], counts["pinned"], counts["hub_key"]) == (False, 8, True, key)
    said = await verify(log_place, home=tmp_path)
    assert said.returncode == 15
    for words in ("events 1 to 4", "event 6: missing", "the checkpoint after event 12", "is NOT as the hub"):
        assert words in said.stdout


async def test_the_command_believes_the_key_that_it_is_given(log_place: str, tmp_path: Path) -> None:
    async with open_desk(log_place) as desk:
        await filled(desk, 5)
        await add_checkpoints(chore(desk))
    other = await verify(log_place, "--hub-key", "A" * 43, home=tmp_path)
    assert (other.returncode, "not signed by the hub's key" in other.stdout) == (15, True)
    none = await verify(log_place, "--hub-key", "no key", home=tmp_path)
    assert none.returncode == 2


async def test_the_command_shows_how_far_it_is(log_place: str) -> None:
    """After each page, so that a long log is seen to be worked on."""
    async with open_desk(log_place) as desk:
        await filled(desk, 12)
        await add_checkpoints(chore(desk))
        told: list[int] = []
        await check_log(desk.log, TEAM, progress=lambda found: told.append(found.events))
        assert told == [3, 4, 7, 8, 11, 12]


async def test_where_there_is_no_log_the_command_says_so(tmp_path: Path) -> None:
    done = await verify(str(tmp_path / "ekiden.db"), home=tmp_path)
    assert (done.returncode, "There is no data" in done.stderr) == (3, True)
    assert not (tmp_path / "ekiden.db").exists()


async def test_the_command_wants_to_know_what_to_check(tmp_path: Path) -> None:
    done = await verify(str(tmp_path), "some.export", home=tmp_path)
    assert (done.returncode, "ekiden verify FILE" in done.stderr) == (2, True)


async def test_letters_that_are_damaged_on_disk_are_a_change(tmp_path: Path) -> None:
    """A file's text may be no text any more; that is found where it is, and hides nothing else."""
    place = str(tmp_path / "ekiden.db")
    async with open_desk(place) as desk:
        await filled(desk, 12)
        await add_checkpoints(chore(desk))
    await change(place, "UPDATE events SET body = CAST(x'7bff' AS TEXT) WHERE seq = 6")
    done = await verify(place, "--json", home=tmp_path)
    assert [json.loads(line).get("first") for line in done.stdout.splitlines()] == [5, 1]
