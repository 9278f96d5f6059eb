"""The reader against the kinds of damage and oddity that session files show."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ekiden.kernel.limits import EVENT_BODY_BYTES_MAX, ITEM_OUTPUT_BYTES_MAX, ITEM_TEXT_BYTES_MAX
from ekiden.transcript.items import ItemKind, ToolKind, ToolState, encode_item
from ekiden.transcript.reading import Drift
from ekiden.vendors.claude import ids
from ekiden.vendors.claude.transcript import ClaudeFold
from vendors.claude.files import (
    AT,
    SESSION,
    Reading,
    assistant,
    call,
    encode,
    lines_of,
    read,
    result,
    user,
)


def chain(count: int) -> list[dict[str, Any]]:
    """u1 ← u2 ← … ← u`count`."""
    return [user(f"u{n}", f"u{n - 1}" if n > 1 else None, f"text {n}") for n in range(1, count + 1)]


# Lines


@pytest.mark.parametrize(
    "bad",
    [
        b'{"type":"assistant","uuid":"u4","parentUuid":"u3","message":{"role":"ass',
        b"not json",
        b"",
        b"42",
        b"[1]",
        b'"x"',
        b"\x00\x00\x00\x00",
        b'{"type":"user","message":' + b"[" * 100_000,
    ],
)
def test_a_bad_line_costs_only_itself(bad: bytes) -> None:
    """The good lines are there, the bad one is an item with its place, and the chain goes on over it."""
    rows: list[Any] = chain(6)
    rows[3] = bad
    reading = read(rows)
    assert reading.texts() == ["text 1", "text 2", "text 3", "text 5", "text 6"]
    (unreadable,) = reading.all(kind="unreadable")
    before = len(encode(rows[:3]))
    assert (unreadable.source.line, unreadable.source.start, unreadable.source.end) == (
        4,
        before,
        before + len(bad),
    )
    assert reading.facts.unreadable_rows == 1
    assert not reading.all(note="gap")
    assert not any(item.abandoned for item in reading.items.values())


def test_a_row_that_does_not_say_what_it_is_is_shown_and_counted() -> None:
    """An object without a type is no message, yet it is visible."""
    rows: list[Any] = [*chain(2), {"silly": "this"}]
    reading = read(rows)
    assert len(reading.texts()) == 2
    assert [item.note for item in reading.all(kind="unknown")] == ["(no type)"]
    assert reading.facts.unknown_kinds == {"(no type)": 1}


def test_a_row_that_is_not_understood_breaks_no_chain() -> None:
    """One that says where it stands is a link; in the place of one that does not, the unknown row says enough."""
    rows = chain(4)
    rows[2] = {"type": "from-a-later-version", "uuid": "u3", "parentUuid": "u2", "message": {}}
    linked = read(rows)
    rows[2] = {"silly": "this"}
    for reading in (linked, read(rows)):
        assert reading.texts() == ["text 1", "text 2", "text 4"]
        assert len(reading.all(kind="unknown")) == 1
        assert not reading.all(kind="notice")
        assert not any(item.abandoned for item in reading.items.values())


@pytest.mark.parametrize("odd", ["a\u2028b", "a\u2029b", "a\u0085b", "ends with \u2028", "\u2028"])
def test_line_separators_of_unicode_are_text(odd: str) -> None:
    """They split no record, in a message and in a tool result."""
    reading = read(
        [
            user("u1", None, odd),
            assistant("a1", "u1", call("t1", command="x")),
            user("u2", "a1", result("t1", odd)),
        ]
    )
    (tool,) = reading.all(kind="tool")
    assert tool.tool is not None
    assert (reading.texts(), tool.tool.output) == ([odd], odd)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"\\ud83d", "\ufffd"),
        (b"\\udc00", "\ufffd"),
        (b"\\ud83d\\ud83d\\ude00", "\ufffd\U0001f600"),
        (b"\xed\xa0\xbd", "\ufffd"),
    ],
)
def test_half_an_emoji_becomes_a_replacement_character(written: bytes, shown: str) -> None:
    """The rest of the line lives, and what comes out can be stored and sent, tool input included."""
    rows = [
        user("u1", None, "x HERE y"),
        assistant("a1", "u1", call("t1", command="echo HERE")),
        user("u2", "a1", result("t1", "out HERE")),
    ]
    data = encode(rows).replace(b"HERE", written)
    reading = Reading().take(lines_of(data))
    (tool,) = reading.all(kind="tool")
    assert tool.tool is not None
    assert reading.texts() == [f"x {shown} y"]
    assert (tool.tool.command, tool.tool.output) == (f"echo {shown}", f"out {shown}")
    for item in reading.items.values():
        json.loads(encode_item(item).decode("utf-8"))
    assert reading.facts.unreadable_rows == 0


def test_records_glued_together_are_taken_apart() -> None:
    """Two whole records on a line are both read; behind a torn one the whole one is."""
    first, second, third = (encode([one]).rstrip(b"\n") for one in chain(3))
    assert read([first + second, third]).texts() == ["text 1", "text 2", "text 3"]
    torn = read([first, second[:60] + third])
    assert torn.texts() == ["text 1", "text 3"]
    assert torn.facts.unreadable_rows == 1


def test_fields_of_a_wrong_type_are_left_out() -> None:
    """A number where a text should be costs the field, not the row."""
    reading = read([user("u1", None, "fine", cwd=7, timestamp=12, version=[], isMeta="no", agentId={})])
    assert reading.texts() == ["fine"]
    assert (reading.facts.cwd, reading.facts.created_at) == ("", "")


# The tree


def test_a_parent_that_was_never_written_hides_nothing() -> None:
    """All rows are shown in file order, with a gap mark before the row whose parent is missing."""
    snapshot = {"type": "file-history-snapshot", "messageId": "u4", "snapshot": {}}
    rows = [*chain(3), snapshot, user("u4", "ghost", "text 4"), user("u5", "u4", "text 5")]
    reading = read(rows)
    assert reading.texts() == [f"text {n}" for n in range(1, 6)]
    (gap,) = reading.all(note="gap")
    four = next(item for item in reading.items.values() if item.text() == "text 4")
    assert (gap.source.start, gap.source.line) == (four.source.start, four.source.line)
    assert not any(item.abandoned for item in reading.items.values())


def test_a_file_may_begin_with_a_missing_parent() -> None:
    """The first line's ghost is a gap as well."""
    reading = read([user("u1", "ghost0", "one"), user("u2", "u1", "two")])
    assert reading.texts() == ["one", "two"]
    assert len(reading.all(note="gap")) == 1


