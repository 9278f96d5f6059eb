"""Lines that are broken, odd or of another shape, from the file on disk to what a client of the door is shown."""

import json
from typing import Any

import pytest

from cases.desk import Desk, thread_id
from ekiden.kernel.limits import ITEM_OUTPUT_BYTES_MAX, ITEM_TEXT_BYTES_MAX
from vendors.claude.files import assistant, call, encode, result, user
from vendors.codex.files import joined, meta, response, written

pytestmark = pytest.mark.anyio

TORN = b'{"type":"assistant","uuid":"u4","parentUuid":"u3","message":{"role":"ass'
FILLINGS = (TORN, b"not json", b"", b"42", b"[1]", b'"x"')


def chain(count: int = 6) -> list[Any]:
    """Rows that alternate between a person and the model."""
    return [
        (user if n % 2 else assistant)(f"u{n}", f"u{n - 1}" if n > 1 else None, f"text {n}")
        for n in range(1, count + 1)
    ]


async def test_one_bad_line_costs_one_line_and_is_shown_with_its_place(desk: Desk) -> None:
    """Whatever stands in the fourth of six lines: five are shown, the bad one is visible with number and offset,
    counted, kept as it is, and the chain goes on over it."""
    for number, filling in enumerate(FILLINGS, 1):
        rows = chain()
        rows[3] = filling
        desk.claude(thread_id(number), encode(rows))
    await desk.up()
    for number, filling in enumerate(FILLINGS, 1):
        native_id = thread_id(number)
        report = await desk.read(native_id)
        items = await desk.pages(native_id)
        assert [item.text() for item in items if item.kind == "message"] == [
            "text 1",
            "text 2",
            "text 3",
            "text 5",
            "text 6",
        ]
        (bad,) = [item for item in items if item.kind == "unreadable"]
        assert (bad.source.line, bad.source.start) == (4, len(encode(chain()[:3])))
        assert items.index(bad) == 3
        assert report.unreadable_rows == 1
        assert not [item for item in items if item.abandoned or item.note == "gap"]
        assert (await desk.raw(native_id))[3].text == filling.decode()


async def test_an_object_of_no_known_shape_is_shown_and_hides_nothing(desk: Desk) -> None:
    """It is JSON, so it is not unreadable; it is not understood, and that is said."""
    rows = chain()
    rows[3] = {"silly": "this"}
    desk.claude(thread_id(1), encode(rows))
    await desk.up()
    report = await desk.read(thread_id(1))
    items = await desk.pages(thread_id(1))
    assert [str(item.kind) for item in items] == ["message"] * 3 + ["unknown"] + ["message"] * 2
    assert (report.unknown_rows, report.unreadable_rows) == (1, 0)


async def test_a_rollout_with_bad_lines_lives_as_well(desk: Desk) -> None:
    """The same six fillings between the rows of a Codex session."""
    rows = [meta(thread_id(1)), written("user", "before")]
    rows += [*FILLINGS, written("assistant", "after")]
    desk.codex(thread_id(1), joined(rows))
    await desk.up()
    report = await desk.read(thread_id(1))
    assert await desk.texts(thread_id(1)) == ["before", "after"]
    assert report.unreadable_rows == len(FILLINGS)
    bad = [item for item in await desk.pages(thread_id(1)) if item.kind == "unreadable"]
    assert [item.source.line for item in bad] == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    "odd", ["a\u2028b\u2029c\u0085d", "last\u2028", "\u0085", "v\x0bf\x0cs\x1cg\x1dr\x1eu\x1f"]
)
async def test_only_a_newline_ends_a_line(desk: Desk, odd: str) -> None:
    """Other line ends inside a text and a tool's output: one record each, the text unchanged, in both vendors'
    files, on the page and told live."""
    rows = [
        user("u1", None, odd),
        assistant("a1", "u1", call("t1", command="x")),
        user("u2", "a1", result("t1", odd)),
    ]
    desk.claude(thread_id(1), encode(rows))
    rollout = [
        meta(thread_id(2)),
        written("user", odd),
        response("function_call", name="shell", call_id="c1", arguments='{"command":["x"]}'),
        response("function_call_output", call_id="c1", output=odd),
    ]
    unescaped = [json.dumps(json.loads(one), ensure_ascii=False).encode() for one in rollout]
    file = desk.codex(thread_id(2), joined(unescaped))
    await desk.up()
    for native_id in (thread_id(1), thread_id(2)):
        report = await desk.read(native_id)
        assert await desk.texts(native_id) == [odd]
        (tool,) = [item.tool for item in await desk.pages(native_id) if item.tool]
        assert tool.output == odd
        assert (report.unreadable_rows, report.title) == (0, " ".join(odd.split()))
    with file.open("ab") as more:
        more.write(
            json.dumps(json.loads(written("assistant", f"more {odd}")), ensure_ascii=False).encode() + b"\n"
        )

    async def told() -> bool:
        return [item.text() for item in (await desk.told(thread_id(2))).values()] == [f"more {odd}"]

    await desk.until(told)


