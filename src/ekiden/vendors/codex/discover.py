"""Finds Codex's sessions on this computer, their names, the program, and who holds a session now.

Reads only. Rollouts lie in `sessions/YYYY/MM/DD/` and, once archived, in `archived_sessions/`; idle ones are
compressed in place (`.jsonl.zst`). A thread is one session however many files it has at a moment. Names and
sub-agents come from Codex's state database and its index of named threads. Who holds a thread is told by
Codex's own lock files (`owners`). `CODEX_HOME` moves all of it.
"""

import importlib.util
import json
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from stat import S_ISREG
from urllib.parse import quote

from ekiden.kernel.canonical import whole_text
from ekiden.kernel.limits import CODEX_FOLDER_DEPTH_MAX, CODEX_INDEX_BYTES_MAX, CODEX_PROGRAM_S
from ekiden.vendors.codex.owners import owners_of
from ekiden.vendors.port import Environment, FoundFile, Owner, Program

_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_ROLLOUT = re.compile(rf"rollout-.*?({_ID})(?:[._-][\w.-]*?)?\.json(?:l(\.zst)?)?")
_STATE_DATABASE = re.compile(r"state_(\d+)\.sqlite")
_BUSY_S = 0.5
_CONTROL_SOCKET = Path("app-server-control", "app-server-control.sock")


def codex_home(home: Path, environment: Environment) -> Path:
    """Codex's folder: `CODEX_HOME` where it is set, else `~/.codex`."""
    named = environment.get("CODEX_HOME", "")
    return Path(named) if named else home / ".codex"


class CodexDiscovery:
    """See the module. `own_pids` gives the processes that Ekiden itself runs: they are no foreign owners."""

    def __init__(
        self, home: Path, environment: Environment, own_pids: Callable[[], frozenset[int]] = frozenset
    ) -> None:
        self._home = home
        self._environment = environment
        self._own_pids = own_pids
        self._codex_home = codex_home(home, environment)
        self._sessions = self._codex_home / "sessions"
        self._archived = self._codex_home / "archived_sessions"
        self._names: dict[str, str] = {}
        self._parents: dict[str, str] = {}
        self._state_seen: tuple[object, ...] = ()
        self._state_problem = ""
        self._program: tuple[tuple[object, ...], Program] | None = None

    def roots(self) -> Sequence[Path]:
        """The two folders of rollouts."""
        return (self._sessions, self._archived)

    def files(self) -> Iterable[FoundFile]:
        """One file per thread, newest folder first."""
        found: dict[str, FoundFile] = {}
        self._read_state()
        for root in self.roots():
            for path in _files_below(root, CODEX_FOLDER_DEPTH_MAX):
                file = self._found(path)
                if file is None:
                    continue
                key = file.thread or file.native_id
                before = found.get(key)
                if before is None or _better(file, before):
                    found[key] = file
        return found.values()

    def recognise(self, path: Path) -> FoundFile | None:
        """The session file that `path` is; the plain one while a thread has a plain and a compressed file."""
        if not any(path.is_relative_to(root) for root in self.roots()):
            return None
        if path.suffix == ".zst" and path.with_suffix("").is_file():
            path = path.with_suffix("")
        self._read_state()
        return self._found(path)

    def owners(self) -> Mapping[str, Owner]:
        """Thread id -> the live process outside Ekiden that holds it."""
        return owners_of(self._codex_home, self._own_pids())

    def titles(self) -> Mapping[str, str]:
        """Thread id -> the name that a person gave it."""
        self._read_state()
        return self._names

    def program(self) -> Program | None:
        """`codex` of the PATH, else the one that the wheel `openai-codex-cli-bin` brings."""
        path = _program_path(self._environment)
        if path is None:
            return None
        try:
            stat = path.stat()
        except OSError:
            return None
        seen = (path, stat.st_mtime_ns, stat.st_size)
        if self._program is None or self._program[0] != seen:
            version = _version(path, self._home, self._environment)
            self._program = (seen, Program(path, version))
        return self._program[1]

    def notices(self) -> Sequence[str]:
        """What a person should know of Codex on this computer."""
        notices: list[str] = []
        program = self.program()
        if program is None:
            notices.append("Codex is not installed: its sessions can be read, but not continued or started.")
        elif not program.version:
            notices.append(f"{program.path} did not tell its version; continuing Codex sessions may not work.")
        if not self._codex_home.is_dir():
            notices.append(f"There is no Codex folder at {self._codex_home}.")
            return notices
        self._read_state()
        if self._state_problem:
            notices.append(f"Names of Codex sessions are missing: {self._state_problem}")
        socket = self._codex_home / _CONTROL_SOCKET
        if socket.exists():
            notices.append(
                f"A shared Codex app-server offers its socket at {socket}. Ekiden does not join it; "
                "sessions that it holds are followed by their files."
            )
        if not os.path.isdir("/proc/self/fd"):
            notices.append(
                "This system does not tell who holds a file: a Codex session that a terminal still holds "
                "is noticed only when Codex itself refuses to continue it."
            )
        if self._codex_home.is_relative_to(tempfile.gettempdir()):
            notices.append("Codex refuses some of its helpers while its folder lies under the temporary folder.")
        return notices

    def _found(self, path: Path) -> FoundFile | None:
        name = _ROLLOUT.fullmatch(path.name)
        if name is None:
            return None
        try:
            stat = path.stat(follow_symlinks=False)
        except OSError:
            return None
        if not S_ISREG(stat.st_mode):
            return None
        own_id = name[1]
        main_id = self._main_thread(own_id)
        return FoundFile(
            path=path,
            native_id=main_id,
            size=stat.st_size,
            modified_at=stat.st_mtime,
            compressed=name[2] is not None,
            archived=path.is_relative_to(self._archived),
            thread=own_id if main_id != own_id else "",
        )

    def _main_thread(self, thread_id: str) -> str:
        """The thread that a person began, up from a sub-agent's."""
        seen = {thread_id}
        while (parent := self._parents.get(thread_id)) and parent not in seen:
            seen.add(parent)
            thread_id = parent
        return thread_id

    def _read_state(self) -> None:
        """Reads names and sub-agents anew if Codex has written any since."""
        index = self._codex_home / "session_index.jsonl"
        database = _newest_database(self._codex_home)
        watched = [index]
        if database is not None:
            watched += [database, database.with_name(f"{database.name}-wal")]
        seen = tuple(_stamp(path) for path in watched)
        if seen == self._state_seen:
            return
        self._state_seen = seen
        names = _index_names(index)
        self._state_problem = ""
        if database is not None:
            try:
                found, self._parents = _database_names(database)
                names |= found
            except sqlite3.Error as error:
                self._state_problem = f"{database.name} cannot be read ({error})."
        self._names = names


