"""The examples of docs/relay.md, run in a shell against a real hub; and its tables name what there is."""

import asyncio
import json
import os
import stat
import sys
from pathlib import Path

import pytest

from ekiden.hub.serve import start_serving
from ekiden.hub.settings import Settings
from ekiden.hub.wiring import open_hub
from ekiden.kernel.clock import SystemClock
from ekiden.kernel.ids import Prefix, new_id
from ekiden.relay.wire import Budgets, DeliveryState, Way
from sessions import test_docs as pages
from sessions.door import WAIT_S, House

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs" / "relay.md"


async def test_every_example_answers_what_the_page_shows(tmp_path: Path) -> None:
    """In the page's order, in a shell, through the real server."""
    curl = tmp_path / "programs" / "curl"
    curl.parent.mkdir()
    curl.write_text(pages.CURL.replace("{python}", sys.executable))
    curl.chmod(curl.stat().st_mode | stat.S_IXUSR)
    home = tmp_path / "hub"
    serving = await start_serving(await open_hub(Settings(home=home, port=0), SystemClock()))
    try:
        house = House(serving.hub, home)
        bob = await house.owner.post("/v1/keys", {"name": "bob", "kind": "agent"})
        environment = {
            "PATH": f"{curl.parent}{os.pathsep}/usr/bin{os.pathsep}/bin",
            "EKIDEN": f"http://127.0.0.1:{serving.port}",
            "KEY": house.owner.key,
            "BOB": bob["key"],
            "MESSAGE": new_id(Prefix.MESSAGE),
        }
        found = pages.examples(PAGE)
        assert len(found) == 7
        for commands, shown in found:
            process = await asyncio.create_subprocess_exec(
                "bash",
                "-euc",
                commands,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            async with asyncio.timeout(WAIT_S):
                printed, complained = await process.communicate()
            assert process.returncode == 0, (commands, complained.decode())
            pages.shows(shown, {"channels": [], **json.loads(printed)}, commands)
    finally:
        await serving.stop()


def test_the_page_names_every_state_way_and_budget() -> None:
    page = PAGE.read_text()
    for word in (*DeliveryState, *Way, *Budgets.__struct_fields__):
        assert f"| `{word}` |" in page, word
    for name, default in zip(Budgets.__struct_fields__, Budgets.__struct_defaults__, strict=True):
        assert f"| `{name}` | {default} |" in page
