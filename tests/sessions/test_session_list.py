"""The list: newest first, by pages that together hold each session once, however things move meanwhile."""

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ekiden.kernel.errors import Invalid
from ekiden.sessions import views
from ekiden.sessions.wire import FeedSession, SessionState
from sessions.room import Room, open_room

pytestmark = pytest.mark.anyio


def at(second: int) -> str:
    """A time within the first hour of 2026, before the still clock's own advance matters."""
    return f"2025-06-01T00:{second // 60:02}:{second % 60:02}Z"


async def pages(room: Room, limit: int, meanwhile: object = None, **filters: str) -> list[str]:
    """Native ids over all pages; `meanwhile` is called with the page's number after each."""
    found: list[str] = []
    after, number = "", 0
    while True:
        page = await room.page(after, limit, **filters)
        found += [session.report.native_id for session in page.sessions]
        after, number = page.next, number + 1
        if not after:
            return found
        if callable(meanwhile):
            await meanwhile(number)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8])
async def test_sessions_of_one_instant_are_all_there_once(room: Room, limit: int) -> None:
    """Seven with the same time over pages of every size: everything once, in one order."""
    await room.tell(*[FeedSession(room.report(str(number), updated_at=at(5))) for number in range(7)])
    found = await pages(room, limit)
    assert sorted(found) == [str(number) for number in range(7)]
    assert found == await pages(room, 50)


async def test_newest_first_whatever_the_spelling_of_the_time(room: Room) -> None:
    """Fractions, offsets and missing times sort as times; a clock that runs ahead stands at now, not above."""
    spellings = {
        "no time": "",
        "oldest": "2025-06-01T00:00:00Z",
        "older": "2025-06-01T00:00:00.5Z",
        "newer": "2025-06-01T02:00:01+02:00",
        "future": "2999-01-01T00:00:00Z",
    }
    await room.tell(*[FeedSession(room.report(name, updated_at=text)) for name, text in spellings.items()])
    assert await pages(room, 2) == ["future", "newer", "older", "oldest", "no time"]
    room.clock.advance(60)
    await room.tell(FeedSession(room.report("now", updated_at="2026-01-01T00:01:00Z")))
    assert (await pages(room, 2))[0] == "now"


async def test_what_moves_while_pages_are_read_is_neither_lost_nor_doubled(room: Room) -> None:
    """Sessions jump to the top and fall to the end between any two pages; each is in the pages once, and what
    is new with an earlier time as well."""
    chance = random.Random(7)
    names = [str(number) for number in range(40)]
    await room.tell(*[FeedSession(room.report(name, updated_at=at(int(name)))) for name in names])

    async def move(number: int) -> None:
        for name in chance.sample(names, 10):
            second = chance.choice([0, 3_000 + number])
            await room.tell(FeedSession(room.report(name, updated_at=at(second), title=f"moved {number}")))
        await room.tell(FeedSession(room.report(f"new {number}", updated_at="2025-05-01T00:00:00Z")))

    found = await pages(room, 3, move)
    assert len(found) == len(set(found))
    assert set(names) <= set(found)
    assert {f"new {number}" for number in range(1, 10)} <= set(found)


@settings(max_examples=20)
@given(
    st.integers(1, 5),
    st.lists(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 20)), max_size=6), max_size=8),
)
async def test_pages_are_one_list_for_any_moves(limit: int, moves: list[list[tuple[int, int]]]) -> None:
    """For any moves between the pages, the pages are exactly the list as it stood at the first."""
    with TemporaryDirectory() as folder:
        async with open_room(Path(folder)) as room:
            await room.tell(*[FeedSession(room.report(str(n), updated_at=at(n % 4))) for n in range(12)])
            before = await pages(room, 50)

            async def move(number: int) -> None:
                for which, second in moves[number - 1] if number <= len(moves) else ():
                    await room.tell(FeedSession(room.report(str(which), updated_at=at(second))))

            assert await pages(room, limit, move) == before


async def test_later_pages_are_followed_from_the_first(room: Room) -> None:
    """Every page names the first one's cursor: following from it, no change of any page is missed."""
    await room.tell(*[FeedSession(room.report(str(n), updated_at=at(n))) for n in range(4)])
    first = await room.page(limit=2)
    await room.tell(FeedSession(room.report("3", updated_at=at(3), title="changed")))
    second = await room.page(first.next, 2)
    assert second.cursor == first.cursor
    assert second.next == ""
    assert first.total == second.total == 4


