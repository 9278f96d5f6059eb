"""The whole product with the real Claude Code and Codex: sessions appear, grow, are carried on, joined, approved,
interrupted and survive the death of every process, as each client sees it."""

import json
import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ekiden.kernel.errors import AlreadyAnswered, HeldElsewhere
from scripted_model import ScriptedModel
from whole.computer import Computer, environments, wait_for
from whole.device import Device

pytestmark = [pytest.mark.vendors, pytest.mark.timeout(180)]
VENDORS = ["claude", "codex"]
WORDS = "one two three four five six seven eight nine ten eleven twelve"


def native_turn(computer: Computer, vendor: str, prompt: str, resume: str = "") -> str:
    """One turn by the vendor's own command line; returns the native session id."""
    if vendor == "claude":
        words = ["claude", "-p", prompt, "--output-format", "json", *(["--resume", resume] if resume else [])]
        return json.loads(computer.run(*words))["session_id"]
    words = ["codex", "exec", *(["resume"] if resume else []), "--json", "--skip-git-repo-check"]
    said = computer.run(*words, *([resume] if resume else []), prompt)
    found = re.search(r'"thread_id":"([0-9a-f-]+)"', said)
    assert found, said
    return found[1]


def carried_on(computer: Computer, vendor: str) -> tuple[str, str]:
    """A native session with one turn, continued in Ekiden: (session id, native id)."""
    native_id = native_turn(computer, vendor, "hello @@text first answer")
    session_id = computer.session(native_id)["report"]["session_id"]
    with computer.client() as client:
        wait_for(
            lambda: next(
                (
                    a
                    for a in client.get(f"/v1/sessions/{session_id}")["session"]["report"]["abilities"]
                    if a["name"] == "continue" and a["can"]
                ),
                None,
            ),
            "the session can be continued",
        )
        carried = client.post(f"/v1/sessions/{session_id}/continue")
    assert carried["session_id"] == session_id
    return session_id, native_id


def runtime_pids(computer: Computer) -> list[int]:
    """Vendor processes that Ekiden started (they carry its run tag)."""
    home = f"HOME={computer.home}".encode()
    return [
        pid
        for pid, environment in environments()
        if home in environment.split(b"\0") and b"EKIDEN_RUN=" in environment
    ]


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_session_made_by_the_vendors_program_appears_by_itself_and_grows(
    computer: Computer, vendor: str
) -> None:
    """Nothing is configured: a session that exists at the start and one that is made later both show up; a further
    turn by the vendor's program arrives at a device that has the session open."""
    before = native_turn(computer, vendor, "before @@text made before the start")
    computer.up()
    assert computer.session(before)["report"]["vendor"] == vendor
    later = native_turn(computer, vendor, "later @@text made after the start")
    found = computer.session(later)
    assert found["report"]["cwd"] == str(computer.project)
    device = Device(computer, found["report"]["session_id"])
    assert device.text() == ["made after the start"]
    native_turn(computer, vendor, "more @@text grown while watched", resume=later)
    device.wait_text("grown while watched")
    assert device.text() == ["made after the start", "grown while watched"]
    assert len(computer.sessions()) == 2


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_turn_joined_in_the_middle_ends_with_equal_text_everywhere(
    computer: Computer, model: ScriptedModel, vendor: str
) -> None:
    """Continued from a second client; a third joins while the text is growing and loses nothing of it."""
    computer.up()
    session_id, native_id = carried_on(computer, vendor)
    first = Device(computer, session_id)
    first.send(f"go on @@hold gate @@delay 0.05 @@n 12 @@text {WORDS}")
    first.wait_turn("running")
    wait_for(lambda: "eleven" in first.grown_text(), "the text is nearly there")
    late = Device(computer, session_id)
    wait_for(lambda: "eleven" in late.grown_text(), "the late joiner has all that was said")
    assert first.grown_text() == late.grown_text()
    assert WORDS.startswith(late.grown_text().strip())
    assert "twelve" not in late.grown_text()
    model.release("gate")
    for device in (first, late):
        device.wait_text(WORDS)
        device.wait_turn("completed")
        assert WORDS.startswith(device.grown_text())  # the last piece may come as the whole item
        assert device.text() == ["first answer", WORDS]
    assert computer.texts(session_id) == ["first answer", WORDS]
    assert [s["report"]["native_id"] for s in computer.sessions()] == [native_id]


