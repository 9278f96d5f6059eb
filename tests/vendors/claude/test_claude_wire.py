"""The runtime's reader of lines, and the runtime against a stub that behaves as the real program seldom does."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ekiden.kernel.errors import VendorFailed
from ekiden.kernel.limits import CLAUDE_LINE_BYTES_MAX, EVENT_BODY_BYTES_MAX
from ekiden.vendors.claude import ids
from ekiden.vendors.claude.runtime import ClaudeRuntime
from ekiden.vendors.claude.wire import Lines, Oversize
from ekiden.vendors.port import Begin, Dropped, Ended, Grew, Placed, Program, TurnEnded, TurnStarted
from vendors.claude.files import SAMPLES
from vendors.claude.runs import Run

STUB = """
import json, sys
def say(**fields):
    sys.stdout.write(json.dumps(fields) + "\\n")
    sys.stdout.flush()
request = json.loads(sys.stdin.readline())
say(type="control_response", response={"subtype": "success", "request_id": request["request_id"]})
def delta(text):
    say(type="stream_event", event={"type": "content_block_delta", "index": 0,
        "delta": {"type": "text_delta", "text": text}})
def start(name):
    say(type="stream_event", uuid="e", event={"type": "message_start", "message": {"id": name}})
def message():
    return json.loads(sys.stdin.readline())
"""


def stub(tmp_path: Path, code: str) -> ClaudeRuntime:
    """A runtime on a program that does what `code` says after the greeting."""
    program = tmp_path / "claude"
    program.write_text(f"#!{sys.executable}\n{STUB}{code}\n")
    program.chmod(0o755)
    return ClaudeRuntime(Begin(tmp_path), {"PATH": "/bin"}, Program(program, "0"))


@given(
    st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b""))),
    st.integers(1, 7),
    st.integers(1, 30),
)
def test_lines_are_whole_however_they_arrive(lines: list[bytes], step: int, bound: int) -> None:
    """Cut at any byte; a line over the bound is told with its size, and those behind it come."""
    data = b"".join(line + b"\n" for line in lines) + b"rest"
    reader = Lines(bound)
    got = [line for start in range(0, len(data), step) for line in reader.feed(data[start : start + step])]
    got += reader.end()
    assert len(got) == len(lines) + 1
    for line, told in zip([*lines, b"rest"], got, strict=True):
        assert told == line if len(line) <= bound else isinstance(told, Oversize) and told.size == len(line)


@pytest.mark.anyio
@pytest.mark.parametrize("size", [65_535, 65_537, 1_048_577, 12_000_000])
async def test_a_long_line_does_not_end_the_reader(tmp_path: Path, size: int) -> None:
    """A big event and the small one behind it both arrive."""
    code = f"start('m1'); delta('x' * {size}); delta('small'); say(type='result', subtype='success')"
    async with Run(stub(tmp_path, code)) as run:
        assert (await run.event(TurnEnded)).outcome == "completed"
        assert [len(event.text) for event in run.told if isinstance(event, Grew)] == [size, 5]


@pytest.mark.anyio
async def test_a_line_over_the_bound_is_announced_and_its_request_refused(tmp_path: Path) -> None:
    """The turn does not wait for an answer to what was not read; a last line without an end is read too."""
    code = f"""
start('m1')
pad = "x" * {CLAUDE_LINE_BYTES_MAX}
say(type="control_request", request_id="r-1", request={{"subtype": "can_use_tool", "pad": pad}})
answer = message()
delta(answer["response"]["subtype"] + " " + answer["response"]["request_id"])
sys.stdout.write(json.dumps({{"type": "result", "subtype": "success"}}))
"""
    async with Run(stub(tmp_path, code)) as run:
        assert (await run.event(TurnEnded)).outcome == "completed"
        notice = await run.event(Dropped, lambda one: one.item.note == "oversize")
        assert str(CLAUDE_LINE_BYTES_MAX)[:4] in notice.item.text()
        assert (await run.event(Grew)).text == "error r-1"


@pytest.mark.anyio
async def test_text_that_never_becomes_whole_is_kept(tmp_path: Path) -> None:
    """An answer that is begun anew leaves what was seen of the first one."""
    code = """
