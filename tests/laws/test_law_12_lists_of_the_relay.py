"""Law 12 at the relay: every list has a bound in rows and in bytes, whatever is asked for and however large a row
is, and leads on to all the rest."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ekiden.kernel import limits
from sessions.door import open_house

pytestmark = pytest.mark.anyio

LARGE = 200 * limits.KIB
COUNT = 14
LISTS: dict[str, tuple[str, str, int]] = {
    "messages": ("messages?limit=200&after=0", "after", limits.RELAY_PAGE_BYTES_MAX + limits.RELAY_TEXT_BYTES_MAX),
    "mentions": ("messages?limit=200&after=0&mentions=me", "after", limits.RELAY_PAGE_BYTES_MAX + LARGE),
    "unread": ("messages?limit=200&after=0&unread=1", "after", limits.RELAY_PAGE_BYTES_MAX + LARGE),
    "newest": ("messages?limit=200", "before", limits.RELAY_PAGE_BYTES_MAX + limits.RELAY_TEXT_BYTES_MAX),
    "export": ("export", "next", limits.RELAY_PAGE_BYTES_MAX + 2 * limits.RELAY_TEXT_BYTES_MAX),
}
"""Each list of large rows: how it is asked for, what leads on, and how many bytes an answer may have: the bound,
and the one row that is always given."""


@pytest.mark.parametrize("name", LISTS)
async def test_a_page_of_large_messages_is_bounded_and_leads_to_all(tmp_path: Path, name: str) -> None:
    """Pages of messages as large as they may be: each below the bound, together everything, once."""
    asked, way, most = LISTS[name]
    async with open_house(tmp_path) as house:
        await house.owner.post("/v1/channels", {"name": "build"})
        reader = await house.device("bob", {"channel:*": ["read", "ack"]})
        await reader.put("/v1/channels/build/members/me", {})
        for _ in range(COUNT):
            await house.owner.post("/v1/channels/build/messages", {"text": "@bob " + "x" * LARGE})
        path, _, query = f"/v1/channels/build/{asked}".partition("?")
        wanted: dict[str, Any] = dict(part.split("=") for part in query.split("&") if part)
        numbers: list[int] = []
        pages = 0
        while True:
            answer = await reader.get_bytes(path, **wanted)
            assert len(answer) <= most
            page = msgspec.json.decode(answer)
            numbers += [message["number"] for message in page["messages"]]
            pages += 1
            if not page.get(way):
                break
            wanted["after" if way == "next" else way] = page[way]
        assert sorted(numbers) == list(range(1, COUNT + 1))
        assert pages > 1


async def test_what_waits_and_what_is_found_is_bounded_too(tmp_path: Path) -> None:
    """The lists that cross channels: below the bound, and they say that there is more."""
    async with open_house(tmp_path) as house:
        reader = await house.device("bob", {"channel:*": ["read", "ack"]})
        for channel in range(3):
            await house.owner.post("/v1/channels", {"name": f"c{channel}"})
            for _ in range(COUNT // 2):
                await house.owner.post(f"/v1/channels/c{channel}/messages", {"text": "@bob " + "x" * LARGE})
        most = limits.RELAY_PAGE_BYTES_MAX + limits.RELAY_TEXT_BYTES_MAX
        for path, rows in (("/v1/mentions", "mentions"), ("/v1/relay/search", "hits")):
            found: set[str] = set()
            after = ""
            while True:
                answer = await reader.get_bytes(
                    path, text="bob" if rows == "hits" else "", after=after, limit="200"
                )
                assert len(answer) <= most, path
                page = msgspec.json.decode(answer)
                here = [row["message"]["message_id"] for row in page.get(rows, [])]
                assert not found & set(here)
                found |= set(here)
                after = page.get("next", "")
                if not after:
                    break
            assert len(found) == 3 * (COUNT // 2), path
