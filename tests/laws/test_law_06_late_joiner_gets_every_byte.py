"""Law 6. A late joiner gets every byte already streamed."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ekiden.hub.ring import Ring
from hub.door_kit import HOST_ID, HOST_KEY, SESSION, TEAM, WAIT_S, Following, House, open_house

TOPIC = f"session:{SESSION}"
LAST = "itm_last"
ITEMS = ("itm_0", "itm_1", "itm_2")

pieces = st.lists(st.tuples(st.sampled_from(ITEMS), st.text(max_size=5), st.booleans()), min_size=1, max_size=40)


class Fold:
    """What a client makes of a stream, by the rules of the door's description."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.counts: dict[str, int] = {}

    def take(self, frame: dict[str, Any]) -> None:
        body = frame["body"]
        match frame["kind"]:
            case "item.grown":
                self.texts[body["item_id"]] = body["text"]
                self.counts[body["item_id"]] = body["count"]
            case "item.grew":
                count = self.counts.get(body["item_id"], 0)
                assert body["index"] == count, "a hole or a double"
                self.texts[body["item_id"]] = self.texts.get(body["item_id"], "") + body["text"]
                self.counts[body["item_id"]] = count + 1
            case _:
                pass


async def read_to_the_last(stream: Following) -> Fold:
    """All up to the item `LAST`, which begins to grow after all others have."""
    fold = Fold()
    while LAST not in fold.texts:
        fold.take(await stream.frame())
    del fold.texts[LAST]
    return fold


@given(told=pieces, joins=st.lists(st.integers(0, 40), min_size=1, max_size=4), resumed=st.booleans())
@settings(max_examples=40)
def test_whoever_joins_at_whatever_moment_ends_with_the_same_text(
    told: list[tuple[str, str, bool]], joins: list[int], resumed: bool
) -> None:
    """Joining before, between and after the pieces, with stored events between them, from now on or from a
    cursor, with a ring that reaches back or not: the text is whole and no piece comes twice."""

    async def run() -> None:
        async with open_house() as house:
            live = house.hub.live(TEAM)
            live.ring = Ring(frames_max=8)
            live.ring.begin(0)
            wanted: dict[str, str] = {}
            readers: list[asyncio.Task[Fold]] = []
            streams: list[Following] = []

            async def join() -> None:
                stream = house.follow(f"{TOPIC},team", after=f"{house.hub.log.log_id}.0" if resumed else "")
                await stream.__aenter__()
                streams.append(stream)
                readers.append(asyncio.ensure_future(read_to_the_last(stream)))

            for position, (item, text, store) in enumerate(told):
                for _ in range(joins.count(position)):
                    await join()
                index = sum(earlier == item for earlier, _, _ in told[:position])
                await grow(house, item, index, text)
                wanted[item] = wanted.get(item, "") + text
                if store:
                    await house.say("x", TOPIC)
            for _ in range(sum(join_at >= len(told) for join_at in joins)):
                await join()
            await grow(house, LAST, 0, "")
            async with asyncio.timeout(WAIT_S):
                folds = await asyncio.gather(*readers)
            for stream in streams:
                await stream.__aexit__()
            for fold in folds:
                assert fold.texts == wanted

    asyncio.run(run())


async def grow(house: House, item: str, index: int, text: str) -> None:
    entry = {
        "entry": "grew",
        "session_id": SESSION,
        "turn_id": "trn_0",
        "item_id": item,
        "kind": "message",
        "index": index,
        "text": text,
    }
    await house.json("POST", f"/v1/hosts/{HOST_ID}/feed", {"entries": [entry]}, HOST_KEY)


@pytest.mark.anyio
async def test_a_snapshot_and_the_stream_after_it_meet() -> None:
    """What a question shows of a growing item and what a stream tells after it make the whole."""
    async with open_house() as house:
        await grow(house, "itm_0", 0, "a")
        await grow(house, "itm_0", 1, "b")
        (shown,) = await house.json("GET", f"/v1/sessions/{SESSION}/growing")
        async with house.follow(TOPIC) as stream:
            fold = Fold()
            fold.take(await stream.until("item.grown"))
            assert fold.texts == {"itm_0": shown["text"]}
            await grow(house, "itm_0", 2, "c")
            fold.take(await stream.frame())
        assert fold.texts == {"itm_0": "abc"}
