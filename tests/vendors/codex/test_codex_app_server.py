"""The connection to an app-server that sends anything in any size, and that ends at any moment."""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ekiden.kernel.errors import Invalid, VendorFailed
from ekiden.vendors.codex.approvals import (
    COMMAND,
    ELICITATION,
    FILE_CHANGE,
    PERMISSIONS,
    Question,
    question_of,
    result_for,
)
from ekiden.vendors.codex.appserver import Frames
from ekiden.vendors.codex.native import Record, item_id, turn_id
from ekiden.vendors.codex.runtime import CodexRuntime
from ekiden.vendors.codex.servers import SharedServers
from ekiden.vendors.port import Asked, Begin, Ended, Grew, OptionKind, Program, TurnEnded, Withdrawn
from vendors.codex.runs import Run

pytestmark = pytest.mark.anyio
STUB = Path(__file__).with_name("stub_app_server.py")


@pytest.fixture
def servers(tmp_path: Path) -> SharedServers:
    """App-servers that are the stub."""
    program = tmp_path / "codex"
    program.write_text(f"#!/bin/sh\nexec '{sys.executable}' '{STUB}'\n")
    program.chmod(0o755)
    return SharedServers(lambda: Program(program, "0"))


@pytest.fixture
async def run(servers: SharedServers, tmp_path: Path) -> AsyncIterator[Run]:
    """A started runtime on the stub."""
    async with Run(CodexRuntime(Begin(cwd=tmp_path), {"HOME": str(tmp_path)}, servers)) as started:
        yield started


def grown(run: Run) -> str:
    return "".join(event.text for event in run.seen if isinstance(event, Grew))


async def test_an_event_of_any_size_arrives_and_the_reader_lives(run: Run) -> None:
    """Sizes at both sides of every usual line limit; the small events between them come in order."""
    await run.runtime.send("msg_1", "big")
    await run.until(TurnEnded)
    sizes = (65_535, 65_537, 1_048_577, 12_000_000)
    assert grown(run) == "".join("x" * size + f"|{size}|" for size in sizes)


async def test_a_long_line_without_an_end_ends_with_the_process(run: Run) -> None:
    """The turn before it is whole; then the end is told with what the process last said."""
    await run.runtime.send("msg_1", "unended")
    ended = await run.until(Ended)
    assert [event.outcome for event in run.seen if isinstance(event, TurnEnded)] == ["completed"]
    assert (ended.exit_code, ended.said) == (3, "the last words\n")


async def test_what_is_not_understood_is_borne(run: Run) -> None:
    """Lines that are no messages, unknown notifications, odd fields; an unknown request is refused at once."""
    await run.runtime.send("msg_1", "nonsense")
    assert (await run.until(TurnEnded)).outcome == "completed"
    assert grown(run) == "-32601"


async def test_answers_to_a_question_with_fields_reach_codex_in_its_own_form(run: Run) -> None:
    """Once: the second answer finds nobody waiting."""
    await run.runtime.send("msg_1", "ask")
    asked = await run.until(Asked)
    assert (asked.question, [option.kind for option in asked.options]) == (
        "answer", [OptionKind.ALLOW_ONCE, OptionKind.DENY],
    )  # fmt: skip
    with pytest.raises(Invalid):
        await run.runtime.decide(asked.native_id, "accept")
    answers = run.raw({"q": "blue", "r": ["a", "b"]})
    assert await run.runtime.decide(asked.native_id, "answer", answers=answers)
    assert not await run.runtime.decide(asked.native_id, "skip")
    await run.until(TurnEnded)
    assert json.loads(grown(run)) == {"answers": {"q": {"answers": ["blue"]}, "r": {"answers": ["a", "b"]}}}
    assert not [event for event in run.seen if isinstance(event, Withdrawn)]


async def test_a_question_that_codex_settles_itself_is_withdrawn(run: Run) -> None:
    """Nobody is left with a dead button."""
    await run.runtime.send("msg_1", "ask and withdraw")
    await run.until(TurnEnded)
    (asked,) = [event for event in run.seen if isinstance(event, Asked)]
    assert [event.native_id for event in run.seen if isinstance(event, Withdrawn)] == [asked.native_id]
    assert not await run.runtime.decide(asked.native_id, "turn")


async def test_a_sub_agent_asks_through_the_session_that_started_it(run: Run) -> None:
    """Its question is answered like the session's own; its text and its turns are not taken for the session's."""
    await run.runtime.send("msg_1", "agent asks")
    asked = await run.until(Asked)
    assert (asked.command, asked.turn_id) == ("ls", turn_id("thread", "turn"))
    assert asked.item_id == item_id("child", "c")
    assert await run.runtime.decide(asked.native_id, "accept")
    await run.until(TurnEnded)
    assert grown(run) == "accept"
    assert len([event for event in run.seen if isinstance(event, TurnEnded)]) == 1


async def test_killing_the_process_ends_every_thread_on_it(servers: SharedServers, tmp_path: Path) -> None:
    """Runtimes of equal environment share a process; each gets its own end, and what waits fails."""
    environment = {"HOME": str(tmp_path)}
    begin = Begin(cwd=tmp_path)
    async with Run(CodexRuntime(begin, environment, servers)) as one:
        assert servers.pids() == {one.runtime.pid}
        await one.runtime.send("msg_1", "hang")
        os.kill(one.runtime.pid, signal.SIGKILL)
        ended = await one.until(Ended)
        assert ended.exit_code == -signal.SIGKILL
        with pytest.raises(VendorFailed):
            await one.runtime.send("msg_2", "big")
        assert servers.pids() == frozenset()
        async with Run(CodexRuntime(begin, environment, servers)) as another:
            assert another.runtime.pid != one.runtime.pid
            await another.runtime.send("msg_3", "ask")
            await another.until(Asked)