def test_cycles_end_and_are_marked() -> None:
    """A ring of rows and a row that is its own parent are cut at the earliest line."""
    reading = read(
        [
            user("a", "c", "a"),
            user("b", "a", "b"),
            user("c", "b", "c"),
            user("d", "d", "d"),
            user("e", "d", "first e"),
            user("e", "d", "second e"),
            user("f", "e", "f"),
            user("f", "e", "f"),
        ]
    )
    assert reading.texts() == ["a", "b", "c", "d", "first e", "second e", "f"]
    assert [item.source.line for item in reading.all(note="cycle")] == [1, 4]


def test_a_root_with_many_leaves_shows_all_and_keeps_one() -> None:
    """The newest branch is live, the others are there and abandoned."""
    rows = [user("root", None, "root"), *(user(f"l{n}", "root", f"leaf {n}") for n in range(400))]
    reading = read(rows)
    assert len(reading.texts()) == 401
    live = [item.text() for item in reading.items.values() if not item.abandoned]
    assert live == ["root", "leaf 399"]


def test_a_long_chain_needs_no_recursion() -> None:
    """Thirty thousand rows in one chain, with a fork at the root."""
    reading = read([*chain(30_000), user("fork", "u1", "fork")])
    assert reading.facts.messages == 30_001
    flagged = sum(item.abandoned for item in reading.items.values())
    (branch,) = reading.all(note="branch")
    assert branch.text().startswith(f"{29_999 - flagged} items")


def test_a_branch_that_is_taken_up_again_is_no_longer_abandoned() -> None:
    """Which branch is live is settled anew when the file grows."""
    reading = read([user("u1", None, "one"), user("b", "u1", "b"), user("c", "u1", "c")])
    b = ids.row_id("b")
    assert reading.items[b].abandoned
    grown = encode([user("u1", None, "one"), user("b", "u1", "b"), user("c", "u1", "c"), user("d", "b", "d")])
    reading.take(lines_of(grown)[3:])
    assert not reading.items[b].abandoned
    assert reading.items[ids.row_id("c")].abandoned


def test_the_chain_goes_over_attachments_and_progress() -> None:
    """Rows that give no item still link those that do."""
    attachment = {"type": "attachment", "uuid": "x", "parentUuid": "u1", "attachment": {"type": "date"}}
    progress = {"type": "progress", "uuid": "p", "parentUuid": "x", "data": {"type": "hook_progress"}}
    reading = read([user("u1", None, "one"), attachment, progress, assistant("a1", "p", "two")])
    assert reading.texts() == ["one", "two"]
    assert not reading.all(note="gap")
    assert not any(item.abandoned for item in reading.items.values())


