"""Forms of rollouts that have made other readers empty, double or wrong, each as a kind of fault."""

import json
from typing import Any

import msgspec
import pytest

from ekiden.transcript.items import Image, Item, ItemKind, Role, ToolKind, ToolState
from ekiden.transcript.reading import Drift, Line
from ekiden.vendors.codex.native import item_id, ordinal_of, turn_id
from ekiden.vendors.codex.transcript import CodexFold
from vendors.codex.files import (
    OTHER,
    THREAD,
    event,
    joined,
    lines_of,
    merged,
    meta,
    read,
    response,
    row,
    said,
    typed,
    written,
)

HI = [("user", "hi"), ("assistant", "hello")]


def bare(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode()


def message(role: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


BARE = [
    bare({"id": THREAD, "timestamp": "2026-01-01T00:00:00.000Z", "instructions": None}),
    bare({"record_type": "state"}),
    bare(message("user", "hi")),
    bare({"record_type": "state"}),
    bare(message("assistant", "hello")),
]
DOCUMENT = {
    "session": {"id": THREAD, "timestamp": "2026-01-01T00:00:00.000Z", "instructions": ""},
    "items": [message("user", "hi"), message("assistant", "hello")],
}
LEGACY = [
    meta(),
    event("task_started", turn_id="t1"),
    written("user", "<environment_context>\n<cwd>/p</cwd></environment_context>"),
    written("user", "hi"),
    event("user_message", message="hi", images=[]),
    event("token_count", info=None),
    event("agent_message", message="hello"),
    written("assistant", "hello"),
    event("task_complete", turn_id="t1"),
]
PAGED = [
    meta(history_mode="paginated"),
    row("response_item", message("user", "hi"), ordinal=1),
    typed("UserMessage", "u1", ordinal=2, content=[{"type": "text", "text": "hi"}]),
    typed("AgentMessage", "msg_1", ordinal=3, content=[{"type": "Text", "text": "hello"}]),
    row("response_item", message("assistant", "hello") | {"id": "msg_1"}, ordinal=4),
]
TYPED_WITHOUT_ORDINALS = [
    meta(),
    written("user", "hi"),
    typed("UserMessage", "u1", content=[{"type": "text", "text": "hi"}]),
    typed("AgentMessage", "msg_1", content=[{"type": "Text", "text": "hello"}]),
    written("assistant", "hello", id="msg_1"),
]
STRANGE = [row("inter_agent_communication", {"to": "x"}), row("future_kind", {"a": 1})]


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(joined(BARE), id="bare rows"),
        pytest.param(json.dumps(DOCUMENT).encode() + b"\n", id="one document on one line"),
        pytest.param(json.dumps(DOCUMENT, indent=2).encode() + b"\n", id="one document on many lines"),
        pytest.param(joined(LEGACY), id="legacy"),
        pytest.param(joined(PAGED), id="paginated"),
        pytest.param(joined(TYPED_WITHOUT_ORDINALS), id="typed items without ordinals"),
        pytest.param(joined([*LEGACY, row("world_state", {}), *STRANGE]), id="legacy with unknown rows"),
    ],
)
def test_the_same_talk_reads_alike_in_every_generation(rows: bytes) -> None:
    """Two messages, twins not doubled, no drift to "empty"."""
    items, fold = read(rows)
    assert said(items) == HI
    assert fold.facts.messages == 2
    assert fold.facts.first_prompt == fold.facts.title == "hi"
    assert fold.facts.drift is not Drift.NOTHING_PARSED
    assert fold.facts.native_id == THREAD


def test_unknown_rows_are_counted_by_kind_and_can_be_seen() -> None:
    """Each is an item with its place; enough of them are a visible drift."""
    items, fold = read([*LEGACY, *STRANGE, event("new_event"), response("new_item"), typed("NewItem", "n1")])
    strange = [item for item in items if item.kind is ItemKind.UNKNOWN]
    assert [item.note for item in strange] == list(fold.facts.unknown_kinds)
    assert set(fold.facts.unknown_kinds.values()) == {1}
    assert fold.facts.unknown_rows == len(strange) == 5
    assert all(item.source.line > len(LEGACY) for item in strange)
    assert fold.facts.drift is Drift.UNKNOWN_ROWS


