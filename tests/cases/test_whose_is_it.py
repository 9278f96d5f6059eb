"""Which session a file, a line and a run belong to: copies, forks, sub-agents, shared folder names, own runs."""

import json
from typing import Any

import pytest

from cases.desk import Desk, folder_name, thread_id
from ekiden.transcript.items import Item
from vendors.claude.files import assistant, call, encode, result, user
from vendors.codex.files import event, joined, meta, written

pytestmark = pytest.mark.anyio

S1, S2, S3 = (thread_id(n) for n in (1, 2, 3))


def conversation(prefix: str, session: str) -> list[dict[str, Any]]:
    """Four lines; the model's message ids do not depend on the prefix."""
    return [
        user(f"{prefix}1", None, "first question", sessionId=session),
        assistant(f"{prefix}2", f"{prefix}1", "first answer", "msg_1", sessionId=session, requestId="r1"),
        user(f"{prefix}3", f"{prefix}2", "second question", sessionId=session),
        assistant(f"{prefix}4", f"{prefix}3", "second answer", "msg_2", sessionId=session, requestId="r2"),
    ]


@pytest.mark.parametrize(
    ("prefix", "session"),
    [("u", S1), ("u", S2), ("n", S2)],
    ids=["lines as they were", "the same ids, another session", "new ids, the same messages of the model"],
)
async def test_a_copied_history_makes_no_session_double_and_takes_no_name(
    desk: Desk, prefix: str, session: str
) -> None:
    """A resumed or forked session begins with its source's lines: each file is one session under its own name,
    shows its whole history once, and its source gains nothing."""
    original = conversation("u", S1)
    copied = conversation(prefix, session)
    own = [user("x5", f"{prefix}4", "third", sessionId=S2), assistant("x6", "x5", "answer", "msg_3", sessionId=S2)]
    desk.claude(S1, encode(original))
    desk.claude(S2, encode([*copied, *own]))
    desk.claude(S3, encode([*copied, *own, user("y7", "x6", "fourth", sessionId=S3)]))
    await desk.up()
    shared = ["first question", "first answer", "second question", "second answer"]
    for native_id, texts in ((S1, shared), (S2, [*shared, "third", "answer"])):
        report = await desk.read(native_id)
        assert await desk.texts(native_id) == texts
        assert report.messages == len(texts)
        if native_id == S2 and session == S1:
            original_report = await desk.read(S1)
            assert (report.origin, report.parent_session_id) == ("fork", original_report.session_id)
    await desk.read(S3)
    assert await desk.texts(S3) == [*shared, "third", "answer", "fourth"]
    assert sorted(report.native_id for report in await desk.sessions()) == [S1, S2, S3]
    assert sorted(await desk.finds("third")) == [S2, S3]
    ids = [[item.id for item in await desk.pages(native_id)] for native_id in (S1, S2)]
    assert all(len(each) == len(set(each)) for each in ids)
    assert {ids[0][1], ids[0][3]} <= set(ids[1]), "the model's messages keep their ids in a copy"


async def test_a_fork_that_copies_its_parents_metadata_is_not_its_parent(desk: Desk) -> None:
    """The first metadata and the file's name say who it is. What was copied is shown as copied and not counted;
    the parent gains nothing. So too where both share the id of a group."""
    for number, more in ((10, {}), (20, {"session_id": thread_id(99)})):
        child, parent = thread_id(number), thread_id(number + 1)
        desk.codex(
            child,
            joined(
                [
                    meta(child, second=5, forked_from_id=parent, **more),
                    meta(parent, second=5, cwd="/parent", **more),
                    written("user", "copied question", second=5),
                    written("assistant", "copied answer", second=5),
                    event("task_complete", turn_id="t0", second=5),
                    written("user", "genuine question", second=9),
                ]
            ),
        )
        desk.codex(parent, joined([meta(parent, cwd="/parent", **more), written("user", "copied question")]))
    await desk.up()
    for number in (10, 20):
        report = await desk.read(thread_id(number))
        assert (report.cwd, report.messages, report.title) == ("/p", 1, "copied question")
        notes = [item.note for item in await desk.pages(thread_id(number)) if item.kind == "message"]
        assert notes == ["copied", "copied", ""]
        parent_report = await desk.read(thread_id(number + 1))
        assert (parent_report.cwd, parent_report.messages) == ("/parent", 1)
        assert (report.origin, report.parent_session_id) == ("fork", parent_report.session_id)
        assert (parent_report.origin, parent_report.parent_session_id) == ("", "")
        assert await desk.texts(thread_id(number + 1)) == ["copied question"]
    assert len(await desk.sessions()) == 4


def tool_of(items: list[Item], name: str = "Agent") -> Any:
    """The only call of a tool."""
    (found,) = [item.tool for item in items if item.tool and item.tool.name == name]
    return found


