"""Which project a session belongs to: the git top level of the folder that its lines name.

Folder names of a vendor's store are never decoded: several projects share one. Only `.git` entries are looked
at, no program is run. A linked worktree counts as the project that it was made from.
"""

import os
import re
from pathlib import Path

_GIT_FILE_BYTES_MAX = 4096
_LEVELS_MAX = 64
_KEPT_MAX = 4096
_WORKTREE = re.compile(r"^gitdir:\s*(.+?)/\.git/worktrees/[^/]+/?\s*$")


class Projects:
    """Answers with a memory: a folder's project is looked up once."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, cwd: str) -> str:
        """The project of `cwd`: its git top level, or `cwd` itself where there is none or it is gone."""
        if not cwd:
            return ""
        known = self._known.get(cwd)
        if known is None:
            if len(self._known) >= _KEPT_MAX:
                self._known.clear()
            known = self._known[cwd] = _top_level(cwd) or cwd
        return known


def _top_level(cwd: str) -> str:
    folder = Path(cwd)
    if not folder.is_absolute():
        return ""
    for _ in range(_LEVELS_MAX):
        entry = folder / ".git"
        try:
            if entry.is_dir():
                return str(folder)
            if entry.is_file():
                return _of_git_file(entry) or str(folder)
        except OSError:
            return ""
        if folder.parent == folder:
            return ""
        folder = folder.parent
    return ""


def _of_git_file(entry: Path) -> str:
    try:
        with entry.open("rb") as file:
            text = file.read(_GIT_FILE_BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return ""
    found = _WORKTREE.match(text)
    if not found:
        return ""
    main = os.path.normpath(entry.parent / found[1])
    return main if os.path.isdir(main) else ""