@pytest.mark.parametrize("vendor", VENDORS)
def test_two_clients_answer_one_approval_and_one_of_them_wins(computer: Computer, vendor: str) -> None:
    computer.up()
    session_id, _ = carried_on(computer, vendor)
    one, two = Device(computer, session_id), Device(computer, session_id)
    made = computer.project / "made.txt"
    one.send(asking(vendor, f"echo carried > {made}"))
    approval = one.wait_approval()
    assert two.wait_approval()["approval_id"] == approval["approval_id"]
    assert str(made) in approval["command"]
    assert not made.exists()

    def answer(device: Device) -> dict[str, Any] | AlreadyAnswered:
        try:
            return device.answer(approval, "allow_once")
        except AlreadyAnswered as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(answer, (one, two)))
    losers = [a for a in answers if isinstance(a, AlreadyAnswered)]
    assert len(losers) == 1
    assert {"option", "by", "at"} <= losers[0].details.keys()
    for device in (one, two):
        device.wait_text("all done")
        wait_for(
            lambda device=device: device.approvals[approval["approval_id"]]["state"] == "settled",
            "the card is closed everywhere",
        )
    assert made.read_text() == "carried\n"


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_denied_command_does_not_run(computer: Computer, vendor: str) -> None:
    computer.up()
    session_id, _ = carried_on(computer, vendor)
    device = Device(computer, session_id)
    made = computer.project / "made.txt"
    device.send(asking(vendor, f"echo no > {made}"))
    device.answer(device.wait_approval(), "deny", message="not now")
    wait_for(
        lambda: any(state in {"completed", "interrupted", "failed"} for _, state, _ in device.turns),
        "the turn ends",
    )
    assert not made.exists()


def asking(vendor: str, command: str) -> str:
    """A prompt whose tool call the vendor's program asks about."""
    if vendor == "claude":
        return f"do it @@say I will run it @@sh {command} @@final all done"
    arguments = json.dumps({"cmd": command, "sandbox_permissions": "require_escalated", "justification": "to see"})
    return f"do it @@say I will run it @@raw exec_command {arguments} @@final all done"


@pytest.mark.parametrize("vendor", VENDORS)
def test_an_interrupt_from_another_device_stops_the_turn_and_keeps_what_was_seen(
    computer: Computer, model: ScriptedModel, vendor: str
) -> None:
    computer.up()
    session_id, _ = carried_on(computer, vendor)
    one, two = Device(computer, session_id), Device(computer, session_id)
    one.send(f"long @@delay 0.1 @@n 100 @@text {' '.join(str(n) for n in range(100))}")
    turn_id = two.wait_turn("running")[0]
    wait_for(lambda: "5 " in two.grown_text(), "text is growing")
    two.interrupt(turn_id)
    for device in (one, two):
        device.wait_turn("interrupted")
    kept = wait_for(lambda: next((t for t in one.text() if t.startswith("0 1 2")), ""), "the partial text is kept")
    assert kept.strip() == one.grown_text().strip() == two.grown_text().strip()
    one.send("go on @@text still alive")
    one.wait_text("still alive")


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_message_sent_while_a_turn_runs_waits_and_has_its_effect_once(
    computer: Computer, model: ScriptedModel, vendor: str
) -> None:
    computer.up()
    session_id, _ = carried_on(computer, vendor)
    device = Device(computer, session_id)
    device.send("slow @@hold slow @@n 4 @@text a b c d")
    device.wait_turn("running")
    queued = device.send("second @@text the second answer")
    assert (
        device.send("second @@text the second answer", message_id=queued["message_id"])["message_id"]
        == queued["message_id"]
    )
    wait_for(lambda: "c" in device.grown_text(), "the first turn is under way")
    model.release("slow")
    device.wait_text("a b c d")
    device.wait_text("the second answer")
    wait_for(lambda: device.messages[queued["message_id"]]["state"] == "seen", "its receipt says seen")
    prompts = [t for t in computer.texts(session_id, "user") if t.startswith("second")]
    assert len(prompts) == 1


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_fork_has_the_history_and_leaves_its_source_untouched(computer: Computer, vendor: str) -> None:
    computer.up()
    native_id = native_turn(computer, vendor, "hello @@text first answer")
    source = computer.session(native_id)["report"]
    file = Path(source["file"])
    before = file.read_bytes()
    with computer.client() as client:
        forked = client.post(f"/v1/sessions/{source['session_id']}/fork")["session_id"]
    assert forked != source["session_id"]
    device = Device(computer, forked)
    device.send("go on @@text in the fork")
    device.wait_text("in the fork")
    assert computer.texts(forked) == ["first answer", "in the fork"]
    assert file.read_bytes() == before
    with computer.client() as client:
        assert (
            client.get(f"/v1/sessions/{forked}")["session"]["report"]["parent_session_id"] == source["session_id"]
        )


