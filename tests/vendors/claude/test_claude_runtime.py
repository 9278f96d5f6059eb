"""The resident Claude Code, driven for real against the scripted model."""

import os
import signal
from pathlib import Path

import msgspec
import pytest

from ekiden.kernel.errors import VendorFailed
from ekiden.transcript.items import Item, ItemKind, ToolState
from ekiden.vendors.claude import ids, processes
from ekiden.vendors.claude.transcript import ClaudeFold
from ekiden.vendors.port import (
    Asked,
    Begin,
    Dropped,
    Ended,
    Grew,
    OptionKind,
    Placed,
    TurnEnded,
    TurnStarted,
    Withdrawn,
)
from scripted_model import ScriptedModel
from vendors.claude.files import Reading, lines_of
from vendors.claude.runs import Claude, Until

pytestmark = [pytest.mark.anyio, pytest.mark.vendors]


def read_file(path: Path) -> Reading:
    """The session's file as it is now."""
    fold = ClaudeFold(path.stem, file=str(path))
    return Reading(fold).take(lines_of(path.read_bytes()))


def tools_of(reading: Reading) -> list[Item]:
    return [item for item in reading.items.values() if item.tool is not None]


async def test_a_turn_streams_text_and_thought_under_the_ids_that_the_file_gives(claude: Claude) -> None:
    """What grew is, item by item and letter by letter, what the file holds once the turn has ended."""
    run = await claude.run()
    ended = await run.turn("msg_1", "hello @@think let me see @@n 5 @@text one two three four five six")
    assert ended.outcome == "completed"
    reading = read_file(claude.session_file(run.runtime.native_id))
    said = {item.id: item.text() for item in reading.items.values() if item.role == "assistant"}
    assert said == run.grown()
    assert sorted(said.values()) == ["let me see ", "one two three four five six"]
    assert len([event for event in run.told if isinstance(event, Grew) and event.kind is ItemKind.MESSAGE]) == 3
    (prompt,) = [item for item in reading.items.values() if item.role == "user"]
    assert prompt.id == ids.row_id(ids.message_uuid("msg_1"))
    assert run.told[:2] == [TurnStarted(prompt.turn), Placed("msg_1", prompt.turn, "new_turn")]
    assert prompt.turn == ended.turn_id


async def test_a_message_sent_twice_has_one_effect(claude: Claude) -> None:
    """The same message id again does nothing, in this process and in one that resumes the session."""
    run = await claude.run()
    await run.turn("msg_1", "once @@text first")
    await run.runtime.send("msg_1", "once @@text first")
    await run.turn("msg_2", "then @@text second")
    await run.runtime.close()
    again = await claude.run(resume=run.runtime.native_id)
    await again.runtime.send("msg_1", "once @@text first")
    await again.turn("msg_3", "last @@text third")
    await again.runtime.close()
    reading = read_file(claude.session_file(run.runtime.native_id))
    assert [text for text in reading.texts() if "@@" not in text] == ["first", "second", "third"]


async def test_an_allowed_command_runs_and_a_denied_one_does_not(claude: Claude) -> None:
    """The question names the command, its folder and its item; the person's words reach the model."""
    run = await claude.run()
    await run.runtime.send("msg_1", "do @@sh touch made.txt @@sh touch forbidden.txt @@final done")
    first = await run.event(Asked, lambda one: one.command == "touch made.txt")
    assert first.question == "run_command"
    assert first.cwd == str(claude.project)
    assert [option.kind for option in first.options] == [
        OptionKind.ALLOW_ONCE,
        OptionKind.ALLOW_ALWAYS,
        OptionKind.DENY,
    ]
    assert "touch made.txt" in first.options[1].label
    assert await run.runtime.decide(first.native_id, "allow")
    assert not await run.runtime.decide(first.native_id, "allow")
    second = await run.event(Asked, lambda one: one.command == "touch forbidden.txt")
    assert await run.runtime.decide(second.native_id, "deny", message="not that one")
    ended = await run.event(TurnEnded)
    assert ended.outcome == "completed"
    assert (claude.project / "made.txt").exists()
    assert not (claude.project / "forbidden.txt").exists()
    made, forbidden = tools_of(read_file(claude.session_file(run.runtime.native_id)))
    assert (made.id, forbidden.id) == (first.item_id, second.item_id)
    assert made.tool is not None
    assert forbidden.tool is not None
    assert (made.tool.state, made.tool.exit_code) == (ToolState.COMPLETED, 0)
    assert (forbidden.tool.state, forbidden.tool.output) == (ToolState.DENIED, "not that one")


