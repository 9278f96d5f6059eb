"""One hub to a database: a lock file beside it, held by `flock`, that names its holder.

The kernel lets the lock go with its holder, so a crash leaves nothing in the way. One case remains: a child
that was forked by a dead holder still has the file open. So the file also names the holder's pid and the
moment that process started; if no such process lives (a pid that was given out again has another start), the
file is set aside and the lock is taken over.
"""

import contextlib
import fcntl
import os
from pathlib import Path

import msgspec

from ekiden.kernel.errors import StoreHeld

_HOLDER_BYTES_MAX = 4096
_TRIES_MAX = 8
_PROC = Path("/proc")


class Holder(msgspec.Struct, frozen=True):
    """Who holds a database: pid, when that process started (a mark of the kernel), since when, and its url."""

    pid: int
    started: str
    since: str
    url: str = ""


class DataLock:
    """A lock that is held. Made by `take_lock`."""

    def __init__(self, path: Path, descriptor: int, holder: Holder) -> None:
        self.path = path
        self._descriptor = descriptor
        self._holder = holder
        self._write()

    def announce(self, url: str) -> None:
        """Says where the holder can be reached, for the one who comes second."""
        self._holder = msgspec.structs.replace(self._holder, url=url)
        self._write()

    def release(self) -> None:
        """Lets the database go."""
        if self._descriptor < 0:
            return
        # Emptied, not unlinked: who waits for this very file must not end up holding one that is gone.
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)
        self._descriptor = -1

    def _write(self) -> None:
        text = msgspec.json.encode(self._holder)
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text, 0)


def lock_path(database: Path) -> Path:
    """Where the lock of a database lies."""
    return database.with_name(database.name + ".lock")


def take_lock(database: Path, *, since: str) -> DataLock:
    """Takes the database for this process. `since` is now, as RFC 3339.

    Raises:
        StoreHeld: if a living process holds it; the error names it.
    """
    path = lock_path(database)
    holder: Holder | None = None
    for _ in range(_TRIES_MAX):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read(descriptor)
            stale = holder is not None and process_start(holder.pid) != holder.started
            if stale:
                _set_aside(path, descriptor)
            os.close(descriptor)
            if stale:
                continue
            break
        if _is_still(path, descriptor):
            pid = os.getpid()
            return DataLock(path, descriptor, Holder(pid, process_start(pid), since))
        os.close(descriptor)
    raise held(holder)


def holder_of(database: Path) -> Holder | None:
    """Who holds the database at this moment; None if nobody does."""
    try:
        descriptor = os.open(lock_path(database), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(descriptor) or Holder(0, "", "")
    finally:
        os.close(descriptor)
    return None


def held(holder: Holder | None) -> StoreHeld:
    """What the one who comes second is told."""
    if holder is None or not holder.pid:
        return StoreHeld("Another process has this data.", hint="Stop it first, or name another data folder.")
    where = f" at {holder.url}" if holder.url else ""
    return StoreHeld(
        f"Another Ekiden has this data: process {holder.pid}{where}, since {holder.since}.",
        hint="Use that one, stop it first, or name another data folder.",
        pid=holder.pid,
        since=holder.since,
        url=holder.url,
    )


def process_start(pid: int) -> str:
    """A mark of the moment at which a living process started, "" if there is no such process.

    From `/proc/PID/stat`, field 22 (proc(5)), with the boot's id, since pids and ticks begin again at a boot.
    """
    try:
        stat = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return "" if _PROC.joinpath("self").exists() else _start_without_proc(pid)
    fields = stat.rpartition(")")[2].split()
    if fields[0] in "ZX":  # a zombie has let go of everything
        return ""
    boot = ""
    with contextlib.suppress(OSError):
        boot = (_PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
    return f"{boot}:{fields[19]}"


def _start_without_proc(pid: int) -> str:
    """Where there is no /proc: only whether the process lives."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except OSError:
        return "alive"
    return "alive"


def _read(descriptor: int) -> Holder | None:
    try:
        return msgspec.json.decode(os.pread(descriptor, _HOLDER_BYTES_MAX, 0), type=Holder)
    except msgspec.DecodeError:
        return None


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the open file is the one that lies at `path`."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _set_aside(path: Path, descriptor: int) -> None:
    """Removes a stale lock file, unless somebody has put a new one there: one process at a time looks."""
    guard = os.open(path.with_name(path.name + ".guard"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if _is_still(path, descriptor):
            path.unlink()
    finally:
        os.close(guard)
