"""Owned sessions with real processes: one owner, messages once and in order, a stop that stops everything."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ekiden.host import processes
from ekiden.host.environment import RUN_TAG, runtime_environment
from ekiden.kernel.errors import AlreadyAnswered, EkidenError, HeldElsewhere
from ekiden.vendors.port import Owner

from .conftest import Place, until
from .line_vendor import item_id, row

pytestmark = pytest.mark.anyio


async def started(place: Place, message: str = "") -> str:
    body = {"host_id": place.host_id, "vendor": "line", "cwd": str(place.base), "message": message}
    return (await place.client.post("/v1/sessions", body))["session_id"]


async def view(place: Place, session_id: str) -> dict:
    return await place.client.get(f"/v1/sessions/{session_id}")


async def say(place: Place, session_id: str, text: str) -> str:
    return (await place.client.post(f"/v1/sessions/{session_id}/messages", {"text": text}))["message_id"]


async def asked_and_said(place: Place, session_id: str) -> list[str]:
    page = await place.client.get(f"/v1/sessions/{session_id}/items", limit=200)
    return [item["content"][0]["text"] for item in page["items"]]


async def state(place: Place, session_id: str, wanted: str) -> bool:
    return (await view(place, session_id))["session"]["state"] == wanted


async def turned(place: Place, session_id: str, last: str) -> bool:
    return [state for state, _ in await turns(place, session_id)][-1:] == [last]


async def turns(place: Place, session_id: str) -> list[tuple[str, str]]:
    events = await place.events(session_id)
    return [(one["body"]["state"], one["body"]["reason"]) for one in events if one["kind"] == "turn.changed"]


def tagged_sleeps(place) -> dict[int, processes.Process]:
    return {
        pid: process
        for run in processes.tagged().values()
        for pid, process in run.items()
        if process.command.startswith("sleep 60")
    }


def sleeps(place: Place) -> set[str]:
    """What the agents of this place have started and is still there."""
    found: set[str] = set()
    for pid, one in processes.all_processes().items():
        if one.command.startswith("sleep 60"):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/cwd") == str(place.base):
                    found.add(one.command)
    return found


async def test_a_session_is_begun_talked_to_and_released(place: Place) -> None:
    """Text grows live, then is whole from the file under the same id; a release ends the process."""
    host = await place.host_up()
    session_id = await started(place, "hello")
    await until(lambda: state(place, session_id, "idle"))
    await say(place, session_id, "again")

    async def both() -> bool:
        return await asked_and_said(place, session_id) == ["hello", "you said hello", "again", "you said again"]

    await until(both)
    report = (await view(place, session_id))["session"]["report"]
    assert (report["rung"], report["level"], report["origin"]) == ("owned", 2, "started")
    owned = host.supervisor.owned(session_id)
    assert owned is not None
    pid = owned.runtime.pid
    await place.client.post(f"/v1/sessions/{session_id}/release")
    assert processes.process_of(pid) is None
    report = (await view(place, session_id))["session"]["report"]
    assert report.get("rung", "file") == "file"
    assert {one["name"]: one.get("why", "") for one in report["abilities"]}["queue"] == "not_owned"


async def test_our_own_run_is_one_session_however_often_we_look(place: Place) -> None:
    """What is owned and what is found in its file are joined by the native id."""
    host = await place.host_up()
    session_id = await started(place, "hello")
    await until(lambda: state(place, session_id, "idle"))
    for _ in range(3):
        await host.catalogue.scan()
    assert [one["report"]["session_id"] for one in await place.sessions()] == [session_id]


async def deaf(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that nobody tells of changes and that looks at its stores once only."""
    monkeypatch.setattr("ekiden.host.catalogue.SWEEP_S", 3600.0)
    host = await place.host_up()
    await until(host.catalogue.scanned.is_set)
    asyncio.get_running_loop().remove_reader(host.catalogue._watcher._descriptor)
    monkeypatch.setattr(host.catalogue._watcher, "_reading", False)
    host.catalogue._watch_roots = lambda _: asyncio.sleep(0, False)  # type: ignore[method-assign, assignment]