async def test_allowing_always_asks_once(claude: Claude) -> None:
    """The suggested rule is taken, so the same kind of command is not asked about again."""
    run = await claude.run()
    await run.runtime.send("msg_1", "do @@write a.txt hi @@write b.txt hi @@final done")
    asked = await run.asked("Write")
    assert asked.question == "edit_file"
    assert "+hi" in asked.diff
    assert await run.runtime.decide(asked.native_id, "always")
    assert (await run.event(TurnEnded)).outcome == "completed"
    assert len([event for event in run.told if isinstance(event, Asked)]) == 1
    assert (claude.project / "b.txt").read_text() == "hi\n"


async def test_a_question_with_choices_gets_the_persons_answers(claude: Claude) -> None:
    """Answers reach the model as the result of the question."""
    choices = '[{"label":"A","description":"a"},{"label":"B","description":"b"}]'
    questions = (
        f'{{"questions":[{{"question":"Which?","header":"Pick","multiSelect":false,"options":{choices}}}]}}'
    )
    run = await claude.run()
    await run.runtime.send("msg_1", f"ask @@raw AskUserQuestion {questions}")
    asked = await run.asked("AskUserQuestion")
    assert (asked.question, asked.title) == ("answer", "Which?")
    assert await run.runtime.decide(asked.native_id, "allow", answers=msgspec.Raw(b'{"Which?":"B"}'))
    assert (await run.event(TurnEnded)).outcome == "completed"
    (question,) = tools_of(read_file(claude.session_file(run.runtime.native_id)))
    assert question.tool is not None
    assert '"Which?"="B"' in question.tool.output


async def test_an_interrupt_keeps_what_was_said_and_the_process(claude: Claude, model: ScriptedModel) -> None:
    """The partial text stands in the file under the id under which it grew; the next turn runs."""
    run = await claude.run()
    await run.runtime.send("msg_1", "long @@hold gate-interrupt @@n 4 @@text a b c d")
    await run.event(Grew, lambda event: event.text == "c ")
    await run.runtime.interrupt()
    ended = await run.event(TurnEnded)
    assert ended.outcome == "interrupted"
    assert (await run.turn("msg_2", "next @@text still here")).outcome == "completed"
    reading = read_file(claude.session_file(run.runtime.native_id))
    (partial,) = [item for item in reading.items.values() if item.text() == "a b c "]
    assert partial.interrupted
    assert run.grown()[partial.id] == "a b c "
    assert not [event for event in run.told if isinstance(event, Dropped)]
    assert [item.note for item in reading.items.values() if item.kind is ItemKind.NOTICE] == ["interrupted"]
    model.release("gate-interrupt")


async def test_an_interrupt_withdraws_the_open_question(claude: Claude) -> None:
    """Nobody can answer it afterwards."""
    run = await claude.run()
    await run.runtime.send("msg_1", "do @@sh touch x")
    asked = await run.asked("Bash")
    await run.runtime.interrupt()
    withdrawn = await run.event(Withdrawn)
    assert withdrawn.native_id == asked.native_id
    assert not await run.runtime.decide(asked.native_id, "allow")
    assert (await run.event(TurnEnded)).outcome == "interrupted"


