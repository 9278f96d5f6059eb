"""The log's hash chain: its checkpoints verify, also after events are forgotten or redacted, and changes show."""

import sqlite3
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from ekiden.crypto.chain import Checkpoints, redacted
from ekiden.hub.chores import Lease
from ekiden.hub.relay_chores import add_checkpoints, forget_before
from ekiden.kernel import limits
from ekiden.relay import log_chain
from ekiden.relay.log_chain import Break, check_log
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
    ("statement", "why"),
    [
        ("UPDATE events SET body = replace(body, '\"value\":5', '\"value\":6') WHERE seq = 6", "changed"),
        ("UPDATE events SET actor_id = 'pri_other' WHERE seq = 6", "changed"),
        ("UPDATE events SET at = '2020-01-01T00:00:00.000Z' WHERE seq = 6", "changed"),
        ("UPDATE events SET kind = 'status.other' WHERE seq = 6", "changed"),
        ("DELETE FROM events WHERE seq = 6", "missing"),
        (
            "UPDATE checkpoints SET checkpoint = replace(checkpoint, '\"seq\":8', '\"seq\":7') WHERE seq = 8",
            "signature",
        ),
    ],
)
async def test_a_change_in_the_database_is_found_where_it_is(log_place: str, statement: str, why: str) -> None:
    async with open_desk(log_place) as desk:
        await filled(desk, 12)
        await add_checkpoints(chore(desk))
        assert (await check_log(desk.log, TEAM)).good
        await change(log_place, statement)
        check = await check_log(desk.log, TEAM)
        assert why in {found.why for found in check.breaks}
        assert {(found.first, found.last) for found in check.breaks} <= {(5, 8), (6, 8), (5, 7), (8, 12)}


async def test_a_body_that_was_replaced_without_a_word_is_found(log_place: str) -> None:
    """The chain itself would bear it: it holds the digest only."""
    async with open_desk(log_place) as desk:
        await filled(desk, 5)
        await add_checkpoints(chore(desk))
        [event] = [event for event in await desk.events() if event.seq == 3]
        await change(log_place, f"UPDATE events SET body = '{redacted(event.body).decode()}' WHERE seq = 3")
        assert (await check_log(desk.log, TEAM)).breaks == [Break("redacted", 3, 3)]


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


async def test_a_beginning_that_was_cut_off_behind_the_hub_is_found(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        await filled(desk, 10)
        await add_checkpoints(chore(desk))
        await change(log_place, "DELETE FROM events WHERE seq < 3")
        assert (await check_log(desk.log, TEAM)).breaks[0].why == "missing"


async def test_another_key_is_not_believed(log_place: str, tmp_path: Path) -> None:
    async with open_desk(log_place) as desk:
        await filled(desk, 5)
        await add_checkpoints(chore(desk))
        async with open_desk(str(tmp_path / "other.db")) as other:
            key = (await other.caller().hub_key()).public_key
        assert {found.why for found in (await check_log(desk.log, TEAM, key)).breaks} == {"signature"}