async def test_a_session_begun_here_is_told_from_its_first_line_whoever_hears_of_its_file(
    place: Place, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is looked for when its turn begins and ends, and a page looks for it too: nothing waits for the
    kernel to tell, and nothing that was written before the first look is missing."""
    await deaf(place, monkeypatch)
    session_id = await started(place, "hello")

    async def whole() -> bool:
        items = await place.told(session_id)
        return [item["content"][0]["text"] for item in items.values()] == ["hello", "you said hello"]

    await until(whole)
    assert await asked_and_said(place, session_id) == ["hello", "you said hello"]


async def test_a_page_looks_at_the_file_at_that_moment(
    place: Place, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a session whose file came, grew, or was moved since anybody looked."""
    await deaf(place, monkeypatch)
    session_id = await started(place)
    native_id = (await view(place, session_id))["session"]["report"]["native_id"]
    assert await asked_and_said(place, session_id) == []
    path = root / f"{native_id}.jsonl"
    path.write_bytes(row("user", "1", "one"))
    assert await asked_and_said(place, session_id) == ["one"]
    with path.open("ab") as file:
        file.write(row("say", "2", "two"))
    assert await asked_and_said(place, session_id) == ["one", "two"]
    (root / "archived").mkdir()
    path.rename(root / "archived" / path.name)
    assert await asked_and_said(place, session_id) == ["one", "two"]


async def test_messages_sent_during_a_turn_are_placed_once_and_in_order(place: Place) -> None:
    """Also when the turn is stopped while they wait, and when more come while it is being stopped."""
    await place.host_up()
    session_id = await started(place, "hold")
    await until(lambda: state(place, session_id, "running"))
    ids = [await say(place, session_id, f"m{number}") for number in range(3)]
    turn = (await view(place, session_id))["session"]["report"]["turn_id"]
    await place.client.post(f"/v1/sessions/{session_id}/interrupt", {"turn_id": turn})
    ids.append(await say(place, session_id, "m3"))

    async def all_there() -> bool:
        texts = await asked_and_said(place, session_id)
        return texts == ["hold", "you said hold", *[t for n in range(4) for t in (f"m{n}", f"you said m{n}")]]

    await until(all_there)

    async def placed() -> list[str]:
        return [
            one["body"]["message_id"]
            for one in await place.events(session_id)
            if one["kind"] == "message.changed" and one["body"]["state"] == "placed"
        ]

    async def told() -> bool:
        return len(await placed()) == len(ids)

    await until(told)
    assert await placed() == ids


async def test_a_queue_outlives_a_restart_of_host_and_hub(place: Place) -> None:
    """Messages that waited are placed after the restart, once each, in one process at a time."""
    await place.host_up()
    session_id = await started(place, "hold")
    await until(lambda: state(place, session_id, "running"))
    for number in range(3):
        await say(place, session_id, f"m{number}")
    await place.host_down()
    await place.hub_down()
    await place.hub_up()
    await place.host_up()

    async def all_there() -> bool:
        texts = await asked_and_said(place, session_id)
        return texts == ["hold", "you said hold", *[t for n in range(3) for t in (f"m{n}", f"you said m{n}")]]

    await until(all_there)


@pytest.mark.parametrize("message", ["hold", "ask"])
async def test_what_a_hub_that_was_away_did_not_hear_of_an_end_is_told_after_the_next_start(
    place: Place, message: str
) -> None:
    """The host stops in a turn while the hub is away: no turn runs and no question waits for ever."""
    await place.host_up()
    session_id = await started(place, message)
    await until(lambda: state(place, session_id, "running" if message == "hold" else "waiting"))
    await place.hub_down()
    await place.host_down()
    await place.hub_up()
    await place.host_up()

    async def over() -> bool:
        seen = await view(place, session_id)
        ended = (await turns(place, session_id))[-1][0] in ("completed", "failed", "interrupted")
        return ended and not seen["approvals"] and seen["session"]["state"] == "idle"

    await until(over)


async def test_a_stop_ends_all_that_the_turn_has_started_and_only_that(place: Place) -> None:
    """Background, detached, deaf to TERM, with a cleared environment: all gone before `interrupted` is told. What
    an earlier turn left running on purpose stays."""
    await place.host_up()
    session_id = await started(place, "keep")
    await until(lambda: state(place, session_id, "idle"))
    await say(place, session_id, "spawn")
    await until(lambda: len(sleeps(place)) >= 6)
    await until(lambda: state(place, session_id, "running"))
    report = (await view(place, session_id))["session"]["report"]
    for _ in range(2):
        await place.client.post(f"/v1/sessions/{session_id}/interrupt", {"turn_id": report["turn_id"]})

    seen: list[set[str]] = []

    async def told() -> bool:
        if any(one[0] == "interrupted" for one in await turns(place, session_id)):
            seen.append(sleeps(place))
            return True
        return False

    await until(told)
    assert seen == [{"sleep 605"}]
    await place.client.post(f"/v1/sessions/{session_id}/release")
    assert sleeps(place) == set()


async def test_a_stop_leaves_what_serves_the_program_alone(place: Place) -> None:
    """Servers that a program starts with itself belong to it, and so does what they start while a turn runs."""
    place.environment["EKIDEN_DEMO_LINE"] = "serve"
    host = await place.host_up()
    session_id = await started(place, "spawn")
    await until(lambda: len(sleeps(place)) >= 5)
    (place.base / "serve").touch()
    await until(lambda: "sleep 606" in sleeps(place))
    await until(lambda: state(place, session_id, "running"))
    owned = host.supervisor.owned(session_id)
    assert owned is not None
    await owned.interrupt(owned.turn_id)
    assert sleeps(place) == {"sleep 606"}
    await place.client.post(f"/v1/sessions/{session_id}/release")
    assert sleeps(place) == set()


async def test_a_process_that_nothing_ties_to_the_turn_is_named_as_left_over(place: Place) -> None:
    """With a cleared environment and no parent it cannot be proven to be ours: it is not ended, and not hidden."""
    host = await place.host_up()
    session_id = await started(place, "stray")
    await until(lambda: "sleep 607" in sleeps(place))
    await until(lambda: state(place, session_id, "running"))
    owned = host.supervisor.owned(session_id)
    assert owned is not None
    await owned.interrupt(owned.turn_id)
    try:
        assert sleeps(place) == {"sleep 607"}

        async def named() -> bool:
            outcome, reason = (await turns(place, session_id))[-1]
            return outcome == "interrupted" and reason.startswith("Left over: sleep 607 (pid ")

        await until(named)
    finally:
        for pid, one in processes.all_processes().items():
            if one.command == "sleep 607" and os.readlink(f"/proc/{pid}/cwd") == str(place.base):
                os.kill(pid, signal.SIGKILL)


async def test_a_program_that_does_not_stop_when_asked_is_ended(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn counts as interrupted only then."""
    monkeypatch.setattr("ekiden.host.owned.INTERRUPT_S", 0.2)
    host = await place.host_up()
    session_id = await started(place, "ask")
    await until(lambda: state(place, session_id, "waiting"))
    owned = host.supervisor.owned(session_id)
    assert owned is not None
    os.kill(owned.runtime.pid, signal.SIGSTOP)
    turn = (await view(place, session_id))["session"]["report"]["turn_id"]
    await place.client.post(f"/v1/sessions/{session_id}/interrupt", {"turn_id": turn})

    async def over() -> bool:
        return any(one[0] == "interrupted" for one in await turns(place, session_id))

    await until(over)
    assert processes.process_of(owned.runtime.pid) is None
    assert (await view(place, session_id))["approvals"] == []


async def test_an_old_stop_does_not_hit_a_later_turn(place: Place) -> None:
    """A stop names the turn that the person saw."""
    host = await place.host_up()
    session_id = await started(place, "one")
    await until(lambda: turned(place, session_id, "completed"))
    earlier = next(one for one in await place.events(session_id) if one["kind"] == "turn.changed")["body"][
        "turn_id"
    ]
    await say(place, session_id, "hold")
    await until(lambda: state(place, session_id, "running"))
    owned = host.supervisor.owned(session_id)
    assert owned is not None
    await owned.interrupt(earlier)
    assert owned.turn_id
    await owned.interrupt(owned.turn_id)
    assert not owned.turn_id


async def test_one_answer_reaches_the_runtime(place: Place) -> None:
    """The question travels with its exact detail and a digest; the second answer is told who was first."""
    await place.host_up()
    session_id = await started(place, "ask")
    await until(lambda: state(place, session_id, "waiting"))
    [approval] = (await view(place, session_id))["approvals"]
    assert approval["detail"] == {"run": "it"}
    body = {"option": "yes", "digest": approval["digest"]}
    await place.client.post(f"/v1/approvals/{approval['approval_id']}/answer", body)
    with pytest.raises(AlreadyAnswered):
        await place.client.post(f"/v1/approvals/{approval['approval_id']}/answer", {**body, "option": "no"})
    await until(lambda: state(place, session_id, "idle"))
    ends = [one["body"]["state"] for one in await place.events(session_id) if one["kind"] == "approval.ended"]
    assert ends == ["settled"]


async def test_two_continues_at_once_start_one_process(place: Place, root: Path) -> None:
    """The second joins the first's."""
    (root / "s.jsonl").write_bytes(row("user", "1", "hi", cwd=str(place.base)))
    host = await place.host_up()
    await until(lambda: place.session("s"))
    session = await place.session("s")
    assert session is not None
    where = f"/v1/sessions/{session['report']['session_id']}/continue"
    answers = await asyncio.gather(*(place.client.post(where) for _ in range(4)))
    assert {one["session_id"] for one in answers} == {session["report"]["session_id"]}
    runs = processes.tagged()
    live = [run for run in runs if run in host.supervisor._run_ids]
    assert len(live) == 1


async def test_a_session_that_somebody_holds_is_refused_with_who_and_what_instead(
    place: Place, root: Path
) -> None:
    """Also when the holder appears at the last moment, between the first check and the start."""
    (root / "s.jsonl").write_bytes(row("user", "1", "hi", cwd=str(place.base)))
    host = await place.host_up()
    await until(lambda: place.session("s"))
    session = await place.session("s")
    assert session is not None
    session_id = session["report"]["session_id"]
    owner = Owner(os.getpid(), 1.0, "Line in a terminal", evidence="it says so")
    discovery = place.vendor.discovery
    calls = 0

    def late() -> dict[str, Owner]:
        nonlocal calls
        calls += 1
        return {"s": owner} if calls > 1 else {}

    discovery.owners = late  # type: ignore[method-assign]
    with pytest.raises(HeldElsewhere) as refused:
        await host.supervisor.continue_(session_id)
    assert refused.value.details == {
        "who": "Line in a terminal",
        "pid": os.getpid(),
        "since": "1970-01-01T00:00:01.000Z",
        "instead": ["fork", "quote"],
    }
    assert host.supervisor.owned(session_id) is None


async def test_a_foreign_line_in_an_owned_file_makes_us_stop_writing(
    place: Place, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Warned, told, and nothing more is sent: what waits fails openly."""
    monkeypatch.setattr("ekiden.host.owned.FOREIGN_GRACE_S", 0.0)
    host = await place.host_up()
    session_id = await started(place, "hello")
    await until(lambda: state(place, session_id, "idle"))
    native_id = (await view(place, session_id))["session"]["report"]["native_id"]
    await until(lambda: (root / f"{native_id}.jsonl").exists())
    with (root / f"{native_id}.jsonl").open("ab") as file:
        file.write(row("noise", "t", "a title of the program's own"))
    await asyncio.sleep(0.2)
    assert host.supervisor.owned(session_id) is not None
    with (root / f"{native_id}.jsonl").open("ab") as file:
        file.write(row("user", "x", "typed elsewhere"))

    async def warned() -> bool:
        report = (await view(place, session_id))["session"]["report"]
        return "foreign_writer" in report.get("notices", ()) and report.get("rung", "file") == "file"

    await until(warned)
    assert host.supervisor.owned(session_id) is None


async def test_a_foreign_process_on_an_owned_session_makes_us_stop_too(place: Place) -> None:
    """By the vendor's own word, while our turn runs: the turn is finished, then we let go."""
    host = await place.host_up()
    session_id = await started(place, "hold")
    await until(lambda: state(place, session_id, "running"))
    native_id = (await view(place, session_id))["session"]["report"]["native_id"]
    place.vendor.discovery.held[native_id] = Owner(os.getpid(), 1.0, "Line in a terminal")
    host.catalogue._owners_now.set()
    owned = host.supervisor.owned(session_id)
    assert owned is not None
    await until(lambda: "foreign_writer" in owned.tracked.notices)
    message_id = await _send(place, session_id)
    await owned.interrupt(owned.turn_id)
    await until(lambda: host.supervisor.owned(session_id) is None)
    if message_id:

        async def failed() -> bool:
            return any(
                one["kind"] == "message.changed" and one["body"]["state"] == "failed"
                for one in await place.events(session_id)
            )

        await until(failed)


async def _send(place: Place, session_id: str) -> str:
    try:
        return await say(place, session_id, "one more")
    except EkidenError:
        return ""


async def test_the_own_process_in_the_vendors_registry_is_nobody_else(place: Place) -> None:
    """Our runtime registers itself too, and so may a child of it."""
    host = await place.host_up()
    session_id = await started(place, "hello")
    await until(lambda: state(place, session_id, "idle"))
    owned = host.supervisor.owned(session_id)
    assert owned is not None
    place.vendor.discovery.held[owned.tracked.native_id] = Owner(owned.runtime.pid, 1.0, "Line")
    await host.catalogue.check_owners(set())
    assert owned.tracked.owner is None
    await host.supervisor.continue_(session_id)


CRASHED = """
import asyncio, os, sys
from pathlib import Path
from ekiden.client.client import Client
from ekiden.host.main import Host, HostSettings
from tests.host.line_vendor import LineVendor
home, url, key, host_id, root = sys.argv[1:]
environment = {"HOME": home, "PATH": "/usr/bin:/bin"}
asyncio.run(Host(HostSettings(Path(home), "desk", environment, [LineVendor(Path(root))], vendors_from=""),
                 Client(url, key), host_id).run())
"""


async def test_survivors_of_a_killed_host_are_ended_and_never_doubled(place: Place, root: Path) -> None:
    """SIGKILL while a turn runs: the program and its children live on; the next host ends them before it starts
    anything for the session, says that the turn was lost, and places what waits."""
    home = place.base / "desk"
    home.mkdir()
    process = subprocess.Popen(  # noqa: ASYNC220 (it is killed, not awaited)
        [sys.executable, "-c", CRASHED, str(home), f"http://127.0.0.1:{place.port}", place._host_key,
         place.host_id,
         str(root)],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": os.getcwd()},
    )  # fmt: skip
    try:

        async def here() -> bool:
            return any(one["here"] for one in (await place.client.get("/v1/hosts"))["hosts"])

        await until(here)
        session_id = await started(place, "spawn")
        await until(lambda: len(sleeps(place)) >= 5)
        await until(lambda: state(place, session_id, "running"))
    finally:
        process.kill()
        process.wait()
    assert len(sleeps(place)) >= 5
    host = await place.host_up()
    await until(lambda: not tagged_sleeps(place))
    await say(place, session_id, "after")

    async def placed() -> bool:
        return "you said after" in await asked_and_said(place, session_id)

    await until(placed)
    texts = await asked_and_said(place, session_id)
    assert texts.count("spawn") == texts.count("after") == 1
    told = [one[0] for one in await turns(place, session_id)]
    assert "lost" in told
    assert len([run for run in processes.tagged() if run in host.supervisor._run_ids]) == 1
    untagged = [one for one in processes.all_processes().values() if one.command == "sleep 604"]
    for one in untagged:  # it had cleared its environment and lost its parent: nothing names its run any more
        os.kill(one.pid, signal.SIGKILL)


async def test_a_program_that_dies_fails_its_turn_and_the_next_message_starts_another(place: Place) -> None:
    """The reason is told; ownership stays."""
    host = await place.host_up()
    session_id = await started(place, "hold")
    await until(lambda: state(place, session_id, "running"))
    owned = host.supervisor.owned(session_id)
    assert owned is not None
    os.kill(owned.runtime.pid, signal.SIGKILL)
    await until(lambda: state(place, session_id, "idle"))
    assert ("failed", "Its program ended (exit code -9).") in await turns(place, session_id)
    await say(place, session_id, "again")

    async def answered() -> bool:
        return "you said again" in await asked_and_said(place, session_id)

    await until(answered)


async def test_what_grows_is_told_whole_to_a_hub_that_started_anew(place: Place) -> None:
    """A late joiner at the new hub has every byte that was told to the old one."""
    await place.host_up()
    session_id = await started(place, "hold")

    async def growing() -> bool:
        texts = [one["text"] for one in (await view(place, session_id))["growing"]]
        return texts == ["begun "]

    await until(growing)
    await place.hub_down()
    await place.hub_up()
    await until(growing)


async def test_a_quote_says_where_it_is_from_and_what_it_leaves_out(place: Place, root: Path) -> None:
    """A new session of the chosen vendor; the old one is untouched."""
    path = root / "s.jsonl"
    path.write_bytes(
        row("user", "1", "the question", cwd=str(place.base))
        + row("say", "2", "the answer")
        + row("call", "3", "tool")
    )
    before = path.read_bytes()
    await place.host_up()
    await until(lambda: place.session("s"))
    session = await place.session("s")
    assert session is not None
    body = {"vendor": "line", "message": "go on"}
    carried = await place.client.post(f"/v1/sessions/{session['report']['session_id']}/quote", body)
    assert carried["session_id"] != session["report"]["session_id"]

    async def sent() -> str:
        texts = await asked_and_said(place, carried["session_id"])
        return texts[0] if texts else ""

    text = str(await until(sent))
    assert "Line" in text
    assert "the question" in text
    assert "the answer" in text
    assert text.endswith("go on")
    report = (await view(place, carried["session_id"]))["session"]["report"]
    assert (report["origin"], report["parent_session_id"]) == ("quote", session["report"]["session_id"])
    assert path.read_bytes() == before


async def test_a_changing_request_that_is_repeated_is_answered_from_memory(place: Place) -> None:
    """The same command starts one session."""
    await place.host_up()
    body = {"host_id": place.host_id, "vendor": "line", "cwd": str(place.base), "message": "hi"}
    answers = [await place.client.post("/v1/sessions", body, command_id="once") for _ in range(3)]
    assert len({one["session_id"] for one in answers}) == 1
    assert len(await place.sessions()) == 1


@pytest.mark.parametrize("cwd", ["", "relative", "/nowhere/at/all"])
async def test_a_session_needs_a_folder_that_is_there(place: Place, cwd: str) -> None:
    """Refused before any process starts."""
    host = await place.host_up()
    body = {"host_id": place.host_id, "vendor": "line", "cwd": cwd}
    with pytest.raises(EkidenError):
        await place.client.post("/v1/sessions", body)
    assert not host.supervisor._run_ids


async def test_programs_get_what_they_need_and_no_secrets(tmp_path: Path) -> None:
    """An allow-list, each vendor's own prefixes, what Codex' configuration names, and the run's tag."""
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text(
        '[model_providers.x]\nenv_key = "X_KEY"\nenv_http_headers = { a = "X_HEADER" }\nrequires = 1\n'
    )
    given = {
        "HOME": str(tmp_path), "PATH": "/bin", "LC_ALL": "C", "XDG_CACHE_HOME": "/c", "https_proxy": "p",
        "OPENAI_API_KEY": "o", "CODEX_HOME": str(tmp_path / ".codex"), "X_KEY": "x", "X_HEADER": "h",
        "ANTHROPIC_API_KEY": "a", "CLAUDECODE": "1", "GITHUB_TOKEN": "secret", "DATABASE_URL": "secret",
    }  # fmt: skip
    codex = runtime_environment("codex", given, "run_1")
    assert set(codex) == {
        "HOME", "PATH", "LC_ALL", "XDG_CACHE_HOME", "https_proxy", "OPENAI_API_KEY", "CODEX_HOME", "X_KEY",
        "X_HEADER", RUN_TAG,
    }  # fmt: skip
    claude = runtime_environment("claude", given, "run_1")
    assert "ANTHROPIC_API_KEY" in claude
    assert not {"OPENAI_API_KEY", "GITHUB_TOKEN", "CLAUDECODE", "X_KEY"} & set(claude)


async def test_ids_of_what_grew_are_those_of_the_file(place: Place) -> None:
    """So that clients put the whole item in the place of the growing one."""
    await place.host_up()
    session_id = await started(place, "hold")

    async def growing() -> list[dict]:
        return (await view(place, session_id))["growing"]

    [grown] = await until(growing)  # type: ignore[misc]
    report = (await view(place, session_id))["session"]["report"]
    await place.client.post(f"/v1/sessions/{session_id}/interrupt", {"turn_id": report["turn_id"]})

    async def whole() -> bool:
        return grown["item_id"] in await place.told(session_id) and not await growing()

    await until(whole)
    assert grown["item_id"].startswith("itm_")
    assert item_id(report["native_id"], "nothing") != grown["item_id"]
