"""Finds Claude Code's sessions on this computer: files, live processes, the program itself. Reads only.

Files lie in `projects/<folder>/<session id>.jsonl`; what a sub-agent did lies in
`projects/<folder>/<session id>/subagents/agent-<name>.jsonl` with a `.meta.json` beside it, in older versions in
`projects/<folder>/agent-<name>.jsonl`. The folder's name stands for a path, but several paths share one name:
it is never decoded. A link that leads out of the root is refused.
"""

import importlib.util
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from ekiden.kernel.limits import CLAUDE_REGISTRY_BYTES_MAX, CLAUDE_VERSION_S
from ekiden.vendors.claude import registry
from ekiden.vendors.claude.registry import SESSION_ID
from ekiden.vendors.claude.rows import any_value, as_map, as_text, decode
from ekiden.vendors.port import Environment, FoundFile, Owner, Program

_AGENT = re.compile(r"agent-([A-Za-z0-9_-]{1,128})")
_VERSION = re.compile(r"\d+\.\d+\.\d+\S*")
_DAYS_KEPT_DEFAULT = 30
_KEPT_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL")


class Sidecar(msgspec.Struct, rename="camel"):
    """`agent-<name>.meta.json`."""

    tool_use_id: str | None = None
    agent_type: str | None = None


