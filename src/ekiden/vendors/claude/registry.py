"""Which live process holds a session: Claude Code's own registry, and what /proc shows.

Claude Code rewrites `sessions/<pid>.json` on each change: pid, sessionId, cwd, startedAt (ms), entrypoint, kind,
status (`busy`, `idle`), waitingFor. An entry counts only if its process is alive and began before the entry was
made; so a pid that is used again is told apart. The form is undocumented, so every field may be missing.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ekiden.kernel.limits import CLAUDE_REGISTRY_BYTES_MAX, CLAUDE_REGISTRY_TRIES_MAX, CLAUDE_START_SLACK_S
from ekiden.vendors.claude import processes
from ekiden.vendors.claude.rows import decode
from ekiden.vendors.port import Owner

SESSION_ID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PROGRAMS: Mapping[str, str] = {
    "cli": "Claude Code in a terminal",
    "sdk-cli": "Claude Code run by a program",
    "sdk-py": "Claude Code run by a Python program",
    "sdk-ts": "Claude Code run by a program",
    "claude-vscode": "Claude Code in VS Code",
    "claude-desktop": "Claude Code in the desktop app",
}
_NAME = "Claude Code"


class Entry(msgspec.Struct, rename="camel"):
    """One registry file."""

    pid: int | None = None
    session_id: str | None = None
    started_at: float | None = None
    entrypoint: str | None = None
    status: str | None = None
    waiting_for: str | None = None
    tmux: str | None = None


def registered(folder: Path) -> dict[str, Owner]:
    """Session id -> the process that its registry entry names, if it is alive."""
    owners: dict[str, Owner] = {}
    try:
        paths = sorted(folder.glob("*.json"))
    except OSError:
        return owners
    for path in paths:
        entry, made_at = _read(path)
        if entry is None or entry.pid is None or not entry.session_id or not path.stem.isdigit():
            continue
        began_at = processes.started_at(entry.pid)
        if began_at is None or int(path.stem) != entry.pid:
            continue
        told_at = entry.started_at / 1000 if entry.started_at else made_at
        if began_at > told_at + CLAUDE_START_SLACK_S:
            continue
        where = f" (tmux {entry.tmux})" if entry.tmux else ""
        owners[entry.session_id] = Owner(
            pid=entry.pid,
            started_at=began_at,
            program=_PROGRAMS.get(entry.entrypoint or "", _NAME) + where,
            busy={"busy": True, "waiting": True, "idle": False}.get(entry.status or ""),
            waits_for=entry.waiting_for or "",
            evidence=f"its registry file {path.name}",
        )
    return owners


def _read(path: Path) -> tuple[Entry | None, float]:
    """An entry and when it was written; tried again while it is torn."""
    for _ in range(CLAUDE_REGISTRY_TRIES_MAX):
        try:
            with path.open("rb") as file:
                raw = file.read(CLAUDE_REGISTRY_BYTES_MAX)
            made_at = path.stat().st_mtime
        except OSError:
            return None, 0.0
        entry = decode(raw, Entry)
        if entry is not None:
            return entry, made_at
    return None, 0.0


def seen_in_proc(root: Path) -> dict[str, Owner]:
    """Session id -> a live `claude` of the same folder `root` that was started on it or has its file open."""
    root = root.resolve()
    owners: dict[str, Owner] = {}
    for pid in processes.all_pids():
        words = processes.command_line(pid)
        if not any(Path(word).name in ("claude", "claude.exe") or "claude-code" in word for word in words[:2]):
            continue
        named = _named_session(words)
        found = {named: "its command line"} if named and _root_of(pid) == root else {}
        for name in processes.open_files(pid):
            path = Path(name)
            if path.suffix == ".jsonl" and SESSION_ID.fullmatch(path.stem) and path.is_relative_to(root):
                found[path.stem] = "it has the session file open"
        began_at = processes.started_at(pid) if found else None
        if began_at is not None:
            for session_id, evidence in found.items():
                owners[session_id] = Owner(pid, began_at, _NAME, evidence=evidence)
    return owners


def _root_of(pid: int) -> Path | None:
    """The folder that a process keeps its sessions in; another home's sessions may have any id."""
    environment = processes.environment_of(pid)
    configured, home = environment.get("CLAUDE_CONFIG_DIR"), environment.get("HOME")
    if configured:
        return Path(configured).resolve()
    return (Path(home) / ".claude").resolve() if home else None


def _named_session(words: list[str]) -> str:
    """The session that a command line goes on with or begins; a fork leaves the one that it names alone."""
    values: dict[str, str] = {}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        flag, is_joined, value = word.partition("=")
        if flag in ("--resume", "-r", "--session-id"):
            values[flag] = value if is_joined else following
    if "--fork-session" in words:
        values = {flag: value for flag, value in values.items() if flag == "--session-id"}
    return next((value for value in values.values() if SESSION_ID.fullmatch(value)), "")
