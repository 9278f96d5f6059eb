"""The demo agent driven as the host drives it: a real process, its real file."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from ekiden.kernel.errors import HeldElsewhere, VendorFailed
from ekiden.kernel.ids import Prefix, new_id
from ekiden.transcript.items import Item, ItemKind, Role, ToolState
from ekiden.transcript.reading import Drift, Line
from ekiden.vendors.demo.vendor import DemoVendor
from ekiden.vendors.port import (
    Asked,
    Begin,
    Ended,
    Grew,
    Placed,
    Runtime,
    RuntimeEvent,
    TurnEnded,
    TurnStarted,
    Withdrawn,
)

pytestmark = pytest.mark.anyio


class Driven:
    """A started runtime with everything that it has told so far."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.told: list[RuntimeEvent] = []
        self._more = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for event in self.runtime.events():
            self.told.append(event)
            self._more.set()

    async def until(self, kind: type[RuntimeEvent], count: int = 1) -> RuntimeEvent:
        """The `count`-th event of this kind."""
        async with asyncio.timeout(20):
            while True:
                found = [event for event in self.told if isinstance(event, kind)]
                if len(found) >= count:
                    return found[count - 1]
                self._more.clear()
                await self._more.wait()

    async def say(self, text: str, *, steer: bool = False) -> str:
        message_id = new_id(Prefix.MESSAGE)
        await self.runtime.send(message_id, text, steer=steer)
        return message_id

    async def close(self) -> None:
        await self.runtime.close()
        await self._reading


class House:
    """A data folder, a work folder, and the agents that were started in them."""

    def __init__(self, root: Path) -> None:
        self.home = root / "data"
        self.cwd = root / "work"
        self.cwd.mkdir()
        (self.cwd / "a-file.txt").write_text("x")
        self.vendor = DemoVendor(self.home, delay_s=0.001)
        self.open: list[Driven] = []

    async def begin(self, *, delay_s: float = 0.001, path: str = "", **how: str) -> Driven:
        vendor = DemoVendor(self.home, delay_s=delay_s)
        runtime = vendor.runtime(Begin(self.cwd, **how), {"PATH": path + os.environ["PATH"]})
        await runtime.start()
        driven = Driven(runtime)
        self.open.append(driven)
        return driven

    def read(self, native_id: str) -> tuple[list[Item], DemoVendor]:
        """The session's items as the fold leaves them, each once, in the order in which they came first."""
        file = next(file for file in self.vendor.discovery.files() if file.native_id == native_id)
        fold = self.vendor.fold(file)
        items: dict[str, Item] = {}
        start = 0
        for number, raw in enumerate(file.path.read_bytes().split(b"\n"), 1):
            for item in fold.feed(Line(raw, start, start + len(raw), number)):
                items[item.id] = item
            start += len(raw) + 1
        for item in fold.finish():
            items[item.id] = item
        self.facts = fold.facts
        return list(items.values()), self.vendor


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path)
    yield house
    for driven in house.open:
        await driven.close()


def texts(items: list[Item], role: Role) -> list[str]:
    return [item.text() for item in items if item.kind is ItemKind.MESSAGE and item.role is role]


async def test_the_stream_the_file_and_the_ids_agree(house: House) -> None:
    """What grew is, item by item and byte by byte, what the file's reader gives under the same id."""
    driven = await house.begin()
    await driven.say("markdown please")
    ended = await driven.until(TurnEnded)
    grown: dict[str, str] = {}
    for event in driven.told:
        if isinstance(event, Grew):
            grown[event.item_id] = grown.get(event.item_id, "") + event.text
    items, _ = house.read(driven.runtime.native_id)
    spoken = {item.id: item.text() for item in items if item.role is not Role.USER}
    assert grown == spoken
    assert len(grown) == 2
    assert {item.turn for item in items} == {ended.turn_id}
    kinds = [type(event) for event in driven.told if not isinstance(event, Grew)]
    assert kinds == [Placed, TurnStarted, TurnEnded]
    assert house.facts.drift is Drift.NONE
    assert not house.facts.turn_open


async def test_a_message_id_has_one_effect_in_one_process_and_the_next(house: House) -> None:
    """Sent twice, and once more after the agent was started anew, it stands in the file once."""
    driven = await house.begin()
    message_id = await driven.say("say once")
    await driven.runtime.send(message_id, "say once")
    await driven.until(TurnEnded)
    await driven.runtime.send(message_id, "say once")
    await driven.until(Placed, 2)
    await driven.close()
    again = await house.begin(resume=driven.runtime.native_id)
    await again.runtime.send(message_id, "say once")
    placed = await again.until(Placed)
    assert placed.message_id == message_id
    assert placed.turn_id == driven.told[0].turn_id
    items, _ = house.read(driven.runtime.native_id)
    assert texts(items, Role.USER) == ["say once"]
    assert texts(items, Role.ASSISTANT) == ["once"]