@pytest.mark.parametrize(
    "rows",
    [
        [row("message_v9", {"text": "hi"})] * 3,
        [meta(), *STRANGE],
        [b"\x00\x01 not a rollout"],
        [meta(), event("token_count", info=None)],
    ],
)
def test_bytes_without_a_message_are_never_taken_for_an_empty_session(rows: list[bytes]) -> None:
    """An unknown form is a state of its own."""
    _, fold = read(rows)
    assert fold.facts.drift is Drift.NOTHING_PARSED


def test_a_session_whose_first_turn_has_just_begun_is_not_drift() -> None:
    """The rows before the first message come a moment before it."""
    _, fold = read([meta(), event("task_started", turn_id="t1")])
    assert fold.facts.drift is Drift.NONE
    assert fold.facts.turn_open
    assert fold.facts.turn_id == turn_id(THREAD, "t1")


@pytest.mark.parametrize(
    "bad",
    [
        b'{"timestamp":"2026-01-01T00:00:01.000Z","type":"event_msg","payload":{"type":"agent_message","message":"tor',
        b'{"timestamp":"2026-01-01T00:00:01.000Z","type":"world_state","payload":{"full":tr',
        b'{"timestamp":"2026-01-01T00:00:01.000Z","type":"compacted","payload":{"message":"half',
        b"not json",
        b"",
        b"42",
        b"[1]",
        b'"x"',
        b"[" * 100_000,
    ],
)
def test_one_bad_line_hides_nothing_else(bad: bytes) -> None:
    """It is one visible item with its line and its bytes' place."""
    rows = [*LEGACY[:5], bad, *LEGACY[5:]]
    items, fold = read(rows)
    assert said(items) == HI
    (unreadable,) = [item for item in items if item.kind is ItemKind.UNREADABLE]
    start = len(joined(rows[:5]))
    assert (unreadable.source.line, unreadable.source.start, unreadable.source.end) == (6, start, start + len(bad))
    assert fold.facts.unreadable_rows == 1


def test_a_row_of_no_known_shape_is_shown_as_unknown() -> None:
    """It is JSON, so it is not unreadable; nothing in it says what it is."""
    items, fold = read([*LEGACY[:5], b'{"silly":"this"}', *LEGACY[5:]])
    assert said(items) == HI
    assert [item.note for item in items if item.kind is ItemKind.UNKNOWN] == ["no type"]
    assert fold.facts.unknown_rows == 1


@pytest.mark.parametrize("text", ["a\u2028b", "a\u2029b", "a\u0085b", "end\u2028", "\x0bvt\x0c\x1c\x1d\x1e"])
def test_other_line_ends_inside_a_text_split_no_record(text: str) -> None:
    """They are legal inside JSON strings, raw as well as escaped; only byte 0x0A ends a line."""
    rows = [
        meta(),
        json.dumps(json.loads(event("user_message", message=text)), ensure_ascii=False).encode(),
        json.dumps(
            json.loads(response("function_call_output", call_id="c", output=text)), ensure_ascii=False
        ).encode(),
    ]
    items, fold = read(rows)
    assert said(items) == [("user", text)]
    assert [item.tool.output for item in items if item.tool] == [text]
    assert fold.facts.rows == 3


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (rb"half \ud83d end", "half \ufffd end"),
        (rb"half \udc00 end", "half \ufffd end"),
        (rb"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (b"raw \xed\xa0\xbd end", "raw \ufffd end"),
        (b"bad \xff end", "bad \ufffd end"),
    ],
)
def test_half_a_character_spoils_only_itself(raw: bytes, shown: str) -> None:
    """In messages, commands and outputs; everything can be encoded again."""
    told = event("user_message", message="@").replace(b"@", raw)
    call = response("function_call", name="exec_command", arguments='{"cmd":"@"}', call_id="c")
    output = response("function_call_output", call_id="c", output="@").replace(b"@", raw)
    items, _ = read([meta(), told, call.replace(b"@", raw.replace(b"\\", b"\\\\")), output])
    assert said(items) == [("user", shown)]
    (tool,) = [item.tool for item in items if item.tool]
    assert (tool.output, tool.command) == (shown, shown)
    for item in items:
        msgspec.json.decode(msgspec.json.encode(item))