start('m1'); delta('first try')
start('m2'); delta('second')
say(type="assistant", message={"id": "m2", "content": [{"type": "text", "text": "second"}]})
say(type="result", subtype="success")
"""
    async with Run(stub(tmp_path, code)) as run:
        await run.event(TurnEnded)
        (kept,) = [event.item for event in run.told if isinstance(event, Dropped)]
        assert (kept.id, kept.text(), kept.note) == (ids.block_id("m1", 0), "first try", "kept_here")


@pytest.mark.anyio
async def test_a_program_that_tells_no_lifecycle_places_messages_by_their_echo(tmp_path: Path) -> None:
    """Older versions repeat a message when they take it."""
    code = """
line = message()
say(type="user", uuid=line["uuid"], isReplay=True, message=line["message"])
start('m1'); delta('hello')
say(type="assistant", message={"id": "m1", "content": [{"type": "text", "text": "hello"}]})
say(type="result", subtype="success")
message()
"""
    async with Run(stub(tmp_path, code)) as run:
        assert (await run.turn("msg_1", "hi")).outcome == "completed"
        assert [type(event) for event in run.told] == [TurnStarted, Placed, Grew, TurnEnded]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("result", "outcome", "reason"),
    [
        ({"subtype": "success", "is_error": False}, "completed", ""),
        ({"subtype": "success", "is_error": True, "result": "API Error: 529"}, "failed", "API Error: 529"),
        ({"subtype": "error_max_turns", "errors": ["a", "b"]}, "failed", "a; b"),
        ({"subtype": "error_during_execution", "terminal_reason": "aborted_tools"}, "interrupted", ""),
    ],
)
async def test_each_way_to_end_a_turn_is_told(
    tmp_path: Path, result: dict[str, Any], outcome: str, reason: str
) -> None:
    """Completed, failed with its reason, interrupted."""
    code = f"start('m1')\nprint({json.dumps(json.dumps({'type': 'result', **result}))}, flush=True)"
    async with Run(stub(tmp_path, code)) as run:
        ended = await run.event(TurnEnded)
        assert (ended.outcome, ended.reason) == (outcome, reason)


@pytest.mark.anyio
async def test_noise_and_unknown_requests_do_no_harm(tmp_path: Path) -> None:
    """Lines that are no JSON are passed over; a request that nobody knows is refused at once."""
    code = """
print("warning: not json"); print("[1]"); print("42"); print(json.dumps({"type": 7}))
say(type="control_request", request_id="r-2", request={"subtype": "hook_callback"})
answer = message()
start('m1'); delta(answer["response"]["subtype"])
say(type="result", subtype="success")
"""
    async with Run(stub(tmp_path, code)) as run:
        await run.event(TurnEnded)
        assert (await run.event(Grew)).text == "error"


@pytest.mark.anyio
async def test_half_an_emoji_on_the_wire_costs_no_event(tmp_path: Path) -> None:
    """It becomes a replacement character, and what follows comes."""
    code = """start('m1'); delta('a\\ud83d'); delta('b'); say(type="result", subtype="success")"""
    async with Run(stub(tmp_path, code)) as run:
        await run.event(TurnEnded)
        assert list(run.grown().values()) == ["a\ufffdb"]


@pytest.mark.anyio
async def test_a_question_about_a_giant_input_travels_cut_and_is_answered_whole(tmp_path: Path) -> None:
    """What is shown fits an event and names the hash of the whole; what is allowed is the whole."""
    code = """
start('m1')
say(type="control_request", request_id="r-1", request={"subtype": "can_use_tool", "tool_name": "Write",
    "input": {"file_path": "/a", "content": "x" * 3_000_000}})