class ClaudeDiscovery:
    """`home` is the person's home folder; `environment` says where the program and its folder are
    (`PATH`, `CLAUDE_CONFIG_DIR`)."""

    def __init__(self, home: Path, environment: Environment) -> None:
        configured = environment.get("CLAUDE_CONFIG_DIR", "")
        self.root = Path(configured) if configured else home / ".claude"
        self._home = home
        self._environment = environment
        self._projects = self.root / "projects"
        self._program: tuple[Path, float, Program] | None = None
        self._refused: set[str] = set()
        self._callers: tuple[tuple[tuple[Path, int], ...], Mapping[str, str]] = ((), {})
        """The newest answer of `callers`: the files of one session are read one after the other."""

    def roots(self) -> Sequence[Path]:
        """The folders of session files and of the live registry."""
        return (self._projects, self.root / "sessions")

    def files(self) -> Iterable[FoundFile]:
        """All session files and sub-agents' files, newest first."""
        inside: dict[Path, bool] = {}
        found = [file for path in self._candidates() if (file := self._recognise(path, inside)) is not None]
        found.sort(key=lambda file: file.modified_at, reverse=True)
        return found

    def recognise(self, path: Path) -> FoundFile | None:
        """What `path` is, by its place below the root; None for anything else, and for what is no plain file."""
        return self._recognise(path, {})

    def _recognise(self, path: Path, inside: dict[Path, bool]) -> FoundFile | None:
        try:
            parts = path.relative_to(self._projects).parts
        except ValueError:
            return None
        if path.suffix != ".jsonl" or len(parts) < 2:
            return None
        agent = _AGENT.fullmatch(path.stem)
        thread = agent.group(1) if agent else ""
        if len(parts) == 2 and SESSION_ID.fullmatch(path.stem):
            native_id = path.stem
        elif agent and len(parts) >= 4 and SESSION_ID.fullmatch(parts[1]) and "subagents" in parts[2:-1]:
            native_id = parts[1]
        elif agent and len(parts) == 2:
            native_id = self._session_named_in(path)
        else:
            return None
        details = self._plain(path, inside)
        if not native_id or details is None:
            return None
        return FoundFile(path, native_id, details.st_size, details.st_mtime, thread=thread)

    def owners(self) -> Mapping[str, Owner]:
        """Session id -> the live process that holds it; the registry's word before what /proc shows."""
        return {
            **registry.seen_in_proc(self.root),
            **registry.registered(self.root / "sessions"),
        }

    def titles(self) -> Mapping[str, str]:
        """None: Claude Code keeps titles in the session files."""
        return {}

    def program(self) -> Program | None:
        """The `claude` on the PATH, or where its installer puts it, or the one inside `claude-agent-sdk`."""
        path = self._program_path()
        if path is None:
            return None
        try:
            modified_at = path.stat().st_mtime
        except OSError:
            return None
        known = self._program
        if known is None or known[:2] != (path, modified_at):
            version = self._version(path)
            if not version:
                return None
            self._program = known = (path, modified_at, Program(path, version))
        return known[2]

    def notices(self) -> Sequence[str]:
        """What a person should know of this installation."""
        said: list[str] = []
        if not self._projects.is_dir():
            said.append(f"There are no Claude Code sessions yet: {self._projects} does not exist.")
        elif not os.access(self._projects, os.R_OK | os.X_OK):
            said.append(f"Claude Code's sessions cannot be read: no permission for {self._projects}.")
        if self._program_path() is None:
            said.append("Claude Code is not installed, so its sessions can be read, but not continued here.")
        elif self.program() is None:
            said.append("Claude Code is installed, but does not say its version, so it is not used.")
        days = self._days_kept()
        if days:
            said.append(
                f"Claude Code deletes session files after {days} days (cleanupPeriodDays in its settings.json)."
            )
        said += [f"{name} leads out of Claude Code's folder and is not read." for name in sorted(self._refused)]
        return said

    def callers(self, file: FoundFile) -> Mapping[str, str]:
        """Tool-use id -> thread, for the sub-agents of the session: one of them may have started another."""
        session = file.path.with_suffix("")
        if file.thread:
            session = next((one for one in file.path.parents if one.name == file.native_id), session)
        paths = [path for path in self._below(session / "subagents") if _AGENT.fullmatch(path.stem)]
        seen = tuple((path, _modified_ns(path.with_suffix(".meta.json"))) for path in paths)
        if self._callers[0] != seen:
            self._callers = (seen, {self.called_by(path): path.stem.removeprefix("agent-") for path in paths})
        return {called_by: thread for called_by, thread in self._callers[1].items() if called_by}

    def called_by(self, path: Path) -> str:
        """The tool-use id of the call that started the sub-agent of this file; empty if it is not told."""
        sidecar = path.with_suffix(".meta.json")
        if self._plain(sidecar) is None:
            return ""
        try:
            with sidecar.open("rb") as file:
                told = decode(file.read(CLAUDE_REGISTRY_BYTES_MAX), Sidecar)
        except OSError:
            return ""
        return (told.tool_use_id or "") if told else ""

    def _candidates(self) -> Iterator[Path]:
        for project in _listed(self._projects):
            for path in _listed(project):
                if path.suffix == ".jsonl":
                    yield path
                elif SESSION_ID.fullmatch(path.name):
                    yield from self._below(path / "subagents")

    def _below(self, folder: Path) -> Iterator[Path]:
        waiting = [folder]
        while waiting:
            for path in _listed(waiting.pop()):
                if path.suffix == ".jsonl":
                    yield path
                elif path.suffix == "" and path.is_dir() and not path.is_symlink():
                    waiting.append(path)

    def _plain(self, path: Path, inside: dict[Path, bool] | None = None) -> os.stat_result | None:
        """The file's details if it is a plain file that lies below the root. `inside` remembers, for one look
        at many files, which folders do."""
        inside = {} if inside is None else inside
        try:
            details = path.lstat()
            if stat.S_ISLNK(details.st_mode):
                is_inside = self._is_inside(path)
                details = path.stat()
            else:
                folder = path.parent
                if folder not in inside:
                    inside[folder] = self._is_inside(folder)
                is_inside = inside[folder]
        except (OSError, RuntimeError):
            return None
        if not is_inside:
            self._refused.add(str(path))
            return None
        return details if stat.S_ISREG(details.st_mode) else None

    def _is_inside(self, path: Path) -> bool:
        return path.resolve(strict=True).is_relative_to(self._projects.resolve())

    def _session_named_in(self, path: Path) -> str:
        """The session id in the first line of an older sub-agent's file."""
        if self._plain(path) is None:
            return ""
        try:
            with path.open("rb") as file:
                line = file.readline(CLAUDE_REGISTRY_BYTES_MAX)
        except OSError:
            return ""
        named = as_text(as_map(any_value(line)).get("sessionId"))
        return named if SESSION_ID.fullmatch(named) else ""

    def _program_path(self) -> Path | None:
        on_path = shutil.which("claude", path=self._environment.get("PATH", ""))
        places = [Path(on_path)] if on_path else []
        places += [self._home / ".local/bin/claude", self._home / ".claude/local/claude"]
        package = importlib.util.find_spec("claude_agent_sdk")
        if package is not None and package.origin:
            places.append(Path(package.origin).parent / "_bundled" / "claude")
        return next((place for place in places if place.is_file() and os.access(place, os.X_OK)), None)

    def _version(self, path: Path) -> str:
        kept = {name: self._environment[name] for name in _KEPT_ENVIRONMENT if name in self._environment}
        try:
            told = subprocess.run(
                [str(path), "--version"],
                capture_output=True,
                timeout=CLAUDE_VERSION_S,
                env={**kept, "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1"},
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        found = _VERSION.search(told.stdout.decode("utf-8", "replace"))
        return found.group(0) if found and told.returncode == 0 else ""

    def _days_kept(self) -> int:
        """After how many days the program deletes session files; 0 if it does not say or keeps them for years."""
        try:
            raw = (self.root / "settings.json").read_bytes()[: CLAUDE_REGISTRY_BYTES_MAX * 16]
        except OSError:
            raw = b"{}"
        days = as_map(any_value(raw)).get("cleanupPeriodDays", _DAYS_KEPT_DEFAULT)
        return days if isinstance(days, int) and not isinstance(days, bool) and 0 < days < 3650 else 0


def _modified_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _listed(folder: Path) -> list[Path]:
    """What is in a folder; nothing if it cannot be read."""
    try:
        return [Path(entry.path) for entry in os.scandir(folder)]
    except OSError:
        return []