@pytest.mark.parametrize("limit", range(8, 24))
def test_a_cut_text_is_whole_characters_and_says_its_size(limit: int) -> None:
    """Whatever byte the bound falls on."""
    text = "ab😀é漢" * 8
    items, _ = read([meta(), event("user_message", message=text)], text_bytes_max=limit)
    (item,) = [each for each in items if each.role is Role.USER]
    assert text.startswith(item.text())
    assert limit - 4 < len(item.text().encode()) <= limit
    assert [(cut.field, cut.bytes) for cut in item.cut] == [("content", len(text.encode()))]


def test_the_first_metadata_says_which_session_it_is() -> None:
    """A fork that copies its parent's metadata and history does not become its parent, nor counts twice."""
    rows = [
        meta(THREAD, second=5, forked_from_id=OTHER, session_id="g1"),
        meta(OTHER, second=5, session_id="g1", cli_version="0.1.0", cwd="/other"),
        event("task_started", turn_id="old", second=5),
        event("user_message", message="copied question", second=5),
        event("agent_message", message="copied answer", second=5),
        event("user_message", message="own question", second=9),
    ]
    items, fold = read(rows)
    facts = fold.facts
    assert (facts.native_id, facts.forked_from, facts.cwd) == (THREAD, OTHER, "/p")
    assert [item.note for item in items] == ["copied", "copied", ""]
    assert facts.messages == 1
    assert not facts.turn_open
    assert [item.id for item in items] == [item_id(THREAD, f"@{item.source.start}") for item in items]


def test_a_fork_by_reference_names_the_file_that_its_history_is_in() -> None:
    """Two rows and no message of its own are no drift, and the parent can be read up to the fork."""
    base = {"thread_id": OTHER, "end_ordinal_exclusive": 81, "end_byte_offset": 9}
    _, fold = read([meta(forked_from_id=OTHER, history_base=base), event("thread_settings_applied")])
    assert fold.facts.history_base == (OTHER, 81)
    assert fold.facts.drift is Drift.NONE
    assert ordinal_of(row("world_state", {}, ordinal=80)) == 80
    assert ordinal_of(row("world_state", {})) is None


def call(name: str = "exec_command", **fields: Any) -> bytes:
    return response("function_call", call_id="c1", arguments='{"cmd":"ls"}', **({"name": name} | fields))


def returned(output: object, call_id: str = "c1", kind: str = "function_call_output") -> bytes:
    return response(kind, call_id=call_id, output=output)


def tools_in(items: list[Item]) -> list[tuple[str, ToolState]]:
    return [(item.tool.name, item.tool.state) for item in items if item.tool]


def test_a_call_without_a_result_ends_as_unrecorded_and_may_still_get_one() -> None:
    """At the end of the file nothing claims that it runs, nor that it succeeded."""
    fold = CodexFold(THREAD, "f")
    lines = lines_of(joined([meta(), call(), returned("done")]))
    items = fold.feed(lines[0]) + fold.feed(lines[1])
    assert tools_in(items) == [("exec_command", ToolState.PENDING)]
    assert fold.open_calls == 1
    assert tools_in(fold.finish()) == [("exec_command", ToolState.UNRECORDED)]
    after = fold.feed(lines[2])
    assert tools_in(after) == [("exec_command", ToolState.COMPLETED)]
    assert after[0].id == items[0].id
    assert (fold.open_calls, fold.finish()) == (0, [])


