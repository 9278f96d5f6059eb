"""Growing items: applied by index, whole for whoever comes late, bounded, and ended."""

import json
from typing import Any

import msgspec
import pytest

from ekiden.hub import growing
from ekiden.hub.frames import Frame
from ekiden.hub.growing import GrowingItems
from ekiden.kernel.limits import GROWING_AFTER_TURN_S, GROWING_HOST_LOST_S
from ekiden.log.port import Actor, Event
from ekiden.sessions.wire import FeedGrew, FeedGrown
from ekiden.testing.clock import StillClock
from ekiden.transcript.items import ItemKind
from hub.door_kit import HOST_ID, HOST_KEY, SESSION, House, open_house

pytestmark = pytest.mark.anyio
TURN = "trn_00000000000000000000"


def grew(index: int, text: str, item: str = "itm_a", session: str = SESSION) -> FeedGrew:
    return FeedGrew(session, TURN, item, ItemKind.MESSAGE, index, text)


def grown(count: int, text: str, item: str = "itm_a") -> FeedGrown:
    return FeedGrown(SESSION, TURN, item, ItemKind.MESSAGE, count, text)


def event(kind: str, body: bytes) -> Event:
    return Event(1, kind, ("session:x",), "", Actor(""), body)


def kind_of(frame: Frame) -> str:
    return json.loads(frame.data.partition(b"data: ")[2])["kind"]


def whole(items: GrowingItems) -> dict[str, tuple[int, str, bool]]:
    return {one.item_id: (one.count, one.text, one.truncated) for one in items.of(SESSION)}


async def feed(house: House, *entries: Any) -> None:
    await house.json("POST", f"/v1/hosts/{HOST_ID}/feed", {"entries": entries}, HOST_KEY)


async def test_pieces_are_applied_by_their_index() -> None:
    """One told twice changes nothing, one after a hole is not taken, and both make no frame."""
    items = GrowingItems(StillClock())
    assert len(items.grow(grew(0, "a"), HOST_ID)) == 1
    assert items.grow(grew(0, "a"), HOST_ID) == []
    assert len(items.grow(grew(1, "b"), HOST_ID)) == 1
    assert items.grow(grew(3, "d"), HOST_ID) == []
    assert items.grow(grew(5, "x", "itm_unknown"), HOST_ID) == []
    assert whole(items) == {"itm_a": (2, "ab", False)}
    assert items.missed_pieces == 2


async def test_an_item_told_anew_takes_the_place_of_what_is_known() -> None:
    """After a hole or a new start; an older account of it is not taken."""
    items = GrowingItems(StillClock())
    items.grow(grew(0, "a"), HOST_ID)
    assert items.grow(grown(1, "a"), HOST_ID) == []
    assert len(items.grow(grown(4, "abcd"), HOST_ID)) == 1
    assert items.grow(grown(2, "ab"), HOST_ID) == []
    items.grow(grew(4, "e"), HOST_ID)
    assert whole(items) == {"itm_a": (5, "abcde", False)}


async def test_the_whole_item_ends_it_and_late_pieces_do_not_bring_it_back() -> None:
    """Even a piece with index 0, and a retelling."""
    items = GrowingItems(StillClock())
    items.grow(grew(0, "a"), HOST_ID)
    items.note(event("items.added", b'{"session_id":"s","items":[{"id":"itm_a","kind":"message"}]}'))
    assert whole(items) == {}
    assert items.grow(grew(0, "a"), HOST_ID) == items.grow(grown(1, "a"), HOST_ID) == []
    items.note(event("items.added", b'{"session_id":"s","items":[{"id":"itm_b"}]}'))
    assert items.grow(grew(0, "b", "itm_b"), HOST_ID) == []


@pytest.mark.parametrize(
    "item", [b'{"id":"itm_a","tool":{"state":"in_progress"}}', b'{"id":"itm_a","provisional":true}']
)
async def test_a_tool_call_that_stands_in_the_file_before_its_output_does_not_end_it(item: bytes) -> None:
    """Its output still grows under the same id."""
    items = GrowingItems(StillClock())
    items.grow(grew(0, "a"), HOST_ID)
    items.note(event("items.added", b'{"session_id":"s","items":[' + item + b"]}"))
    assert whole(items) == {"itm_a": (1, "a", False)}


@pytest.mark.parametrize(
    ("state", "ends"),
    [("completed", True), ("interrupted", True), ("failed", True), ("running", False), ("lost", False)],
)
async def test_the_end_of_its_turn_ends_an_item_a_while_later(state: str, ends: bool) -> None:
    """The whole item is on its way then. A lost turn has not ended: what was seen of it stays."""
    clock = StillClock()
    items = GrowingItems(clock)
    items.grow(grew(0, "a"), HOST_ID)
    body = b'{"session_id":"s","turn_id":"%b","state":"%b"}' % (TURN.encode(), state.encode())
    items.note(event("turn.changed", body))
    items.sweep()
    assert whole(items)
    clock.advance(GROWING_AFTER_TURN_S)
    items.sweep()
    assert (whole(items) == {}) == ends


