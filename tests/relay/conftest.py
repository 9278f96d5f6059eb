"""A relay room for each test, on both engines."""

from collections.abc import AsyncIterator

import pytest

from relay.room import Room, open_room


@pytest.fixture
async def room(log_place: str) -> AsyncIterator[Room]:
    """A room on a fresh log, with the person `ann` in it."""
    async with open_room(log_place) as opened:
        yield opened
