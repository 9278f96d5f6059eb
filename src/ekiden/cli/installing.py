"""Gives the tools to the agents' programs of this computer, and takes them back; nothing is changed unasked.

Each program is told in its own way: by its own command where it has one (Claude Code, Codex), else by one entry in
its settings (Gemini CLI, opencode), of which all else is left as it is. What it is told never holds a key: the key
lies in a file of its own that only its owner may read.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ekiden.cli.agent_seats import end_seat, make_seat
from ekiden.cli.place import home_of
from ekiden.cli.screen import Screen, line_of
from ekiden.kernel.errors import Conflict, EkidenError, Invalid, Unavailable, VendorFailed
from ekiden.kernel.limits import MCP_INSTALL_S, MCP_SETTINGS_BYTES_MAX
from ekiden.mcp.definitions import SERVER_NAME
from ekiden.mcp.seat import read_seat, seat_path

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Program:
    """One program that agents run in. `agent` is what its agent is called if nothing else is said."""

    name: str
    label: str
    agent: str
    settings: Path
    """Its folder (where it has a command), or the file that holds its entry."""
    commands: Callable[[list[str]], tuple[list[str], list[str]]] | None = None
    """Its own words to take the entry away and to add one that runs this."""
    section: str = ""
    entry: Callable[[list[str]], Json] | None = None


def programs(home: Path) -> dict[str, Program]:
    """Those that are known, with `home` the person's folder."""
    known = (
        Program("claude", "Claude Code", "claude-code", home / ".claude", commands=_claude),
        Program("codex", "Codex", "codex", home / ".codex", commands=_codex),
        Program(
            "gemini",
            "Gemini CLI",
            "gemini",
            home / ".gemini" / "settings.json",
            section="mcpServers",
            entry=lambda command: {"command": command[0], "args": command[1:]},
        ),
        Program(
            "opencode",
            "opencode",
            "opencode",
            _config_folder(home) / "opencode" / "opencode.json",
            section="mcp",
            entry=lambda command: {"type": "local", "command": command, "enabled": True},
        ),
    )
    return {program.name: program for program in known}


def install(options: argparse.Namespace) -> int:
    """Shows, or with `--yes` makes, the change for each program that is named or found."""
    screen = Screen()
    home = home_of(options)
    taking = options.what == "remove"
    known = programs(Path.home())
    wanted = [_named(known, name) for name in options.program]
    chosen = wanted or [program for program in known.values() if _is_here(program)]
    if not chosen:
        screen.say("None of Claude Code, Codex, Gemini CLI and opencode was found.")
        screen.say("Any other program with MCP takes this as a stdio server:")
        screen.say(f"  {shlex.join(command_of(home, options.agent or 'agent'))}")
        return 0
    for program in chosen:
        agent = options.agent or program.agent
        command = command_of(home, agent)
        screen.say(screen.style(program.label, "bold"))
        if options.yes:
            _change(program, command, taking=taking)
            screen.say(f"  {'taken away' if taking else 'added'}; it holds from its next start on.")
            screen.say(f"  {_key_line(home, agent, taking=taking)}")
        else:
            for line in _shown(program, command, taking=taking):
                screen.say(f"  {line}")
    if not options.yes:
        again = shlex.join(["ekiden", "mcp", options.what, *options.program, "--yes"])
        screen.say(f"\nNothing was changed. Do it with: {again}")
    elif not taking:
        screen.say("\nTell an agent: “Look into your Ekiden inbox.” A channel: “Make the channel ops in Ekiden.”")
    return 0


def command_of(home: Path, agent: str) -> list[str]:
    """What a program runs: absolute, since it starts in other folders and with other variables."""
    found = shutil.which("ekiden")
    beside = Path(sys.executable).with_name("ekiden")
    program = [str(beside)] if beside.is_file() else [found] if found else [sys.executable, "-m", "ekiden.cli"]
    return [*program, "mcp", "--as", agent, "--home", str(home)]


def _named(known: dict[str, Program], name: str) -> Program:
    if name not in known:
        raise Invalid(f"{name[:40]!r} is no program that is known here.", hint=f"There are {', '.join(known)}.")
    return known[name]


