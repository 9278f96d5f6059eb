"""Hub and host in processes of their own, with the real Claude Code: each is killed in the middle of a turn, and
what every device sees then is what is true."""

import os
import sys
from pathlib import Path

import pytest

from scripted_model import ScriptedModel
from whole.computer import Computer, wait_for
from whole.device import Device
from whole.test_vendors import asking, native_turn, runtime_pids

pytestmark = [pytest.mark.vendors, pytest.mark.timeout(180)]


class Apart:
    """A hub without a host, and a host of its own beside it with its own data folder."""

    def __init__(self, computer: Computer) -> None:
        self.computer = computer
        computer.up("--no-host")
        with computer.client() as client:
            made = client.post("/v1/keys", {"name": "laptop", "kind": "host"})
        self.host_id = made["host_id"]
        self.environment = {**computer.environment, "EKIDEN_KEY": made["key"]}
        self.environment["EKIDEN_HOME"] = str(Path(computer.environment["EKIDEN_HOME"]).with_name("ekiden-host"))
        self.begin_host()

    def begin_host(self) -> None:
        kept, self.computer.environment = self.computer.environment, self.environment
        try:
            self.host = self.computer.begin(
                sys.executable, "-m", "ekiden.cli", "host", self.computer.url, "--host-id", self.host_id
            )
        finally:
            self.computer.environment = kept

    def begin_hub_again(self) -> None:
        self.computer.up("--no-host", port=int(self.computer.url.rsplit(":", 1)[1]))

    def continued(self) -> str:
        native_id = native_turn(self.computer, "claude", "hello @@text first answer")
        session_id = self.computer.session(native_id)["report"]["session_id"]
        with self.computer.client() as client:
            client.post(f"/v1/sessions/{session_id}/continue")
        return session_id

    def session(self, session_id: str) -> dict:
        with self.computer.client() as client:
            return client.get(f"/v1/sessions/{session_id}")


@pytest.fixture
def apart(computer: Computer) -> Apart:
    return Apart(computer)


def test_a_hub_that_dies_in_a_turn_comes_back_with_all_of_its_text(apart: Apart, model: ScriptedModel) -> None:
    """The host and the turn live on; it tells what grew meanwhile; the devices end with byte-equal text."""
    session_id = apart.continued()
    early = Device(apart.computer, session_id)
    words = " ".join(f"w{number}" for number in range(60))
    early.send(f"long @@hold end @@delay 0.05 @@n 60 @@text {words}")
    early.wait_turn("running")
    wait_for(lambda: "w5 " in early.grown_text(), "text is growing")
    apart.computer.kill_up()
    apart.begin_hub_again()
    wait_for(lambda: apart.session(session_id)["session"].get("host_here"), "the host finds the hub again")
    late = Device(apart.computer, session_id)
    wait_for(lambda: "w58" in late.grown_text(), "the late device has what grew while the hub was away")
    assert words.startswith(late.grown_text())
    model.release("end")
    for device in (early, late):
        device.wait_text(words, 60.0)
        device.wait_turn("completed", 60.0)
        assert device.text() == ["first answer", words]
    assert apart.computer.texts(session_id) == ["first answer", words]


def test_a_host_that_dies_in_a_turn_is_shown_as_lost_contact_and_its_questions_as_unknown(apart: Apart) -> None:
    session_id = apart.continued()
    device = Device(apart.computer, session_id)
    made = apart.computer.project / "made.txt"
    device.send(asking("claude", f"echo no > {made}"))
    approval = device.wait_approval()
    os.kill(apart.host.pid, 9)
    apart.host.wait(10)
    device.wait_turn("lost", 60.0)
    wait_for(
        lambda: device.approvals[approval["approval_id"]]["state"] == "unknown", "the question is open no longer"
    )
    seen = apart.session(session_id)["session"]
    assert seen["state"] == "lost"
    assert not seen.get("host_here")
    assert seen["host_seen_at"]
    apart.begin_host()
    wait_for(lambda: not runtime_pids(apart.computer) or None, "the old runtime has ended", 60.0)
    wait_for(lambda: apart.session(session_id)["session"]["state"] == "idle", "the session is quiet again", 60.0)
    assert not made.exists()
    with apart.computer.client() as client:
        client.post(f"/v1/sessions/{session_id}/continue")
    device.send("again @@text back again")
    device.wait_text("back again")
