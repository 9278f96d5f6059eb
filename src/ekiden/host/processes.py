"""What runs on this computer, from /proc: who is whose child, who carries a run's tag, and how to end them.

A process is named by pid and start time, because pids are used again. Reading another user's process gives
nothing, and what vanishes while it is read counts as gone.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ekiden.host.environment import RUN_TAG, SEAT_FILE
from ekiden.kernel.limits import END_KILL_S, END_ROUNDS_MAX, END_TERM_S

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")
_COMMAND_CHARS = 80
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Process:
    """One process at the time of the look. `started` is in clock ticks since boot: unique with the pid."""

    pid: int
    parent: int
    group: int
    started: int
    command: str

    @property
    def name(self) -> str:
        """What a person would recognise: `sleep 600 (pid 4711)`."""
        return f"{self.command or '?'} (pid {self.pid})"


def process_of(pid: int) -> Process | None:
    """The process with this pid, or None if there is none or it is a zombie."""
    try:
        text = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
        command = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    if fields[0] in ("Z", "X"):
        return None
    words = command.replace(b"\0", b" ").decode("utf-8", "replace").strip()[:_COMMAND_CHARS]
    return Process(pid, int(fields[1]), int(fields[2]), int(fields[19]), words)


def started_at(process: Process) -> float:
    """When a process began, in seconds since the epoch."""
    with open(_PROC / "stat", encoding="ascii") as file:
        boot = next((int(line.split()[1]) for line in file if line.startswith("btime ")), 0)
    return boot + process.started / _TICKS_PER_S


def all_processes() -> dict[int, Process]:
    """All processes by pid."""
    found: dict[int, Process] = {}
    with os.scandir(_PROC) as entries:
        for entry in entries:
            if entry.name.isdigit():
                process = process_of(int(entry.name))
                if process is not None:
                    found[process.pid] = process
    return found


def run_of(pid: int) -> str:
    """The run id in the environment that a process was started with; empty if it has none or may not be read."""
    return _variable(pid, RUN_TAG)


def serves_tools(pid: int) -> bool:
    """Whether a process is the server of a session's own tools, or was started by it."""
    return bool(_variable(pid, SEAT_FILE))


def _variable(pid: int, name: str) -> str:
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return ""
    tag = f"{name}=".encode()
    for entry in environment.split(b"\0"):
        if entry.startswith(tag):
            return entry[len(tag) :].decode("utf-8", "replace")
    return ""


def descendants(of: int, processes: Mapping[int, Process]) -> set[int]:
    """Pids of all children, their children and so on."""
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    waiting = list(children.get(of, ()))
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting.extend(children.get(pid, ()))
    return found


def of_run(run_id: str, pid: int = 0) -> dict[int, Process]:
    """Processes of a run by pid: those with its tag, and below the process `pid` (without it), and all in process
    groups that one of these leads."""
    processes = all_processes()
    pids = {found for found in processes if run_of(found) == run_id} if run_id else set[int]()
    if pid:
        pids |= descendants(pid, processes)
    groups = {processes[found].group for found in pids if processes[found].group == found}
    pids |= {process.pid for process in processes.values() if process.group in groups}
    for found in list(pids):
        pids |= descendants(found, processes)
    pids -= {pid, os.getpid()}
    return {found: processes[found] for found in pids}


def ticks_now() -> int:
    """This moment on the clock of `Process.started`."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS_PER_S)


def begun_since(
    ticks: int, found: Mapping[int, Process], kept: Mapping[int, Process] | None = None
) -> dict[int, Process]:
    """Of `found`, what began since `ticks` and is neither one of `kept` nor below something older: what a server
    of a program starts late (`npx` starts `node`) belongs to the server, not to the turn that runs by then."""
    older = {pid for pid, process in found.items() if process.started < ticks}
    older |= {
        pid for pid, process in (kept or {}).items() if pid in found and found[pid].started == process.started
    }
    for pid in list(older):
        older |= descendants(pid, found)
    return {pid: process for pid, process in found.items() if pid not in older}


def strays(ticks: int, folder: Path) -> list[Process]:
    """Processes that began since `ticks` in `folder` with an empty environment and belong to nobody there: nothing
    ties them to a run any more, so they are not ended, but they can be named."""
    found: list[Process] = []
    for process in all_processes().values():
        if process.started < ticks or _inside(process.parent, folder) or not _inside(process.pid, folder):
            continue
        try:
            environment = (_PROC / str(process.pid) / "environ").read_bytes()
        except OSError:
            continue
        if not environment.strip(b"\0"):
            found.append(process)
    return found


def _inside(pid: int, folder: Path) -> bool:
    try:
        return Path(os.readlink(_PROC / str(pid) / "cwd")).is_relative_to(folder)
    except OSError:
        return False


def tagged() -> dict[str, dict[int, Process]]:
    """All processes that carry a run's tag, by run id."""
    runs: dict[str, dict[int, Process]] = {}
    for pid, process in all_processes().items():
        run_id = run_of(pid)
        if run_id:
            runs.setdefault(run_id, {})[pid] = process
    return runs


def still_there(process: Process) -> bool:
    """Whether this very process (not another with its pid) is still alive."""
    now = process_of(process.pid)
    return now is not None and now.started == process.started


def _send(process: Process, number: signal.Signals) -> None:
    if still_there(process):
        try:
            os.kill(process.pid, number)
        except (ProcessLookupError, PermissionError):
            return


def _wait(processes: Iterable[Process], seconds: float) -> list[Process]:
    deadline = time.monotonic() + seconds
    left = [process for process in processes if still_there(process)]
    while left and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        left = [process for process in left if still_there(process)]
    return left


def end_all(
    find: Callable[[], Mapping[int, Process]], *, term_s: float = END_TERM_S, kill_s: float = END_KILL_S
) -> list[Process]:
    """Ends all processes that `find` gives: asks (TERM), then makes (KILL), and looks again, because a process
    may start another at the last moment. Blocks up to `END_ROUNDS_MAX` rounds. Returns what is left over."""
    left: list[Process] = []
    for _ in range(END_ROUNDS_MAX):
        found = list(find().values())
        if not found:
            return []
        for process in found:
            _send(process, signal.SIGTERM)
        left = _wait(found, term_s)
        for process in left:
            _send(process, signal.SIGKILL)
        left = _wait(left, kill_s)
        if left:
            return left
    return list(find().values())