async def test_a_message_during_a_turn_waits_and_one_that_steers_joins(house: House) -> None:
    """Queued messages run as turns of their own in order; a steering one becomes part of the running turn."""
    driven = await house.begin(delay_s=0.01)
    await driven.say("long")
    first = await driven.until(TurnStarted)
    await driven.say("say second")
    await driven.say("be brief", steer=True)
    await driven.runtime.interrupt()
    await driven.until(TurnEnded, 2)
    hows = [event.how for event in driven.told if isinstance(event, Placed)]
    assert hows == ["new_turn", "queued", "steered"]
    items, _ = house.read(driven.runtime.native_id)
    assert texts(items, Role.USER) == ["long", "be brief", "say second"]
    assert next(item for item in items if item.text() == "be brief").turn == first.turn_id


async def test_steering_changes_the_answer(house: House) -> None:
    """The answer of the running turn takes the added words up."""
    driven = await house.begin()
    await driven.say("ask")
    asked = await driven.until(Asked)
    await driven.say("mind the gap", steer=True)
    await driven.until(Placed, 2)
    assert await driven.runtime.decide(asked.native_id, "deny")
    await driven.until(TurnEnded)
    items, _ = house.read(driven.runtime.native_id)
    assert texts(items, Role.ASSISTANT)[-1] == "You added: mind the gap"


async def test_a_command_runs_only_when_allowed(house: House) -> None:
    """Allowed, it has run in the session's folder with its real output; denied, it has not; allowed for the
    session, it is not asked again."""
    driven = await house.begin()
    for turn, option in enumerate(["deny", "allow", "always"], 1):
        await driven.say("ask")
        asked = await driven.until(Asked, turn)
        assert (asked.question, asked.command, asked.cwd) == ("run_command", "uname -s && ls", str(house.cwd))
        assert [one.kind for one in asked.options] == ["allow_once", "allow_always", "deny"]
        assert await driven.runtime.decide(asked.native_id, option)
        assert not await driven.runtime.decide(asked.native_id, option)
        await driven.until(TurnEnded, turn)
    await driven.say("ask")
    await driven.until(TurnEnded, 4)
    tools = [item.tool for item in house.read(driven.runtime.native_id)[0] if item.tool]
    assert [tool.state for tool in tools] == [ToolState.DENIED, *[ToolState.COMPLETED] * 3]
    assert [tool.exit_code for tool in tools] == [None, 0, 0, 0]
    assert all("a-file.txt" in tool.output for tool in tools[1:])
    assert tools[0].output == ""
    assert sum(isinstance(event, Asked) for event in driven.told) == 3


async def test_a_file_is_written_only_when_allowed_and_shows_its_change_before(house: House) -> None:
    """The approval carries the diff; the file changes after the answer."""
    driven = await house.begin()
    for turn, (option, lines) in enumerate([("deny", 0), ("allow", 1), ("allow", 2)], 1):
        await driven.say("write hello.txt")
        asked = await driven.until(Asked, turn)
        assert "+Hello from the demo agent" in asked.diff
        assert await driven.runtime.decide(asked.native_id, option)
        await driven.until(TurnEnded, turn)
        written = house.cwd / "hello.txt"
        assert (written.read_text().count("\n") if written.exists() else 0) == lines
    items, _ = house.read(driven.runtime.native_id)
    diffs = [diff for item in items if item.tool for diff in item.tool.diffs]
    assert [(diff.added, diff.removed) for diff in diffs] == [(1, 0), (1, 0), (1, 0)]


async def test_an_interrupt_ends_the_turn_and_keeps_what_was_said(house: House) -> None:
    """The file has the text up to the interrupt, marked; it equals what had grown."""
    driven = await house.begin(delay_s=0.01)
    await driven.say("long")
    await driven.until(Grew, 12)
    await driven.runtime.interrupt()
    ended = await driven.until(TurnEnded)
    assert ended.outcome == "interrupted"
    items, _ = house.read(driven.runtime.native_id)
    last = [item for item in items if item.role is Role.ASSISTANT][-1]
    assert last.interrupted
    assert last.text() == "".join(
        event.text for event in driven.told if isinstance(event, Grew) and event.item_id == last.id
    )


