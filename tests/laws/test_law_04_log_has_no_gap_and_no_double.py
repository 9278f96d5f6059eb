"""Law 4, the log's part: following from any cursor has no gap and no double, and where the past is gone, the log
tells exactly from where on it is there."""

import asyncio

import pytest

from ekiden.log.open import open_log
from ekiden.log.port import Actor
from ekiden.testing.clock import StillClock

pytestmark = pytest.mark.anyio

WHO = Actor("pri_1")
TEAM = "tem_1"


def appends(number):
    async def verb(tx):
        for _ in range(number):
            tx.append("test.said", {}, topics=["session:a" if tx.seq % 2 else "session:b", "team"], actor=WHO)

    return verb


async def test_reading_up_to_the_head_and_then_listening_misses_nothing_at_any_moment(log_place):
    """Followers join in the middle of much writing, each from another cursor: first they listen, then they read
    the past by pages, then they go on with what they heard, without what they have read."""
    log = await open_log(log_place, clock=StillClock(), queries={})
    written = asyncio.Event()
    total = 0

    async def write():
        nonlocal total
        for number in range(150):
            await log.write(TEAM, appends(number % 4))
            total += number % 4

    async def reached(seq):
        come = asyncio.Event()
        stop = log.follow(lambda _, events: come.set() if events[-1].seq >= seq else None)
        if (await log.bounds(TEAM))[1] < seq:
            await come.wait()
        stop()

    async def follow(first):
        await reached(first)
        heard = []
        stop = log.follow(lambda _, events: heard.extend(event.seq for event in events))
        read, after = [], first
        while page := await log.events(TEAM, after, limit=7):
            read += [event.seq for event in page]
            after = page[-1].seq
        await written.wait()
        stop()
        return read + [seq for seq in heard if seq > after]

    cursors = (0, 1, 5, 20, 60, 120, 200, 220)
    following = asyncio.gather(*(follow(cursor) for cursor in cursors))
    await asyncio.gather(write(), write())
    written.set()
    for cursor, seen in zip(cursors, await following, strict=True):
        assert seen == list(range(cursor + 1, total + 1))
    await log.close()


@pytest.mark.parametrize("cursor", [0, 1, 743, 744, 745, 999, 1000, 5000])
async def test_where_the_past_is_gone_the_log_says_from_where_on_it_is_there(cursor, log_place):
    """A thousand events of which the last 256 are held: the boundary is exact on both sides."""
    log = await open_log(log_place, clock=StillClock(), queries={})
    await log.write(TEAM, appends(1000))
    await log.forget(TEAM, 745)
    oldest, newest = await log.bounds(TEAM)
    assert (oldest, newest) == (745, 1000)
    page = [event.seq for event in await log.events(TEAM, cursor, limit=10_000)]
    assert page == list(range(max(cursor + 1, 745), 1001))
    missed = max(0, oldest - cursor - 1)
    assert missed == max(0, 744 - cursor)
    await log.close()


async def test_a_cursor_names_the_log_that_it_belongs_to():
    first = await open_log(":memory:", clock=StillClock(), queries={})
    second = await open_log(":memory:", clock=StillClock(), queries={})
    assert first.cursor(5) != second.cursor(5)
    assert len(first.log_id) == 8
    await first.close()
    await second.close()
