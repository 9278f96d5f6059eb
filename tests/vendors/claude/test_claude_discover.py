"""Finding Claude Code's sessions, their live processes and its program, on real folders and processes."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ekiden.vendors.claude import ClaudeVendor, processes
from ekiden.vendors.claude.discover import ClaudeDiscovery
from vendors.claude.files import SAMPLES, SESSION, encode, user

OTHER = "aaaaaaaa-2222-4333-8444-555555555555"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one session in one project."""
    project = tmp_path / ".claude" / "projects" / "-home-dev-my-app"
    project.mkdir(parents=True)
    (project / f"{SESSION}.jsonl").write_bytes(encode([user("u1", None, "hi")]))
    return tmp_path


@pytest.fixture
def project(home: Path) -> Path:
    return home / ".claude" / "projects" / "-home-dev-my-app"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A live process that is not Claude Code."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def found(home: Path) -> dict[str, str]:
    """File name -> thread, for all that is found."""
    return {file.path.name: file.thread for file in ClaudeDiscovery(home, {}).files()}


def test_sessions_are_found_by_their_file_names_and_nothing_else_is(home: Path, project: Path) -> None:
    """Bookkeeping files, folders and odd names are no sessions."""
    for name in ("journal.jsonl", "sessions-index.json", "notes.txt", f"{SESSION}.jsonl.tmp", "agent-.jsonl"):
        (project / name).write_text("{}\n")
    (project / f"{OTHER}.jsonl").mkdir()
    (file,) = ClaudeDiscovery(home, {}).files()
    assert (file.native_id, file.size, file.thread) == (SESSION, (project / f"{SESSION}.jsonl").stat().st_size, "")


@pytest.mark.parametrize("name", sorted(path.parts[-2] for path in SAMPLES.glob("*/projects")))
def test_in_a_recorded_folder_each_session_file_is_a_session_and_nothing_else_is(
    name: str, tmp_path: Path
) -> None:
    """As the real program left it, with what else lies there (the history of prompts)."""
    folder = SAMPLES / name
    discovery = ClaudeDiscovery(tmp_path, {"PATH": "", "CLAUDE_CONFIG_DIR": str(folder)})
    there = sorted(path for path in folder.rglob("*.jsonl") if path.parent.parent.name == "projects")
    assert sorted(file.path for file in discovery.files()) == there
    assert {file.native_id for file in discovery.files()} == {path.stem for path in there}
    others = [path for path in folder.rglob("*") if path.is_file() and path not in there]
    assert [path for path in others if discovery.recognise(path)] == []


def test_newest_come_first(home: Path, project: Path) -> None:
    """By the time of their last change."""
    newer = project / f"{OTHER}.jsonl"
    newer.write_text("{}\n")
    os.utime(project / f"{SESSION}.jsonl", (1_000, 1_000))
    assert [file.native_id for file in ClaudeDiscovery(home, {}).files()] == [OTHER, SESSION]


def test_subagents_belong_to_their_session_and_are_read_once(home: Path, project: Path) -> None:
    """New and old places, at any depth; the sidecar tells whose call they are."""
    folder = project / SESSION / "subagents"
    (folder / "deeper").mkdir(parents=True)
    row = user("s1", None, "job", isSidechain=True, agentId="a1")
    for path in (folder / "agent-a1.jsonl", folder / "deeper" / "agent-a2.jsonl", project / "agent-old1.jsonl"):
        path.write_bytes(encode([row]))
    (folder / "agent-a1.meta.json").write_text(json.dumps({"toolUseId": "t1", "agentType": "Explore"}))
    (folder / "journal.jsonl").write_text("{}\n")
    discovery = ClaudeDiscovery(home, {})
    files = {file.path.name: file for file in discovery.files()}
    assert {name: (file.native_id, file.thread) for name, file in files.items()} == {
        f"{SESSION}.jsonl": (SESSION, ""),
        "agent-a1.jsonl": (SESSION, "a1"),
        "agent-a2.jsonl": (SESSION, "a2"),
        "agent-old1.jsonl": (SESSION, "old1"),
    }
    assert discovery.callers(files[f"{SESSION}.jsonl"]) == {"t1": "a1"}
    fold = ClaudeVendor(home, {}).fold(files["agent-a1.jsonl"])
    assert fold.facts.is_subagent
    assert fold.facts.called_by.startswith("itm_")