@pytest.mark.parametrize("prompt", ["ask", "write hello.txt", "choose"])
async def test_an_interrupt_withdraws_what_was_asked(house: House, prompt: str) -> None:
    """A late answer finds nobody, and nothing has been done."""
    driven = await house.begin()
    await driven.say(prompt)
    asked = await driven.until(Asked)
    await driven.runtime.interrupt()
    withdrawn = await driven.until(Withdrawn)
    await driven.until(TurnEnded)
    assert withdrawn.native_id == asked.native_id
    assert not await driven.runtime.decide(asked.native_id, asked.options[0].id)
    assert not (house.cwd / "hello.txt").exists()
    tools = [item.tool for item in house.read(driven.runtime.native_id)[0] if item.tool]
    assert all(tool.state is ToolState.FAILED for tool in tools)


@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "left to end"])
async def test_what_a_command_leaves_behind_holds_up_nothing(house: House, tmp_path: Path, stopped: bool) -> None:
    """A process in a session of its own keeps the command's output open: the turn ends without it, by itself and
    when it is stopped."""
    programs = tmp_path / "programs"
    programs.mkdir()
    ready = tmp_path / "ready"
    left = f"setsid sh -c 'echo $$ > {ready}; exec sleep 7345' &\n"
    (programs / "uname").write_text(f"#!/bin/sh\n{left}{'wait' if stopped else 'exit 0'}\n")
    (programs / "uname").chmod(0o755)
    driven = await house.begin(path=f"{programs}:")
    await driven.say("ask")
    asked = await driven.until(Asked)
    await driven.runtime.decide(asked.native_id, asked.options[0].id)
    async with asyncio.timeout(10):
        while not (ready.exists() and ready.read_text()):  # noqa: ASYNC110 (the condition is in another process)
            await asyncio.sleep(0.01)
    if stopped:
        await driven.runtime.interrupt()
    async with asyncio.timeout(10):
        ended = await driven.until(TurnEnded)
    os.kill(int(ready.read_text()), signal.SIGKILL)
    assert ended.outcome == ("interrupted" if stopped else "completed")


async def test_a_failing_turn_says_why_and_the_next_one_works(house: House) -> None:
    """Failure is an outcome with a reason, not the end of the process."""
    driven = await house.begin()
    await driven.say("fail")
    ended = await driven.until(TurnEnded)
    assert (ended.outcome, ended.reason) == ("failed", "The prompt asked for a failure.")
    await driven.say("say fine")
    assert (await driven.until(TurnEnded, 2)).outcome == "completed"
    notices = [item.note for item in house.read(driven.runtime.native_id)[0] if item.kind is ItemKind.NOTICE]
    assert notices == ["failed"]


async def test_a_plan_a_helper_and_a_question(house: House) -> None:
    """A plan is one item that advances; a helper's work is in a thread that its tool call names."""
    driven = await house.begin()
    await driven.say("plan, use a helper, then choose")
    asked = await driven.until(Asked)
    assert await driven.runtime.decide(asked.native_id, "coffee")
    await driven.until(TurnEnded)
    items, _ = house.read(driven.runtime.native_id)
    plans = [item.plan for item in items if item.kind is ItemKind.PLAN]
    assert [[entry.state for entry in plan] for plan in plans] == [["completed"] * 3]
    helper = next(item.tool for item in items if item.tool)
    assert [item.kind for item in items if item.thread == helper.thread] == [ItemKind.THOUGHT, ItemKind.MESSAGE]
    assert "You chose coffee." in texts(items, Role.ASSISTANT)


async def kill(driven: Driven) -> None:
    os.killpg(driven.runtime.pid, signal.SIGKILL)


async def crash(driven: Driven) -> None:
    await driven.until(Ended)


@pytest.mark.parametrize(
    ("prompt", "wait_for", "end"),
    [("long", Grew, kill), ("ask", Asked, kill), ("crash", TurnStarted, crash)],
)
async def test_a_killed_agent_leaves_an_honest_file(
    house: House, prompt: str, wait_for: type[RuntimeEvent], end: Callable[[Driven], object]
) -> None:
    """The turn stays open in the file, a tool has no result, and the next process says what happened and works."""
    driven = await house.begin(delay_s=0.01)
    native_id = driven.runtime.native_id
    await driven.say(prompt)
    await driven.until(wait_for)
    await end(driven)
    ended = await driven.until(Ended)
    assert ended.exit_code != 0
    assert house.vendor.discovery.owners() == {}
    items, _ = house.read(native_id)
    assert house.facts.turn_open
    assert all(item.tool.state is ToolState.UNRECORDED for item in items if item.tool)
    with (house.home / "demo" / "sessions" / f"{native_id}.jsonl").open("ab") as file:
        file.write(b'{"type":"mess')  # as a kill within a write would leave it
    again = await house.begin(resume=native_id)
    await again.say("say here")
    await again.until(TurnEnded)
    items, _ = house.read(native_id)
    assert not house.facts.turn_open
    assert [item.note for item in items if item.kind is ItemKind.NOTICE] == ["failed"]
    assert texts(items, Role.ASSISTANT)[-1] == "here"
    assert [item.kind for item in items].count(ItemKind.UNREADABLE) == 1


