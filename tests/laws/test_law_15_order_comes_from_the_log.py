"""Law 15: order comes from the log's sequence, never from a clock."""

import asyncio
import random

import pytest
from tests.access.conftest import RoomCall

from ekiden.access import routes
from ekiden.access.gate import open_home
from ekiden.kernel.door import HubFacts
from ekiden.log.open import open_log
from ekiden.log.port import Actor
from ekiden.log.queries import room_queries
from ekiden.testing.clock import StillClock

pytestmark = pytest.mark.anyio

WHO = Actor("pri_1")


class JumpingClock(StillClock):
    """A clock that goes ten minutes forwards or backwards at each look, or stands still."""

    def __init__(self):
        super().__init__()
        self._chance = random.Random(3)

    def now(self):
        return super().now() + self._chance.choice([-600.0, 0.0, 0.0, 600.0])


def appends(number):
    async def verb(tx):
        tx.append("test.said", {"number": number}, topics=["team"], actor=WHO)

    return verb


async def test_events_come_in_the_order_of_their_commits_whatever_the_clock_says(log_place):
    log = await open_log(log_place, clock=JumpingClock(), queries={})
    heard = []
    log.follow(lambda _, events: heard.extend(events))
    for number in range(50):
        await log.write("tem_1", appends(number))
    events = await log.events("tem_1", 0, limit=100)
    assert [event.body for event in events] == [b'{"number":%d}' % number for number in range(50)]
    assert [event.seq for event in heard] == list(range(1, 51))
    times = [event.at for event in events]
    assert times != sorted(times), "the clock did jump"
    await log.close()


async def test_pages_are_cut_by_position_so_that_equal_or_jumping_times_lose_nothing(log_place):
    """Seven events of one moment by threes; then an event with an earlier time comes while paging."""
    clock = StillClock()
    log = await open_log(log_place, clock=clock, queries={})
    await asyncio.gather(*(log.write("tem_1", appends(number)) for number in range(7)))
    seen = [event.seq for event in await log.events("tem_1", 0, limit=3)]
    clock.advance(-3600)
    await log.write("tem_1", appends(7))
    while page := await log.events("tem_1", seen[-1], limit=3):
        seen += [event.seq for event in page]
    assert seen == list(range(1, 9))
    await log.close()


async def test_the_audit_pages_backwards_by_position(log_place):
    clock = JumpingClock()
    log = await open_log(log_place, clock=clock, queries=room_queries("ekiden.access"))
    team_id, _ = await open_home(log, clock)

    async def verb(tx):
        for number in range(10):
            tx.append("access.refused", {"number": number}, topics=["access"], actor=WHO)

    await log.write(team_id, verb)
    hub = HubFacts("0", "boot", log.log_id, "http://127.0.0.1")
    seen, before = [], ""
    while True:
        query = {"limit": "4", **({"before": before} if before else {})}
        page = await routes.read_audit(RoomCall(log, hub, team_id, WHO, {}, query=query))
        seen += [line.seq for line in page.lines]
        before = page.next
        if not before:
            break
    assert seen == list(range(11, 0, -1))
    await log.close()
