"""Chores are done by one node at a time, and by another when that one dies."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ekiden.hub.chores import Chore, Chores, Lease, LeaseLost
from ekiden.hub.tidying import first_since
from ekiden.kernel.limits import CHORE_LEASE_S
from ekiden.log.open import open_log
from ekiden.log.port import Actor
from ekiden.log.queries import room_queries
from ekiden.testing.clock import StillClock
from postgres_server import fresh_database

pytestmark = pytest.mark.anyio
TEAM = "tem_00000000000000000000"


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture(params=["file", "postgres"])
async def log(request: pytest.FixtureRequest, tmp_path: Path, clock: StillClock) -> AsyncIterator[Any]:
    location = fresh_database() if request.param == "postgres" else str(tmp_path / "ekiden.db")
    log = await open_log(location, clock=clock, queries=room_queries("ekiden.hub"))
    yield log
    await log.close()


class Work:
    """A chore that notes which node did it."""

    def __init__(self, name: str = "sweep") -> None:
        self.done: list[str] = []
        self.leases: list[Lease] = []
        self.fails = False
        self._name = name

    def of(self, log: Any, owner: str, clock: StillClock) -> Chores:
        async def run(lease: Lease) -> None:
            self.done.append(owner)
            self.leases.append(lease)
            if self.fails:
                raise RuntimeError("the node dies here")

        return Chores(log, TEAM, owner, clock, (Chore(self._name, 600.0, run),))


async def test_a_chore_that_is_due_is_done_by_one_node(log: Any, clock: StillClock) -> None:
    """And again when it is due again, by whichever node looks first."""
    work = Work()
    a, b = work.of(log, "a", clock), work.of(log, "b", clock)
    for chores in (a, b, a, b):
        await chores.look()
    assert work.done == ["a"]
    clock.advance(601)
    for chores in (b, a):
        await chores.look()
    assert work.done == ["a", "b"]


async def test_a_chore_whose_node_died_goes_to_another_once_its_lease_has_run_out(
    log: Any, clock: StillClock
) -> None:
    """Not before. The first one, should it wake up, changes nothing any more."""
    work = Work()
    a, b = work.of(log, "a", clock), work.of(log, "b", clock)
    work.fails = True
    await a.look()
    work.fails = False
    clock.advance(CHORE_LEASE_S / 2)
    await b.look()
    assert work.done == ["a"]
    clock.advance(CHORE_LEASE_S)
    await b.look()
    assert work.done == ["a", "b"]

    async def verb(tx: Any) -> None:
        tx.append("said", {}, topics=("team",), actor=Actor("pri_x"))

    with pytest.raises(LeaseLost):
        await work.leases[0].write(verb)
    assert (await log.bounds(TEAM))[1] == 0
    await work.leases[1].write(verb)
    assert (await log.bounds(TEAM))[1] == 1


async def test_events_of_an_age_are_found_by_a_few_looks(log: Any, clock: StillClock) -> None:
    """The first one at or after a moment; head + 1 if there is none."""

    async def verb(tx: Any) -> str:
        tx.append("said", {}, topics=("team",), actor=Actor("pri_x"))
        return tx.now

    times = []
    for _ in range(9):
        written = await log.write(TEAM, verb)
        times.append(written.answer.decode().strip('"'))
        clock.advance(60)
    for number, at in enumerate(times, 1):
        assert await first_since(log, TEAM, at) == number
    assert await first_since(log, TEAM, "9") == 10
    assert await first_since(log, TEAM, "0") == 1