def test_parallel_calls_are_all_on_the_live_branch() -> None:
    """Results hang below different lines of one answer; none of the calls is lost or abandoned."""
    reading = read(
        [
            user("u1", None, "go"),
            assistant("a1", "u1", call("t1", command="one"), "m1", apiBlockIndex=0),
            assistant("a2", "a1", call("t2", command="two"), "m1", apiBlockIndex=1),
            user("r1", "a1", result("t1", "1")),
            user("r2", "a2", result("t2", "2")),
            assistant("a3", "r1", "done", "m2", apiBlockIndex=0),
        ]
    )
    tools = reading.all(kind="tool")
    assert [item.tool.output for item in tools if item.tool] == ["1", "2"]
    assert not any(item.abandoned for item in reading.items.values())


def test_a_compaction_does_not_abandon_what_it_sums_up() -> None:
    """The new root goes on from `logicalParentUuid`; the summary is injected and not counted."""
    boundary = {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": "b",
        "parentUuid": None,
        "logicalParentUuid": "u2",
        "content": "Conversation compacted",
        "timestamp": AT,
    }
    summary = user("s", "b", "This session is being continued", isCompactSummary=True)
    reading = read([*chain(2), user("side", "u1", "left"), boundary, summary, user("u3", "s", "on")])
    assert reading.texts() == ["text 1", "text 2", "left", "on"]
    assert [item.text() for item in reading.items.values() if item.abandoned] == ["left"]
    assert len(reading.all(kind="compaction")) == 1
    assert reading.facts.messages == 4


# Answers


def test_the_lines_of_one_answer_are_its_blocks_and_its_tokens_count_once() -> None:
    """Thought, text and call; usage stands on the first, with the highest count."""
    reading = read(
        [
            user("u1", None, "q"),
            assistant("a1", "u1", [{"type": "thinking", "thinking": "hm", "signature": "s"}], "m1", tokens=1),
            assistant("a2", "a1", "A", "m1", tokens=1),
            assistant("a3", "a2", call("t1", command="x"), "m1", tokens=9),
        ]
    )
    items = [item for item in reading.items.values() if item.role != "user"]
    assert [item.kind for item in items] == [ItemKind.THOUGHT, ItemKind.MESSAGE, ItemKind.TOOL]
    assert items[0].id == ids.block_id("m1", 0)
    assert items[1].id == ids.block_id("m1", 1)
    assert items[2].id == ids.call_id("t1")
    assert [item.usage.output_tokens for item in items if item.usage] == [9]


@pytest.mark.parametrize("beside", [True, False], ids=["beside", "below with more tokens"])
def test_growing_snapshots_collapse_to_the_last(beside: bool) -> None:
    """Snapshots of one block hang beside each other, or count more tokens each time."""
    texts = ["Hel", "Hello", "Hello w"]
    rows = [user("u1", None, "q")]
    for number, text in enumerate(texts):
        parent = "u1" if beside or not number else f"a{number - 1}"
        rows.append(assistant(f"a{number}", parent, text, "m1", tokens=5 if beside else 5 + number))
    reading = read(rows)
    assert reading.texts() == ["q", "Hello w"]
    assert not any(item.abandoned for item in reading.items.values())


def test_a_snapshot_of_the_whole_answer_replaces_all_its_blocks() -> None:
    """A later line may repeat earlier blocks and add to them."""
    one = [{"type": "text", "text": "Hel"}]
    both = [{"type": "text", "text": "Hello"}, *call("t1", command="x")]
    reading = read([user("u1", None, "q"), assistant("a1", "u1", one, "m1"), assistant("a2", "u1", both, "m1")])
    assert reading.texts() == ["q", "Hello"]
    assert len(reading.all(kind="tool")) == 1


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("texts", [("Hello", "Hello w"), ("Hello w", "Hello")])
def test_two_true_blocks_of_which_one_begins_with_the_other_stay_two(
    texts: tuple[str, str], indexed: bool
) -> None:
    """The second hangs below the first and counts the same tokens: no text is lost."""
    rows = [user("u1", None, "q")]
    for number, text in enumerate(texts):
        more = {"apiBlockIndex": number} if indexed else {}
        rows.append(assistant(f"a{number}", f"a{number - 1}" if number else "u1", text, "m1", **more))
    assert read(rows).texts() == ["q", *texts]


# Calls


