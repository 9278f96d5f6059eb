"""Files beside a session that hold what was too large for its lines.

A line may name any path, so the path is data: it is opened first and judged by the open handle. What does not
lie in the session's own folder, is no plain file, or is too large, is refused and stays a bare reference.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from ekiden.kernel.limits import CLAUDE_SIDE_FILE_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a named file was not read, as a sentence."""

    reason: str


def read_side_file(session_file: Path, named: str) -> bytes | Refused:
    """The bytes of the file that a line of `session_file` names, from the folder of that session only."""
    folder = session_file.with_suffix("")
    try:
        handle = os.open(folder / named, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return Refused("It cannot be opened as a plain file.")
    try:
        details = os.fstat(handle)
        if not stat.S_ISREG(details.st_mode):
            return Refused("It is no plain file.")
        if details.st_size > CLAUDE_SIDE_FILE_BYTES_MAX:
            return Refused(f"It has {details.st_size} bytes, which is over the bound.")
        if not _lies_in(handle, details, folder, named):
            return Refused("It does not lie in the session's own folder.")
        with os.fdopen(os.dup(handle), "rb") as file:
            return file.read(CLAUDE_SIDE_FILE_BYTES_MAX)
    finally:
        os.close(handle)


def _lies_in(handle: int, details: os.stat_result, folder: Path, named: str) -> bool:
    """Whether the open file itself, whatever its name was, lies below the real folder."""
    try:
        real = Path(os.readlink(f"/proc/self/fd/{handle}"))
    except OSError:
        real = Path(os.path.realpath(folder / named))
        if not os.path.samestat(real.stat(), details):
            return False
    return real.is_relative_to(os.path.realpath(folder))