async def test_a_runtime_is_over_once_and_leaves_no_process(servers: SharedServers, tmp_path: Path) -> None:
    """Two runtimes on one process: the first to leave ends nothing, the last one ends it."""
    environment = {"HOME": str(tmp_path)}
    first = CodexRuntime(Begin(cwd=tmp_path), environment, servers)
    second = CodexRuntime(Begin(cwd=tmp_path), environment, servers)
    await first.start()
    await second.start()
    assert first.pid == second.pid
    await first.close()
    assert servers.pids() == {second.pid}
    await second.close()
    await second.close()
    assert servers.pids() == frozenset()
    assert [event async for event in second.events()] == [Ended(0)]


async def test_closing_goes_through_though_nobody_waits_for_it(servers: SharedServers, tmp_path: Path) -> None:
    """A caller that is cancelled, and two that close at once: one end, and the process is gone."""
    runtime = CodexRuntime(Begin(cwd=tmp_path), {"HOME": str(tmp_path)}, servers)
    await runtime.start()
    with anyio.move_on_after(0) as impatient:
        await runtime.close()
    assert impatient.cancelled_caught
    async with anyio.create_task_group() as group:
        group.start_soon(runtime.close)
        group.start_soon(runtime.close)
    assert [event async for event in runtime.events()] == [Ended(0)]
    assert servers.pids() == frozenset()


async def test_a_program_that_is_missing_or_ends_at_once_is_a_clear_failure(tmp_path: Path) -> None:
    """With what it said, and without waiting for the time-out."""
    program = tmp_path / "codex"
    begin, environment = Begin(cwd=tmp_path), {"HOME": str(tmp_path), "PATH": os.defpath}
    for find in (lambda: None, lambda: Program(program, "")):
        with pytest.raises(VendorFailed):
            await CodexRuntime(begin, environment, SharedServers(find)).start()
    program.write_text("#!/bin/sh\necho no config >&2\nexit 2\n")
    program.chmod(0o755)
    with anyio.fail_after(10), pytest.raises(VendorFailed) as failure:
        await CodexRuntime(begin, environment, SharedServers(lambda: Program(program, ""))).start()
    assert failure.value.details["exit_code"] == 2
    assert "no config" in str(failure.value.details["said"])


@given(st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line)), st.lists(st.integers(1, 9)))
def test_frames_are_the_lines_however_the_bytes_arrive(lines: list[bytes], cuts: list[int]) -> None:
    """Lines over the bound are left out and counted; everything else is there in order."""
    stream = b"".join(line + b"\n" for line in lines)
    frames = Frames(8)
    found: list[bytes] = []
    position = 0
    for cut in [*cuts, len(stream)]:
        found += frames.feed(stream[position : position + cut])
        position += cut
    assert found == [line for line in lines if 0 < len(line) <= 8]
    assert frames.dropped == sum(len(line) > 8 for line in lines)


def question(method: str, **params: object) -> Question:
    fields: Record = {"threadId": "t", "turnId": "u", "itemId": "c"} | params
    found = question_of(5, method, fields, turn="trn", item="itm", diff="")
    assert found is not None
    return found


def test_the_decisions_that_codex_offers_are_those_that_a_person_gets() -> None:
    """In Codex's order and with its own values behind them; a plain no is always among them."""
    amendment = {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["git", "status"]}}
    host = {"applyNetworkPolicyAmendment": {"network_policy_amendment": {"host": "a.example", "action": "deny"}}}
    asked = question(COMMAND, command="git status", availableDecisions=["accept", amendment, host, "cancel"])
    assert [(option.id, option.kind) for option in asked.asked.options] == [
        ("accept", OptionKind.ALLOW_ONCE),
        ("acceptWithExecpolicyAmendment", OptionKind.ALLOW_ALWAYS),
        ("applyNetworkPolicyAmendment", OptionKind.DENY),
        ("decline", OptionKind.DENY),
        ("cancel", OptionKind.DENY),
    ]
    assert "git status" in asked.asked.options[1].label
    assert "a.example" in asked.asked.options[2].label
    assert result_for(asked, "acceptWithExecpolicyAmendment", None) == {"decision": amendment}
    assert result_for(asked, "decline", None) == {"decision": "decline"}
    unsaid = question(FILE_CHANGE)
    assert [option.id for option in unsaid.asked.options] == ["accept", "acceptForSession", "decline", "cancel"]


def test_permissions_are_granted_as_asked_or_not_at_all() -> None:
    """Denying grants an empty set."""
    wanted = {"network": {"enabled": True}}
    asked = question(PERMISSIONS, permissions=wanted)
    assert result_for(asked, "session", None) == {"permissions": wanted, "scope": "session"}
    assert result_for(asked, "decline", None) == {"permissions": {}, "scope": "turn"}


def test_a_servers_own_question_is_answered_in_its_form() -> None:
    """Fields for yes, none for no; what is no JSON is refused."""
    asked = question(ELICITATION, serverName="calendar", message="Which day?")
    assert (asked.asked.tool, asked.asked.title) == ("calendar", "Which day?")
    assert result_for(asked, "accept", Run.raw({"day": 1})) == {"action": "accept", "content": {"day": 1}}
    assert result_for(asked, "cancel", None) == {"action": "cancel"}


def test_what_is_shown_of_a_huge_request_is_bounded() -> None:
    """A patch of megabytes is asked about with its beginning."""
    asked = question_of(
        1, FILE_CHANGE, {"turnId": "u", "reason": "r" * 9_000_000}, turn="", item="", diff="+x\n" * 3_000_000
    )
    assert asked is not None
    assert len(bytes(asked.asked.detail)) + len(asked.asked.diff) + len(asked.asked.title) < 300_000
