"""What the Claude Code tests share: the scripted model, a home of their own, and the real program."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest

from scripted_model import ScriptedModel, serve
from vendors.claude.runs import Claude


@pytest.fixture(scope="session")
def model() -> Iterator[ScriptedModel]:
    """One scripted model for all tests of a worker; scripts and holds are told apart by their prompts."""
    server, _ = serve(0, delay=0.0)
    yield server
    server.close()


@pytest.fixture
async def claude(model: ScriptedModel, tmp_path: Path) -> AsyncIterator[Claude]:
    """Claude Code in a clean home against the scripted model."""
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    (home / ".claude.json").write_text(json.dumps({"hasCompletedOnboarding": True}))
    environment = {
        "HOME": str(home),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.server_address[1]}",
        "ANTHROPIC_API_KEY": "sk-ant-dummy",
        "ANTHROPIC_MODEL": "claude-sonnet-4-5",
        "ANTHROPIC_SMALL_FAST_MODEL": "claude-haiku-4-5",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    async with AsyncExitStack() as stack:
        yield Claude(home, project, environment, stack)


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    """Waits for a condition, at most ten seconds."""

    async def wait(condition: Callable[[], bool]) -> None:
        with anyio.fail_after(10):
            while not condition():  # noqa: ASYNC110 (the condition is outside this process)
                await anyio.sleep(0.02)

    return wait