def test_a_link_that_leaves_the_folder_is_refused_and_said(home: Path, project: Path, tmp_path: Path) -> None:
    """A session file, a project and a sub-agent's folder that are links out."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / f"{OTHER}.jsonl").write_text("{}\n")
    (project / f"{OTHER}.jsonl").symlink_to(outside / f"{OTHER}.jsonl")
    (project.parent / "linked").symlink_to(outside)
    (project / SESSION).mkdir()
    (project / SESSION / "subagents").symlink_to(outside)
    (outside / "agent-x.jsonl").write_text("{}\n")
    discovery = ClaudeDiscovery(home, {})
    assert [file.native_id for file in discovery.files()] == [SESSION]
    refused = {notice.split(" leads out")[0] for notice in discovery.notices() if "leads out" in notice}
    assert refused == {
        str(project / f"{OTHER}.jsonl"),
        str(project / SESSION / "subagents" / "agent-x.jsonl"),
        str(project.parent / "linked" / f"{OTHER}.jsonl"),
        str(project.parent / "linked" / "agent-x.jsonl"),
    }


def test_no_folder_is_no_error(tmp_path: Path) -> None:
    """Nothing is found, and a notice says why."""
    discovery = ClaudeDiscovery(tmp_path, {"PATH": ""})
    assert list(discovery.files()) == []
    assert discovery.owners() == {}
    assert any("does not exist" in notice for notice in discovery.notices())


def test_the_configured_folder_is_used(home: Path, tmp_path: Path) -> None:
    """`CLAUDE_CONFIG_DIR` stands for the whole folder."""
    discovery = ClaudeDiscovery(tmp_path / "nobody", {"CLAUDE_CONFIG_DIR": str(home / ".claude")})
    assert len(list(discovery.files())) == 1


def test_recognise_agrees_with_files(home: Path, project: Path) -> None:
    """A path is known by its place alone."""
    discovery = ClaudeDiscovery(home, {})
    (file,) = discovery.files()
    assert discovery.recognise(file.path) == file
    assert discovery.recognise(project / f"{OTHER}.jsonl") is None
    assert discovery.recognise(home / f"{SESSION}.jsonl") is None
    assert discovery.recognise(home / ".claude" / "sessions" / "1.json") is None


# Owners


def register(home: Path, name: str, **fields: object) -> None:
    folder = home / ".claude" / "sessions"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(fields))


def test_a_live_process_in_the_registry_is_an_owner(home: Path, sleeper: subprocess.Popen[bytes]) -> None:
    """With what it is, whether it is busy, and what it waits for."""
    register(
        home,
        str(sleeper.pid),
        pid=sleeper.pid,
        sessionId=SESSION,
        startedAt=time.time() * 1000,
        entrypoint="cli",
        status="busy",
        waitingFor="permission prompt",
        tmux="main:@0.%0",
    )
    owner = ClaudeDiscovery(home, {}).owners()[SESSION]
    assert (owner.pid, owner.busy, owner.waits_for) == (sleeper.pid, True, "permission prompt")
    assert owner.program == "Claude Code in a terminal (tmux main:@0.%0)"
    assert owner.started_at == processes.started_at(sleeper.pid)


@pytest.mark.parametrize("fault", ["dead", "reused", "torn", "other name", "fields"])
def test_an_entry_that_proves_nothing_is_left_out(
    home: Path, sleeper: subprocess.Popen[bytes], fault: str
) -> None:
    """A dead pid, a pid used again since, half a file, a copy under another name, fields of wrong types."""
    pid, name, at = sleeper.pid, str(sleeper.pid), time.time() * 1000
    if fault == "dead":
        sleeper.kill()
        sleeper.wait()
    if fault == "reused":
        at -= 3_600_000
    if fault == "other name":
        name = "1"
    session: object = 7 if fault == "fields" else SESSION
    register(home, name, pid=pid, sessionId=session, startedAt=at)
    if fault == "torn":
        (home / ".claude" / "sessions" / f"{name}.json").write_text('{"pid": ')
    assert ClaudeDiscovery(home, {}).owners() == {}


@pytest.mark.parametrize(
    ("arguments", "owned"),
    [
        (["--resume", SESSION], [SESSION]),
        ([f"--resume={SESSION}"], [SESSION]),
        (["--session-id", SESSION], [SESSION]),
        (["--resume", SESSION, "--fork-session"], []),
        (["--resume", SESSION, "--fork-session", f"--session-id={OTHER}"], [OTHER]),
        (["-p", "hi"], []),
    ],
)
def test_a_command_line_that_names_a_session_is_evidence(
    home: Path, arguments: list[str], owned: list[str]
) -> None:
    """Where the registry is silent; a fork does not hold the session that it names, and a process of another
    home holds nothing here."""
    program = home / "claude"
    program.write_text(f"#!{sys.executable}\nimport time\nprint(flush=True)\ntime.sleep(60)\n")
    program.chmod(0o755)
    mine = {"HOME": str(home)}
    with subprocess.Popen([str(program), *arguments], stdout=subprocess.PIPE, env=mine) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            owners = ClaudeDiscovery(home, {}).owners()
            assert {session: owner.pid for session, owner in owners.items()} == dict.fromkeys(owned, process.pid)
            assert ClaudeDiscovery(home / "another", {}).owners() == {}
        finally:
            process.kill()


def test_an_open_session_file_is_evidence(home: Path, project: Path) -> None:
    """A `claude` that has the file open holds it."""
    program = home / "claude"
    code = "import sys,time\nkept=open(sys.argv[1])\nprint(flush=True)\ntime.sleep(60)\n"
    program.write_text(f"#!{sys.executable}\n{code}")
    program.chmod(0o755)
    path = project / f"{SESSION}.jsonl"
    with subprocess.Popen([str(program), str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            owner = ClaudeDiscovery(home, {}).owners()[SESSION]
            assert (owner.pid, owner.evidence) == (process.pid, "it has the session file open")
        finally:
            process.kill()


# The program


def test_the_program_on_the_path_is_asked_for_its_version_once(tmp_path: Path) -> None:
    """And again only when the file has changed."""
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    asked = tmp_path / "asked"
    program.write_text(f'#!/bin/sh\necho >> {asked}\necho "2.1.999 (Claude Code)"\n')
    program.chmod(0o755)
    discovery = ClaudeDiscovery(tmp_path, {"PATH": f"{program.parent}:/usr/bin:/bin"})
    for _ in range(3):
        installed = discovery.program()
        assert installed is not None
        assert (installed.path, installed.version) == (program, "2.1.999")
    assert asked.read_text() == "\n"
    os.utime(program, (1_000, 1_000))
    discovery.program()
    assert asked.read_text() == "\n\n"


def test_a_program_that_does_not_answer_is_not_used(tmp_path: Path) -> None:
    """It is named in the notices instead."""
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    discovery = ClaudeDiscovery(tmp_path, {"PATH": f"{tmp_path}:/bin"})
    assert discovery.program() is None
    assert any("does not say its version" in notice for notice in discovery.notices())


@pytest.mark.vendors
def test_the_bundled_program_is_found(tmp_path: Path) -> None:
    """Where `claude-agent-sdk` is installed, its program serves."""
    installed = ClaudeDiscovery(tmp_path, {"PATH": "/usr/bin:/bin"}).program()
    assert installed is not None
    assert installed.version.startswith("2.")


# Files beside the session