def _better(file: FoundFile, before: FoundFile) -> bool:
    """Whether of two files of one thread the first is the one to read: plain before compressed, then newer."""
    if file.compressed != before.compressed:
        return before.compressed
    return file.modified_at > before.modified_at


def _files_below(folder: Path, depth: int) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name, reverse=True)
    except OSError:
        return
    for entry in ordered:
        if entry.is_dir(follow_symlinks=False):
            if depth > 1:
                yield from _files_below(Path(entry.path), depth - 1)
        else:
            yield Path(entry.path)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return (stat.st_mtime_ns, stat.st_size)


def _index_names(index: Path) -> dict[str, str]:
    """Names in `session_index.jsonl`, the last one of each thread."""
    names: dict[str, str] = {}
    try:
        with index.open("rb") as lines:
            raw = lines.read(CODEX_INDEX_BYTES_MAX)
    except OSError:
        return names
    for line in raw.split(b"\n"):
        try:
            row = json.loads(line)
            names[str(row["id"])] = whole_text(str(row["thread_name"]))
        except (ValueError, KeyError, TypeError):
            continue
    return {thread: name for thread, name in names.items() if name}


def _newest_database(folder: Path) -> Path | None:
    """Codex's state database; the number in its name grows with its schema."""
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    numbered = [(int(found[1]), name) for name in names if (found := _STATE_DATABASE.fullmatch(name))]
    return folder / max(numbered)[1] if numbered else None


def _database_names(database: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Names of threads, and sub-agent -> parent, from a database that Codex may be writing at this moment.

    It is opened read-only and never as immutable: what is still in the write-ahead log counts too.
    """
    connection = sqlite3.connect(f"file:{quote(str(database))}?mode=ro", uri=True, timeout=_BUSY_S)
    try:
        columns = {row[1] for row in connection.execute("PRAGMA table_info(threads)")}
        names: dict[str, str] = {}
        if {"id", "name"} <= columns:
            rows = connection.execute("SELECT id, name FROM threads WHERE name <> ''")
            names = {str(thread): whole_text(str(name)) for thread, name in rows}
        parents: dict[str, str] = {}
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'thread_spawn_edges'").fetchone():
            rows = connection.execute("SELECT child_thread_id, parent_thread_id FROM thread_spawn_edges")
            parents = {str(child): str(parent) for child, parent in rows}
        return names, parents
    finally:
        connection.close()


def _program_path(environment: Environment) -> Path | None:
    found = shutil.which("codex", path=environment.get("PATH", os.defpath))
    if found is not None:
        return Path(found)
    spec = importlib.util.find_spec("codex_cli_bin")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        bundled = Path(folder, "bin", "codex.exe" if os.name == "nt" else "codex")
        if bundled.is_file():
            return bundled
    return None


def _version(path: Path, home: Path, environment: Environment) -> str:
    """What `codex --version` says, without the name; empty if it says nothing in time."""
    clean = {"HOME": str(home), "PATH": environment.get("PATH", os.defpath)}
    try:
        said = subprocess.run(
            [str(path), "--version"],
            env=clean,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=CODEX_PROGRAM_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    words = said.stdout.decode("utf-8", "replace").split()
    return words[-1][:40] if said.returncode == 0 and words else ""
