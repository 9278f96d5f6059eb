"""What a process started, from /proc, so that letting a session go leaves nothing behind.

A process is named by pid and start time, because pids are used again. Where there is no /proc nothing is found.
"""

import os
import signal
from collections.abc import Iterable
from pathlib import Path

PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def start_ticks(pid: int) -> int | None:
    """When `pid` began, in clock ticks since boot; None if there is no such live process."""
    fields = _stat(pid)
    return int(fields[19]) if fields and fields[0] not in ("Z", "X") else None


def started_at(pid: int) -> float | None:
    """When `pid` began, in seconds since the epoch; None if it is not alive or cannot be told."""
    ticks = start_ticks(pid)
    if ticks is None:
        return None
    try:
        for line in (PROC / "stat").read_text("ascii").splitlines():
            if line.startswith("btime "):
                return int(line.split()[1]) + ticks / _TICKS_PER_S
    except (OSError, ValueError):
        return None
    return None


def below(pid: int) -> list[tuple[int, int]]:
    """(pid, start) of all children of `pid`, their children and so on."""
    children: dict[int, list[int]] = {}
    for other in _pids():
        fields = _stat(other)
        if fields:
            children.setdefault(int(fields[1]), []).append(other)
    found: list[tuple[int, int]] = []
    waiting = list(children.get(pid, ()))
    while waiting:
        other = waiting.pop()
        ticks = start_ticks(other)
        if ticks is not None:
            found.append((other, ticks))
        waiting += children.get(other, ())
    return found


def kill(processes: Iterable[tuple[int, int]]) -> None:
    """Kills those of the processes that are still the same."""
    for pid, ticks in processes:
        if start_ticks(pid) == ticks:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue


def command_line(pid: int) -> list[str]:
    """The arguments that `pid` was started with; empty if they cannot be read."""
    try:
        raw = (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return []
    return raw.decode("utf-8", "replace").rstrip("\0").split("\0") if raw else []


def environment_of(pid: int) -> dict[str, str]:
    """The environment that `pid` was started with; empty if it cannot be read."""
    try:
        raw = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    entries = (entry.partition("=") for entry in raw.decode("utf-8", "replace").split("\0") if "=" in entry)
    return {name: value for name, _, value in entries}


def open_files(pid: int) -> list[str]:
    """Paths that `pid` has open; empty if they cannot be read."""
    paths: list[str] = []
    try:
        with os.scandir(PROC / str(pid) / "fd") as entries:
            for entry in entries:
                try:
                    paths.append(os.readlink(entry.path))
                except OSError:
                    continue
    except OSError:
        return paths
    return paths


def all_pids() -> list[int]:
    """Pids of all processes that can be seen."""
    return list(_pids())


def _pids() -> Iterable[int]:
    try:
        with os.scandir(PROC) as entries:
            return [int(entry.name) for entry in entries if entry.name.isdigit()]
    except OSError:
        return []


def _stat(pid: int) -> list[str]:
    try:
        text = (PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return []
    return text[text.rfind(")") + 2 :].split()
