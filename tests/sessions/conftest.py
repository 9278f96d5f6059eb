"""A sessions room for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sessions.room import Room, open_room


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    """A room on a fresh log in a file, with its host connected."""
    async with open_room(tmp_path) as opened:
        yield opened