async def test_items_of_a_lost_host_are_kept_for_long_but_not_for_ever() -> None:
    """And stay if it comes back."""
    clock = StillClock()
    items = GrowingItems(clock)
    items.grow(grew(0, "a", "itm_a"), HOST_ID)
    items.grow(grew(0, "b", "itm_b"), "hos_other")
    items.host_lost(HOST_ID)
    items.host_lost("hos_other")
    clock.advance(GROWING_HOST_LOST_S / 2)
    items.host_here("hos_other")
    clock.advance(GROWING_HOST_LOST_S / 2)
    items.sweep()
    assert set(whole(items)) == {"itm_b"}


async def test_a_text_over_the_bound_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a whole character, once; nothing of it is passed on afterwards, so all who follow hold the same text."""
    monkeypatch.setattr(growing, "GROWING_TEXT_BYTES_MAX", 10)
    items = GrowingItems(StillClock())
    frames = [items.grow(grew(index, "\u00fc\u00fc\u00fc"), HOST_ID) for index in range(4)]
    assert [[kind_of(frame) for frame in told] for told in frames] == [
        ["item.grew"],
        ["item.grew", "item.grown"],
        [],
        [],
    ]
    assert whole(items) == {"itm_a": (4, "\u00fc" * 5, True)}


async def test_a_host_that_tells_no_more_of_an_item_has_it_announced() -> None:
    """With a piece or with a retelling; what the hub keeps is not over its own bound."""
    items = GrowingItems(StillClock())
    items.grow(grew(0, "a"), HOST_ID)
    cut = msgspec.structs.replace(grew(1, "b"), truncated=True)
    assert [kind_of(frame) for frame in items.grow(cut, HOST_ID)] == ["item.grew", "item.grown"]
    anew = msgspec.structs.replace(grown(2, "xy", "itm_b"), truncated=True)
    assert [kind_of(frame) for frame in items.grow(anew, HOST_ID)] == ["item.grown"]
    assert whole(items) == {"itm_a": (2, "ab", True), "itm_b": (2, "xy", True)}


async def test_many_items_are_bounded_in_number_and_the_one_that_goes_is_announced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The one that was silent longest goes; whoever follows is told that it is cut."""
    monkeypatch.setattr(growing, "GROWING_ITEMS_MAX", 2)
    items = GrowingItems(StillClock())
    items.grow(grew(0, "a", "itm_a"), HOST_ID)
    items.grow(grew(0, "b", "itm_b"), HOST_ID)
    items.grow(grew(1, "a", "itm_a"), HOST_ID)
    announced, _ = items.grow(grew(0, "c", "itm_c"), HOST_ID)
    assert b'"item_id":"itm_b"' in announced.data
    assert b'"truncated":true' in announced.data
    assert set(whole(items)) == {"itm_a", "itm_c"}


async def test_all_texts_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest texts go first, and say so; the newest stays whole."""
    monkeypatch.setattr(growing, "GROWING_BYTES_MAX", 100)
    items = GrowingItems(StillClock())
    for name in "abc":
        items.grow(grew(0, name * 40, f"itm_{name}"), HOST_ID)
    told = whole(items)
    assert told["itm_a"] == (1, "", True)
    assert told["itm_b"] == (1, "b" * 40, False)
    assert told["itm_c"] == (1, "c" * 40, False)
    items.grow(grew(1, "d" * 1_000, "itm_c"), HOST_ID)
    assert sum(len(text) for _, text, _ in whole(items).values()) == 1_040
    assert items._bytes == 1_040


async def test_many_small_pieces_stay_one_text() -> None:
    """However it is kept."""
    items = GrowingItems(StillClock())
    for index in range(3_000):
        items.grow(grew(index, chr(97 + index % 26)), HOST_ID)
    assert whole(items)["itm_a"] == (3_000, "".join(chr(97 + index % 26) for index in range(3_000)), False)


async def test_followers_hear_pieces_and_questions_see_the_whole() -> None:
    """Through the door: from a host's feed to a stream and to a snapshot; nothing of it is stored."""
    async with open_house() as house, house.follow(f"session:{SESSION}") as stream:
        await stream.until("stream.hello")
        await feed(house, grew(0, "Hel"), grew(1, "lo"))
        for index, text in enumerate(("Hel", "lo")):
            frame = await stream.frame()
            assert (frame["kind"], frame["topic"]) == ("item.grew", f"session:{SESSION}")
            assert (frame["body"]["index"], frame["body"]["text"]) == (index, text)
            assert "id" not in frame
        (kept,) = await house.json("GET", f"/v1/sessions/{SESSION}/growing")
        assert (kept["count"], kept["text"]) == (2, "Hello")
        assert (await house.hub.log.bounds(house.hub.rooms.team_id))[1] == 0
        async with house.follow(f"team,session:{SESSION}") as late:
            frame = await late.until("item.grown")
            assert frame["body"]["text"] == "Hello"


async def test_a_key_without_the_right_hears_nothing_grow() -> None:
    """Neither the pieces nor the whole at the beginning."""
    async with open_house() as house:
        house.gate.give("ekd_team", {"team": ["read"]})
        await feed(house, grew(0, "secret"))
        async with house.follow(f"team,session:{SESSION}", "ekd_team") as stream:
            await stream.until("stream.hello")
            await feed(house, grew(1, "secret"))
            assert await stream.quiet() == []
