"""The real Codex, driven through its app-server against the scripted model."""

import json
import os
import signal
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from ekiden.kernel.errors import HeldElsewhere, VendorFailed
from ekiden.transcript.items import Item, ItemKind, Role, ToolState
from ekiden.vendors.port import (
    Asked,
    Dropped,
    Ended,
    Grew,
    OptionKind,
    Placed,
    TurnEnded,
    TurnStarted,
    Withdrawn,
)
from vendors.codex.conftest import Codex
from vendors.codex.files import SAMPLES, said
from vendors.codex.runs import Run, eventually

pytestmark = [pytest.mark.anyio, pytest.mark.vendors]


def message_id() -> str:
    return f"msg_{uuid.uuid4().hex[:20]}"


def escalated(command: str) -> str:
    """A call that the model wants to run outside the sandbox, for which Codex asks."""
    fields = {"cmd": command, "sandbox_permissions": "require_escalated", "justification": "because"}
    return f"@@raw exec_command {json.dumps(fields)}"


def grown(run: Run) -> dict[str, str]:
    """What has grown so far, by item."""
    texts: dict[str, str] = {}
    for event in run.seen:
        if isinstance(event, Grew):
            texts[event.item_id] = texts.get(event.item_id, "") + event.text
    return {name: text.rstrip() for name, text in texts.items()}  # the scripted model streams a space too many


def seen(run: Run, kind: type) -> list[Any]:
    return [event for event in run.seen if isinstance(event, kind)]


def tools_in(items: list[Item]) -> list[tuple[str, ToolState]]:
    return [(item.tool.command, item.tool.state) for item in items if item.tool]


async def test_what_grew_is_what_the_file_holds_under_the_same_ids(codex: Codex) -> None:
    """Messages and thoughts, byte for byte; the turn too."""
    run = await codex.run()
    sent = message_id()
    await run.runtime.send(sent, "hi @@think hm, a deep thought @@text one two three four")
    ended = await run.until(TurnEnded)
    items, facts = codex.read(run.runtime.native_id)
    answers = [item for item in items if item.role is Role.ASSISTANT or item.kind is ItemKind.THOUGHT]
    assert grown(run) == {item.id: item.text() for item in answers}
    assert sorted(item.text() for item in answers) == ["hm, a deep thought", "one two three four"]
    assert [(placed.message_id, placed.how) for placed in seen(run, Placed)] == [(sent, "new_turn")]
    assert {event.turn_id for event in (*seen(run, Grew), *seen(run, TurnStarted), ended)} == {facts.turn_id}
    assert (ended.outcome, facts.turn_open) == ("completed", False)
    assert seen(run, Dropped) == []


async def test_an_approval_is_given_or_denied_from_the_runtime(codex: Codex) -> None:
    """The person's own configuration asks. Yes runs the command, no lets the turn go on, cancel ends the turn."""
    codex.configure(approvals="on-request", sandbox="workspace-write")
    run = await codex.run()
    outcomes = {}
    for option, name in (("accept", "a"), ("decline", "b"), ("cancel", "c")):
        await run.runtime.send(message_id(), f"{escalated(f'touch {name}')} @@final after {name}")
        asked = await run.until(Asked)
        assert (asked.question, asked.title, asked.cwd) == ("run_command", "because", str(codex.project))
        assert f"touch {name}" in asked.command
        assert json.loads(bytes(asked.detail))["itemId"]
        assert {each.id: each.kind for each in asked.options}[option] is (
            OptionKind.ALLOW_ONCE if option == "accept" else OptionKind.DENY
        )
        assert await run.runtime.decide(asked.native_id, option)
        assert not await run.runtime.decide(asked.native_id, "accept")
        outcomes[option] = (await run.until(TurnEnded)).outcome
        items, _ = codex.read(run.runtime.native_id)
        assert asked.item_id in {item.id for item in items}
    assert outcomes == {"accept": "completed", "decline": "completed", "cancel": "interrupted"}
    assert [(codex.project / name).exists() for name in "abc"] == [True, False, False]
    items, _ = codex.read(run.runtime.native_id)
    assert tools_in(items) == [
        ("touch a", ToolState.COMPLETED), ("touch b", ToolState.DENIED), ("touch c", ToolState.FAILED),
    ]  # fmt: skip
    assert seen(run, Withdrawn) == []


