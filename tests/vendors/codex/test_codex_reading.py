"""Every way of reading a rollout gives the same: from the head, from inside, growing, torn, full of nonsense."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ekiden.kernel.ids import Prefix, checked_id
from ekiden.transcript.reading import Line
from ekiden.vendors.codex.rows import EVENTS_PASSED_OVER
from ekiden.vendors.codex.tools import ENDS, TYPED
from ekiden.vendors.codex.transcript import CodexFold
from vendors.codex.files import SAMPLES, THREAD, event, joined, lines_of, merged, meta, plain, read, said, written

ROLLOUTS = sorted(SAMPLES.rglob("rollout-*.jsonl"))

KINDS = ["event_msg", "response_item", "session_meta", "compacted", "turn_context", "token_usage_record", "odd"]
SUBS = [
    *sorted(ENDS), *sorted(EVENTS_PASSED_OVER)[:3], "item_completed", "user_message", "agent_message", "message",
    "reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output",
    "local_shell_call", "web_search_call", "image_generation_call", "task_started", "task_complete",
    "turn_aborted", "error", "thread_rolled_back", "exited_review_mode", "agent_reasoning", "odd",
]  # fmt: skip
FIELDS = [
    "type", "id", "call_id", "name", "arguments", "input", "action", "output", "content", "message",
    "role", "item", "summary", "summary_text", "encrypted_content", "turn_id", "error", "usage", "info",
    "payload", "status", "command", "changes", "duration", "exit_code", "source", "history_base", "git",
    "plan", "text", "images", "kind", "internal_chat_message_metadata_passthrough", "result", "invocation",
    "queries", "review_output", "timestamp",
]  # fmt: skip

words = st.text(max_size=12) | st.sampled_from(
    [*SUBS, *TYPED, "user", "assistant", "developer", "{", '{"output":']
)
numbers = st.none() | st.booleans() | st.integers() | st.floats()
anything: st.SearchStrategy[Any] = st.recursive(
    words | numbers,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | words, inner, max_size=5)
    ),
    max_leaves=12,
)
payloads = st.dictionaries(st.sampled_from(FIELDS), anything, max_size=8)


@st.composite
def rows(draw: st.DrawFn) -> bytes:
    """A row that looks real on the outside and holds anything, or no row at all."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=40)).replace(b"\n", b"")
    fields: dict[str, Any] = {"timestamp": draw(st.just("2026-01-01T00:00:01.000Z") | anything)}
    if draw(st.booleans()):
        fields["ordinal"] = draw(st.integers(0, 9))
    payload = {"type": draw(st.sampled_from(SUBS))} | draw(payloads)
    if payload["type"] == "item_completed":
        payload["item"] = {"type": draw(st.sampled_from([*TYPED, "UserMessage", "Reasoning"]))} | draw(payloads)
    fields |= {"type": draw(st.sampled_from(KINDS)), "payload": draw(st.just(payload) | anything)}
    return json.dumps(fields, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")


@given(st.lists(rows(), max_size=12))
def test_no_content_makes_the_reading_fail(lines: list[bytes]) -> None:
    """Whatever a file holds, each line is counted and what comes out can be stored and sent."""
    items, fold = read(lines)
    assert fold.facts.rows == len(lines)
    for item in items:
        checked_id(Prefix.ITEM, item.id)
        assert msgspec.json.decode(msgspec.json.encode(item), type=type(item)).id == item.id
    msgspec.json.encode(fold.facts)


@pytest.mark.parametrize("path", ROLLOUTS, ids=lambda path: path.stem[-12:])
def test_a_reading_from_any_line_gives_items_of_the_whole_reading(path: Path) -> None:
    """The newest page of a file and the file read from its head know each item by one id, with one text."""
    raw = path.read_bytes()
    whole = {item.id: item for item in read(raw)[0]}
    lines = lines_of(raw)
    for first in range(1, len(lines)):
        fold = CodexFold(THREAD, "rollout.jsonl")
        items = merged([item for line in lines[first:] for item in fold.feed(line)] + fold.finish())
        for item in items:
            assert item.id in whole
            assert item.text() == whole[item.id].text()


@pytest.mark.parametrize("path", ROLLOUTS, ids=lambda path: path.stem[-12:])
def test_a_growing_file_reads_as_the_finished_one(path: Path) -> None:
    """Half lines and premature ends in between change nothing of what stands there at last."""
    raw = path.read_bytes()
    whole, _ = read(raw)
    fold = CodexFold(THREAD, "rollout.jsonl")
    items = []
    for line in lines_of(raw):
        for part in (len(line.raw) // 2, len(line.raw)):
            ahead = fold.feed(Line(line.raw[:part], line.start, line.start + part, line.number, complete=False))
            assert all(item.provisional for item in ahead)
        items += fold.feed(line)
    assert [plain(item) for item in merged(items + fold.finish())] == [plain(item) for item in whole]
    assert fold.facts == read(raw)[1].facts


def test_an_end_between_twins_shows_the_message_once() -> None:
    """A reader may ask for the end while the second of a pair is still to come."""
    pairs = [written("user", "hi"), event("user_message", message="hi"), event("agent_message", message="hello"),
             written("assistant", "hello")]  # fmt: skip
    fold = CodexFold(THREAD, "f")
    items = []
    for line in lines_of(joined([meta(), *pairs])):
        items += fold.feed(line) + fold.finish()
    assert said(merged(items)) == [("user", "hi"), ("assistant", "hello")]
    assert fold.facts.messages == 2


talks = st.lists(
    st.tuples(st.sampled_from(["user", "assistant"]), st.sampled_from(["a", "b", "a\nb"])), max_size=8
)


@given(talks, st.sampled_from(["pairs", "events", "responses"]), st.lists(st.booleans(), min_size=8, max_size=8))
def test_messages_told_once_or_twice_are_each_shown_once(
    talk: list[tuple[str, str]], form: str, bookkeeping: list[bool]
) -> None:
    """In the order of the file: as pairs in Codex's order, as events alone, or as response items alone."""
    lines = [meta()]
    for (role, text), noise in zip(talk, bookkeeping, strict=False):
        told, wrote = (
            event("user_message" if role == "user" else "agent_message", message=text),
            written(role, text),
        )
        pair = [wrote, told] if role == "user" else [told, wrote]
        lines += {"pairs": pair, "events": [told], "responses": [wrote]}[form]
        lines += [event("token_count", info=None)] * noise
    items, fold = read(lines)
    assert said(items) == talk
    assert fold.facts.messages == len(talk)


def test_memory_does_not_grow_with_the_calls_of_a_session() -> None:
    """Calls that never get a result, and results that have been told, are remembered up to a bound."""
    fold = CodexFold(THREAD, "f")
    start = 0
    for index in range(5_000):
        fields = {"type": "function_call", "name": "x", "call_id": f"c{index}", "arguments": "{}"}
        raw = json.dumps({"timestamp": "2026-01-01T00:00:01.000Z", "type": "response_item", "payload": fields})
        fold.feed(Line(raw.encode(), start, start + len(raw)))
        start += len(raw) + 1
    assert fold.open_calls <= 1_024