def _is_here(program: Program) -> bool:
    return shutil.which(program.name) is not None


def _claude(command: list[str]) -> tuple[list[str], list[str]]:
    add = ["claude", "mcp", "add", "--scope", "user", SERVER_NAME, "--", *command]
    return ["claude", "mcp", "remove", "--scope", "user", SERVER_NAME], add


def _codex(command: list[str]) -> tuple[list[str], list[str]]:
    return ["codex", "mcp", "remove", SERVER_NAME], ["codex", "mcp", "add", SERVER_NAME, "--", *command]


def _config_folder(home: Path) -> Path:
    named = os.environ.get("XDG_CONFIG_HOME")
    return Path(named) if named else home / ".config"


def _shown(program: Program, command: list[str], *, taking: bool) -> Sequence[str]:
    if program.commands is not None:
        remove, add = program.commands(command)
        return ["would run:", f"  {shlex.join(remove if taking else add)}"]
    assert program.entry is not None
    if taking:
        return [f"would take {program.section}.{SERVER_NAME} out of {program.settings}"]
    entry = json.dumps({program.section: {SERVER_NAME: program.entry(command)}})
    return [f"would write into {program.settings}:", f"  {entry}"]


def _change(program: Program, command: list[str], *, taking: bool) -> None:
    if program.commands is None:
        _edit(program, command, taking=taking)
        return
    remove, add = program.commands(command)
    ended = _run(remove)
    if taking:
        if ended.returncode and _run([program.name, "mcp", "get", SERVER_NAME]).returncode == 0:
            raise _failed(program, ended)
        return
    added = _run(add)
    if added.returncode:
        raise _failed(program, added)


def _run(words: list[str]) -> subprocess.CompletedProcess[str]:
    """The program's own command, in the person's environment, with nothing to type into."""
    try:
        return subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=MCP_INSTALL_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise VendorFailed(f"{words[0]} could not be asked: {error}", vendor=words[0]) from error


def _failed(program: Program, ended: subprocess.CompletedProcess[str]) -> EkidenError:
    said = line_of((ended.stderr or ended.stdout).strip()[-500:])
    return VendorFailed(
        f"{program.label} did not take it.", vendor=program.name, exit_code=ended.returncode, said=said
    )


def _edit(program: Program, command: list[str], *, taking: bool) -> None:
    """Changes one entry in a file of settings; the file is replaced whole, and keeps its mode."""
    assert program.entry is not None
    path = program.settings
    try:
        text = path.read_text("utf-8") if path.exists() else "{}"
        settings: Any = json.loads(text) if len(text) <= MCP_SETTINGS_BYTES_MAX else None
    except ValueError:
        settings = None
    if not isinstance(settings, dict):
        raise Conflict(
            f"{path} is not plain JSON, so it is left alone.", hint="Add the entry by hand: `ekiden mcp install`."
        )
    held = cast(Json, settings)
    section = held.setdefault(program.section, {})
    if not isinstance(section, dict):
        raise Conflict(f"{program.section} in {path} is no object, so it is left alone.")
    entries = cast(Json, section)
    if taking:
        entries.pop(SERVER_NAME, None)
        if not entries:
            del held[program.section]
    else:
        entries[SERVER_NAME] = program.entry(command)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(json.dumps(held, indent=2, ensure_ascii=False) + "\n")
    fresh.replace(path)


def _key_line(home: Path, agent: str, *, taking: bool) -> str:
    """Makes the agent's key, or ends it; says what became of it."""
    path = seat_path(home, agent)
    try:
        if taking:
            return end_seat(home, agent)
        if read_seat(path) is not None:
            return f"The agent {agent} has its key already, in {path}."
        make_seat(home, agent)
    except Unavailable:
        when = "keeps its key" if taking else "gets its key when it first calls"
        return f"The agent {agent} {when}, since no hub runs now."
    except EkidenError as error:
        return f"{error.message} {error.hint}"
    return f"The agent {agent} has a key of its own now, in {path} (for you only). `ekiden keys` shows its rights."