async def test_filters_choose_and_count(room: Room) -> None:
    """Vendor, folder, state and text, alone and together; the total is of what passes."""
    for number in range(6):
        await room.session(
            str(number),
            vendor="demo" if number % 2 else "other",
            project=f"/p{number % 3}",
            title=f"Straße 100% {number}",
            state=SessionState.RUNNING if number == 4 else SessionState.IDLE,
            updated_at=at(number),
        )
    assert await pages(room, 2, vendor="demo") == ["5", "3", "1"]
    assert await pages(room, 1, project="/p0") == ["3", "0"]
    assert await pages(room, 9, project="/p0", vendor="demo") == ["3"]
    assert await pages(room, 9, state="running") == ["4"]
    assert await pages(room, 9, text="STRASSE 100% 2") == ["2"]
    assert await pages(room, 9, text="/P1") == ["4", "1"]
    assert (await room.page(limit=1, vendor="demo")).total == 3


@pytest.mark.parametrize("text", ["%", "_", "\\", "100%0", "a'b", '"', "\x00"])
async def test_what_is_looked_for_is_text_and_no_pattern(room: Room, text: str) -> None:
    """Signs that mean something to the database are only signs."""
    await room.session("plain", title="abc 100 percent")
    assert await pages(room, 9, text=text) == []
    await room.session("with", title=f"x{text}y")
    assert await pages(room, 9, text=text) == ["with"]


async def test_a_lost_host_shows_in_the_filter_by_state(room: Room) -> None:
    """What ran is found under lost and no more under running."""
    await room.session("runs", state=SessionState.RUNNING)
    await room.lose()
    assert await pages(room, 9, state="running") == []
    assert await pages(room, 9, state="lost") == ["runs"]


@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_a_key_for_some_sessions_sees_a_list_of_those(room: Room, limit: int) -> None:
    """Pages, their ends and the total are of what the key may read; nothing hints at the rest."""
    ids = {str(n): await room.session(str(n), updated_at=at(n)) for n in range(9)}
    allowed = {ids[name] for name in ("1", "4", "7")}
    found: list[str] = []
    after = ""
    while True:
        page = await room.page(after, limit, may_see=lambda session_id: session_id in allowed)
        assert page.total == 3
        found += [session.report.native_id for session in page.sessions]
        after = page.next
        if not after:
            break
        assert page.sessions
    assert found == ["7", "4", "1"]


async def test_a_place_of_another_list_is_refused(room: Room) -> None:
    """Garbage, a place in another log, one from the future and one from too long ago: refused in words."""

    def place(log_id: str, as_of: int) -> str:
        return views._write_place(views._Place(log_id, as_of, at(1), "ses_1"))

    head = await room.head()
    for after in ("x", "é", "====", "W10", place("otherlog", head), place(room.log.log_id, head + 1)):
        with pytest.raises(Invalid):
            await room.page(after)
    with pytest.raises(Invalid):
        await room.page(state="sleeping")
    with pytest.raises(Invalid):
        await room.page(text="x" * 401)


async def test_a_place_older_than_the_kept_moves_is_refused(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the moves since a page are no longer known, the reader is told to start again, and loses nothing."""
    monkeypatch.setattr(views, "LIST_CURSOR_EVENTS_MAX", 3)
    for number in range(3):
        await room.session(str(number), updated_at=at(number))
    first = await room.page(limit=1)
    report = room.report("0", updated_at=at(0))
    for number in range(4):
        assert (await room.page(first.next, 1)).sessions
        report = msgspec.structs.replace(report, title=str(number))
        await room.tell(FeedSession(report))
    with pytest.raises(Invalid):
        await room.page(first.next, 1)


async def test_a_thousand_sessions_are_one_page(room: Room) -> None:
    """The largest page holds them all, with what runs and waits in each."""
    for start in range(0, 1_000, 250):
        await room.tell(*[FeedSession(room.report(str(n), updated_at=at(n))) for n in range(start, start + 250)])
    page = await room.page(limit=1_000)
    assert [session.report.native_id for session in page.sessions] == [str(n) for n in reversed(range(1_000))]
    assert (page.next, page.total) == ("", 1_000)