@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output"])
def test_a_result_without_its_call_is_shown_as_an_orphan(kind: str) -> None:
    """In a whole reading; the call can only be missing from the file."""
    items, _ = read([meta(), returned("what?", "c9", kind)])
    (orphan,) = [item for item in items if item.tool]
    assert orphan.note == "orphan_result"
    assert orphan.tool is not None
    assert orphan.tool.output == "what?"


def test_a_reading_that_begins_after_the_call_leaves_the_result_to_an_earlier_one() -> None:
    """The result is counted as wanting an earlier start, so that no call is shown without its question."""
    rows = [meta(), call(), returned("done"), event("user_message", message="next")]
    lines = lines_of(joined(rows))
    fold = CodexFold(THREAD, "f")
    items = [item for line in lines[2:] for item in fold.feed(line)] + fold.finish()
    assert said(items) == [("user", "next")]
    assert fold.facts.wants_earlier == 1


@pytest.mark.parametrize(
    ("output", "state", "shown", "exit_code"),
    [
        ("plain", ToolState.COMPLETED, "plain", None),
        ("Wall time: 1\nProcess exited with code 0\nOutput:\nhi\n", ToolState.COMPLETED, "hi\n", 0),
        ("Wall time: 1\nProcess exited with code 3\nOutput:\nno\n", ToolState.FAILED, "no\n", 3),
        ("Wall time: 1 seconds\naborted by user", ToolState.FAILED, None, None),
        ('exec_command failed: E("rejected by user")', ToolState.DENIED, None, None),
        ("patch rejected by user", ToolState.DENIED, None, None),
        ("the log says: rejected by user", ToolState.COMPLETED, None, None),
        ("Process running with session ID 7\nOutput:\n", ToolState.RUNNING, None, None),
        ('{"output":"old","metadata":{"exit_code":1}}', ToolState.FAILED, "old", 1),
        ({"content": "it", "success": False}, ToolState.FAILED, "it", None),
        ([{"type": "input_text", "text": "a"}, {"text": "b"}], ToolState.COMPLETED, "a\nb", None),
        (None, ToolState.COMPLETED, "", None),
    ],
)  # fmt: skip
def test_what_became_of_a_call_is_read_from_its_output(
    output: object, state: ToolState, shown: str | None, exit_code: int | None
) -> None:
    """All the forms in which Codex has written outputs; `shown` is None where all of it is."""
    fold = CodexFold(THREAD, "f")
    items = [item for line in lines_of(joined([meta(), call(), returned(output)])) for item in fold.feed(line)]
    tool = items[-1].tool
    assert tool is not None
    assert (tool.state, tool.output, tool.exit_code) == (state, output if shown is None else shown, exit_code)


def test_a_command_that_outlives_its_turn_is_one_item() -> None:
    """The model was told that it was aborted; what it really did comes during the next turn."""
    done = typed("CommandExecution", "c1", command=["/bin/bash", "-lc", "make all"], cwd="file:///p%20q",
                 status="completed", aggregated_output="ok\n", exit_code=0,
                 duration={"secs": 4, "nanos": 5_000_000})  # fmt: skip
    rows = [
        meta(),
        event("task_started", turn_id="t1"),
        call(),
        returned("Wall time: 1.5 seconds\naborted by user"),
        event("turn_aborted", turn_id="t1", reason="interrupted"),
        event("task_started", turn_id="t2"),
        done,
    ]
    items, _ = read(rows)
    (item,) = [each for each in items if each.tool]
    assert item.tool is not None
    assert (item.tool.command, item.tool.cwd, item.tool.state) == ("make all", "/p q", ToolState.COMPLETED)
    assert (item.tool.exit_code, item.tool.duration_ms, item.turn) == (0, 4005, turn_id(THREAD, "t1"))
    assert not item.interrupted