async def test_sub_agents_hang_under_their_calls_at_any_depth(desk: Desk) -> None:
    """Their files repeat the session's id: they are threads of one session, each under the call that started it,
    also while that call has no result; bookkeeping beside them is nothing."""
    path = desk.claude(
        S1,
        encode(
            [
                user("u1", None, "go", sessionId=S1),
                assistant("a1", "u1", call("t1", "Agent", prompt="job one"), sessionId=S1),
                user("u2", "a1", "meanwhile", sessionId=S1),
            ]
        ),
    )
    folder = path.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    side = {"isSidechain": True, "sessionId": S1}

    def agent(name: str, called_by: str, rows: list[dict[str, Any]]) -> None:
        (folder / f"agent-{name}.jsonl").write_bytes(encode(rows))
        (folder / f"agent-{name}.meta.json").write_text(json.dumps({"agentType": "x", "toolUseId": called_by}))

    for name, called_by, calls in (("a1", "t1", "t2"), ("a2", "t2", "t3"), ("a3", "t3", "")):
        more = {**side, "agentId": name}
        rows = [user(f"{name}u", None, f"job of {name}", **more)]
        block = call(calls, "Agent", prompt="deeper") if calls else f"{name} says"
        agent(name, called_by, [*rows, assistant(f"{name}a", f"{name}u", block, **more)])
    (folder / "journal.jsonl").write_bytes(b'{"type":"journal"}\n')
    await desk.up()
    report = await desk.read(S1)
    main = await desk.pages(S1)
    assert await desk.texts(S1) == ["go", "meanwhile"]
    assert report.messages == 2
    assert tool_of(main).thread == "a1"
    assert tool_of(await desk.pages(S1, thread="a1")).thread == "a2"
    assert tool_of(await desk.pages(S1, thread="a2")).thread == "a3"
    assert await desk.texts(S1, thread="a3") == ["job of a3", "a3 says"]
    assert [one.native_id for one in await desk.sessions()] == [S1]


async def test_old_sub_agents_among_the_main_lines_break_nothing_up(desk: Desk) -> None:
    """Two sub-agents whose rows stand between each other in the main file are two threads, and the main
    conversation is whole."""
    side: dict[str, Any] = {"isSidechain": True}
    rows = [
        user("u1", None, "go"),
        assistant("a1", "u1", call("t1", "Task", prompt="job one"), "m1"),
        assistant("a2", "a1", call("t2", "Task", prompt="job two"), "m2"),
        user("s1", None, "job one", **side),
        user("s2", None, "job two", **side),
        assistant("s3", "s1", "one says", **side),
        assistant("s4", "s2", "two says", **side),
        user("r1", "a2", result("t1", "1")),
        user("r2", "r1", result("t2", "2")),
        assistant("a3", "r2", "all done", "m3"),
    ]
    desk.claude(S1, encode(rows))
    await desk.up()
    report = await desk.read(S1)
    items = await desk.pages(S1)
    assert [item.text() for item in items if item.kind == "message" and not item.thread] == ["go", "all done"]
    one, two = (item.tool.thread for item in items if item.tool)
    assert [item.text() for item in items if item.thread == one] == ["job one", "one says"]
    assert [item.text() for item in items if item.thread == two] == ["job two", "two says"]
    assert not any(item.abandoned or item.note == "gap" for item in items)
    assert report.messages == 2


async def test_projects_come_from_the_lines_and_never_from_a_folders_name(desk: Desk) -> None:
    """Several paths share one folder name, long ones are cut, none exists here: each session has the folder that
    its lines name, and they stay apart."""
    base = "/home/dev/r"
    cwds = [f"{base}/{name}" for name in ("my_app", "my-app", "my.app", "my/app", "项目一", "项目二", "長" * 300)]
    for number, cwd in enumerate(cwds, 1):
        name = folder_name(cwd)
        path = (
            desk.claude_root / (name if len(name) < 200 else f"{name[:200]}-abc123") / f"{thread_id(number)}.jsonl"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode([user("u1", None, "hi", cwd=cwd)]))
    assert len({folder_name(cwd) for cwd in cwds}) == 3
    await desk.up()
    for number, cwd in enumerate(cwds, 1):
        report = await desk.read(thread_id(number))
        assert (report.cwd, report.project) == (cwd, cwd)
        page = await desk.client.get("/v1/sessions", project=cwd)
        assert [one["report"]["native_id"] for one in page["sessions"]] == [thread_id(number)]


async def test_helper_runs_are_no_sessions_however_often_we_look(desk: Desk) -> None:
    """What the programs run for themselves is left out, and looking again adds nothing."""
    path = desk.claude(S1, encode([user("u1", None, "a person's words", sessionId=S1)]))
    folder = path.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    for name in ("aprompt_suggestion-1", "acompact-2"):
        rows = [user("h1", None, "suggest", isSidechain=True, sessionId=S1, agentId=name)]
        (folder / f"agent-{name}.jsonl").write_bytes(encode(rows))
    desk.codex(S2, joined([meta(S2, thread_source="memory"), written("user", "remember this")]))
    desk.codex(S3, joined([meta(S3), written("user", "another person's words")]))
    await desk.up()
    await desk.read(S1)
    await desk.read(S3)
    assert desk.host is not None
    counts = []
    for _ in range(3):
        await desk.host.catalogue.scan()
        counts.append(sorted((one.native_id, one.messages) for one in await desk.sessions()))
    assert counts == [[(S1, 1), (S3, 1)]] * 3


async def test_what_runs_here_is_not_mirrored_as_a_second_session(desk: Desk) -> None:
    """An owned run's file is found by the mirror as well: it stays one session, with each item once."""
    await desk.up()
    body = {"host_id": desk.host_id, "vendor": "demo", "cwd": str(desk.project), "message": "say once"}
    session_id = (await desk.client.post("/v1/sessions", body))["session_id"]

    async def done() -> bool:
        (report,) = await desk.sessions()
        return report.state == "idle" and len(await desk.told(report.native_id)) > 1

    await desk.until(done)
    assert desk.host is not None
    for _ in range(3):
        await desk.host.catalogue.scan()
    (report,) = await desk.sessions()
    assert (report.session_id, report.origin) == (session_id, "started")
    assert await desk.texts(report.native_id) == ["say once", "once"]
    added = [
        item["id"]
        for one in await desk.events(session_id)
        if one["kind"] == "items.added"
        for item in one["body"]["items"]
        if item["kind"] == "message"
    ]
    assert len(added) == len(set(added)) == 2
