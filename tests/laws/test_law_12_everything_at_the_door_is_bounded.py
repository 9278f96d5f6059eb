"""Law 12. Every queue, wait, loop, page and payload has a named bound; what is dropped is announced.

The door's side of it.
"""

import ast
import asyncio
import re
from pathlib import Path

import pytest

import ekiden.hub
from ekiden.hub import streams
from ekiden.kernel import limits
from hub.door_kit import SESSION, TEAM, open_house, until

HUB = Path(ekiden.hub.__file__).parent


def test_no_number_in_the_hub_bounds_anything_but_by_its_name() -> None:
    """A number over 100 in the code of the door is a status, a size of a unit, or it belongs to `limits`."""
    allowed = {200, 304, 400, 401, 403, 404, 405, 408, 413, 415, 422, 429, 500, 502, 503, 504}
    for path in HUB.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
                small = abs(node.value) <= 100 or node.value in allowed
                assert small or _has_a_name(path, node.lineno), f"{path.name}:{node.lineno}: {node.value}"


def _has_a_name(path: Path, line: int) -> bool:
    """Whether the number stands in an assignment to a named constant, or is a cache's size."""
    return bool(
        re.search(r"^_?[A-Z][A-Z0-9_]+ = |^DEFAULT_PORT|maxsize=|max-age", path.read_text().split("\n")[line - 1])
    )


def test_each_bound_of_the_door_is_used() -> None:
    """A bound that nobody holds would be a promise without a keeper."""
    source = "\n".join(path.read_text() for path in HUB.glob("*.py"))
    names = [name for name in vars(limits) if re.match(r"(REQUEST_|RING_|STREAM|GROWING_|REPLAY_|SHARED_)", name)]
    assert len(names) > 15
    for name in names:
        assert re.search(rf"\b{name}\b", source), name


@pytest.mark.anyio
async def test_a_reader_that_takes_nothing_costs_a_bounded_amount(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much is told, what the hub holds for one stream is a piece on its way and no more; the ring is for
    all. The stream is cut in the end, and the others are whole."""
    monkeypatch.setattr(streams, "STREAM_STALL_S", 0.4)
    async with open_house() as house, house.follow("team") as stuck, house.follow("team") as quick:
        await stuck.until("stream.hello")
        await quick.until("stream.hello")
        text = "x" * 10_000
        for first in range(0, 600, 50):
            await asyncio.gather(*(house.say(text) for _ in range(50)))
            assert len(await quick.texts(50)) == 50
            assert stuck._answer._held_bytes <= 2 * limits.STREAM_CHUNK_BYTES_MAX, first
        await until(lambda: len(house.hub.streams) == 1)
        held = house.hub.live(TEAM).ring
        assert held._bytes <= limits.RING_BYTES_MAX
        assert held._shared_bytes <= limits.SHARED_CHUNKS_BYTES_MAX


@pytest.mark.anyio
async def test_a_stream_that_comes_and_goes_leaves_nothing() -> None:
    """Hundreds of streams later the hub holds no more than before."""
    async with open_house() as house:
        for number in range(200):
            topics = f"team,session:ses_{number:020}"
            async with house.follow(topics) as stream:
                await stream.until("stream.hello")
        await until(lambda: len(house.hub.streams) == 0)
        ring = house.hub.live(TEAM).ring
        assert not house.hub.streams._per_key
        assert not ring._waiting
        assert len(ring._shared) <= limits.SHARED_CHUNKS_MAX
        assert not [task for task in asyncio.all_tasks() if "Stream." in repr(task.get_coro())]
        assert (await house.ask("GET", f"/v1/sessions/{SESSION}"))[0] == 200