def test_a_call_without_a_result_is_unrecorded_and_can_still_get_one() -> None:
    """It does not run for ever; a result that comes later settles it."""
    rows = [user("u1", None, "q"), assistant("a1", "u1", call("t1", command="x")), user("u2", "a1", "next")]
    reading = read(rows)
    key = ids.call_id("t1")
    tool = reading.items[key].tool
    assert tool is not None
    assert tool.state is ToolState.UNRECORDED
    data = encode([*rows, user("u3", "u2", result("t1", "late"))])
    reading.take(lines_of(data)[3:])
    tool = reading.items[key].tool
    assert tool is not None
    assert (tool.state, tool.output) == (ToolState.COMPLETED, "late")


def test_orphaned_and_double_results_are_shown() -> None:
    """A result without a call, a second result for one call, and a result before its call."""
    reading = read(
        [
            user("r0", None, result("t1", "first")),
            assistant("a1", "r0", call("t1", command="x")),
            user("r1", "a1", result("t1", "second")),
            user("r2", "r1", result("t1", "first")),
            user("r9", "r2", result("t9", "nobody asked")),
        ]
    )
    tools = {item.tool.output: item for item in reading.all(kind="tool") if item.tool}
    assert set(tools) == {"first", "second", "nobody asked"}
    assert tools["first"].id == ids.call_id("t1")
    assert tools["nobody asked"].id == ids.call_id("t9")
    assert [tools[text].note for text in ("first", "second", "nobody asked")] == ["", *["orphan_result"] * 2]


