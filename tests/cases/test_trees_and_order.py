"""How lines hang together: missing parents, rings, branches, one answer on many lines, and times that lie."""

import json
from typing import Any

import pytest

from cases.desk import Desk, thread_id
from ekiden.kernel.limits import PAGE_ROWS_MAX
from vendors.claude.files import assistant, call, encode, result, user
from vendors.codex.files import joined, meta, written

pytestmark = pytest.mark.anyio

S1, S2 = thread_id(1), thread_id(2)


async def test_a_parent_that_was_never_written_hides_nothing(desk: Desk) -> None:
    """All is shown in the order of the file with a mark where the chain is broken, also where the file begins so;
    a snapshot of files is no message."""
    chain = [user("u1", None, "one"), assistant("u2", "u1", "two"), user("u3", "u2", "three")]
    snapshot = {"type": "file-history-snapshot", "messageId": "u4", "snapshot": {}}
    broken = [snapshot, assistant("u4", "ghost", "four"), user("u5", "u4", "five")]
    desk.claude(S1, encode([*chain, *broken]))
    desk.claude(S2, encode([user("v1", "ghost0", "first"), assistant("v2", "v1", "second")]))
    await desk.up()
    report = await desk.read(S1)
    shown = [(str(item.kind), item.text() or item.note) for item in await desk.pages(S1)]
    assert shown == [
        ("message", "one"),
        ("message", "two"),
        ("message", "three"),
        ("notice", "gap"),
        ("message", "four"),
        ("message", "five"),
    ]
    assert report.messages == 5
    assert not any(item.abandoned for item in await desk.pages(S1))
    await desk.read(S2)
    assert await desk.texts(S2) == ["first", "second"]


async def test_a_gap_is_shown_on_whatever_page_it_falls(desk: Desk) -> None:
    """What only a whole reading knows is on the pages of a file that is never read whole for a page."""
    rows = [user("u0", None, "0")]
    for number in range(1, 1_200):
        parent = "ghost" if number == 40 else f"u{number - 1}"
        rows.append((assistant if number % 2 else user)(f"u{number}", parent, f"{number} " + "x" * 400))
    path = desk.claude(S1, encode(rows))
    await desk.up()
    await desk.read(S1)

    async def shown() -> bool:
        items = await desk.pages(S1, limit=50)
        numbers = [int(item.text().split()[0]) for item in items if item.kind == "message"]
        assert numbers == list(range(1_200))
        assert not any(item.abandoned for item in items)
        gaps = [index for index, item in enumerate(items) if item.note == "gap"]
        return [items[index + 1].text().split()[0] for index in gaps] == ["40"]

    await desk.until(shown)
    path.unlink()

    async def gone() -> bool:
        return "source_gone" in (await desk.read(S1)).notices

    await desk.until(gone)
    assert await shown(), "from the copy it stands in its place too"


async def test_rings_copies_and_many_leaves_lose_no_text(desk: Desk) -> None:
    """A ring without a root, a row that is its own parent, one id for two texts, a line twice, four hundred leaves
    and a chain of thousands: each text once, and the reading ends."""
    odd = [
        user("a", "c", "a"),
        user("b", "a", "b"),
        user("c", "b", "c"),
        user("d", "d", "d"),
        user("e", "d", "first e"),
        user("e", "d", "second e"),
        user("f", "e", "f"),
        user("f", "e", "f"),
    ]
    leaves = [user(f"l{number}", "f", f"leaf {number}") for number in range(400)]
    desk.claude(S1, encode([*odd, *leaves]))
    long = [user(f"u{n}", f"u{n - 1}" if n else None, f"{n}") for n in range(3_000)]
    desk.claude(S2, encode(long))
    await desk.up()
    await desk.read(S1)
    expected = ["a", "b", "c", "d", "first e", "second e", "f", *(f"leaf {number}" for number in range(400))]
    assert await desk.texts(S1, limit=PAGE_ROWS_MAX) == expected
    items = await desk.pages(S1, limit=PAGE_ROWS_MAX)
    assert [item.source.line for item in items if item.note == "cycle"] == [1, 4]
    assert [item.text() for item in items if item.kind == "message" and not item.abandoned][-1] == "leaf 399"
    assert (await desk.read(S2)).messages == 3_000
    newest = (await desk.client.get(f"/v1/sessions/{(await desk.read(S2)).session_id}/items", limit=3))["items"]
    assert [item["content"][0]["text"] for item in newest] == ["2997", "2998", "2999"]


async def test_one_answer_on_many_lines_is_shown_once_and_counted_once(desk: Desk) -> None:
    """Its blocks on a line each; growing snapshots of one block; two true blocks of which one begins with the
    other."""
    thinking = [{"type": "thinking", "thinking": "hm", "signature": "s"}]
    desk.claude(
        S1,
        encode(
            [
                user("u1", None, "q"),
                assistant("a1", "u1", thinking, "m1"),
                assistant("a2", "a1", "A", "m1"),
                assistant("a3", "a2", call("t1", command="x"), "m1"),
                user("u2", "a3", result("t1", "ok")),
                *(assistant(f"g{n}", "u2", text, "m2") for n, text in enumerate(["Hel", "Hello", "Hello w"])),
                user("u3", "g2", "next"),
                assistant("p1", "u3", "Hello", "m3"),
                assistant("p2", "p1", "Hello w", "m3"),
            ]
        ),
    )
    await desk.up()
    await desk.read(S1)
    items = await desk.pages(S1)
    assert [item.text() for item in items if item.kind == "message"] == [
        "q",
        "A",
        "Hello w",
        "next",
        "Hello",
        "Hello w",
    ]
    assert [str(item.kind) for item in items[1:4]] == ["thought", "message", "tool"]
    assert sum(item.usage.output_tokens for item in items if item.usage) == 3 * 5


async def test_order_is_the_files_and_bad_times_are_unknown(desk: Desk) -> None:
    """Equal times, a child before its parent, other zones, numbers, none, 1970 and 2100: nothing changes places,
    and no absurd time dates the session."""
    times: list[Any] = [
        "2026-03-01T10:00:00.000Z",
        "2026-03-01T10:00:00.000Z",
        "2026-03-01T09:59:58.000Z",
        "2026-03-01T12:00:01.000+02:00",
        None,
        1_772_359_202,
        1_772_359_203_000,
        "1970-01-01T00:00:00Z",
        "2100-01-01T00:00:00Z",
        "not a time",
    ]
    rows = [
        {**(assistant if n % 2 else user)(f"u{n}", f"u{n - 1}" if n else None, f"{n}"), "timestamp": at}
        for n, at in enumerate(times)
    ]
    desk.claude(S1, encode(rows))
    rollout = [json.loads(written("assistant" if n % 2 else "user", f"{n}")) for n in range(len(times))]
    lines = [json.dumps({**one, "timestamp": at}).encode() for one, at in zip(rollout, times, strict=True)]
    desk.codex(S2, joined([meta(S2, timestamp="2026-03-01T09:59:00.000Z"), *lines]))
    await desk.up()
    for native_id in (S1, S2):
        report = await desk.read(native_id)
        assert await desk.texts(native_id) == [str(n) for n in range(len(times))]
        assert report.created_at.startswith("2026-03-01T")
        assert report.updated_at.startswith("2026-03-01T")
        at = [item.at for item in await desk.pages(native_id)]
        assert at[3] == "2026-03-01T10:00:01.000Z"
        assert (at[4], at[7], at[8], at[9]) == ("", "", "", "")
