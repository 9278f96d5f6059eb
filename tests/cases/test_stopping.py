"""A stop stops what the turn has started, and two writers are one too many: with the demo agent and the real
programs, in processes of their own."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from scripted_model import ScriptedModel, serve
from whole.computer import Computer, wait_for
from whole.device import Device

pytestmark = pytest.mark.vendors

RESULTS = Path(__file__).resolve().parents[2] / ".test-results"
SLEEPS = ("sleep 7341", "sleep 7342", "sleep 7343")
SCRIPT = f"{SLEEPS[0]} & setsid {SLEEPS[1]} & nohup {SLEEPS[2]} & wait"


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    server, _ = serve(0, 0.02)
    yield server
    server.close()


@pytest.fixture
def computer(model: ScriptedModel) -> Iterator[Computer]:
    folder = RESULTS / "computers" / uuid4().hex[:12]
    folder.mkdir(parents=True)
    made = Computer(folder, model.server_address[1])
    yield made
    made.close()
    shutil.rmtree(folder, ignore_errors=True)


def sleeping(computer: Computer) -> set[str]:
    """What of the script still runs on this computer."""
    found: set[str] = set()
    for pid in computer.pids():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
        except OSError:
            continue
        if command in SLEEPS:
            found.add(command)
    return found


def asking(computer: Computer, vendor: str) -> str:
    """A prompt that makes the vendor's agent ask to run the script."""
    if vendor == "demo":
        return "ask"
    if vendor == "claude":
        (computer.project / "run.sh").write_text(SCRIPT)
        return "do it @@say I will @@sh sh run.sh @@final done"
    arguments = json.dumps(
        {"cmd": f"sh -c {json.dumps(SCRIPT)}", "sandbox_permissions": "require_escalated", "justification": "x"}
    )
    return f"do it @@say I will @@raw exec_command {arguments} @@final done"


def begun(computer: Computer, vendor: str) -> str:
    """A new session that waits for its first message."""
    with computer.client() as client:
        host = wait_for(
            lambda: next((h for h in client.get("/v1/hosts")["hosts"] if h["here"]), None), "a host is here"
        )
        body = {"host_id": host["host_id"], "vendor": vendor, "cwd": str(computer.project)}
        return client.post("/v1/sessions", body)["session_id"]


@pytest.mark.parametrize("vendor", ["demo", "claude", "codex"])
def test_when_a_turn_is_said_to_be_stopped_nothing_of_it_runs(computer: Computer, vendor: str) -> None:
    """A command with children in the background, in a session of their own and deaf to the terminal's end, stopped
    from a second device: `interrupted` is told after the last of them has ended, and the session goes on."""
    if vendor == "demo":
        program = Path(computer.environment["PATH"].split(":")[0]) / "uname"
        program.write_text(f"#!/bin/sh\n{SCRIPT}\n")
        program.chmod(0o755)
    computer.up()
    session_id = begun(computer, vendor)
    one, two = Device(computer, session_id), Device(computer, session_id)
    one.send(asking(computer, vendor))
    one.answer(one.wait_approval(), "allow_once")
    wait_for(lambda: sleeping(computer) == set(SLEEPS), "all of the script runs")
    turn_id = two.wait_turn("running")[0]
    assert not any(state == "interrupted" for _, state, _ in one.turns)
    two.interrupt(turn_id)
    left: list[set[str]] = []

    def told() -> bool:
        if any(state == "interrupted" for _, state, _ in one.turns):
            left.append(sleeping(computer))
        return bool(left)

    wait_for(told, "the stop is told")
    assert left == [set()]
    one.send("say still here" if vendor == "demo" else "go on @@text still here")
    one.wait_text("still here")


def test_a_program_started_by_hand_on_an_owned_session_ends_our_writing(
    computer: Computer, model: ScriptedModel
) -> None:
    """Claude Code has no lock: a person resumes by hand what Ekiden owns. It is noticed and said, nothing more is
    written from here, and what the person's program does is shown."""
    computer.up()
    session_id = begun(computer, "claude")
    with computer.client() as client:
        device = Device(computer, session_id)
        device.send("hello @@text first answer")
        device.wait_text("first answer")
        native_id = client.get(f"/v1/sessions/{session_id}")["session"]["report"]["native_id"]
        prompt = "by hand @@hold hand @@n 4 @@text w x y z"
        hand = computer.begin("claude", "-p", prompt, "--resume", native_id, "--output-format", "json")

        def noticed() -> dict | None:
            report = client.get(f"/v1/sessions/{session_id}")["session"]["report"]
            return (
                report if report.get("rung") == "held" or "foreign_writer" in report.get("notices", ()) else None
            )

        report = wait_for(noticed, "the other writer is noticed")
        abilities = {ability["name"]: ability for ability in report["abilities"]}
        assert not abilities["queue"].get("can")
        assert abilities["queue"]["why"] == "held_elsewhere"
        assert hand.poll() is None, "the person's program is left alone"
        model.release("hand")
        assert hand.wait(30) == 0
        wait_for(lambda: computer.texts(session_id)[-1:] == ["w x y z"], "what was said by hand is shown")
        assert computer.texts(session_id) == ["first answer", "w x y z"]
        assert len(computer.sessions()) == 1