async def test_a_denial_can_carry_words_to_the_agent(codex: Codex) -> None:
    """They join the running turn, and stand in the file as the person's."""
    codex.configure(approvals="on-request", sandbox="workspace-write")
    run = await codex.run()
    await run.runtime.send(message_id(), escalated("touch no"))
    asked = await run.until(Asked)
    assert await run.runtime.decide(asked.native_id, "decline", message="rather not @@text understood")
    await run.until(TurnEnded)
    items, _ = codex.read(run.runtime.native_id)
    assert said(items)[-2:] == [("user", "rather not @@text understood"), ("assistant", "understood")]


async def test_a_change_to_files_is_asked_about_with_its_diff(codex: Codex) -> None:
    """Outside the folder that the sandbox lets it write."""
    codex.configure(approvals="on-request", sandbox="workspace-write")
    run = await codex.run()
    outside = codex.home / "outside.txt"
    await run.runtime.send(message_id(), f"@@write {outside} hello @@final done")
    asked = await run.until(Asked)
    assert asked.question == "edit_file"
    assert str(outside) in asked.diff
    assert "hello" in asked.diff
    assert await run.runtime.decide(asked.native_id, "accept")
    await run.until(TurnEnded)
    assert outside.read_text() == "hello\n"
    items, _ = codex.read(run.runtime.native_id)
    (tool,) = [item.tool for item in items if item.id == asked.item_id]
    assert tool is not None
    assert [(diff.path, diff.added) for diff in tool.diffs] == [(str(outside), 1)]


async def test_an_interrupt_keeps_what_was_seen_and_lets_the_queue_go_on(codex: Codex) -> None:
    """Codex throws the partial text away; the next message starts its own turn."""
    run = await codex.run()
    gate = message_id()
    await run.runtime.send(message_id(), f"@@hold {gate} @@n 3 @@text one two three")
    first = await run.until(Grew)
    await run.until(Grew)
    await run.runtime.send(message_id(), "next @@text after")
    await run.runtime.interrupt()
    dropped = (await run.until(Dropped)).item
    assert (await run.until(TurnEnded)).outcome == "interrupted"
    assert (await run.until(TurnEnded)).outcome == "completed"
    codex.model.release(gate)
    assert (dropped.id, dropped.text(), dropped.turn) == (first.item_id, "one two ", first.turn_id)
    assert (dropped.not_in_model_history, dropped.interrupted, dropped.role) == (True, True, Role.ASSISTANT)
    items, _ = codex.read(run.runtime.native_id)
    assert dropped.id not in {item.id for item in items}
    assert said(items)[-1] == ("assistant", "after")
    assert [item.note for item in items if item.kind is ItemKind.NOTICE] == ["interrupted"]
    assert [placed.how for placed in seen(run, Placed)] == ["new_turn", "queued"]