HALVES = {
    b"\\ud83d": "\ufffd",
    b"\\udc00": "\ufffd",
    b"\\ud83d\\ud83d\\ude00": "\ufffd\U0001f600",
    b"\xed\xa0\xbd": "\ufffd",
}


async def test_half_a_character_costs_no_line_no_session_and_no_event(desk: Desk) -> None:
    """In what is said, in a tool's input and output, in folder and title; escaped and as raw bytes; read from the
    file, told live, and searched. Nothing between the file and the client raises."""
    files = {}
    for number, written_as in enumerate(HALVES, 1):
        rows = [
            user("u1", None, "find HERE me", cwd="/home/dev/HERE"),
            assistant("a1", "u1", call("t1", command="echo HERE")),
            user("u2", "a1", result("t1", "out HERE")),
        ]
        files[number] = desk.claude(thread_id(number), encode(rows).replace(b"HERE", written_as))
        rollout = joined([meta(thread_id(number + 10), cwd="/p/HERE"), written("user", "find HERE me")])
        files[number + 10] = desk.codex(thread_id(number + 10), rollout.replace(b"HERE", written_as))
    await desk.up()
    for number, (written_as, shown) in enumerate(HALVES.items(), 1):
        for native_id in (thread_id(number), thread_id(number + 10)):
            report = await desk.read(native_id)
            assert await desk.texts(native_id) == [f"find {shown} me"]
            assert (report.title, report.cwd.rpartition("/")[2]) == (f"find {shown} me", shown)
            assert report.unreadable_rows == 0
            more = assistant("a2", "u2", f"live {native_id} HERE") if native_id == thread_id(number) else None
            line = encode([more]) if more else written("assistant", f"live {native_id} HERE") + b"\n"
            with files[number if more else number + 10].open("ab") as file:
                file.write(line.replace(b"HERE", written_as))
        (tool,) = [item.tool for item in await desk.pages(thread_id(number)) if item.tool]
        assert (tool.command, tool.output) == (f"echo {shown}", f"out {shown}")
        for native_id in (thread_id(number), thread_id(number + 10)):

            async def told(native_id: str = native_id, shown: str = shown) -> bool:
                return [item.text() for item in (await desk.told(native_id)).values()] == [
                    f"live {native_id} {shown}"
                ]

            await desk.until(told)
    found = await desk.finds("find me")
    assert sorted(found) == sorted(thread_id(n) for n in (1, 2, 3, 4, 11, 12, 13, 14))


