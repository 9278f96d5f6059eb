"""Tools that a session of the real Codex is given without any set-up."""

import sys
from pathlib import Path

import pytest

from ekiden.vendors.port import Asked, ToolServer, TurnEnded
from vendors.codex.conftest import Codex
from vendors.codex.runs import Run
from vendors.codex.test_codex_runtime import message_id, seen

pytestmark = [pytest.mark.anyio, pytest.mark.vendors]

STUB = Path(__file__).parents[1] / "stub_tools.py"
CALL = '@@raw mcp__ekiden__say {"text": "hello"} @@final done'


def stub(seat: str) -> ToolServer:
    return ToolServer("ekiden", sys.executable, ("-I", str(STUB)), {"STUB_SEAT": seat})


async def called(run: Run) -> None:
    """One turn that calls the tool."""
    await run.runtime.send(message_id(), CALL)
    assert (await run.until(TurnEnded)).outcome == "completed"


def answers(codex: Codex, native_id: str) -> list[str]:
    """What the tools have answered, in the order of the session's file."""
    items, _ = codex.read(native_id)
    return [item.tool.output for item in items if item.tool is not None and item.tool.output]


@pytest.mark.parametrize("approvals", ["on-request", "never"])
async def test_a_session_uses_them_without_a_question_and_again_when_continued(
    codex: Codex, approvals: str
) -> None:
    codex.configure(approvals=approvals, sandbox="read-only")
    run = await codex.run(tools=stub("one"))
    await called(run)
    native_id = run.runtime.native_id
    await run.runtime.close()
    again = await codex.run(resume=native_id, tools=stub("two"))
    await called(again)
    await again.runtime.close()
    assert not seen(run, Asked)
    assert not seen(again, Asked)
    assert [
        answer.endswith(f"hello from {seat}")
        for answer, seat in zip(answers(codex, native_id), ("one", "two"), strict=True)
    ]


async def test_a_fork_gets_its_own(codex: Codex) -> None:
    run = await codex.run(tools=stub("one"))
    await called(run)
    fork = await codex.run(fork_of=run.runtime.native_id, tools=stub("fork"))
    await called(fork)
    assert "hello from fork" in answers(codex, fork.runtime.native_id)[-1]


async def test_the_persons_own_settings_are_left_alone(codex: Codex) -> None:
    codex.configure()
    settings = codex.home / ".codex" / "config.toml"
    before = settings.read_text()
    run = await codex.run(tools=stub("one"))
    await called(run)
    # Codex itself notes there that the folder is trusted.
    added = settings.read_text().removeprefix(before)
    assert "mcp" not in added
    assert "ekiden" not in added.replace(str(codex.home), "")
