"""Tools that a session of the real Claude Code is given without any set-up."""

import json
import sys
from pathlib import Path

import pytest

from ekiden.vendors.port import Asked, ToolServer
from vendors.claude.runs import Claude

pytestmark = [pytest.mark.anyio, pytest.mark.vendors]

STUB = Path(__file__).parents[1] / "stub_tools.py"
CALL = '@@raw mcp__ekiden__say {"text": "hello"} @@final done'


def stub(seat: str) -> ToolServer:
    return ToolServer("ekiden", sys.executable, ("-I", str(STUB)), {"STUB_SEAT": seat})


def answers(claude: Claude, native_id: str) -> list[str]:
    """What the tools have answered, in the order of the session's file."""
    rows = [json.loads(line) for line in claude.session_file(native_id).read_bytes().splitlines()]
    blocks = [block for row in rows if row.get("type") == "user" for block in row["message"]["content"]]
    results = [block for block in blocks if isinstance(block, dict) and block.get("type") == "tool_result"]
    return [result["content"][0]["text"] for result in results]


async def test_a_session_uses_them_without_a_question_and_again_when_continued(claude: Claude) -> None:
    run = await claude.run(tools=stub("one"))
    assert (await run.turn("msg_a", CALL)).outcome == "completed"
    native_id = run.runtime.native_id
    await run.runtime.close()
    again = await claude.run(resume=native_id, tools=stub("two"))
    assert (await again.turn("msg_b", CALL)).outcome == "completed"
    await again.runtime.close()
    assert not [event for event in (*run.told, *again.told) if isinstance(event, Asked)]
    assert answers(claude, native_id) == ["hello from one", "hello from two"]


async def test_the_persons_own_settings_are_left_alone(claude: Claude) -> None:
    """A server of their own is there beside it, and nothing of ours is written down."""
    own = claude.project / ".mcp.json"
    run = await claude.run(tools=stub("one"))
    await run.turn("msg_a", CALL)
    await run.runtime.close()
    assert not own.exists()
    kept = [path for path in claude.home.glob(".claude*") if path.is_file()]
    kept += list((claude.home / ".claude").glob("settings*.json"))
    assert kept
    assert not [path for path in kept if b"stub_tools" in path.read_bytes() or b"mcp__ekiden" in path.read_bytes()]