def test_changes_to_files_are_diffs_in_both_generations() -> None:
    """The typed item's map of changes, and the patch text that the model wrote."""
    changes = {
        "/p/new": {"type": "add", "content": "one\n-two\n"},
        "/p/old": {"type": "delete", "content": "gone\n"},
        "/p/a": {
            "type": "update",
            "unified_diff": "--- a\n+++ b\n@@ -1 +1 @@\n--- x\n+++ y\n",
            "move_path": "/p/b",
        },
    }
    items, _ = read([meta(), typed("FileChange", "c1", changes=changes, status="completed")])
    (tool,) = [item.tool for item in items if item.tool]
    assert [(diff.path, diff.added, diff.removed) for diff in tool.diffs] == [
        ("/p/new", 2, 0), ("/p/old", 0, 1), ("/p/a", 1, 1),
    ]  # fmt: skip
    assert "rename to /p/b" in tool.diffs[2].unified
    body = "*** Add File: x\n+1\n*** Update File: y\n*** Move to: z\n@@\n-a\n+b\n*** Delete File: w\n"
    patch = f"*** Begin Patch\n{body}*** End Patch"
    for wrote in (
        response("custom_tool_call", name="apply_patch", call_id="c1", input=patch),
        response("function_call", name="exec_command", call_id="c1",
                 arguments=json.dumps({"cmd": f"apply_patch <<'EOF'\n{patch}\nEOF"})),
    ):  # fmt: skip
        items, _ = read([meta(), wrote])
        (tool,) = [item.tool for item in items if item.tool]
        assert tool.kind is ToolKind.EDIT
        assert [(diff.path, diff.added, diff.removed) for diff in tool.diffs] == [
            ("x", 1, 0), ("y", 1, 1), ("w", 0, 0),
        ]  # fmt: skip


def test_tools_of_servers_searches_and_agents_are_known() -> None:
    """Each typed item by its own words, with failures as such."""
    rows = [
        meta(),
        typed("McpToolCall", "m1", server="s", tool="t", arguments={"a": 1}, status="completed",
              result={"content": [{"type": "text", "text": "found"}]}),
        typed("McpToolCall", "m2", server="s", tool="t", status="failed", error={"message": "no such tool"}),
        typed("WebSearch", "w1", query="ekiden", action={"type": "search", "query": "ekiden"}),
        typed("CollabAgentToolCall", "a1", tool="spawn_agent", prompt="do it", receiver_thread_ids=[OTHER],
              status="completed"),
        event("mcp_tool_call_end", call_id="m3", invocation={"server": "s", "tool": "old"}, result={"Err": "bad"}),
    ]  # fmt: skip
    items, fold = read(rows)
    tools = [item.tool for item in items if item.tool]
    assert [(tool.name, tool.state) for tool in tools] == [
        ("s.t", ToolState.COMPLETED), ("s.t", ToolState.FAILED), ("web_search", ToolState.COMPLETED),
        ("spawn_agent", ToolState.COMPLETED), ("s.old", ToolState.FAILED),
    ]  # fmt: skip
    assert (tools[0].output, tools[1].output, tools[4].output) == ("found", "no such tool", "bad")
    assert (tools[2].title, tools[3].thread) == ("ekiden", OTHER)
    assert fold.facts.unknown_rows == 0


def test_a_plan_is_a_plan_and_not_a_call() -> None:
    """With what is done of it; the tool's own answer is not shown."""
    steps = {"explanation": "why", "plan": [{"step": "a", "status": "completed"}, {"step": "b", "status": "odd"}]}
    rows = [meta(), response("function_call", name="update_plan", call_id="p", arguments=json.dumps(steps)),
            returned("Plan updated", "p")]  # fmt: skip
    items, _ = read(rows)
    assert [(item.kind, item.text()) for item in items] == [(ItemKind.PLAN, "why")]
    assert [(entry.text, entry.state) for entry in items[0].plan] == [("a", "completed"), ("b", "pending")]


