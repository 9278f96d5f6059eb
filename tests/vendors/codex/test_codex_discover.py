"""Finding Codex's sessions while Codex itself renames, compresses, archives, names and holds them."""

import fcntl
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from ekiden.vendors.codex.discover import CodexDiscovery
from ekiden.vendors.codex.owners import owners_of
from vendors.codex.files import OTHER, SAMPLES, THREAD, event, joined, meta

SCHEMA = SAMPLES / "v0.171.0" / "schema-state_5-and-thread_history_1.sql"
CONTENT = joined([meta(), event("user_message", message="hi")])


@pytest.fixture
def codex_home(tmp_path: Path) -> Path:
    """A Codex folder of its own."""
    folder = tmp_path / "home" / ".codex"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def discovery(codex_home: Path) -> CodexDiscovery:
    return CodexDiscovery(codex_home.parent, {"PATH": os.defpath})


def put(
    folder: Path, thread: str = THREAD, *, day: str = "2026/01/02", suffix: str = ".jsonl", at: float = 0
) -> Path:
    """A rollout where Codex would put it."""
    path = folder / "sessions" / day / f"rollout-2026-01-02T03-04-05-{thread}{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zstandard.compress(CONTENT) if suffix.endswith(".zst") else CONTENT)
    if at:
        os.utime(path, (at, at))
    return path


def names(discovery: CodexDiscovery) -> list[str]:
    return [file.path.name for file in discovery.files()]


def test_a_computer_without_codex_has_no_sessions_and_says_why(tmp_path: Path) -> None:
    """Missing folders are no error."""
    discovery = CodexDiscovery(tmp_path, {"PATH": str(tmp_path)})
    assert list(discovery.files()) == []
    assert discovery.owners() == discovery.titles() == {}
    assert any(str(tmp_path / ".codex") in notice for notice in discovery.notices())


def test_sessions_are_found_newest_first_and_nothing_else(codex_home: Path, discovery: CodexDiscovery) -> None:
    """Old flat files too; temporary files, other files and links are not sessions."""
    older, newer = put(codex_home, OTHER, day="2025/12/31"), put(codex_home)
    flat = put(codex_home, THREAD[:-1] + "f", day=".", suffix=".json")
    put(codex_home, OTHER[:-1] + "e", suffix=".jsonl.zst.compress.1.0.tmp")
    put(codex_home, OTHER[:-1] + "c", suffix=".jsonl.tmp")
    (newer.parent / "notes.jsonl").write_bytes(CONTENT)
    (newer.parent / f"rollout-2026-01-02T03-04-05-{OTHER[:-1]}b.jsonl").symlink_to(newer)
    found = [file.path for file in discovery.files()]
    assert sorted(found) == sorted([older, newer, flat])
    assert found.index(newer) < found.index(older)
    assert {file.native_id for file in discovery.files()} == {THREAD, OTHER, THREAD[:-1] + "f"}


@pytest.mark.parametrize("name", sorted(path.parts[-2] for path in SAMPLES.glob("*/sessions")))
def test_in_a_recorded_folder_each_rollout_is_a_session_and_nothing_else_is(name: str, tmp_path: Path) -> None:
    """As the real program left it, with its index of named threads."""
    folder = SAMPLES / name
    discovery = CodexDiscovery(tmp_path, {"PATH": os.defpath, "CODEX_HOME": str(folder)})
    assert sorted(names(discovery)) == sorted(path.name for path in folder.rglob("rollout-*"))
    index = folder / "session_index.jsonl"
    said = [json.loads(line) for line in index.read_text().splitlines()] if index.exists() else []
    assert dict(discovery.titles()) == {one["id"]: one["thread_name"] for one in said}


def test_codex_home_moves_everything(tmp_path: Path) -> None:
    """The variable that moves the real program moves the search."""
    put(tmp_path / "elsewhere")
    discovery = CodexDiscovery(tmp_path, {"CODEX_HOME": str(tmp_path / "elsewhere")})
    assert [file.native_id for file in discovery.files()] == [THREAD]