async def test_an_interrupted_turn_leaves_no_command_running(codex: Codex) -> None:
    """Neither the command nor what it put into the background; "interrupted" is told after that."""
    run = await codex.run()
    pids = codex.project / "pids"
    script = f"sleep 600 & echo $! > {pids}; (trap '' TERM; sleep 601) & echo $! >> {pids}; nohup sleep 602 & wait"
    await run.runtime.send(message_id(), f"@@sh {script}")
    await eventually(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    started = [int(pid) for pid in pids.read_text().split()]
    await run.runtime.interrupt()
    assert (await run.until(TurnEnded)).outcome == "interrupted"
    await eventually(lambda: not any(alive(pid) for pid in started))


def runs_in(pid: str, home: Path) -> bool:
    """Whether a process was started with this home."""
    try:
        return f"HOME={home}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_steering_joins_the_running_turn_and_keeps_what_codex_cuts(codex: Codex) -> None:
    """Both messages are in one turn; the text that was cut is told as dropped."""
    run = await codex.run()
    gate = message_id()
    await run.runtime.send(message_id(), f"@@hold {gate} @@n 3 @@text one two three")
    first = await run.until(Grew)
    await run.until(Grew)
    steered = message_id()
    await run.runtime.send(steered, "rather @@text this", steer=True)
    dropped = (await run.until(Dropped)).item
    ended = await run.until(TurnEnded)
    codex.model.release(gate)
    assert (dropped.id, dropped.text()) == (first.item_id, "one two ")
    assert [(placed.how, placed.turn_id) for placed in seen(run, Placed)] == [
        ("new_turn", ended.turn_id), ("steered", ended.turn_id),
    ]  # fmt: skip
    items, _ = codex.read(run.runtime.native_id)
    assert [role for role, _ in said(items)] == ["user", "user", "assistant"]
    assert {item.turn for item in items if item.kind is ItemKind.MESSAGE and not item.injected} == {ended.turn_id}


async def test_steering_when_nothing_runs_starts_a_turn(codex: Codex) -> None:
    """What the person wanted to say is said."""
    run = await codex.run()
    await run.runtime.send(message_id(), "hi @@text there", steer=True)
    assert (await run.until(Placed)).how == "new_turn"
    assert (await run.until(TurnEnded)).outcome == "completed"


async def test_messages_during_a_turn_wait_in_order_and_have_their_effect_once(codex: Codex) -> None:
    """However often each is given; every one gets a turn of its own."""
    run = await codex.run()
    gate = message_id()
    sent = [message_id() for _ in range(4)]
    texts = [f"@@hold {gate} @@text zero held", "@@text one", "@@text two", "@@text three"]
    for name, text in zip(sent, texts, strict=True):
        for _ in range(3):
            await run.runtime.send(name, text)
    assert [placed.message_id for placed in seen(run, Placed)] in ([], sent[:1])
    codex.model.release(gate)
    for _ in sent:
        assert (await run.until(TurnEnded)).outcome == "completed"
    assert [placed.message_id for placed in seen(run, Placed)] == sent
    assert len({placed.turn_id for placed in seen(run, Placed)}) == 4
    items, _ = codex.read(run.runtime.native_id)
    assert [text for role, text in said(items) if role == "assistant"] == ["zero held", "one", "two", "three"]


async def test_a_message_that_codex_had_before_the_restart_is_not_sent_again(codex: Codex) -> None:
    """The rollout itself tells which messages arrived."""
    run = await codex.run()
    sent = message_id()
    await run.runtime.send(sent, "once @@text only")
    await run.until(TurnEnded)
    native_id = run.runtime.native_id
    await run.runtime.close()
    again = await codex.run(resume=native_id)
    assert again.runtime.native_id == native_id
    await again.runtime.send(sent, "once @@text only")
    await again.runtime.send(message_id(), "then @@text more")
    await again.until(TurnEnded)
    items, facts = codex.read(native_id)
    assert [text for role, text in said(items) if role == "assistant"] == ["only", "more"]
    assert facts.messages == 4


async def test_a_fork_has_the_history_and_leaves_the_old_session_untouched(codex: Codex) -> None:
    """A new id; the model is given what was said before; the old file keeps its bytes."""
    run = await codex.run()
    await run.runtime.send(message_id(), "remember blue @@text noted")
    await run.until(TurnEnded)
    before = codex.rollout(run.runtime.native_id).read_bytes()
    fork = await codex.run(fork_of=run.runtime.native_id)
    assert fork.runtime.native_id != run.runtime.native_id
    asked = f"what was it {message_id()} @@text blue"
    await fork.runtime.send(message_id(), asked)
    await fork.until(TurnEnded)
    (body,) = [body for body in codex.model.bodies if asked in json.dumps(body)]
    assert "remember blue" in json.dumps(body)
    assert codex.rollout(run.runtime.native_id).read_bytes() == before
    items, facts = codex.read(fork.runtime.native_id)
    assert facts.forked_from == run.runtime.native_id
    assert facts.history_base is None or facts.history_base[0] == run.runtime.native_id
    assert said(items)[-1] == ("assistant", "blue")


async def test_a_session_that_another_process_holds_is_refused_and_the_holder_named(codex: Codex) -> None:
    """Ekiden's own processes are no foreign holders; once let go, the session can be continued elsewhere."""
    run = await codex.run()
    await run.runtime.send(message_id(), "mine @@text yes")
    await run.until(TurnEnded)
    native_id = run.runtime.native_id
    assert codex.vendor.discovery.owners() == {}
    elsewhere = codex.another()
    owner = elsewhere.discovery.owners()[native_id]
    assert (owner.pid, owner.program) == (run.runtime.pid, "Codex app-server")
    with pytest.raises(HeldElsewhere) as refusal:
        await codex.run(resume=native_id, vendor=elsewhere)
    assert refusal.value.details["pid"] == run.runtime.pid
    await run.runtime.close()
    assert elsewhere.discovery.owners() == {}
    other = await codex.run(resume=native_id, vendor=elsewhere)
    await other.runtime.send(message_id(), "theirs @@text now")
    assert (await other.until(TurnEnded)).outcome == "completed"


async def test_a_thread_that_does_not_exist_is_a_clear_failure(codex: Codex) -> None:
    """With Codex's own words, and no process left behind."""
    with pytest.raises(VendorFailed, match="no rollout found"):
        await codex.run(resume=str(uuid.uuid4()))
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and runs_in(pid, codex.home)]