async def test_a_message_during_a_turn_waits_and_a_steering_one_joins_in(
    claude: Claude, model: ScriptedModel
) -> None:
    """Queued: a turn of its own afterwards. Steered: seen by the model in the running turn."""
    run = await claude.run()
    await run.runtime.send("msg_1", "work @@sh touch y @@final done")
    asked = await run.asked("Bash")
    await run.runtime.send("msg_later", "afterwards @@text own turn")
    await run.runtime.send("msg_steer", "also think of z", steer=True)
    await run.event(Placed, lambda one: one.message_id == "msg_steer" and one.how == "queued")
    await run.runtime.decide(asked.native_id, "allow")
    steered = await run.event(Placed, lambda one: one.message_id == "msg_steer" and one.how == "steered")
    later = await run.event(Placed, lambda one: one.message_id == "msg_later" and one.how == "new_turn")
    assert steered.turn_id == asked.turn_id
    assert later.turn_id != asked.turn_id
    await run.event(TurnEnded, lambda one: one.turn_id == later.turn_id)
    reading = read_file(claude.session_file(run.runtime.native_id))
    turns = {item.id: item.turn for item in reading.items.values()}
    assert turns[ids.row_id(ids.message_uuid("msg_steer"))] == asked.turn_id
    assert turns[ids.row_id(ids.message_uuid("msg_later"))] == later.turn_id


async def test_a_fork_leaves_the_first_session_alone(claude: Claude) -> None:
    """The fork has an id and a file of its own, begins with the same items, and the old file does not grow."""
    run = await claude.run()
    await run.turn("msg_1", "root @@text shared")
    await run.runtime.close()
    before = claude.session_file(run.runtime.native_id).read_bytes()
    fork = await claude.run(fork_of=run.runtime.native_id)
    assert fork.runtime.native_id != run.runtime.native_id
    await fork.turn("msg_2", "branch @@text only here")
    await fork.runtime.close()
    assert claude.session_file(run.runtime.native_id).read_bytes() == before
    old = read_file(claude.session_file(run.runtime.native_id))
    new = read_file(claude.session_file(fork.runtime.native_id))
    assert list(new.items)[: len(old.items)] == list(old.items)
    assert new.texts()[-1] == "only here"


async def test_a_killed_process_is_said_with_what_was_growing(claude: Claude, model: ScriptedModel) -> None:
    """SIGKILL in mid-text: the text seen is kept, the turn has failed, and the session can be resumed."""
    run = await claude.run()
    await run.turn("msg_0", "first @@text done")
    await run.runtime.send("msg_1", "long @@hold gate-kill @@n 3 @@text a b c")
    await run.event(Grew, lambda event: event.text == "b ")
    os.kill(run.runtime.pid, signal.SIGKILL)
    ended = await run.event(Ended)
    assert ended.exit_code == -signal.SIGKILL
    dropped, turn_end = run.told[-3:-1]
    assert isinstance(dropped, Dropped)
    assert (dropped.item.text(), dropped.item.not_in_model_history) == ("a b ", True)
    assert isinstance(turn_end, TurnEnded)
    assert turn_end.outcome == "failed"
    with pytest.raises(VendorFailed):
        await run.runtime.send("msg_2", "too late")
    model.release("gate-kill")
    again = await claude.run(resume=run.runtime.native_id)
    assert (await again.turn("msg_3", "again @@text back")).outcome == "completed"


async def test_the_end_is_said_though_a_child_holds_the_pipes(claude: Claude, until: Until) -> None:
    """A command that outlives the killed program does not keep `Ended` from coming."""
    run = await claude.run()
    await run.runtime.send("msg_1", "do @@sh touch started; sleep 300")
    asked = await run.asked("Bash")
    await run.runtime.decide(asked.native_id, "allow")
    await until((claude.project / "started").exists)
    left = processes.below(run.runtime.pid)
    os.kill(run.runtime.pid, signal.SIGKILL)
    assert (await run.event(Ended)).exit_code == -signal.SIGKILL
    processes.kill(left)


async def test_closing_ends_the_process_and_what_it_runs(claude: Claude, until: Until) -> None:
    """A turn in a command is stopped; the program, the command and a detached child of it are gone."""
    run = await claude.run()
    await run.runtime.send("msg_1", "do @@sh setsid sleep 301 & touch started; sleep 300")
    asked = await run.asked("Bash")
    await run.runtime.decide(asked.native_id, "allow")
    await until((claude.project / "started").exists)
    started = [(run.runtime.pid, processes.start_ticks(run.runtime.pid)), *processes.below(run.runtime.pid)]
    assert len(started) >= 3
    await run.runtime.close()
    assert isinstance(run.told[-1], Ended) or await run.event(Ended)
    await until(lambda: all(processes.start_ticks(pid) != ticks for pid, ticks in started))


