"""A sessions room for each test."""

from collections.abc import AsyncIterator

import pytest

from sessions.room import Room, open_room


@pytest.fixture
async def room(log_place: str) -> AsyncIterator[Room]:
    """A room on a fresh log, with its host connected."""
    async with open_room(log_place) as opened:
        yield opened