def test_a_thread_is_one_session_through_all_changes_of_its_file(
    codex_home: Path, discovery: CodexDiscovery
) -> None:
    """Plain, compressed beside it, compressed alone, plain again, archived: one session, never twice."""
    plain = put(codex_home, at=1000)
    packed = put(codex_home, suffix=".jsonl.zst", at=2000)
    assert names(discovery) == [plain.name]
    recognised = discovery.recognise(packed)
    assert recognised is not None
    assert recognised.path == plain
    plain.unlink()
    (file,) = discovery.files()
    assert (file.path, file.compressed, file.archived, file.native_id) == (packed, True, False, THREAD)
    assert discovery.recognise(plain) is None
    put(codex_home, at=3000)
    assert names(discovery) == [plain.name]
    packed.unlink()
    archived = codex_home / "archived_sessions" / plain.name
    archived.parent.mkdir()
    plain.rename(archived)
    (file,) = discovery.files()
    assert (file.path, file.archived, file.native_id) == (archived, True, THREAD)
    assert discovery.recognise(archived) == file
    assert discovery.recognise(codex_home / "history.jsonl") is None


def test_of_two_plain_files_of_one_thread_the_newer_is_read(codex_home: Path, discovery: CodexDiscovery) -> None:
    """A reverted thread leaves its old file beside the new one, with a suffix."""
    put(codex_home, suffix=".reverted-1.jsonl", at=1000)
    current = put(codex_home, at=2000)
    assert names(discovery) == [current.name]


def state(codex_home: Path, number: int, name: str) -> sqlite3.Connection:
    """Codex's state database as it lies there while Codex runs: the newest rows only in the write-ahead log."""
    connection = sqlite3.connect(codex_home / f"state_{number}.sqlite")
    connection.executescript(SCHEMA.read_text().partition("-- thread_history_1.sqlite")[0])
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA wal_autocheckpoint=0")
    rename(connection, name)
    return connection


def rename(connection: sqlite3.Connection, name: str) -> None:
    row = {
        "id": THREAD, "rollout_path": "/r", "created_at": 1, "updated_at": 1, "source": "cli", "cwd": "/p",
        "model_provider": "p", "title": "made up", "sandbox_policy": "s", "approval_mode": "a", "name": name,
    }  # fmt: skip
    columns, marks = ", ".join(row), ", ".join(f":{column}" for column in row)
    connection.execute(f"INSERT OR REPLACE INTO threads ({columns}) VALUES ({marks})", row)
    connection.commit()


def test_names_come_from_the_newest_state_database_while_codex_writes_it(
    codex_home: Path, discovery: CodexDiscovery
) -> None:
    """Rows that are still in the write-ahead log count, and a later change is seen."""
    old = state(codex_home, 5, "old schema")
    new = state(codex_home, 12, "a good name")
    try:
        assert discovery.titles() == {THREAD: "a good name"}
        rename(new, "a better name 😀")
        assert discovery.titles() == {THREAD: "a better name 😀"}
        rename(new, "")
        assert discovery.titles() == {}
    finally:
        old.close()
        new.close()
    assert discovery.notices() == [notice for notice in discovery.notices() if "Names" not in notice]


def test_the_index_of_named_threads_fills_in(codex_home: Path, discovery: CodexDiscovery) -> None:
    """Its last line of each thread counts; torn lines are passed over."""
    index = codex_home / "session_index.jsonl"
    index.write_text((SAMPLES / "v0.171.0" / "session_index.jsonl").read_text() + '{"id": "torn')
    assert set(discovery.titles().values()) == {"named by lab"}
    index.write_text(f'{{"id":"{THREAD}","thread_name":"one"}}\n{{"id":"{THREAD}","thread_name":"two"}}\n')
    assert discovery.titles() == {THREAD: "two"}


def test_a_state_database_that_cannot_be_read_is_said(codex_home: Path, discovery: CodexDiscovery) -> None:
    """Names are missing then; sessions are not."""
    put(codex_home)
    (codex_home / "state_9.sqlite").write_bytes(b"not a database at all" * 100)
    assert [file.native_id for file in discovery.files()] == [THREAD]
    assert any("state_9.sqlite" in notice for notice in discovery.notices())