def test_thoughts_are_their_summaries_and_sealed_ones_are_counted() -> None:
    """In both generations, once each."""
    sealed = {"type": "reasoning", "encrypted_content": "x"}
    rows = [
        meta(),
        event("agent_reasoning", text="part one"),
        event("agent_reasoning", text="part two"),
        row("response_item", sealed | {"id": "rs_1", "summary": [{"text": "part one"}, {"text": "part two"}]}),
        response("reasoning", id="rs_2", encrypted_content="x", summary=[]),
        event("agent_reasoning", text="told only"),
        event("agent_message", message="hello"),
        typed("Reasoning", "rs_3", ordinal=9, summary_text=["paged"], raw_content=[]),
        row("response_item", sealed | {"id": "rs_3", "summary": [{"text": "paged"}]}, ordinal=10),
        row("response_item", sealed | {"id": "rs_4", "summary": []}, ordinal=11),
    ]  # fmt: skip
    items, fold = read(rows)
    thoughts = [item for item in items if item.kind is ItemKind.THOUGHT]
    assert [item.text() for item in thoughts] == ["part one\npart two", "told only", "paged"]
    assert [thoughts[0].id, thoughts[2].id] == [item_id(THREAD, "rs_1"), item_id(THREAD, "rs_3")]
    assert fold.sealed_thoughts == 2


@pytest.mark.parametrize(
    "text",
    [
        "<environment_context>\n<cwd>/p</cwd>\n</environment_context>",
        "<user_instructions>\nbe kind\n</user_instructions>",
        "# AGENTS.md instructions for /p\n\n<INSTRUCTIONS>be kind</INSTRUCTIONS>",
        "<permissions instructions>none</permissions instructions>",
    ],
)
def test_context_is_not_shown_as_the_persons_words(text: str) -> None:
    """It is there, folded, and neither a message that counts nor the session's title."""
    for paged in (None, 3):
        fields = message("user", text)
        items, fold = read([meta(), row("response_item", fields, ordinal=paged)])
        assert [(item.role, item.injected) for item in items] == [(Role.SYSTEM, True)]
        assert (fold.facts.messages, fold.facts.title) == (0, "")


def test_newer_rows_say_themselves_what_is_context() -> None:
    """A person may begin a message like context, and context may begin like anything."""

    def kinds(*names: str) -> dict[str, Any]:
        return {"internal_chat_message_metadata_passthrough": {"content_item_kinds": list(names)}}

    rows = [
        meta(),
        written("user", "<environment_context> is what I ask about", **kinds("user.text")),
        written("user", "some new reminder", **kinds("generic.reminder")),
        written("user", "<turn_aborted>\nstopped\n</turn_aborted>", **kinds("generic.turn_aborted")),
    ]
    items, _ = read(rows)
    assert said(items) == [("user", "<environment_context> is what I ask about")]
    assert [(item.text(), item.note) for item in items if item.injected] == [("some new reminder", "reminder")]


def test_the_end_of_a_turn_is_told_with_its_reason() -> None:
    """Completed turns end without a word; interrupted and failed ones say so, each once."""
    rows = [
        meta(),
        event("task_started", turn_id="t1"),
        event("task_complete", turn_id="t1"),
        event("task_started", turn_id="t2"),
        event("turn_aborted", turn_id="t2", reason="interrupted"),
        event("task_started", turn_id="t3"),
        event("error", message="quota"),
        event("task_complete", turn_id="t3", error={"message": "quota"}),
        event("task_started", turn_id="t4"),
    ]
    items, fold = read(rows)
    assert [(item.note, item.text(), item.turn) for item in items] == [
        ("interrupted", "interrupted", turn_id(THREAD, "t2")),
        ("error", "quota", turn_id(THREAD, "t3")),
    ]
    assert (fold.facts.turn_open, fold.facts.turn_id) == (True, turn_id(THREAD, "t4"))


