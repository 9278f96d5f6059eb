"""The outbox: what the door refuses holds up nothing, and pieces of growing text fit it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ekiden.host import outbox as module
from ekiden.host.outbox import Outbox
from ekiden.host.sessions import Tracked
from ekiden.kernel.errors import Invalid, TooLarge
from ekiden.kernel.limits import FEED_BYTES_MAX, GROWING_TEXT_BYTES_MAX, REQUEST_BODY_BYTES_MAX
from ekiden.sessions.wire import Feed, FeedAnswer, FeedGrew, FeedGrown, FeedItems, FeedTurn, Refused, Stale
from ekiden.transcript.items import Item, ItemKind, Source, Text

from .conftest import until
from .line_vendor import LineVendor

pytestmark = pytest.mark.anyio
_decode = msgspec.json.Decoder(Feed).decode


class Door:
    """Takes feeds as the hub does: it holds one mark per session, and refuses what says `bad`."""

    def __init__(self) -> None:
        self.marks: dict[str, str] = {}
        self.took: list[Any] = []
        self.bad = "bad"
        self.whole_feeds = False
        self.asked = 0
        self.boot = "boot"

    async def post(self, _path: str, body: bytes, *, type: Any, command_id: str) -> FeedAnswer:
        self.asked += 1
        assert self.asked < 200, "the same is told for ever"
        if len(body) > REQUEST_BODY_BYTES_MAX:
            raise TooLarge("The request is too large.")
        entries = _decode(body).entries
        assert len(entries) == 1 or len(body) <= FEED_BYTES_MAX
        wrong = [index for index, entry in enumerate(entries) if self.bad in _words(entry)]
        if wrong and self.whole_feeds:
            raise Invalid("Not of this form.")
        stale: dict[str, Stale] = {}
        for index, entry in enumerate(entries):
            if index in wrong:
                continue
            if isinstance(entry, FeedItems):
                held = self.marks.get(entry.session_id, "")
                if entry.after != held:
                    stale[entry.session_id] = Stale(entry.session_id, held)
                    continue
                self.marks[entry.session_id] = entry.mark
            self.took.append(entry)
        refused = tuple(Refused(index, "too_large", "Too large.") for index in wrong)
        return FeedAnswer(1, self.boot, tuple(stale.values()), refused)


def _words(entry: Any) -> str:
    if isinstance(entry, FeedItems):
        return " ".join(item.text() for item in entry.items)
    return getattr(entry, "text", "") or getattr(entry, "reason", "")


class Place:
    def __init__(self, root: Path) -> None:
        self.door = Door()
        self.tracked = Tracked("ses_1", LineVendor(root), "s")
        self.marks_set: list[str] = []
        catalogue: Any = SimpleNamespace(
            by_id={"ses_1": self.tracked},
            sessions={},
            tails=SimpleNamespace(set_mark=lambda _followed, mark: self.marks_set.append(mark)),
        )
        client: Any = self.door
        store: Any = None
        report: Any = None
        self.outbox = Outbox(client, "hst_1", catalogue, store, report)
        self.outbox.met("boot")

    def put_items(self, *texts: str) -> None:
        """Each text as an item of its own feed entry, with the marks 1, 2, …"""
        for number, text in enumerate(texts, 1):
            item = Item(
                f"itm_{number}", ItemKind.MESSAGE, Source("s", number, number, number + 1), content=(Text(text),)
            )
            before = str(number - 1) if number > 1 else ""
            self.outbox.put(FeedItems("ses_1", (item,), before, str(number)))
            self.tracked.hub_mark = str(number)


@pytest.fixture
async def place(root: Path) -> AsyncIterator[Place]:
    made = Place(root)
    yield made
    made.outbox.close()


async def told(place: Place) -> None:
    task = asyncio.create_task(place.outbox.run())
    try:
        await until(lambda: task.done() or not (place.outbox._queue or place.outbox._busy))
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("whole_feeds", [True, False], ids=["the feed", "its entry"])
async def test_what_is_refused_for_its_form_is_left_out_and_the_rest_goes_on(
    place: Place, whole_feeds: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever the hub refuses: items behind the bad ones reach it, once and in order, and people see that
    something is missing."""
    place.door.whole_feeds = whole_feeds
    place.put_items("one", "bad", "bad too", "four", "five")
    place.outbox.put(FeedTurn("ses_1", "trn_1", "completed"))
    place.tracked.notices.clear()
    place.outbox.changed = lambda _tracked: None  # type: ignore[method-assign]  # no report here
    await told(place)
    items = [_words(entry) for entry in place.door.took if isinstance(entry, FeedItems)]
    assert items == ["one", "four", "five"]
    assert [entry.state for entry in place.door.took if isinstance(entry, FeedTurn)] == ["completed"]
    assert place.outbox.refused == 2
    assert place.tracked.notices == {module.REFUSED}
    assert "refused an entry" in caplog.text
    assert place.marks_set == [], "nothing is read again"
    assert place.tracked.hub_mark == place.door.marks["ses_1"] == "5"


async def test_an_entry_that_no_request_can_hold_is_left_out_unsent(place: Place) -> None:
    """Neither is one that cannot be written at all."""
    place.outbox.changed = lambda _tracked: None  # type: ignore[method-assign]  # no report here
    place.put_items("one", "half of \ud800", "three", "\x01" * (REQUEST_BODY_BYTES_MAX // 4))
    await told(place)
    assert place.tracked.hub_mark == "3", "what is read next follows what was taken"
    place.outbox.put(FeedTurn("ses_1", "trn_1", "completed"))
    await told(place)
    assert [_words(entry) for entry in place.door.took] == ["one", "three", ""]
    assert place.outbox.refused == 2


@pytest.mark.parametrize("filling", ["x", "\x01", "\u00fc", "\U0001f600"])
async def test_growing_text_of_any_size_is_told_in_parts_up_to_its_bound(place: Place, filling: str) -> None:
    """In order, without a hole, and the last part says whether more was dropped. A hub that starts anew gets the
    same text again in parts, and what grows then goes on behind it."""
    whole = filling * (GROWING_TEXT_BYTES_MAX // len(filling.encode()))
    assert len(whole.encode()) == GROWING_TEXT_BYTES_MAX
    place.outbox.grow("ses_1", "trn_1", "itm_a", ItemKind.MESSAGE, whole[:-5])
    await told(place)
    pieces = [entry for entry in place.door.took if isinstance(entry, FeedGrew)]
    assert "".join(piece.text for piece in pieces) == whole[:-5]
    assert [piece.index for piece in pieces] == list(range(len(pieces)))
    assert len(pieces) > 1
    assert not any(piece.truncated for piece in pieces)

    place.door.took.clear()
    place.door.boot = "another"
    place.outbox.met("another")
    place.outbox.grow("ses_1", "trn_1", "itm_a", ItemKind.MESSAGE, filling * 9)
    place.outbox.grow("ses_1", "trn_1", "itm_a", ItemKind.MESSAGE, "more")
    await told(place)
    first, *others = place.door.took
    assert isinstance(first, FeedGrown)
    assert first.count > len(pieces)
    assert first.text + "".join(entry.text for entry in others) == whole
    assert [entry.index for entry in others] == list(range(first.count, first.count + len(others)))
    assert [entry.truncated for entry in place.door.took] == [False] * len(others) + [True]