@pytest.mark.parametrize(
    ("content", "output"),
    [
        ("text", "text"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        (None, ""),
        ([], ""),
        ([None, 3, "loose"], "loose"),
        ([{"type": "tool_reference", "tool_name": "X"}], "[tool_reference]"),
        ({"type": "text", "text": "alone"}, "alone"),
    ],
)
def test_a_result_may_have_any_form(content: Any, output: str) -> None:
    """String, list, block or nothing."""
    rows = [assistant("a1", None, call("t1", command="x")), user("u1", "a1", result("t1", content))]
    (tool,) = read(rows).all(kind="tool")
    assert tool.tool is not None
    assert (tool.tool.state, tool.tool.output) == (ToolState.COMPLETED, output)


def test_images_are_named_by_their_hash_and_not_carried() -> None:
    """In a prompt and in a result; their bytes stay in the file."""
    source = {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}
    image = {"type": "image", "source": source}
    reading = read(
        [
            user("u1", None, [{"type": "text", "text": "see"}, image]),
            assistant("a1", "u1", call("t1", "Read", file_path="/x.png")),
            user("u2", "a1", result("t1", [image])),
        ]
    )
    (tool,) = reading.all(kind="tool")
    assert tool.tool is not None
    expected = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    prompt = next(item for item in reading.items.values() if item.role == "user")
    assert [block.sha256 for block in prompt.content if hasattr(block, "sha256")] == [expected]
    assert [(image.sha256, image.size) for image in tool.tool.images] == [(expected, 5)]
    assert all(b"aGVsbG8" not in encode_item(item) for item in reading.items.values())


def test_failures_denials_and_interrupts_are_told_apart() -> None:
    """By what the row says, and by the words that older versions wrote."""
    stop = "The user doesn't want to proceed with this tool use. The tool use was rejected"
    cases: list[tuple[dict[str, Any], dict[str, Any], ToolState, int | None]] = [
        ({"content": "Exit code 3\nboom", "is_error": True}, {}, ToolState.FAILED, 3),
        ({"content": "ok", "is_error": False}, {}, ToolState.COMPLETED, 0),
        ({"content": "no", "is_error": True}, {"toolDenialKind": "user-rejected"}, ToolState.DENIED, None),
        ({"content": stop, "is_error": True}, {}, ToolState.DENIED, None),
        ({"content": "x", "is_error": True}, {"toolUseResult": "User rejected tool use"}, ToolState.DENIED, None),
        (
            {"content": "Permission to use Bash has been denied.", "is_error": True},
            {},
            ToolState.DENIED,
            None,
        ),
    ]
    for block, more, state, exit_code in cases:
        rows = [
            assistant("a1", None, call("t1", command="x")),
            user("u1", "a1", [{"type": "tool_result", "tool_use_id": "t1", **block}], **more),
        ]
        (item,) = read(rows).all(kind="tool")
        assert item.tool is not None
        assert (item.tool.state, item.tool.exit_code) == (state, exit_code)


def test_edits_are_diffs() -> None:
    """From the recorded patch where there is one, else from what was asked."""
    patch = [{"oldStart": 7, "oldLines": 1, "newStart": 7, "newLines": 2, "lines": ["-old", "+new", "+more"]}]
    edit = call("t1", "Edit", file_path="/a.py", old_string="old", new_string="new\nmore")
    rows = [
        assistant("a1", None, edit, "m1"),
        assistant("a2", "a1", call("t2", "Write", file_path="/b.py", content="x\ny\n"), "m2"),
    ]
    asked = [item.tool for item in read(rows).all(kind="tool") if item.tool]
    assert [(tool.kind, tool.diffs[0].added, tool.diffs[0].removed) for tool in asked] == [
        (ToolKind.EDIT, 2, 1),
        (ToolKind.EDIT, 2, 0),
    ]
    done = user("u1", "a2", result("t1", "ok"), toolUseResult={"filePath": "/a.py", "structuredPatch": patch})
    tool = read([*rows, done]).items[ids.call_id("t1")].tool
    assert tool is not None
    assert tool.diffs[0].unified == "--- /a.py\n+++ /a.py\n@@ -7,1 +7,2 @@\n-old\n+new\n+more\n"


def test_plans_are_plans() -> None:
    """A list of steps with states, and a plan in words."""
    todos = [{"content": "one", "status": "completed"}, {"content": "two", "status": "odd"}]
    reading = read(
        [
            assistant("a1", None, call("t1", "TodoWrite", todos=todos), "m1"),
            assistant("a2", "a1", call("t2", "ExitPlanMode", plan="# Do it"), "m2"),
        ]
    )
    steps, words = reading.all(kind="plan")
    assert [(entry.text, entry.state) for entry in steps.plan] == [("one", "completed"), ("two", "pending")]
    assert words.text() == "# Do it"


# Bounds


@pytest.mark.parametrize("filling", ["x", "\x1b", "\U0001f600", "\u4e16", '"'])
def test_what_is_too_large_is_cut_and_said_and_fits_an_event(filling: str) -> None:
    """Whatever the text is made of, the item stays below the bound of an event."""
    huge = filling * 400_000
    edit = call("t1", "Write", file_path="/a", content=f"{huge}\n{huge}")
    reading = read(
        [
            user("u1", None, huge),
            assistant("a1", "u1", [{"type": "text", "text": huge}], "m0"),
            assistant("a2", "a1", edit, "m1"),
            user("u2", "a2", result("t1", huge)),
        ]
    )
    size = len(huge.encode())
    messages = [item for item in reading.items.values() if item.tool is None]
    assert [(cut.field, cut.bytes) for item in messages for cut in item.cut] == [("content", size)] * 2
    assert all(len(item.text().encode()) <= ITEM_TEXT_BYTES_MAX for item in messages)
    (tool,) = reading.all(kind="tool")
    assert {cut.field for cut in tool.cut} == {"tool.input", "tool.diffs", "tool.output"}
    assert tool.tool is not None
    assert len(tool.tool.output.encode()) <= ITEM_OUTPUT_BYTES_MAX
    assert all(len(encode_item(item)) < EVENT_BODY_BYTES_MAX for item in reading.items.values())


# Sub-agents, forks, noise, order


def test_a_subagents_file_is_a_thread_of_its_own() -> None:
    """Its items carry the thread, and the call that started it gets it from the result."""
    side = {"isSidechain": True, "agentId": "a1"}
    thread = read([user("s1", None, "sub job", **side), assistant("s2", "s1", "sub done", **side)], thread="a1")
    assert {item.thread for item in thread.items.values()} == {"a1"}
    assert thread.facts.is_subagent
    assert thread.facts.messages == 2
    main = read(
        [
            assistant("m1", None, call("t1", "Agent", prompt="sub job", description="look")),
            user("m2", "m1", result("t1", "report"), toolUseResult={"agentId": "a1", "totalDurationMs": 12}),
        ]
    )
    (tool,) = main.all(kind="tool")
    assert tool.tool is not None
    assert (tool.tool.kind, tool.tool.thread, tool.tool.duration_ms) == (ToolKind.AGENT, "a1", 12)


def test_old_sidechains_in_the_main_file_do_not_break_it_up() -> None:
    """Two interleaved sub-agents become two threads under their calls; the main chain is whole and live."""
    side: dict[str, Any] = {"isSidechain": True}
    reading = read(
        [
            user("u1", None, "go"),
            assistant("a1", "u1", call("t1", "Task", prompt="job one"), "m1", apiBlockIndex=0),
            assistant("a2", "a1", call("t2", "Task", prompt="job two"), "m1", apiBlockIndex=1),
            user("s1", None, "job one", **side),
            user("s2", None, "job two", **side),
            assistant("s3", "s1", call("t3", command="x"), "m3", **side),
            assistant("s4", "s2", "two says", **side),
            user("s5", "s3", result("t3", "ok"), **side),
            assistant("s6", "s5", "one says", "m4", **side),
            user("r1", "a2", result("t1", "1")),
            user("r2", "r1", result("t2", "2")),
            assistant("a3", "r2", "all done", "m2"),
        ]
    )
    main = [item for item in reading.items.values() if not item.thread]
    assert len({item.thread for item in reading.items.values()}) == 3
    assert [item.text() for item in main if item.kind is ItemKind.MESSAGE] == ["go", "all done"]
    threads = [item.tool.thread for item in main if item.tool]
    assert len(set(threads)) == 2
    for thread, says in zip(threads, ("one says", "two says"), strict=True):
        assert says in [item.text() for item in reading.items.values() if item.thread == thread]
    assert not any(item.abandoned for item in main)
    assert reading.facts.messages == 2


def test_a_copied_history_keeps_its_ids_and_the_file_its_own_identity() -> None:
    """The fork is the session that its file is named after; shared rows have the same item ids in both."""
    first = [user("u1", None, "q"), assistant("a1", "u1", "r", "m1")]
    fork = "99999999-2222-4333-8444-555555555555"
    old = read(first)
    copied = read([*first, user("u2", "a1", "new", sessionId=fork)], session=fork)
    assert (copied.facts.native_id, copied.facts.forked_from) == (fork, SESSION)
    assert list(copied.items)[:2] == list(old.items)
    rewritten = [{**one, "uuid": f"other-{one['uuid']}", "sessionId": fork} for one in first]
    again = read(rewritten, session=fork)
    assert ids.block_id("m1", 0) in again.items
    assert again.facts.forked_from == ""


def test_bookkeeping_makes_no_messages_and_no_drift() -> None:
    """Repeated modes, titles, progress and rows without content; a title of another file is not taken."""
    noise: list[Any] = [{"type": "mode", "mode": "normal", "sessionId": SESSION}] * 39
    noise += [{"type": "permission-mode", "permissionMode": "default"}] * 39
    noise += [{"type": "ai-title", "aiTitle": "A title", "sessionId": SESSION}] * 3
    noise += [{"type": "summary", "summary": "elsewhere", "leafUuid": "ghost"}]
    noise += [{"type": "progress", "uuid": f"p{n}", "parentUuid": None, "data": {}} for n in range(57)]
    empty: list[Any] = [None, [], "", [None]]
    noise += [user(f"e{n}", None, content) for n, content in enumerate(empty)]
    noise += [user("meta", None, "injected", isMeta=True)]
    noise += [{**user("odd", None, "odd time"), "timestamp": None, "timesstamp": AT}]
    reading = read([*noise, user("u1", "odd", "hello")])
    assert reading.texts() == ["odd time", "hello"]
    assert reading.facts.title == "A title"
    assert reading.facts.drift is Drift.NONE
    assert reading.facts.unknown_rows == 0


def test_a_file_with_only_a_title_has_no_messages_and_no_drift() -> None:
    """It is no session and no format change either."""
    reading = read([{"type": "ai-title", "aiTitle": "T", "sessionId": SESSION}])
    assert (reading.facts.messages, reading.facts.drift, list(reading.items)) == (0, Drift.NONE, [])


def test_titles_have_an_order() -> None:
    """Custom, generated, last prompt, summary of this file, first prompt; each seen when it comes."""
    rows: list[Any] = [user("u1", None, "the  first\nprompt")]
    ranked: list[tuple[dict[str, Any], str]] = [
        ({"type": "summary", "summary": "a summary", "leafUuid": "u1"}, "a summary"),
        ({"type": "last-prompt", "lastPrompt": "last one"}, "last one"),
        ({"type": "ai-title", "aiTitle": "generated"}, "generated"),
        ({"type": "custom-title", "customTitle": "mine"}, "mine"),
        ({"type": "ai-title", "aiTitle": "generated later"}, "mine"),
    ]
    assert read(rows).facts.title == "the first prompt"
    for title_row, title in ranked:
        rows.append(title_row)
        assert read(rows).facts.title == title


def test_a_form_that_is_not_known_is_said() -> None:
    """Many rows of unknown kinds are drift; bytes without one message are an error state, not an empty chat."""
    future = [{"type": "future-row", "payload": n} for n in range(5)]
    assert read([*chain(20), *future]).facts.drift is Drift.UNKNOWN_ROWS
    assert read(future).facts.drift is Drift.NOTHING_PARSED
    assert read([b"garbage"] * 3).facts.drift is Drift.NOTHING_PARSED
    spoken = read([*chain(2), {"type": "future-talk", "uuid": "x", "message": {"role": "user", "content": "hi"}}])
    assert [item.note for item in spoken.all(kind="unknown")] == ["future-talk"]


def test_an_answer_with_a_block_of_an_unknown_kind_is_shown() -> None:
    """It is counted, and what text it has is kept."""
    reading = read([assistant("a1", None, [{"type": "hologram", "text": "words"}])])
    (item,) = reading.all(kind="unknown")
    assert (item.note, item.text()) == ("hologram", "words")
    assert reading.facts.unknown_kinds == {"assistant block hologram": 1}


@pytest.mark.parametrize(
    ("told", "at"),
    [
        ("2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z"),
        ("2026-01-01T02:00:00.000+02:00", "2026-01-01T00:00:00.000Z"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000Z"),
        (None, ""),
        ("", ""),
        (1767225600, ""),
        (1767225600000, ""),
        ("1970-01-01T00:00:00.000Z", ""),
        ("2100-01-01T00:00:00.000Z", ""),
        ("yesterday", ""),
    ],
)
def test_times_are_told_or_left_out_and_never_order(told: Any, at: str) -> None:
    """An answer that claims to be older than its question stays behind it; absurd times set no dates."""
    rows = [user("u1", None, "question"), {**assistant("a1", "u1", "answer"), "timestamp": told}]
    reading = read(rows)
    assert reading.texts() == ["question", "answer"]
    assert list(reading.items.values())[1].at == at
    assert reading.facts.updated_at == AT


def test_what_the_program_writes_in_the_users_name_is_told_apart() -> None:
    """Interrupts, commands and their output, shell lines, reminders and notifications."""
    texts = {
        "[Request interrupted by user]": ("notice", "interrupted", False),
        "<command-name>/model</command-name>\n<command-args>opus</command-args>": ("message", "command", False),
        "<local-command-stdout>Set</local-command-stdout>": ("notice", "command_output", False),
        "<bash-input>ls</bash-input>": ("message", "shell", False),
        "<bash-stdout>a</bash-stdout><bash-stderr>b</bash-stderr>": ("notice", "shell_output", False),
        "<local-command-caveat>Caveat</local-command-caveat>": ("message", "", True),
        "<task-notification>done</task-notification>": ("message", "", True),
        "<system-reminder>mind</system-reminder>": ("message", "", True),
    }
    reading = read([user(f"u{n}", f"u{n - 1}" if n else None, text) for n, text in enumerate(texts)])
    assert [(str(item.kind), item.note, item.injected) for item in reading.items.values()] == list(texts.values())
    shown = [item.text() for item in reading.items.values()]
    assert shown[1:5] == ["/model opus", "Set", "ls", "a\nb"]


def test_a_turn_is_open_from_its_prompt_to_its_end() -> None:
    """A final stop reason, an interrupt or the program's own note end it; a call and its result do not."""

    def ending(reason: str) -> dict[str, Any]:
        one = assistant("a1", "u1", "text")
        one["message"]["stop_reason"] = reason
        return one

    duration = {"type": "system", "subtype": "turn_duration", "uuid": "d", "parentUuid": "u1"}
    prompt = user("u1", None, "go")
    cases: list[tuple[list[dict[str, Any]], bool]] = [
        ([], True),
        ([assistant("a1", "u1", call("t1", command="x"))], True),
        ([assistant("a1", "u1", call("t1", command="x")), user("r", "a1", result("t1", "ok"))], True),
        ([ending("end_turn")], False),
        ([ending("tool_use")], True),
        ([user("i", "u1", "[Request interrupted by user]")], False),
        ([duration], False),
    ]
    for rows, is_open in cases:
        reading = read([prompt, *rows])
        assert reading.facts.turn_open is is_open
        assert reading.facts.turn_id == ids.turn_id("u1")


# Windows


def test_a_window_tells_what_it_lacks_instead_of_garbage() -> None:
    """A result whose call stands before the window gives nothing and is counted; earlier lines mend it."""
    rows = [
        user("u1", None, "go"),
        assistant("a1", "u1", "I will", "m1"),
        assistant("a2", "a1", call("t1", command="x"), "m1"),
        assistant("a3", "a2", "and more", "m1"),
        user("r1", "a3", result("t1", "out")),
        assistant("a4", "r1", "done", "m2"),
    ]
    data = encode(rows)
    whole = Reading().take(lines_of(data))
    starts = [line.start for line in lines_of(data)]
    late = Reading().take(lines_of(data, starts[3], numbered=False))
    assert late.texts() == ["done"]
    assert late.facts.wants_earlier == 2
    assert set(late.items) < set(whole.items)
    early = Reading().take(lines_of(data, starts[1], numbered=False))
    assert early.facts.wants_earlier == 2
    assert early.items[ids.call_id("t1")].tool == whole.items[ids.call_id("t1")].tool


# Anything at all

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_names = st.sampled_from(["a", "b", "c", "d", "ghost"])
_blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "thinking", "tool_use", "tool_result", "image", "new", ""])},
    optional={
        "text": st.text() | _json,
        "thinking": st.text(),
        "id": _names | _json,
        "tool_use_id": _names,
        "name": st.sampled_from(["Bash", "Edit", "TodoWrite", "Agent", "MultiEdit"]) | _json,
        "input": _json | st.fixed_dictionaries({"edits": _json, "todos": _json, "file_path": _json}),
        "content": _json,
        "is_error": st.booleans() | _json,
        "source": _json,
    },
)
_content = st.text() | st.lists(_blocks, max_size=3) | _json
_rows = st.fixed_dictionaries(
    {"type": st.sampled_from(["user", "assistant", "system", "attachment", "progress", "summary", "x"]) | _json},
    optional={
        "uuid": _names | _json,
        "parentUuid": _names | _json,
        "logicalParentUuid": _names,
        "isSidechain": st.booleans() | _json,
        "isMeta": st.booleans(),
        "apiBlockIndex": st.integers() | _json,
        "timestamp": st.text() | _json,
        "subtype": st.sampled_from(["compact_boundary", "local_command", "other"]),
        "content": _content,
        "message": st.fixed_dictionaries(
            {"content": _content}, optional={"id": _names | _json, "usage": _json, "stop_reason": _json}
        )
        | _json,
        "attachment": st.fixed_dictionaries(
            {"type": st.sampled_from(["queued_command", "file"]), "prompt": _content}
        )
        | _json,
        "toolUseResult": _json | st.fixed_dictionaries({"structuredPatch": _json, "agentId": _json}),
    },
)


