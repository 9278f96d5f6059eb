"""The examples of docs/sessions.md, run in a shell against a real hub: each answers what the page shows."""

import asyncio
import json
import os
import re
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from ekiden.hub.serve import start_serving
from ekiden.hub.settings import Settings
from ekiden.hub.wiring import open_hub
from ekiden.kernel.clock import SystemClock
from ekiden.kernel.ids import Prefix, new_id
from ekiden.sessions.rules import ApprovalState, MessageState
from ekiden.sessions.wire import (
    Approval,
    ApprovalOption,
    Carried,
    FeedApproval,
    FeedGrew,
    FeedTurn,
    Rung,
    SessionState,
    SessionView,
)
from ekiden.transcript.items import ItemKind
from sessions.door import WAIT_S, House, ScriptedHost

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs" / "sessions.md"
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)

# A machine may have no curl: this knows the options that the page uses, and refuses all others.
CURL = """#!{python}
import argparse, sys, urllib.error, urllib.request
parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("-s", action="store_true")
parser.add_argument("-S", action="store_true")
parser.add_argument("-X", default="GET")
parser.add_argument("-H", action="append", default=[])
parser.add_argument("-d")
parser.add_argument("url")
asked = parser.parse_args()
headers = dict(header.split(": ", 1) for header in asked.H)
body = asked.d.encode() if asked.d is not None else None
request = urllib.request.Request(asked.url, data=body, headers=headers, method=asked.X)
try:
    print(urllib.request.urlopen(request, timeout=10).read().decode())
except urllib.error.HTTPError as error:
    sys.exit(f"{error.code} {error.read().decode()}")
"""


def examples(page: Path = PAGE) -> list[tuple[str, Any]]:
    """(commands, the answer that the page shows) of each example, in the page's order; a script of its own, which
    begins by saying what it is, is none."""
    blocks = BLOCK.findall(page.read_text())
    found: list[tuple[str, Any]] = []
    for (kind, text), (next_kind, answer) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if kind == "sh" and not text.startswith("#"):
            assert next_kind == "json", f"no answer is shown for: {text}"
            found.append((text, json.loads(answer)))
    return found


def shows(shown: Any, answer: Any, where: str = "") -> None:
    """Everything that the page shows is in the answer; "…" stands for anything."""
    if shown == "…":
        assert isinstance(answer, str), where
        assert answer, where
    elif isinstance(shown, dict):
        for name, value in shown.items():
            assert name in answer, f"{where}.{name}"
            shows(value, answer[name], f"{where}.{name}")
    elif isinstance(shown, list):
        assert len(answer) == len(shown), where
        for index, value in enumerate(shown):
            shows(value, answer[index], f"{where}[{index}]")
    else:
        assert answer == shown, where


async def prepare(house: House, host: ScriptedHost) -> dict[str, str]:
    """The sessions that the page speaks of, and the values that it uses."""
    await host.session("older", title="An older one", updated_at="2026-01-01T00:00:00Z")
    session_id = await host.session("newer", title="Mend the build", level=2, updated_at="2026-01-02T00:00:00Z")
    asked = Approval(
        approval_id=new_id(Prefix.APPROVAL),
        session_id=session_id,
        turn_id="trn_1",
        question="run_command",
        title="Run a command",
        tool="Bash",
        command="make test",
        options=(ApprovalOption("yes", "Allow", "allow_once"), ApprovalOption("no", "Deny", "deny")),
    )
    await host.tell(
        FeedTurn(session_id, "trn_1", "running"),
        FeedApproval(asked),
        FeedGrew(session_id, "trn_1", "itm_2", ItemKind.MESSAGE, 0, "So far"),
    )
    host.answers = {
        "fork": lambda _: Carried(session_id=session_id, verb="fork", carried="the whole conversation"),
        "start": lambda _: Carried(session_id=session_id, verb="start"),
    }
    view = await house.owner.get(f"/v1/sessions/{session_id}", type=SessionView)
    return {
        "SESSION": session_id,
        "TURN": "trn_1",
        "APPROVAL": asked.approval_id,
        "DIGEST": view.approvals[0].digest,
        "HOST_ID": host.host_id,
    }


async def test_every_example_answers_what_the_page_shows(tmp_path: Path) -> None:
    """In the page's order, in a shell, through the real server."""
    curl = tmp_path / "programs" / "curl"
    curl.parent.mkdir()
    curl.write_text(CURL.replace("{python}", sys.executable))
    curl.chmod(curl.stat().st_mode | stat.S_IXUSR)
    home = tmp_path / "hub"
    hub = await open_hub(Settings(home=home, port=0), SystemClock())
    serving = await start_serving(hub)
    try:
        house = House(hub, home)
        async with house.host() as host:
            values = await prepare(house, host)
            environment = {
                "PATH": f"{curl.parent}{os.pathsep}/usr/bin{os.pathsep}/bin",
                "EKIDEN": f"http://127.0.0.1:{serving.port}",
                "KEY": house.owner.key,
                **values,
            }
            found = examples()
            assert len(found) == 9
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
                shows(shown, json.loads(printed), commands)
    finally:
        await serving.stop()


def test_the_page_names_every_state() -> None:
    """No state of a session, message or approval is left unexplained."""
    page = PAGE.read_text()
    for word in (*SessionState, *MessageState, *ApprovalState, *Rung):
        assert f"| `{word}` |" in page, word