def test_a_sub_agents_rollout_belongs_to_the_session_that_a_person_began(
    codex_home: Path, discovery: CodexDiscovery
) -> None:
    """Through any number of agents in between; a cycle in the table does not hang."""
    child, grandchild = THREAD[:-1] + "1", THREAD[:-1] + "2"
    for thread in (THREAD, child, grandchild):
        put(codex_home, thread)
    connection = state(codex_home, 5, "")
    edges = [(THREAD, child, "open"), (child, grandchild, "open"), (OTHER, OTHER, "open")]
    connection.executemany("INSERT INTO thread_spawn_edges VALUES (?,?,?)", edges)
    connection.commit()
    connection.close()
    put(codex_home, OTHER)
    found = {(file.native_id, file.thread) for file in discovery.files()}
    assert found == {(THREAD, ""), (THREAD, child), (THREAD, grandchild), (OTHER, "")}


def test_the_program_is_found_with_its_version(tmp_path: Path) -> None:
    """The one of the PATH goes before the one of the wheel; one that says nothing has no version."""
    program = tmp_path / "codex"
    program.write_text("#!/bin/sh\necho codex-cli 9.8.7\n")
    program.chmod(0o755)
    discovery = CodexDiscovery(tmp_path, {"PATH": str(tmp_path)})
    found = discovery.program()
    assert found is not None
    assert (found.path, found.version) == (program, "9.8.7")
    program.write_text("#!/bin/sh\nexit 1\n")
    found = discovery.program()
    assert found is not None
    assert found.version == ""
    assert any("did not tell its version" in notice for notice in discovery.notices())


def test_a_shared_app_server_is_mentioned(codex_home: Path, discovery: CodexDiscovery) -> None:
    """Its socket is there; it is not joined."""
    socket = codex_home / "app-server-control" / "app-server-control.sock"
    socket.parent.mkdir()
    socket.touch()
    assert any(str(socket) in notice for notice in discovery.notices())


HOLDER = """
import fcntl, sys, time
held = open(sys.argv[1], "a")
if sys.argv[2] == "lock":
    fcntl.flock(held, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def holders() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that hold files; ended with the test."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def hold(holders: list[subprocess.Popen[bytes]], path: Path, how: str, program: str = sys.executable) -> int:
    command = [program, "-c", HOLDER, str(path), how, "app-server"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    holders.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process.pid


def test_the_holder_of_a_threads_lock_is_its_owner(
    codex_home: Path, holders: list[subprocess.Popen[bytes]]
) -> None:
    """For as long as it lives. A lock file by itself, even opened, proves nothing, and our own processes are no
    foreign owners."""
    locks = codex_home / "thread-writer-locks"
    locks.mkdir()
    for name in (".coordination", THREAD, OTHER):
        (locks / f"{name}.lock").touch()
    pid = hold(holders, locks / f"{THREAD}.lock", "lock")
    hold(holders, locks / f"{OTHER}.lock", "open")
    owners = owners_of(codex_home, frozenset())
    assert set(owners) == {THREAD}
    owner = owners[THREAD]
    assert (owner.pid, owner.program) == (pid, "Codex app-server")
    assert abs(owner.started_at - Path(f"/proc/{pid}").stat().st_mtime) < 30
    assert str(locks / f"{THREAD}.lock") in owner.evidence
    assert owners_of(codex_home, frozenset({pid})) == {}
    holders[0].send_signal(signal.SIGKILL)
    holders[0].wait()
    assert owners_of(codex_home, frozenset()) == {}


def test_asking_for_owners_never_takes_a_lock(codex_home: Path) -> None:
    """Codex that starts at that moment must get its lock."""
    lock = codex_home / "thread-writer-locks" / f"{THREAD}.lock"
    lock.parent.mkdir()
    with lock.open("w") as mine:
        owners_of(codex_home, frozenset())
        fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert owners_of(codex_home, frozenset())[THREAD].pid == os.getpid()


def test_a_codex_without_locks_is_known_by_its_open_rollout(
    codex_home: Path, tmp_path: Path, holders: list[subprocess.Popen[bytes]]
) -> None:
    """Older versions; only a program that is called codex is looked at."""
    rollout = put(codex_home)
    hold(holders, rollout, "open")
    assert owners_of(codex_home, frozenset()) == {}
    program = tmp_path / "codex"
    program.symlink_to(os.path.realpath(sys.executable))
    pid = hold(holders, rollout, "open", str(program))
    assert owners_of(codex_home, frozenset())[THREAD].pid == pid