@pytest.mark.parametrize(("vendor", "other"), [("claude", "codex"), ("codex", "claude")])
def test_a_quote_starts_a_session_of_the_other_vendor_with_an_attributed_extract(
    computer: Computer, model: ScriptedModel, vendor: str, other: str
) -> None:
    computer.up()
    native_id = native_turn(computer, vendor, "what is it @@text the answer is 42")
    source = computer.session(native_id)["report"]
    before = Path(source["file"]).read_bytes()
    with computer.client() as client:
        quoted = client.post(
            f"/v1/sessions/{source['session_id']}/quote",
            {"vendor": other, "message": "and now? @@text from the other"},
        )["session_id"]
    device = Device(computer, quoted)
    device.wait_text("from the other")
    first = computer.texts(quoted, "user")[0]
    assert "the answer is 42" in first
    assert {"claude": "Claude Code", "codex": "Codex"}[vendor] in first
    assert Path(source["file"]).read_bytes() == before


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_session_that_a_live_process_writes_is_never_written_beside(
    computer: Computer, model: ScriptedModel, vendor: str
) -> None:
    """While the vendor's own program runs a turn, continue is refused with who holds it; fork and quote stay."""
    computer.up()
    native_id = native_turn(computer, vendor, "hello @@text first answer")
    session_id = computer.session(native_id)["report"]["session_id"]
    prompt = "held @@hold native @@n 4 @@text w x y z"
    if vendor == "claude":
        words = ["claude", "-p", prompt, "--resume", native_id, "--output-format", "json"]
    else:
        words = ["codex", "exec", "resume", "--json", "--skip-git-repo-check", native_id, prompt]
    process = computer.begin(*words)
    with computer.client() as client:
        held = wait_for(
            lambda: (lambda s: s if s["report"].get("holder", {}).get("pid") == process.pid else None)(
                client.get(f"/v1/sessions/{session_id}")["session"]
            ),
            "the holder is seen",
        )
        assert held["report"]["rung"] == "held"
        abilities = {a["name"]: a for a in held["report"]["abilities"]}
        assert not abilities["continue"].get("can")
        assert abilities["continue"]["why"] == "held_elsewhere"
        assert abilities["fork"]["can"]
        assert abilities["quote"]["can"]
        with pytest.raises(HeldElsewhere) as refused:
            client.post(f"/v1/sessions/{session_id}/continue")
        assert refused.value.details["pid"] == process.pid
    assert process.poll() is None
    model.release("native")
    assert process.wait(30) == 0


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_death_of_the_runtime_in_a_turn_is_told_and_the_session_goes_on(
    computer: Computer, vendor: str
) -> None:
    computer.up()
    session_id, _ = carried_on(computer, vendor)
    device = Device(computer, session_id)
    device.send(f"long @@delay 0.1 @@n 100 @@text {' '.join(str(n) for n in range(100))}")
    device.wait_turn("running")
    wait_for(lambda: "5 " in device.grown_text(), "text is growing")
    for pid in runtime_pids(computer):
        os.kill(pid, signal.SIGKILL)
    _, _, reason = device.wait_turn("failed")
    assert reason
    with computer.client() as client:
        client.post(f"/v1/sessions/{session_id}/continue")
    device.send("again @@text back again")
    device.wait_text("back again")


@pytest.mark.parametrize("vendor", VENDORS)
def test_after_a_sigkill_of_hub_and_host_in_a_turn_each_client_comes_back_and_nothing_is_doubled(
    computer: Computer, model: ScriptedModel, vendor: str
) -> None:
    """The turn is lost or ended openly, never shown as running for ever; the surviving runtime is ended or waited
    for, never doubled; the session can be carried on; clients resume by their cursor."""
    computer.up()
    session_id, native_id = carried_on(computer, vendor)
    device = Device(computer, session_id)
    device.send(f"long @@delay 0.1 @@n 60 @@text {' '.join(str(n) for n in range(60))}")
    device.wait_turn("running")
    wait_for(lambda: "5 " in device.grown_text(), "text is growing")
    computer.kill_up()
    computer.up(port=int(computer.url.rsplit(":", 1)[1]))
    wait_for(
        lambda: any(state in {"lost", "interrupted", "failed", "completed"} for _, state, _ in device.turns),
        f"the device is told what became of the turn: {device.turns}",
        60.0,
    )
    wait_for(lambda: not runtime_pids(computer), "no runtime of the dead host is left", 60.0)
    assert len(computer.sessions()) == 1
    with computer.client() as client:
        wait_for(
            lambda: any(
                a["name"] == "continue" and a.get("can")
                for a in client.get(f"/v1/sessions/{session_id}")["session"]["report"]["abilities"]
            ),
            "the session can be continued",
            60.0,
        )
        client.post(f"/v1/sessions/{session_id}/continue")
    device.send("again @@text back again")
    device.wait_text("back again")
    assert computer.texts(session_id).count("back again") == 1
    assert [s["report"]["native_id"] for s in computer.sessions()] == [native_id]