async def test_a_session_that_is_not_there_fails_with_what_the_program_says(claude: Claude) -> None:
    """No endless start: the program's own words are in the error."""
    runtime = claude.vendor.runtime(
        Begin(claude.project, resume="99999999-9999-4999-8999-999999999999"), claude.environment
    )
    with pytest.raises(VendorFailed) as caught:
        await runtime.start()
    assert "No conversation found" in str(caught.value.details["said"])


async def test_the_live_registry_names_the_process(claude: Claude, until: Until) -> None:
    """While it runs, its session has an owner with that pid; afterwards it has none."""
    run = await claude.run()
    await run.turn("msg_1", "hi @@text hello")
    owner = claude.vendor.discovery.owners()[run.runtime.native_id]
    assert owner.pid == run.runtime.pid
    assert owner.started_at == processes.started_at(run.runtime.pid)
    await run.runtime.close()
    assert run.runtime.native_id not in claude.vendor.discovery.owners()


async def test_a_subagent_is_a_thread_under_its_call(claude: Claude) -> None:
    """Its own file is found with its session, its items carry the thread, and its call names the thread."""
    prompt = "sub job %%sh touch deep %%final sub done"
    agent = f'{{"description":"look","prompt":"{prompt}","subagent_type":"general-purpose"}}'
    run = await claude.run()
    await run.runtime.send("msg_1", f"go @@raw Agent {agent} @@final main done")
    asked = await run.asked("Bash")
    await run.runtime.decide(asked.native_id, "allow")
    assert (await run.event(TurnEnded)).outcome == "completed"
    await run.runtime.close()
    files = [file for file in claude.vendor.discovery.files() if file.native_id == run.runtime.native_id]
    (part,) = [file for file in files if file.thread]
    (main,) = [file for file in files if not file.thread]
    fold = claude.vendor.fold(part)
    assert isinstance(fold, ClaudeFold)
    inner = Reading(fold).take(lines_of(part.path.read_bytes()))
    assert "sub done" in inner.texts()
    assert {item.thread for item in inner.items.values()} == {part.thread}
    assert asked.item_id in inner.items
    outer = read_file(main.path)
    call = outer.items[inner.facts.called_by]
    assert call.tool is not None
    assert (call.tool.thread, call.tool.title) == (part.thread, "look")
    assert not [event for event in run.told if isinstance(event, Grew) and event.text == "sub done"]


async def test_a_plan_waits_for_its_approval(claude: Claude) -> None:
    """Leaving plan mode is a question of its own kind; approved, the work goes on."""
    run = await claude.run()
    plan = '@@raw EnterPlanMode {} @@raw ExitPlanMode {"plan":"# Plan"} @@final planned'
    await run.runtime.send("msg_1", f"plan {plan}")
    answered: set[str] = set()
    while True:
        asked = await run.event(Asked, lambda one: one.native_id not in answered)
        answered.add(asked.native_id)
        assert await run.runtime.decide(asked.native_id, "allow")
        if asked.tool == "ExitPlanMode":
            break
    assert asked.question == "other"
    assert (await run.event(TurnEnded)).outcome == "completed"


async def test_an_overloaded_model_is_asked_again(claude: Claude) -> None:
    """One 529 costs time, not the turn, and leaves no text behind."""
    run = await claude.run()
    assert (await run.turn("msg_1", "hi @@error 529 busy @@text there")).outcome == "completed"
    assert list(run.grown().values()) == ["there"]
    assert not [event for event in run.told if isinstance(event, Dropped)]


async def test_a_refused_request_is_a_failed_turn_with_its_reason(claude: Claude) -> None:
    """The program's own account of the error is the reason, and stands in the file."""
    run = await claude.run()
    ended = await run.turn("msg_1", "hi @@refuse 400 no such luck")
    assert ended.outcome == "failed"
    assert "no such luck" in ended.reason
    reading = read_file(claude.session_file(run.runtime.native_id))
    answers = [item for item in reading.items.values() if item.role == "assistant"]
    assert [(item.note, "no such luck" in item.text()) for item in answers] == [("api_error", True)]
