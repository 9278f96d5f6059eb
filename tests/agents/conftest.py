"""A team for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agents.team import Team


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    team = Team(tmp_path / "data")
    await team.up()
    yield team
    await team.close()
