"""Finds the demo agent's sessions and the live agents that hold one.

A running agent keeps its holder file locked. The lock is the proof of life: it goes with the process however
it ends, and cannot be mistaken for another process that got the same number later.
"""

import fcntl
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from ekiden.vendors.demo.native import FORMAT_VERSION, holders_folder, sessions_folder
from ekiden.vendors.port import FoundFile, Owner, Program

HOLDER_BYTES_MAX = 4096


class HolderFile(msgspec.Struct):
    """What a running agent says of itself."""

    session: str
    pid: int
    started_at: float
    busy: bool = False
    waits_for: str = ""


class DemoDiscovery:
    """The demo agent's sessions below the data folder `home`."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def roots(self) -> Sequence[Path]:
        """Its session folder."""
        return (sessions_folder(self._home),)

    def files(self) -> Iterable[FoundFile]:
        """All session files, newest first."""
        try:
            paths = list(sessions_folder(self._home).iterdir())
        except OSError:
            return []
        found = [file for path in paths if (file := self.recognise(path)) is not None]
        return sorted(found, key=lambda file: file.modified_at, reverse=True)

    def recognise(self, path: Path) -> FoundFile | None:
        """`path` as a session file, or None."""
        if path.suffix != ".jsonl" or path.parent != sessions_folder(self._home):
            return None
        try:
            status = path.stat()
        except OSError:
            return None
        return FoundFile(path, path.stem, status.st_size, status.st_mtime)

    def owners(self) -> Mapping[str, Owner]:
        """Native id -> the agent process whose holder file is locked."""
        owners: dict[str, Owner] = {}
        try:
            paths = list(holders_folder(self._home).iterdir())
        except OSError:
            return owners
        for path in paths:
            holder = read_holder(path)
            if holder is not None:
                owners[holder.session] = Owner(
                    pid=holder.pid,
                    started_at=holder.started_at,
                    program="Demo agent",
                    busy=holder.busy,
                    waits_for=holder.waits_for,
                    evidence=f"{path} is locked by the running agent",
                )
        return owners

    def titles(self) -> Mapping[str, str]:
        """None: titles are in the files."""
        return {}

    def program(self) -> Program | None:
        """The agent is part of Ekiden, so it is always there."""
        return Program(Path(sys.executable), str(FORMAT_VERSION))

    def notices(self) -> Sequence[str]:
        """Nothing to say."""
        return ()


def read_holder(path: Path) -> HolderFile | None:
    """What the holder file says if a live process keeps it locked, else None."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return msgspec.json.decode(os.read(descriptor, HOLDER_BYTES_MAX), type=HolderFile)
        return None
    except (OSError, msgspec.DecodeError):
        return None
    finally:
        os.close(descriptor)