async def test_killing_the_app_server_in_a_turn_loses_nothing_that_was_seen(codex: Codex) -> None:
    """The end is told, the partial text is kept, the file shows an open turn, and the session goes on after it."""
    run = await codex.run()
    gate = message_id()
    await run.runtime.send(message_id(), f"@@hold {gate} @@n 3 @@text one two three")
    await run.until(Grew)
    await run.until(Grew)
    os.kill(run.runtime.pid, signal.SIGKILL)
    dropped = (await run.until(Dropped)).item
    ended = await run.until(Ended)
    codex.model.release(gate)
    assert (dropped.text(), ended.exit_code) == ("one two ", -signal.SIGKILL)
    native_id = run.runtime.native_id
    _, facts = codex.read(native_id)
    assert facts.turn_open
    assert codex.another().discovery.owners() == {}
    again = await codex.run(resume=native_id)
    await again.runtime.send(message_id(), "still there @@text yes")
    assert (await again.until(TurnEnded)).outcome == "completed"
    items, facts = codex.read(native_id)
    assert said(items)[-1] == ("assistant", "yes")
    assert not facts.turn_open


async def test_a_failing_model_ends_the_turn_with_its_reason(codex: Codex) -> None:
    """And the session can be used further."""
    run = await codex.run()
    await run.runtime.send(message_id(), f"{message_id()} @@error 400 broken @@text x")
    ended = await run.until(TurnEnded)
    assert ended.outcome == "failed"
    assert ended.reason
    items, _ = codex.read(run.runtime.native_id)
    (notice,) = [item for item in items if item.kind is ItemKind.NOTICE]
    assert (notice.note, notice.text()) == ("error", ended.reason)
    await run.runtime.send(message_id(), "again @@text fine")
    assert (await run.until(TurnEnded)).outcome == "completed"


async def test_an_owned_session_is_found_once(codex: Codex) -> None:
    """By its native id, however often the computer is searched, and not as a helper's."""
    run = await codex.run()
    await run.runtime.send(message_id(), "hi @@text there")
    await run.until(TurnEnded)
    for _ in range(3):
        assert [file.native_id for file in codex.vendor.discovery.files()] == [run.runtime.native_id]
    _, facts = codex.read(run.runtime.native_id)
    assert not facts.is_helper


async def test_a_legacy_session_goes_on_with_ids_that_agree(codex: Codex) -> None:
    """Codex keeps writing the old form; what grows and what the file holds have one id all the same."""
    old = next((SAMPLES / "v0.137.0-acp").rglob("*19-14-30*.jsonl"))
    target = codex.home / ".codex" / old.relative_to(SAMPLES / "v0.137.0-acp")
    target.parent.mkdir(parents=True)
    target.write_bytes(old.read_bytes())
    run = await codex.run(resume=old.stem[-36:])
    await run.runtime.send(message_id(), "more @@think hm @@text one two")
    await run.until(TurnEnded)
    items, facts = codex.read(run.runtime.native_id)
    assert b'"ordinal"' not in target.read_bytes()
    assert grown(run).items() <= {item.id: item.text() for item in items}.items()
    assert sorted(grown(run).values()) == ["hm", "one two"]
    assert facts.messages == 10


async def test_closing_in_a_turn_stops_it_and_frees_the_session_quickly(codex: Codex) -> None:
    """The person's own Codex can have it at once."""
    run = await codex.run()
    gate = message_id()
    await run.runtime.send(message_id(), f"@@hold {gate} @@n 3 @@text one two three")
    await run.until(Grew)
    began = time.monotonic()
    await run.runtime.close()
    assert time.monotonic() - began < 10
    codex.model.release(gate)
    assert (await run.until(TurnEnded)).outcome == "interrupted"
    assert (await run.until(Ended)).exit_code == 0
    assert codex.another().discovery.owners() == {}
