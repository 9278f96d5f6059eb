"""Giving the tools to programs and taking them back: shown first, done when told, never touching anything else."""

import asyncio
import json
import os
import stat
import subprocess
import tomllib
from pathlib import Path

import claude_agent_sdk
import codex_cli_bin
import pytest

from agents.team import EKIDEN, Team

pytestmark = [pytest.mark.anyio, pytest.mark.vendors]


class Person:
    """Somebody with a HOME of its own, with the real Claude Code and Codex."""

    def __init__(self, folder: Path, ekiden_home: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        programs = folder / "programs"
        programs.mkdir()
        (programs / "claude").symlink_to(Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude")
        (programs / "codex").symlink_to(Path(codex_cli_bin.__file__).parent / "bin" / "codex")
        self.environment = {
            "HOME": str(self.home),
            "PATH": f"{programs}:/usr/bin:/bin",
            "EKIDEN_HOME": str(ekiden_home),
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
        }

    def ekiden(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [EKIDEN, *words], env=self.environment, cwd=self.home, capture_output=True, text=True, timeout=100
        )

    def files(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.home)): path.read_bytes() for path in self.home.rglob("*") if path.is_file()
        }

    def claude(self) -> dict:
        return json.loads((self.home / ".claude.json").read_text()).get("mcpServers", {})

    def codex(self) -> dict:
        return tomllib.loads((self.home / ".codex" / "config.toml").read_text()).get("mcp_servers", {})


@pytest.fixture
def person(tmp_path: Path, team: Team) -> Person:
    return Person(tmp_path, team.home)


async def test_nothing_is_changed_unasked(person: Person, team: Team) -> None:
    shown = person.ekiden("mcp", "install")
    assert shown.returncode == 0
    assert "claude mcp add --scope user ekiden -- " in shown.stdout
    assert "codex mcp add ekiden -- " in shown.stdout
    assert "Nothing was changed. Do it with: ekiden mcp install --yes" in shown.stdout
    assert person.files() == {}
    assert not (team.home / "agents").exists()


async def test_the_programs_take_it_and_give_it_back(person: Person, team: Team) -> None:
    """By their own commands; the agents' keys are files of their owner's, and are revoked in the end."""
    done = await asyncio.to_thread(person.ekiden, "mcp", "install", "--yes")
    assert done.returncode == 0, done.stderr
    for name, entry in (("claude-code", person.claude()), ("codex", person.codex())):
        assert [entry["ekiden"]["command"], *entry["ekiden"]["args"]] == [
            EKIDEN, "mcp", "--as", name, "--home", str(team.home),
        ]  # fmt: skip
        seat = team.home / "agents" / f"{name}.json"
        assert stat.S_IMODE(seat.stat().st_mode) == 0o600
        assert json.loads(seat.read_text())["key"] not in json.dumps(entry)
    keys = {key["name"]: key for key in (await team.owner.client.get("/v1/keys"))["keys"]}
    assert keys["codex"]["kind"] == "agent"
    assert "admin" not in json.dumps(keys["codex"]["permissions"])
    again = await asyncio.to_thread(person.ekiden, "mcp", "install", "claude", "--yes")
    assert again.returncode == 0, again.stderr
    assert "has its key already" in again.stdout
    undone = await asyncio.to_thread(person.ekiden, "mcp", "remove", "--yes")
    assert undone.returncode == 0, undone.stderr
    assert "ekiden" not in person.claude()
    assert "ekiden" not in person.codex()
    assert not list((team.home / "agents").iterdir())
    assert all(
        key["revoked_at"]
        for key in (await team.owner.client.get("/v1/keys"))["keys"]
        if key["name"] in ("codex", "claude-code")
    )


@pytest.mark.parametrize(
    ("program", "file", "section"),
    [("gemini", ".gemini/settings.json", "mcpServers"), ("opencode", ".config/opencode/opencode.json", "mcp")],
)
async def test_settings_keep_all_else(person: Person, program: str, file: str, section: str) -> None:
    path = person.home / file
    path.parent.mkdir(parents=True)
    before = {"theme": "Größe", section: {"other": {"command": "x"}}, "list": [1, {"a": None}]}
    path.write_text(json.dumps(before))
    os.chmod(path, 0o640)
    assert (await asyncio.to_thread(person.ekiden, "mcp", "install", program, "--yes")).returncode == 0
    after = json.loads(path.read_text())
    entry = after[section].pop("ekiden")
    assert EKIDEN in json.dumps(entry)
    assert after == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert (await asyncio.to_thread(person.ekiden, "mcp", "remove", program, "--yes")).returncode == 0
    assert json.loads(path.read_text()) == before


async def test_settings_that_are_not_plain_json_are_left_alone(person: Person) -> None:
    path = person.home / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text('{\n  // mine\n  "theme": "dark"\n}\n')
    before = path.read_bytes()
    refused = await asyncio.to_thread(person.ekiden, "mcp", "install", "gemini", "--yes")
    assert refused.returncode == 5
    assert "is not plain JSON" in refused.stderr
    assert path.read_bytes() == before


async def test_a_program_that_is_not_known_is_named(person: Person) -> None:
    refused = person.ekiden("mcp", "install", "cursor")
    assert refused.returncode == 2
    assert "claude, codex, gemini, opencode" in refused.stderr