@pytest.mark.parametrize("lead", range(4))
async def test_a_cut_never_splits_a_character(desk: Desk, lead: int) -> None:
    """Texts of four-byte characters over each limit, begun at each offset: what is shown ends with a whole one,
    says its full size, and can be read whole."""
    text = "x" * lead + "\U0001f600" * (ITEM_TEXT_BYTES_MAX // 4 + 100)
    output = "x" * lead + "\U0001f600" * (ITEM_OUTPUT_BYTES_MAX // 4 + 100)
    rows = [
        user("u1", None, text),
        assistant("a1", "u1", call("t1", command=text)),
        user("u2", "a1", result("t1", output)),
    ]
    desk.claude(thread_id(1), encode(rows))
    await desk.up()
    report = await desk.read(thread_id(1))
    said, ran = await desk.pages(thread_id(1))
    assert ran.tool is not None
    for shown in (said.text(), ran.tool.output, ran.tool.command, report.title):
        assert "\ufffd" not in shown
        assert set(shown) <= {"x", "\U0001f600", "…"}
    sizes = {cut.field: cut.bytes for cut in (*said.cut, *ran.cut)}
    assert sizes["tool.output"] == len(output.encode())
    assert len(text.encode()) in sizes.values()


async def test_records_that_are_glued_together_are_taken_apart(desk: Desk) -> None:
    """Two on one line, and a whole one behind the beginning of another."""
    first, second, third, fourth = (encode([one]).rstrip(b"\n") for one in chain(4))
    desk.claude(thread_id(1), first + second + b"\n" + third[:60] + fourth + b"\n")
    rollout = [
        written("user", "one"),
        written("assistant", "two"),
        written("user", "lost"),
        written("assistant", "three"),
    ]
    desk.codex(
        thread_id(2),
        meta(thread_id(2)) + b"\n" + rollout[0] + rollout[1] + b"\n" + rollout[2][:60] + rollout[3] + b"\n",
    )
    await desk.up()
    assert (await desk.read(thread_id(1))).unreadable_rows == 1
    assert await desk.texts(thread_id(1)) == ["text 1", "text 2", "text 4"]
    assert (await desk.read(thread_id(2))).unreadable_rows == 1
    assert await desk.texts(thread_id(2)) == ["one", "two", "three"]


async def test_bookkeeping_is_no_talk(desk: Desk) -> None:
    """Rows that the programs keep for themselves outnumber what was said: none of them is shown as a message, the
    title is the right one, a file of a title only is no session, and what is not known is counted and kept."""
    noise: list[Any] = []
    for number in range(39):
        noise.append({"type": "mode", "mode": "default", "sessionId": thread_id(1)})
        noise.append({"type": "permission-mode", "permissionMode": "default", "sessionId": thread_id(1)})
        noise.append({"type": "last-prompt", "lastPrompt": "last words", "sessionId": thread_id(1)})
        noise.append({"type": "ai-title", "aiTitle": f"Title {number // 20}", "sessionId": thread_id(1)})
    noise += [
        {"type": "progress", "uuid": f"p{n}", "parentUuid": "u1", "data": {"type": "hook_progress"}}
        for n in range(57)
    ]
    noise += [
        {"type": "summary", "summary": "of a ghost", "leafUuid": "ghost"},
        {"type": "summary", "summary": "of another file", "leafUuid": "other-1"},
        *(user(f"n{n}", "u1", content) for n, content in enumerate([None, [], "", [None]])),
        user("m1", "u1", "meta", isMeta=True),
        {"uuid": "notype", "parentUuid": "u1"},
        {"type": "user", "uuid": "nomessage", "parentUuid": "u1"},
        {**user("misspelt", "u1", "a time that is misspelt"), "timesstamp": "2026"},
    ]
    desk.claude(thread_id(1), encode([user("u1", None, "said"), *noise, assistant("a1", "u1", "answered")]))
    desk.claude(thread_id(2), encode([{"type": "ai-title", "aiTitle": "Alone", "sessionId": thread_id(2)}]))
    desk.claude(thread_id(3), encode([user("other-1", None, "the other file")]))
    await desk.up()
    report = await desk.read(thread_id(1))
    assert await desk.texts(thread_id(1)) == ["said", "a time that is misspelt", "answered"]
    assert (report.title, report.messages) == ("Title 1", 3)
    assert report.unknown_rows >= 2
    assert (await desk.read(thread_id(3))).title == "the other file"
    assert await desk.find(thread_id(2)) is None
    assert len(await desk.sessions()) == 2
