"""A computer with Claude Code's and Codex's folders, a real hub and a real host; see `cases.desk`."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cases.desk import Desk


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """Not started yet: a test writes its session files first, where it wants them to be there already."""
    made = Desk(tmp_path)
    yield made
    await made.close()