def test_a_compaction_is_one_item_whatever_it_carries() -> None:
    """The history in it is not shown again, and its event is not a second compaction."""
    history = [message("user", "shown already " * 1000)] * 40
    for event_after in (event("context_compacted"), typed("ContextCompaction", "cc", ordinal=9)):
        rows = [meta(), *LEGACY[1:], row("compacted", {"message": "the summary", "replacement_history": history}),
                event_after]  # fmt: skip
        items, _ = read(rows)
        assert said(items) == HI
        assert [item.text() for item in items if item.kind is ItemKind.COMPACTION] == ["the summary"]


def test_a_compaction_too_large_to_be_held_is_not_lost() -> None:
    """Of such a line only the beginning is handed out; an image's row of that size is visibly unreadable."""
    first = joined([meta(), *LEGACY[1:]])
    for kind, shown in (("compacted", ItemKind.COMPACTION), ("response_item", ItemKind.UNREADABLE)):
        fold = CodexFold(THREAD, "f")
        for line in lines_of(first):
            fold.feed(line)
        whole = row(kind, {"message": 'sum\\u00e9 "q" ' * 20, "replacement_history": ["x" * 1000]})
        for cut in (200, 201, 202, 203, 204, 205, 206, 207, 208, 209, 210, 211):
            place = Line(whole[:cut], len(first), len(first) + 17_000_000, 10)
            (item,) = CodexFold(THREAD, "f").feed(place)
            assert item.kind is shown
            assert (item.source.start, item.source.end) == (place.start, place.end)
            if shown is ItemKind.COMPACTION:
                assert ('sum\\u00e9 "q" ' * 20).startswith(item.text())
                assert len(item.text()) > 50


def test_an_image_is_its_hash_wherever_it_is_embedded() -> None:
    """Ninety copies of it are one image."""
    url = "data:image/png;base64,aGVsbG8="
    parts = [{"type": "input_text", "text": '<image name="x">'}, {"type": "input_image", "image_url": url},
             {"type": "input_text", "text": "</image>"}, {"type": "input_text", "text": "look"}]  # fmt: skip
    rows = [
        meta(),
        response("message", role="user", content=parts),
        event("user_message", message="look", images=[url]),
        call("view_image"),
        returned([{"type": "input_image", "image_url": url}]),
    ]
    items, _ = read(rows)
    assert [len(item.content) for item in items if item.role is Role.USER] == [2]
    images = [block for item in items for block in (*item.content, *(item.tool.images if item.tool else ()))]
    assert len([image for image in images if isinstance(image, Image)]) == 2
    assert len({image.sha256 for image in images if isinstance(image, Image)}) == 1
    assert b"aGVsbG8" not in msgspec.json.encode(items)


@pytest.mark.parametrize(
    ("written_at", "shown"),
    [
        ("2026-01-01T00:00:01.000Z", "2026-01-01T00:00:01.000Z"),
        ("2026-01-01T02:00:01+02:00", "2026-01-01T00:00:01.000Z"),
        ("2026-01-01T00:00:01.123456789Z", "2026-01-01T00:00:01.123Z"),
        (1767225601, "2026-01-01T00:00:01.000Z"),
        (1767225601500, "2026-01-01T00:00:01.500Z"),
        (None, ""),
        ("", ""),
        ("yesterday", ""),
        ("1970-01-01T00:00:00.000Z", ""),
        ("2100-01-01T00:00:00.000Z", ""),
        ("9999-12-31T23:59:59-23:00", ""),
        (1e300, ""),
    ],
)
def test_absurd_times_are_unknown_and_date_nothing(written_at: object, shown: str) -> None:
    """Every spelling that has been seen, and those that say nothing."""
    fields = json.loads(event("user_message", message="hi")) | {"timestamp": written_at}
    items, fold = read([json.dumps(fields).encode()])
    assert [item.at for item in items] == [shown]
    assert fold.facts.updated_at == shown


