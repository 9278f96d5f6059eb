"""Which live process holds a Codex thread, from the kernel's own tables.

Codex holds an exclusive `flock` on `thread-writer-locks/<thread id>.lock` for as long as it has a thread
loaded, from before the rollout exists. A lock file by itself says nothing: after a crash it stays behind. So the
proof is the kernel's list of locks, never an attempt to take one, which could make Codex itself fail. Versions
without locks are known by the rollout that they keep open.
"""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from ekiden.vendors.port import Owner

_LOCKS = Path("/proc/locks")
_FLOCK = re.compile(r"FLOCK\s+ADVISORY\s+WRITE\s+(\d+)\s+[0-9a-f]+:[0-9a-f]+:(\d+)\s")
_THREAD_IN_NAME = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})[^/]*\.jsonl$")
_PROGRAMS = {"app-server": "Codex app-server", "exec": "Codex exec", "mcp-server": "Codex MCP server"}


def owners_of(codex_home: Path, own_pids: frozenset[int]) -> dict[str, Owner]:
    """Thread id -> owner. Empty where the system has no `/proc`."""
    if sys.platform != "linux":
        return {}
    owners: dict[str, Owner] = {}
    for thread_id, pid, evidence in (*_by_open_file(codex_home), *_by_lock(codex_home)):
        if pid in own_pids:
            owners.pop(thread_id, None)
            continue
        owner = _owner(pid, evidence)
        if owner is not None:
            owners[thread_id] = owner
    return owners


def _by_lock(codex_home: Path) -> Iterator[tuple[str, int, str]]:
    folder = codex_home / "thread-writer-locks"
    files: dict[int, Path] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".lock") and not entry.name.startswith("."):
                    files[entry.inode()] = Path(entry.path)
        table = _LOCKS.read_text("ascii", "replace") if files else ""
    except OSError:
        return
    for pid, inode in _FLOCK.findall(table):
        path = files.get(int(inode))
        # Inode numbers are unique within one file system only: the holder must have this very file open.
        if path is not None and int(pid) > 0 and str(path.resolve()) in set(_open_files(int(pid))):
            yield path.stem, int(pid), f"it holds the lock {path}"


def _by_open_file(codex_home: Path) -> Iterator[tuple[str, int, str]]:
    sessions = f"{(codex_home / 'sessions').resolve()}/"
    for pid in _codex_processes():
        for name in _open_files(pid):
            found = _THREAD_IN_NAME.search(name) if name.startswith(sessions) else None
            if found is not None:
                yield found[1], pid, f"it has {name} open"


def _codex_processes() -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                command = Path("/proc", name, "comm").read_text("utf-8", "replace")
            except OSError:
                continue
            if command.startswith("codex"):
                yield int(name)


def _open_files(pid: int) -> Iterator[str]:
    folder = f"/proc/{pid}/fd"
    try:
        descriptors = os.listdir(folder)
    except OSError:
        return
    for descriptor in descriptors:
        try:
            yield os.readlink(f"{folder}/{descriptor}")
        except OSError:
            continue


def _owner(pid: int, evidence: str) -> Owner | None:
    """What a person would call the process, and when it began; None if it has ended meanwhile."""
    try:
        stat = Path("/proc", str(pid), "stat").read_text("utf-8", "replace")
        words = Path("/proc", str(pid), "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    if fields[0] in ("Z", "X"):
        return None
    has_terminal = fields[4] != "0"
    named = next((_PROGRAMS[word] for word in words[1:] if word in _PROGRAMS), "")
    return Owner(
        pid=pid,
        started_at=_boot_time() + int(fields[19]) / os.sysconf("SC_CLK_TCK"),
        program=named or ("Codex in a terminal" if has_terminal else "Codex"),
        evidence=evidence,
    )


def _boot_time() -> float:
    for line in Path("/proc/stat").read_text("ascii", "replace").splitlines():
        if line.startswith("btime "):
            return float(line[6:])
    return 0.0