@given(st.lists(_rows.map(lambda one: json.dumps(one).encode()) | st.binary(max_size=60), max_size=12))
def test_no_content_makes_the_reader_fail(lines: list[bytes]) -> None:
    """Whatever the lines hold, each is counted, every item can be sent, and reading twice gives the same."""
    data = b"".join(line.replace(b"\n", b" ") + b"\n" for line in lines)
    first = Reading(ClaudeFold("x")).take(lines_of(data))
    for item in first.items.values():
        json.loads(encode_item(item).decode("utf-8"))
    assert first.facts.rows >= len(lines)
    assert Reading(ClaudeFold("x")).take(lines_of(data)).items == first.items
    if data:
        fold = ClaudeFold("x")
        for line in lines_of(data):
            fold.feed(lines_of(data[: line.end], line.start)[0]) if line.raw else None
            fold.feed(line)


@st.composite
def _conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A well-formed conversation of any shape, with unique uuids."""
    rows: list[dict[str, Any]] = []
    uuids: list[str] = []
    for number in range(draw(st.integers(1, 12))):
        parent = draw(st.sampled_from([*uuids[-3:], None])) if uuids else None
        uuid = f"row-{number}"
        choice = draw(st.sampled_from(["user", "text", "call", "result", "attachment"]))
        if choice == "user":
            rows.append(user(uuid, parent, draw(st.text(min_size=1, max_size=5))))
        elif choice == "text":
            message = f"m{number // 2}"
            rows.append(assistant(uuid, parent, f"text {number}", message, apiBlockIndex=number % 2))
        elif choice == "call":
            rows.append(assistant(uuid, parent, call(f"t{number}", command="x"), f"mc{number}", apiBlockIndex=0))
        elif choice == "result":
            rows.append(user(uuid, parent, result(f"t{draw(st.integers(0, 11))}", f"out {number}")))
        else:
            rows.append({"type": "attachment", "uuid": uuid, "parentUuid": parent, "attachment": {"type": "date"}})
        uuids.append(uuid)
    return rows


@given(_conversations(), st.data())
def test_ids_agree_between_whole_growing_and_window(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    """Three ways to read one file, one id for each thing in it."""
    raw = encode(rows)
    lines = lines_of(raw)
    whole = Reading().take(lines)
    grown = Reading()
    for line in lines:
        grown.take([line], finish=data.draw(st.booleans()))
    assert set(grown.take([]).items) >= set(whole.items)
    start = data.draw(st.sampled_from([line.start for line in lines]))
    window = Reading().take(lines_of(raw, start, numbered=False))
    assert set(window.items) <= set(whole.items)
