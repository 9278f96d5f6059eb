"""Ekiden is told to stop while the real programs work: it ends in bounded time and leaves nothing behind."""

import json
import signal
import sys
import time
from pathlib import Path

import pytest

from scripted_model import ScriptedModel
from whole.computer import Computer, wait_for
from whole.device import Device
from whole.test_vendors import VENDORS, asking, carried_on, runtime_pids

pytestmark = [pytest.mark.vendors, pytest.mark.timeout(180)]
WITHIN_S = 10.0
"""What a person waits for a program that was told to stop, before the power button."""


def ended_by(computer: Computer, number: signal.Signals) -> int:
    """Sends the signal and returns the exit code; fails if the end takes too long."""
    assert computer.up_process is not None
    began = time.monotonic()
    computer.up_process.send_signal(number)
    code = computer.up_process.wait(4 * WITHIN_S)
    taken = time.monotonic() - began
    assert taken < WITHIN_S, f"it took {taken:.1f} s:\n{''.join(computer.said)}"
    return code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("vendor", VENDORS)
def test_an_end_while_a_turn_runs_is_quick_and_leaves_no_program_behind(
    computer: Computer, vendor: str, number: signal.Signals
) -> None:
    """Text is streaming; the runtime and all that it started are gone with Ekiden. The turn's end is told before
    the door closes, and the session goes on after the next start."""
    computer.up()
    session_id, _ = carried_on(computer, vendor)
    device = Device(computer, session_id)
    device.send(f"long @@delay 0.2 @@n 300 @@text {' '.join(str(n) for n in range(300))}")
    device.wait_turn("running")
    wait_for(lambda: "5 " in device.grown_text(), "text is growing")
    assert runtime_pids(computer)
    assert ended_by(computer, number) == 0
    assert runtime_pids(computer) == []
    wait_for(lambda: device.turns[-1][1] in {"interrupted", "failed"}, f"the turn's end was told: {device.turns}")
    computer.up(port=int(computer.url.rsplit(":", 1)[1]))
    device.send("again @@text back again")
    device.wait_text("back again")


SERVER = """
import json, os, sys
open(sys.argv[1], "a").write(f"{os.getpid()}\\n")
tool = {"name": "look", "description": "Looks.", "inputSchema": {"type": "object", "properties": {}}}
for line in sys.stdin:
    asked = json.loads(line)
    version = asked.get("params", {}).get("protocolVersion", "")
    about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "quiet", "version": "1"}}
    known = {"initialize": {"protocolVersion": version, **about}, "tools/list": {"tools": [tool]}}
    if "id" in asked:
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": known.get(asked["method"], {})}
        print(json.dumps(answer), flush=True)
"""


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_stop_leaves_the_servers_of_the_program_alone(computer: Computer, vendor: str) -> None:
    """An MCP server belongs to the program, not to the turn that is stopped; with the program it ends."""
    script, pids = computer.project / "server.py", computer.project / "pids"
    script.write_text(SERVER)
    if vendor == "claude":
        settings = computer.home / ".claude.json"
        servers = {"quiet": {"type": "stdio", "command": sys.executable, "args": [str(script), str(pids)]}}
        settings.write_text(json.dumps({**json.loads(settings.read_text()), "mcpServers": servers}))
    else:
        with (computer.home / ".codex" / "config.toml").open("a") as file:
            arguments = json.dumps([str(script), str(pids)])
            file.write(f"\n[mcp_servers.quiet]\ncommand = {json.dumps(sys.executable)}\nargs = {arguments}\n")
    computer.up()
    with computer.client() as client:
        host = wait_for(lambda: client.get("/v1/hosts")["hosts"], "the host is there")[0]
        body = {"host_id": host["host_id"], "vendor": vendor, "cwd": str(computer.project)}
        text = f"long @@delay 0.2 @@n 300 @@text {' '.join(str(n) for n in range(300))}"
        session_id = client.post("/v1/sessions", {**body, "message": text})["session_id"]
        device = Device(computer, session_id)
        wait_for(lambda: "5 " in device.grown_text(), "text is growing")
        server = int(wait_for(pids.exists, "the server runs") and pids.read_text().split()[-1])
        turn_id = client.get(f"/v1/sessions/{session_id}")["session"]["report"]["turn_id"]
    device.interrupt(turn_id)
    assert device.wait_turn("interrupted")[2] == ""
    device.send("go on @@text still alive")
    device.wait_text("still alive")
    assert Path(f"/proc/{server}/cmdline").exists()
    assert pids.read_text().split()[-1] == str(server)
    assert ended_by(computer, signal.SIGTERM) == 0
    assert not Path(f"/proc/{server}/cmdline").exists()


@pytest.mark.parametrize("vendor", VENDORS)
def test_an_end_while_a_command_runs_ends_the_command_too(computer: Computer, vendor: str) -> None:
    """One that was allowed by a person, takes long and does not listen to a polite end."""
    computer.up()
    session_id, _ = carried_on(computer, vendor)
    device = Device(computer, session_id)
    device.send(asking(vendor, "trap '' TERM INT HUP; touch begun; sleep 611; sleep 612"))
    device.answer(device.wait_approval(), "allow_once")
    wait_for((computer.project / "begun").exists, "the command runs")
    assert ended_by(computer, signal.SIGTERM) == 0
    assert runtime_pids(computer) == []
    assert computer.pids() == []


@pytest.mark.parametrize("vendor", VENDORS)
def test_an_end_while_a_question_waits_is_as_quick(computer: Computer, vendor: str) -> None:
    """The question is withdrawn before the door closes, not left open for ever."""
    computer.up()
    session_id, _ = carried_on(computer, vendor)
    device = Device(computer, session_id)
    device.send(asking(vendor, "echo no > made.txt"))
    approval = device.wait_approval()
    assert ended_by(computer, signal.SIGTERM) == 0
    assert runtime_pids(computer) == []
    wait_for(lambda: device.approvals[approval["approval_id"]].get("state") == "withdrawn", "it was withdrawn")
    assert not (computer.project / "made.txt").exists()


@pytest.mark.parametrize("vendor", VENDORS)
def test_an_end_while_the_model_says_nothing_is_as_quick(
    computer: Computer, model: ScriptedModel, vendor: str
) -> None:
    computer.up()
    session_id, _ = carried_on(computer, vendor)
    device = Device(computer, session_id)
    device.send("held @@hold silent @@n 4 @@text w x y z")
    device.wait_turn("running")
    assert ended_by(computer, signal.SIGTERM) == 0
    assert runtime_pids(computer) == []
    model.release("silent")
