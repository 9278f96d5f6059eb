"""Tool calls that miss their other half, and the same talk in every form that a vendor has written it in."""

import json
import os
from typing import Any

import pytest

from cases.desk import Desk, thread_id
from ekiden.transcript.items import Item
from vendors.claude.files import assistant, call, encode, result, user
from vendors.codex.files import event, joined, meta, response, row, typed, written

pytestmark = pytest.mark.anyio

S1, S2 = thread_id(1), thread_id(2)


def states(items: list[Item]) -> list[tuple[str, str, str]]:
    """(state, output, note) of each call."""
    return [(str(item.tool.state), item.tool.output, item.note) for item in items if item.tool]


async def test_a_call_or_a_result_alone_is_shown_as_what_it_is(desk: Desk) -> None:
    """No result: not recorded, never running for ever and never a success. A result without a call, a second one
    and one before its call are shown. Results have all forms."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    rows = [
        user("u0", None, result("t9", "an orphan")),
        user("u1", "u0", result("t2", "before its call")),
        assistant("a1", "u1", call("t1", command="no result"), "m1"),
        assistant("a2", "a1", call("t2", command="early"), "m2"),
        assistant("a3", "a2", call("t3", command="twice"), "m3"),
        user("u3", "a3", result("t3", "first")),
        user("u4", "u3", result("t3", "second")),
        assistant("a5", "u4", call("t5", command="list"), "m5"),
        user("u5", "a5", result("t5", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])),
        assistant("a6", "u5", call("t6", command="null"), "m6"),
        user("u6", "a6", result("t6", None)),
        assistant("a7", "u6", call("t7", command="image"), "m7"),
        user("u7", "a7", result("t7", [image])),
        user("u8", "u7", "go on"),
    ]
    desk.claude(S1, encode(rows))
    await desk.up()
    report = await desk.read(S1)
    items = await desk.pages(S1)
    by_command = {item.tool.command: item.tool for item in items if item.tool}
    assert by_command["no result"].state == "unrecorded"
    assert (by_command["early"].state, by_command["early"].output) == ("completed", "before its call")
    assert by_command["twice"].output == "first"
    assert by_command["list"].output == "a\nb"
    assert (by_command["null"].state, by_command["null"].output) == ("completed", "")
    assert len(by_command["image"].images) == 1
    said = json.dumps([(item.note, item.text(), item.tool.output if item.tool else "") for item in items])
    assert "an orphan" in said
    assert "second" in said
    assert [item.note for item in items if "orphan" in item.note] != []
    assert await desk.texts(S1) == ["go on"]
    assert report.state != "running"


async def test_a_rollout_with_half_calls_says_so(desk: Desk) -> None:
    """A call at the end of a file that nobody writes, and an output without a call."""
    rows = [
        meta(S1),
        written("user", "go"),
        response("custom_tool_call_output", call_id="c9", output="what?"),
        response("function_call", name="shell", call_id="c1", arguments='{"command":["ls"]}'),
    ]
    desk.codex(S1, joined(rows))
    await desk.up()
    report = await desk.read(S1)
    assert states(await desk.pages(S1)) == [("completed", "what?", "orphan_result"), ("unrecorded", "", "")]
    assert report.state != "running"


async def test_an_output_in_a_file_beside_the_session_is_read_and_no_other_file_is(desk: Desk) -> None:
    """Large outputs lie there and a line names them; a path that leads anywhere else stays a name."""
    path = desk.claude(S1, b"")
    folder = path.with_suffix("") / "tool-results"
    folder.mkdir(parents=True)
    (folder / "x.txt").write_text("y" * 60_000)
    (desk.base / "outside.txt").write_text("not for anybody")
    (folder / "link.txt").symlink_to(desk.base / "outside.txt")
    os.mkfifo(folder / "pipe.txt")
    with (folder / "sparse.txt").open("wb") as sparse:
        sparse.truncate(5 * 1024**3)
    named = [
        folder / "x.txt",
        folder / "../../../../../../../outside.txt",
        desk.base / "outside.txt",
        folder / "link.txt",
        folder / "pipe.txt",
        folder / "sparse.txt",
    ]
    rows = [user("u0", None, "go")]
    for number, one in enumerate(named):
        rows.append(
            assistant(f"a{number}", rows[-1]["uuid"], call(f"t{number}", command=f"{number}"), f"m{number}")
        )
        text = f"<persisted-output>\nOutput too large (58KB). Full output saved to: {one}\n\nPreview:\nyyy"
        rows.append(user(f"r{number}", f"a{number}", result(f"t{number}", text)))
    path.write_bytes(encode(rows))
    await desk.up()
    report = await desk.read(S1)
    tools = [item for item in await desk.pages(S1) if item.tool]
    assert len(tools) == len(named)
    for number, item in enumerate(tools):
        whole = await desk.client.get(f"/v1/sessions/{report.session_id}/items/{item.id}", type=Item)
        assert ("y" * 60_000 in whole.text()) is (number == 0)
        assert "not for anybody" not in str(whole)


def bare(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode()


def forms(thread: str) -> dict[str, bytes]:
    """The same two messages in each generation of Codex's files."""
    session = {"id": thread, "timestamp": "2026-01-01T00:00:00.000Z", "instructions": None}
    said = [("user", "input_text", "hi"), ("assistant", "output_text", "hello")]
    messages = [
        {"type": "message", "role": role, "content": [{"type": kind, "text": text}]} for role, kind, text in said
    ]
    told = [
        event("user_message", message="hi"),
        written("user", "hi"),
        event("agent_message", message="hello"),
        written("assistant", "hello"),
    ]
    strange = [row("world_state", {}), row("inter_agent_communication", {"to": "x"}), row("future_kind", {"a": 1})]
    return {
        "bare rows": joined([bare(session), bare({"record_type": "state"}), *map(bare, messages)]),
        "one document": bare({"session": session, "items": messages}) + b"\n",
        "events and their twins": joined([meta(thread), *told]),
        "typed items": joined(
            [
                meta(thread),
                typed("UserMessage", "u1", content=[{"type": "text", "text": "hi"}]),
                typed("AgentMessage", "m1", content=[{"type": "Text", "text": "hello"}]),
            ]
        ),
        "with kinds of a later version": joined([meta(thread), *told, *strange]),
    }