async def test_what_waited_when_the_agent_was_killed_runs_once_afterwards(house: House) -> None:
    """A message that was told to be queued is on disk: the next process runs it, once."""
    driven = await house.begin(delay_s=0.01)
    await driven.say("long")
    await driven.until(TurnStarted)
    queued = await driven.say("say after")
    await driven.until(Placed, 2)
    await kill(driven)
    await driven.until(Ended)
    again = await house.begin(resume=driven.runtime.native_id)
    await again.runtime.send(queued, "say after")
    await again.until(TurnEnded)
    items, _ = house.read(driven.runtime.native_id)
    assert texts(items, Role.USER) == ["long", "say after"]


async def test_a_second_writer_is_refused_and_told_who_holds_it(house: House) -> None:
    """The lock of a live agent is respected; discovery names it, with its pid and what it does."""
    driven = await house.begin()
    native_id = driven.runtime.native_id
    await driven.say("ask")
    await driven.until(Asked)
    with pytest.raises(HeldElsewhere) as caught:
        await house.begin(resume=native_id)
    assert caught.value.details["pid"] == driven.runtime.pid
    owner = house.vendor.discovery.owners()[native_id]
    assert (owner.pid, owner.busy, owner.waits_for) == (driven.runtime.pid, True, "Run uname -s && ls")
    await driven.close()
    assert house.vendor.discovery.owners() == {}
    again = await house.begin(resume=native_id)
    assert again.runtime.pid != driven.runtime.pid


async def test_a_fork_has_the_history_and_leaves_the_origin_alone(house: House) -> None:
    """The new session starts with the same items, says where it comes from, and only itself grows."""
    driven = await house.begin()
    await driven.say("say one")
    await driven.until(TurnEnded)
    await driven.close()
    origin = (house.home / "demo" / "sessions" / f"{driven.runtime.native_id}.jsonl").read_bytes()
    fork = await house.begin(fork_of=driven.runtime.native_id)
    await fork.say("say two")
    await fork.until(TurnEnded)
    items, _ = house.read(fork.runtime.native_id)
    assert texts(items, Role.ASSISTANT) == ["one", "two"]
    assert house.facts.forked_from == driven.runtime.native_id
    assert (house.home / "demo" / "sessions" / f"{driven.runtime.native_id}.jsonl").read_bytes() == origin


@pytest.mark.parametrize("how", ["resume", "fork_of"])
async def test_what_is_not_there_cannot_be_resumed_or_forked(house: House, how: str) -> None:
    """The refusal says so, and leaves no file."""
    with pytest.raises(VendorFailed) as caught:
        await house.begin(**{how: "nosuchsession"})
    assert "no such session" in str(caught.value.details["said"])
    assert list(house.vendor.discovery.files()) == []


async def test_the_agent_ends_when_its_driver_goes(house: House) -> None:
    """End of input interrupts the turn, writes its end and gives the session free."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "ekiden.vendors.demo",
        *("--home", str(house.home), "--session", "abc", "--cwd", str(house.cwd)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b'{"op":"say","message_id":"m","text":"slow long"}\n')
    while b'"grew"' not in await process.stdout.readline():
        continue
    process.stdin.close()
    await process.stdout.read()
    assert await process.wait() == 0
    house.read("abc")
    assert not house.facts.turn_open
    assert house.vendor.discovery.owners() == {}


async def test_a_module_in_the_work_folder_is_not_run_instead(house: House) -> None:
    """The session's folder is data: what lies there is never imported."""
    (house.cwd / "ekiden").mkdir()
    (house.cwd / "ekiden" / "__init__.py").write_text("raise SystemExit('taken')")
    (house.cwd / "asyncio.py").write_text("raise SystemExit('taken')")
    driven = await house.begin()
    await driven.say("say safe")
    assert (await driven.until(TurnEnded)).outcome == "completed"