answer = message()["response"]["response"]
delta(str(len(answer["updatedInput"]["content"])))
say(type="result", subtype="success")
"""
    async with Run(stub(tmp_path, code)) as run:
        asked = await run.asked("Write")
        assert len(bytes(asked.detail)) + len(asked.diff) < EVENT_BODY_BYTES_MAX // 2
        assert json.loads(bytes(asked.detail))["cut"]["bytes"] > 3_000_000
        assert await run.runtime.decide(asked.native_id, "allow")
        assert (await run.event(Grew)).text == "3000000"


@pytest.mark.anyio
async def test_a_program_that_will_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ignores the closed pipe and the request to end; it is killed, and the end is told."""
    monkeypatch.setattr("ekiden.vendors.claude.runtime.CLAUDE_CLOSE_S", 0.2)
    code = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nstart('m1')\ntime.sleep(600)"
    async with Run(stub(tmp_path, code)) as run:
        await run.event(TurnStarted)
    ended = run.told[-1]
    assert isinstance(ended, Ended)
    assert ended.exit_code == -9
    assert [event.outcome for event in run.told if isinstance(event, TurnEnded)] == ["interrupted"]


@pytest.mark.anyio
async def test_a_program_that_ends_at_once_is_an_error_with_its_words(tmp_path: Path) -> None:
    """What it wrote to its standard error is what the person gets to read."""
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\necho 'Please log in first.' >&2\nexit 4\n")
    program.chmod(0o755)
    runtime = ClaudeRuntime(Begin(tmp_path), {"PATH": "/bin"}, Program(program, "0"))
    with pytest.raises(VendorFailed, match="Please log in first") as caught:
        await runtime.start()
    assert caught.value.details["exit_code"] == 4


@pytest.mark.anyio
async def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    """The error is about the folder, not about the program."""
    runtime = ClaudeRuntime(Begin(tmp_path / "gone"), {}, Program(Path(sys.executable), "0"))
    with pytest.raises(VendorFailed, match="gone does not exist"):
        await runtime.start()


@pytest.mark.anyio
async def test_without_a_program_nothing_starts(tmp_path: Path) -> None:
    """The error says that it is not installed; closing afterwards is harmless."""
    runtime = ClaudeRuntime(Begin(tmp_path), {}, None)
    with pytest.raises(VendorFailed, match="not installed"):
        await runtime.start()
    await runtime.close()


@pytest.mark.anyio
async def test_a_recorded_conversation_is_told_as_it_was(tmp_path: Path) -> None:
    """The wire of a real process: turns, text, one question, one interrupt, a compaction, in order."""
    recording = SAMPLES / "wire" / "stream-json-v2.1.332.jsonl"
    code = f"""
for line in open({str(recording)!r}, encoding="utf-8"):
    entry = json.loads(line)
    if entry["dir"] == "recv":
        say(**entry["msg"])
        if entry["msg"]["type"] == "control_request":
            message()
"""
    async with Run(stub(tmp_path, code)) as run:
        asked = await run.asked("Bash")
        assert asked.command == "echo from-claude > out.txt; cat out.txt"
        assert [option.kind for option in asked.options] == ["allow_once", "allow_always", "deny"]
        assert await run.runtime.decide(asked.native_id, "allow")
        await run.event(Ended)
    outcomes = [event.outcome for event in run.told if isinstance(event, TurnEnded)]
    assert outcomes == [
        "completed",
        "completed",
        "interrupted",
        "completed",
        "completed",
        "completed",
        "completed",
    ]
    assert list(run.grown().values()) == [
        "one two three four five six seven eight",
        "I will run it",
        "finished",
        "a b c ",
        "still alive",
        "q w e r t y",
        "queued answer",
        "fresh",
    ]
    assert not [event for event in run.told if isinstance(event, Dropped)]