def test_order_is_the_files_and_never_the_clocks() -> None:
    """Equal times and reversed times move nothing."""
    rows = [meta(second=9)]
    rows += [event("user_message", message=str(index), second=9 - index // 2) for index in range(8)]
    items, fold = read(rows)
    assert [text for _, text in said(items)] == [str(index) for index in range(8)]
    assert fold.facts.updated_at == "2026-01-01T00:00:09.000Z"


def test_repeated_messages_are_each_shown() -> None:
    """Three times "yes" is three messages: only twins are paired, one to one."""
    pair = [written("user", "yes"), event("user_message", message="yes"), event("agent_message", message="ok"),
            written("assistant", "ok")]  # fmt: skip
    items, _ = read([meta(), *pair * 3])
    assert said(items) == [("user", "yes"), ("assistant", "ok")] * 3
    assert len({item.id for item in items}) == 6


def test_tokens_are_told_with_the_answer_that_they_bought() -> None:
    """In both generations, and with the call where the answer was a call."""
    usage = {"input_tokens": 7, "output_tokens": 3, "cached_input_tokens": 2}
    legacy = event("token_count", info={"last_token_usage": usage})
    paged = row("token_usage_record", {"usage": usage}, ordinal=9)
    for record in (legacy, paged):
        items, _ = read(
            [meta(), event("agent_message", message="hello"), record, call(), record, returned("x"), record]
        )
        assert [item.usage.output_tokens if item.usage else None for item in items] == [3, 3]


def test_sub_agents_and_the_programs_own_runs_are_marked() -> None:
    """So that they are not listed as a person's sessions."""

    def facts(**fields: Any) -> tuple[bool, bool]:
        _, fold = read([meta(**fields)])
        return fold.facts.is_subagent, fold.facts.is_helper

    assert facts(source="cli") == (False, False)
    assert facts(source="exec", originator="ekiden") == (False, False)
    assert facts(source={"subagent": {"thread_spawn": {"parent_thread_id": OTHER}}}) == (True, False)
    assert facts(source={"subagent": "review"}) == (True, False)
    assert facts(source={"subagent": "memory_consolidation"}) == (True, True)
    assert facts(source="cli", thread_source="memory_consolidation") == (False, True)


def test_a_sub_agents_items_name_their_thread() -> None:
    """Its ids are its own, and each item says which thread it belongs to."""
    items, _ = read([meta(OTHER), event("user_message", message="hi")], thread=THREAD)
    own = CodexFold(THREAD, "f", thread=OTHER)
    rows = joined([meta(OTHER), event("user_message", message="hi")])
    nested = merged([item for line in lines_of(rows) for item in own.feed(line)] + own.finish())
    assert [item.thread for item in nested] == [OTHER]
    assert nested[0].id != items[0].id
    assert own.facts.native_id == THREAD


@pytest.mark.parametrize("first", ["a message", "bookkeeping", "a compaction"])
def test_rows_that_are_glued_together_are_taken_apart(first: str) -> None:
    """A whole row behind another, and behind a torn one, is read; what is torn is one row that cannot be read. A
    row that merely holds an object that looks like the beginning of one stays one."""
    before = {
        "a message": written("user", "one"),
        "bookkeeping": event("token_count", info=None),
        "a compaction": row("compacted", {"message": "sum", "replacement_history": []}),
    }[first]
    after = written("assistant", "two")
    items, fold = read([meta(), before + after, before[:-20] + after])
    assert [text for _, text in said(items)][-2:] == ["two", "two"]
    assert fold.facts.unreadable_rows == 1
    places = {item.source.start for item in items if item.text() == "two"}
    assert places == {
        len(joined([meta()])) + len(before),
        len(joined([meta(), before + after])) + len(before) - 20,
    }
    items, fold = read(
        [
            meta(),
            response("message", role="user", content=[{"timestamp": "x"}, {"type": "input_text", "text": "hi"}]),
        ]
    )
    assert (said(items), fold.facts.unreadable_rows) == ([("user", "hi")], 0)
