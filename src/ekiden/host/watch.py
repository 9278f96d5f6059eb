"""Hearing that files change: inotify, and a slow sweep beneath it that trusts nothing.

The kernel's own interface is called directly (Linux `inotify(7)`): a change is on the event loop about 0.1 ms
after the write, and waiting for one costs nothing; see `docs/decisions/0003-following-files.md` for what else
was measured. Where watching fails (no watches left, a store without events) the sweep runs often, and says
`polling`.
"""

import asyncio
import ctypes
import errno
import os
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

_MODIFY = 0x00000002
_CLOSE_WRITE = 0x00000008
_MOVED_FROM = 0x00000040
_MOVED_TO = 0x00000080
_CREATE = 0x00000100
_DELETE = 0x00000200
_DELETE_SELF = 0x00000400
_MOVE_SELF = 0x00000800
_OVERFLOW = 0x00004000
_IGNORED = 0x00008000
_ONLY_FOLDERS = 0x01000000
_IS_FOLDER = 0x40000000
_WANTED = (
    _MODIFY
    | _CLOSE_WRITE
    | _MOVED_FROM
    | _MOVED_TO
    | _CREATE
    | _DELETE
    | _DELETE_SELF
    | _MOVE_SELF
    | _ONLY_FOLDERS
)
_HEAD = struct.Struct("iIII")
_READ_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Changes:
    """What was heard at once. `missed`: more happened than could be told; look at everything."""

    paths: frozenset[str]
    new_folders: frozenset[str]
    missed: bool = False


def add_watch_of(libc: ctypes.CDLL) -> Callable[[int, bytes, int], int]:
    """The system call that adds a watch: (inotify descriptor, folder, mask) -> watch, or -1 with errno."""
    return libc.inotify_add_watch


class Watcher:
    """Watches folders and everything below them. `heard` is called on the event loop."""

    def __init__(
        self,
        heard: Callable[[Changes], None],
    ) -> None:
        self._heard = heard
        self._folders: dict[int, str] = {}
        self._watches: dict[str, int] = {}
        self._descriptor = -1
        self._reading = False
        self.failed = ""
        """Why watching is not complete; empty while it is."""
        try:
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._add = add_watch_of(self._libc)
            self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if self._descriptor < 0:
                self.failed = os.strerror(ctypes.get_errno())
        except (OSError, AttributeError) as error:
            self.failed = str(error) or "this system has no inotify"

    def add(self, folders: Iterable[Path | str]) -> None:
        """Watches folders and all folders below them that exist now. Missing ones are passed over."""
        if self._descriptor < 0:
            return
        if not self._reading:
            asyncio.get_running_loop().add_reader(self._descriptor, self._read)
            self._reading = True
        waiting = [os.fspath(folder) for folder in folders]
        while waiting:
            folder = waiting.pop()
            if not self._add_one(folder):
                continue
            try:
                with os.scandir(folder) as entries:
                    waiting.extend(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
            except OSError:
                continue

    def _add_one(self, folder: str) -> bool:
        watch = self._add(self._descriptor, os.fsencode(folder), _WANTED)
        if watch < 0:
            code = ctypes.get_errno()
            if code not in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
                self.failed = os.strerror(code)
            return False
        self._folders[watch] = folder
        self._watches[folder] = watch
        return True

    def watches(self, folder: Path | str) -> bool:
        """Whether changes right in `folder` are heard."""
        return os.fspath(folder) in self._watches

    @property
    def count(self) -> int:
        """How many folders are watched."""
        return len(self._watches)

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        paths: set[str] = set()
        new_folders: set[str] = set()
        missed = False
        position = 0
        while position + _HEAD.size <= len(data):
            watch, mask, _, length = _HEAD.unpack_from(data, position)
            name = data[position + _HEAD.size : position + _HEAD.size + length].rstrip(b"\0")
            position += _HEAD.size + length
            if mask & _OVERFLOW:
                missed = True
                continue
            folder = self._folders.get(watch)
            if folder is None:
                continue
            if mask & (_IGNORED | _DELETE_SELF | _MOVE_SELF):
                self._folders.pop(watch, None)
                if self._watches.get(folder) == watch:
                    del self._watches[folder]
                if mask & _MOVE_SELF:
                    self._libc.inotify_rm_watch(self._descriptor, watch)
                paths.add(folder)
                continue
            path = os.path.join(folder, os.fsdecode(name)) if name else folder
            if mask & _IS_FOLDER and mask & (_CREATE | _MOVED_TO):
                self.add([path])
                new_folders.add(path)
            else:
                paths.add(path)
        self._heard(Changes(frozenset(paths), frozenset(new_folders), missed))

    def close(self) -> None:
        """Stops watching."""
        if self._descriptor < 0:
            return
        if self._reading:
            asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1