async def test_the_same_talk_reads_alike_in_every_form(desk: Desk) -> None:
    """Two messages from each of five forms, twins once; what is not known is kept and counted."""
    names = list(forms(S1))
    for number, name in enumerate(names, 1):
        suffix = ".json" if name == "one document" else ".jsonl"
        desk.codex(thread_id(number), forms(thread_id(number))[name], suffix=suffix)
    await desk.up()
    for number, name in enumerate(names, 1):
        report = await desk.read(thread_id(number))
        items = [item for item in await desk.pages(thread_id(number)) if item.kind == "message"]
        assert [(str(item.role), item.text()) for item in items] == [("user", "hi"), ("assistant", "hello")], name
        assert (report.title, report.messages) == ("hi", 2), name
    report = await desk.read(thread_id(len(names)))
    assert report.unknown_rows == 2
    unknown = [item.note for item in await desk.pages(report.native_id) if item.kind == "unknown"]
    assert unknown == ["inter_agent_communication", "future_kind"]


async def test_a_file_of_which_nothing_is_understood_is_shown_as_that(desk: Desk) -> None:
    """Not "empty", not left out: a session with its state, its counts and its raw lines, for both vendors; the
    same when it grows into a form that is known."""
    strange = [row("message_v9", {"text": f"words {number}"}) for number in range(30)]
    file = desk.codex(S1, joined([meta(S1), *strange]))
    desk.claude(S2, encode([{"kind": "v9", "body": f"words {number}"} for number in range(30)]))
    await desk.up()
    for native_id, unknown in ((S1, 30), (S2, 30)):
        report = await desk.read(native_id)
        assert (report.drift, report.messages, report.unknown_rows) == ("nothing_parsed", 0, unknown)
        assert any("words 29" in line.text for line in await desk.raw(native_id))
        assert len([item for item in await desk.pages(native_id) if item.kind == "unknown"]) == unknown
    with file.open("ab") as more:
        more.write(written("user", "at last") + b"\n" + written("assistant", "yes") + b"\n")

    async def known() -> bool:
        report = await desk.find(S1)
        return report is not None and report.drift == "unknown_rows" and report.messages == 2

    await desk.until(known)
