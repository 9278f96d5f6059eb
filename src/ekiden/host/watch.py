"""Hearing that files change: inotify, and a slow sweep beneath it that trusts nothing.

A root that is not there yet is waited for at its nearest ancestor that is, by the one name that leads to it: what
a vendor's program makes on its first start is followed from the first line.

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
_ADD_TO_MASK = 0x20000000
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
_WAITED = _MOVED_TO | _CREATE | _DELETE_SELF | _MOVE_SELF | _ONLY_FOLDERS | _ADD_TO_MASK
_APPEARED = _CREATE | _MOVED_TO
_VANISHED = _IGNORED | _DELETE_SELF | _MOVE_SELF
_HEAD = struct.Struct("iIII")
_READ_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Changes:
    """What was heard at once. `created`: those of `paths` that were not there before. `missed`: more happened than
    could be told; look at everything."""

    paths: frozenset[str]
    new_folders: frozenset[str]
    created: frozenset[str] = frozenset()
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
        self._roots: set[str] = set()
        self._waits: dict[str, set[str]] = {}
        """Folder -> names in it that lead to a root that is not there yet."""
        self._descriptor = -1
        self._last = -1
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

    def follow(self, roots: Iterable[Path | str]) -> None:
        """Watches roots for good: each with everything below it while it is there, else its nearest ancestor."""
        if self._descriptor < 0:
            return
        for folder in roots:
            root = os.fspath(folder)
            self._roots.add(root)
            if root not in self._watches:
                self._begin(root)

    def add(self, folders: Iterable[Path | str]) -> None:
        """Watches folders and all folders below them that exist now. Missing ones are passed over."""
        if self._descriptor < 0:
            return
        self._listen()
        waiting = [os.fspath(folder) for folder in folders]
        while waiting:
            folder = waiting.pop()
            if not self._add_one(folder, _WANTED):
                continue
            self._watches[folder] = self._last
            try:
                with os.scandir(folder) as entries:
                    waiting.extend(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
            except OSError:
                continue

    def _listen(self) -> None:
        if not self._reading:
            asyncio.get_running_loop().add_reader(self._descriptor, self._read)
            self._reading = True

    def _add_one(self, folder: str, mask: int) -> bool:
        watch = self._add(self._descriptor, os.fsencode(folder), mask)
        if watch < 0:
            code = ctypes.get_errno()
            if code not in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
                self.failed = os.strerror(code)
            return False
        if mask & _ADD_TO_MASK:
            self._folders.setdefault(watch, folder)
        else:
            self._folders[watch] = folder
        self._last = watch
        return True

    def _begin(self, root: str) -> bool:
        """Watches a root, or waits for it; True if it is watched now."""
        nearest = ""
        while True:
            self.add([root])
            if root in self._watches:
                return True
            folder, name = os.path.split(root)
            while name and not self._wait(folder, name):
                folder, name = os.path.split(folder)
            if folder == nearest or not (name and os.path.isdir(os.path.join(folder, name))):
                return False
            nearest = folder  # the next folder came between the two looks, so a nearer one can be waited at

    def _wait(self, folder: str, name: str) -> bool:
        """Waits for `name` in `folder`; False if the folder is not there either."""
        if self._add_one(folder, _WAITED):
            self._waits.setdefault(folder, set()).add(name)
            return True
        return False

    def _lead(self) -> set[str]:
        """Goes on towards the roots that are not there; returns those that have appeared."""
        waited, self._waits = set(self._waits), {}
        appeared = {root for root in self._roots if root not in self._watches and self._begin(root)}
        for watch, folder in list(self._folders.items()):
            if folder in waited and folder not in self._waits and folder not in self._watches:
                self._libc.inotify_rm_watch(self._descriptor, watch)
        return appeared

    def watches(self, folder: Path | str) -> bool:
        """Whether changes right in `folder` are heard."""
        return os.fspath(folder) in self._watches

    @property
    def count(self) -> int:
        """How many folders are watched."""
        return len(self._watches)

    def hear(self) -> None:
        """Takes at once what the kernel has to tell."""
        if self._reading:
            self._read()

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        paths: set[str] = set()
        new_folders: set[str] = set()
        created: set[str] = set()
        missed = leads = False
        position = 0
        while position + _HEAD.size <= len(data):
            watch, mask, _, length = _HEAD.unpack_from(data, position)
            raw_name = data[position + _HEAD.size : position + _HEAD.size + length].rstrip(b"\0")
            position += _HEAD.size + length
            if mask & _OVERFLOW:
                missed = leads = True
                continue
            folder = self._folders.get(watch)
            if folder is None:
                continue
            if mask & _VANISHED:
                leads = True
                self._folders.pop(watch, None)
                if mask & _MOVE_SELF:
                    self._libc.inotify_rm_watch(self._descriptor, watch)
                if self._watches.get(folder) == watch:
                    del self._watches[folder]
                    paths.add(folder)
                continue
            name = os.fsdecode(raw_name)
            if mask & _APPEARED and name in self._waits.get(folder, ()):
                leads = True
            if folder not in self._watches:
                continue
            path = os.path.join(folder, name) if name else folder
            if mask & _IS_FOLDER and mask & _APPEARED:
                self.add([path])
                new_folders.add(path)
                continue
            paths.add(path)
            if mask & _APPEARED:
                created.add(path)
        if leads:
            new_folders |= self._lead()
        if paths or new_folders or missed:
            self._heard(Changes(frozenset(paths), frozenset(new_folders), frozenset(created), missed))

    def close(self) -> None:
        """Stops watching."""
        if self._descriptor < 0:
            return
        if self._reading:
            asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1
