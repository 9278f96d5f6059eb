"""The door's tests run on a hub of one node and on one of three, where each request goes to the next node.

What looks into one node by its very name, or opens a server for one, runs on one.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ekiden.hub.serve import Serving, start_serving
from ekiden.hub.settings import Settings
from hub.door_kit import NODES, House, open_house

ON_THREE_TOO = {
    "test_door_checks",
    "test_door_growing",
    "test_door_hosts",
    "test_door_openapi",
    "test_door_pages",
    "test_door_streams",
}
LOOKS_INTO_ONE = {
    "test_a_key_holds_so_many_streams_and_no_more",
    "test_equal_streams_share_what_is_put_together_for_them",
    "test_refusals_are_recorded_once_a_minute_and_within_a_bound",
    "test_where_the_past_is_gone_a_gap_says_how_much",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "node_count" in metafunc.fixturenames:
        module = metafunc.module.__name__.rpartition(".")[2]
        three = module in ON_THREE_TOO and metafunc.function.__name__ not in LOOKS_INTO_ONE
        metafunc.parametrize("node_count", [1, 3] if three else [1], ids=lambda count: f"nodes{count}")


@pytest.fixture(autouse=True)
def on_nodes(node_count: int) -> Iterator[None]:
    """Houses that say nothing else have so many nodes."""
    token = NODES.set(node_count)
    yield
    NODES.reset(token)


@pytest.fixture
async def served() -> AsyncIterator[tuple[House, Serving]]:
    """A door on a real socket."""
    async with open_house(settings=Settings(Path("unused"), port=0), started=False) as house:
        serving = await start_serving(house.hub)
        yield house, serving
        await serving.stop()
