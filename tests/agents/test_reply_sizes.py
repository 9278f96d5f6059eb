"""Whatever is in the channels and whatever the budget: the reply is within it, and what is left out is counted."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ekiden.mcp.desk import Desk, PlainVoice
from ekiden.mcp.envelope import QUOTE
from ekiden.mcp.reading import inbox_text, page_text
from ekiden.relay.wire import (
    Asks,
    Authority,
    Delivery,
    DeliveryState,
    Mentions,
    Message,
    Messages,
    SearchHit,
    Waiting,
)

pytestmark = pytest.mark.anyio

CHANNELS = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,79}", fullmatch=True)
ROOMS = st.integers(400, 6_000)


def message(number: int, text: str, sender: str, asks: Asks) -> Message:
    return Message(
        message_id=f"msg_{number:020}",
        channel_id="cha_1",
        number=number,
        sender_id="pri_1",
        sender=sender,
        authority=Authority.AGENT,
        at="2026-01-01T00:00:00Z",
        text=text,
        asks=asks,
    )


def messages(most: int) -> st.SearchStrategy[list[Message]]:
    drawn = st.tuples(
        st.text(st.characters(codec=None), max_size=600), st.text(max_size=80), st.sampled_from(list(Asks))
    )
    return st.lists(drawn, max_size=most).map(
        lambda rows: [message(number, *row) for number, row in enumerate(rows, 1)]
    )


class Door:
    """A door that has one list of mentions, and gives pages of it."""

    def __init__(self, found: Mentions) -> None:
        self.found = found
        self.asked: list[int] = []

    async def get(self, path: str, *, type: Any, limit: int, after: str) -> Mentions:
        assert (path, after) == ("/v1/mentions", "")
        self.asked.append(limit)
        return Mentions(
            self.found.mentions[:limit], more=len(self.found.mentions) - limit, next=f"log.{limit}.{limit}"
        )


def desk(found: Any = None) -> Desk:
    client: Any = Door(found)
    return Desk(client, PlainVoice(client))


@given(messages(25), CHANNELS, ROOMS, st.booleans(), st.integers(0, 5))
async def test_a_page_of_messages(
    kept: list[Message], channel: str, room: int, upwards: bool, beyond: int
) -> None:
    """What is shown and what is said to be left out make up the page."""
    page = Messages(
        tuple(kept),
        before="c" if beyond and upwards else "",
        after="c" if beyond and not upwards else "",
        total_unread=None,
    )
    reply = await page_text(desk(), channel, page, room, upwards=upwards)
    assert len(reply) <= room
    shown = [line for line in reply.split("\n") if line.startswith("[#")]
    left = re.search(r"^Left out: (\d+) of the (\d+) found", reply, re.MULTILINE)
    assert len(shown) + (int(left[1]) if left else 0) == len(kept)
    if left:
        assert int(left[2]) == len(kept)
    if beyond and kept:
        assert "before them:" in reply if upwards else "after them:" in reply
    wanted = [item.number for item in (kept[len(kept) - len(shown) :] if upwards else kept[: len(shown)])]
    assert [int(line[2:].split()[0]) for line in shown] == wanted


@given(
    messages(15),
    st.lists(st.tuples(CHANNELS, st.integers(1, 20_000), st.booleans()), max_size=12),
    st.integers(0, 10_000),
    ROOMS,
)
async def test_the_inbox(kept: list[Message], unread: list[tuple[str, int, bool]], more: int, room: int) -> None:
    """Mentions come before unread channels; what is not shown is counted; the cursor is that of the last shown."""
    more = more if kept else 0
    found = Mentions(
        tuple(SearchHit(item, "ops") for item in kept),
        tuple(Delivery(item.message_id, "pri_2", "bob", DeliveryState.STORED, attempt=9) for item in kept),
        tuple(Waiting(name, "cha", count, 1, count, sealed) for name, count, sealed in unread),
        more=more,
        next="log.99.99" if more else "",
        cursor="log.7",
    )
    at = desk(found)
    reply = await inbox_text(at, found, "", room)
    assert len(reply) <= room
    own = [line for line in reply.split("\n") if not line.startswith(QUOTE)]
    shown = sum(line.startswith("[#") for line in own)
    left = re.search(r'Left out: (\d+) more mentions?: (?:inbox\(after="([^"]*)"\))?', reply)
    assert shown + (int(left[1]) if left else 0) == len(kept) + more
    if left and shown:
        assert left[2] == ("log.99.99" if shown == len(kept) else f"log.{shown}.{shown}")
    lines = sum(bool(re.match(r"[a-z0-9][a-z0-9._-]*: \d+ unread \(#", line)) for line in own)
    channels = re.search(r"(\d+) more channels? with (\d+) unread", reply)
    assert lines + (int(channels[1]) if channels else 0) == len(unread)
    if channels:
        assert int(channels[2]) == sum(count for _, count, _ in unread[lines:])
    if lines:
        assert shown == len(kept)
