"""A real host with a real hub: sessions come, grow, change their form, go; nothing is lost, doubled or hidden."""

import asyncio
import ctypes
import errno
import os
from pathlib import Path

import pytest
import zstandard

from ekiden.host import watch
from ekiden.vendors.port import FoundFile, Owner

from .conftest import Place, until
from .line_vendor import item_id, row

pytestmark = pytest.mark.anyio


def add(path: Path, *rows: bytes) -> None:
    with path.open("ab") as file:
        file.write(b"".join(rows))


async def listed(place: Place, *native_ids: str) -> None:
    """Waits until exactly these sessions are listed."""

    async def right() -> bool:
        return {one["report"]["native_id"] for one in await place.sessions()} == set(native_ids)

    await until(right)


async def told_texts(place: Place, native_id: str) -> list[str]:
    session = await place.session(native_id)
    if session is None:
        return []
    items = await place.told(session["report"]["session_id"])
    return ["".join(block["text"] for block in item.get("content", ())) for item in items.values()]


async def test_what_is_there_shows_up_and_what_is_added_is_told_once(place: Place, root: Path) -> None:
    """History stays with the host and is read by pages; growth is told line by line."""
    path = root / "s.jsonl"
    path.write_bytes(b"".join(row("user", f"{n}", f"old {n}") for n in range(20)))
    await place.host_up()
    await listed(place, "s")
    for number in range(30):
        add(path, row("say", f"n{number}", f"new {number}"))
        await asyncio.sleep(0.005)

    async def all_told() -> bool:
        return await told_texts(place, "s") == [f"new {n}" for n in range(30)]

    await until(all_told)
    session = await place.session("s")
    assert session is not None
    session_id = session["report"]["session_id"]
    counts = [
        item["id"]
        for event in await place.events(session_id)
        if event["kind"] == "items.added"
        for item in event["body"]["items"]
    ]
    assert len(counts) == len(set(counts))
    page = await place.client.get(f"/v1/sessions/{session_id}/items", limit=100)
    assert len(page["items"]) == 50


async def test_a_new_session_in_a_new_dated_folder_is_told_from_its_first_line(place: Place, root: Path) -> None:
    """Folders that appear while we watch are watched, however deep."""
    await place.host_up()
    folder = root / "2026" / "12" / "01"
    folder.mkdir(parents=True)
    add(folder / "n.jsonl", row("user", "1", "first"))
    add(folder / "n.jsonl", row("say", "2", "second"))

    async def both() -> bool:
        return await told_texts(place, "n") == ["first", "second"]

    await until(both)


async def test_a_store_that_is_made_after_the_start_is_told_from_its_first_line(place: Place, root: Path) -> None:
    """The first session that a vendor's program ever makes here: its folders come with it."""
    place.vendor.discovery.root = root / "program" / "projects"
    await place.host_up()
    folder = place.vendor.discovery.root / "one"
    folder.mkdir(parents=True)
    add(folder / "n.jsonl", row("user", "1", "first"))

    async def one() -> bool:
        return await told_texts(place, "n") == ["first"]

    await until(one, 1.5)
    add(folder / "n.jsonl", row("say", "2", "second"))

    async def both() -> bool:
        return await told_texts(place, "n") == ["first", "second"]

    await until(both, 1.5)


async def test_a_file_that_comes_during_the_first_look_is_new(
    place: Place, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the host saw being made is told from its first line, also while it lists what was there before."""
    discovery = place.vendor.discovery
    (root / "old.jsonl").write_bytes(row("user", "1", "old"))
    files = discovery.files

    def slow() -> list[FoundFile]:
        if not (root / "new.jsonl").exists():
            (root / "new.jsonl").write_bytes(row("user", "1", "new"))
        return list(files())

    monkeypatch.setattr(discovery, "files", slow)
    await place.host_up()

    async def told() -> bool:
        return await told_texts(place, "new") == ["new"]

    await until(told)
    assert await told_texts(place, "old") == []


async def test_old_files_that_appear_are_history(place: Place, root: Path) -> None:
    """A store that is mounted or restored while the host runs is read by pages; what is added is told."""
    await place.host_up()
    path = root / "s.jsonl"
    path.with_name("hidden").write_bytes(row("user", "1", "old"))
    os.utime(path.with_name("hidden"), (1_000_000_000, 1_000_000_000))
    path.with_name("hidden").rename(path)
    await listed(place, "s")
    add(path, row("say", "2", "new"))

    async def told() -> bool:
        return await told_texts(place, "s") == ["new"]

    await until(told)


async def test_what_grew_while_nobody_followed_is_told_after_a_restart(place: Place, root: Path) -> None:
    """Also for a session of which the hub never held a mark: the host remembers where telling begins."""
    path = root / "s.jsonl"
    path.write_bytes(row("user", "1", "old"))
    await place.host_up()
    await listed(place, "s")
    await place.host_down()
    for number in range(2):
        add(path, row("say", f"m{number}", f"meanwhile {number}"))

        async def told(number: int = number) -> bool:
            return await told_texts(place, "s") == [f"meanwhile {n}" for n in range(number + 1)]

        await place.host_up()
        await until(told)
        await place.host_down()


async def test_what_a_sub_agent_does_is_told_live_and_once(place: Place, root: Path) -> None:
    """Under the main session, from its first line if it began while we watched; by a mark of its own, so that
    neither a hub nor a host that comes back loses or repeats any of it."""
    path, agent, old = root / "s.jsonl", root / "s@agent.jsonl", root / "s@old.jsonl"
    path.write_bytes(row("user", "0", "main"))
    old.write_bytes(row("say", "o", "old"))
    await place.host_up()
    await listed(place, "s")
    session = await place.session("s")
    assert session is not None
    session_id = session["report"]["session_id"]
    expected: list[str] = []

    async def told() -> bool:
        texts = [
            item["content"][0]["text"]
            for event in await place.events(session_id)
            if event["kind"] == "items.added"
            for item in event["body"]["items"]
        ]
        assert len(texts) == len(set(texts)), texts
        return sorted(texts) == sorted(expected)

    def say(file: Path, text: str) -> None:
        expected.append(text)
        add(file, row("say", text, text))

    say(agent, "a1")
    say(path, "m1")
    say(agent, "a2")
    say(old, "o2")
    await until(told)
    await place.hub_down()
    say(agent, "a3")
    say(path, "m2")
    await place.hub_up()
    await until(told)
    await place.host_down()
    say(agent, "a4")
    say(path, "m3")
    await place.host_up()
    await until(told)
    threads = {item["id"]: item.get("thread", "") for item in (await place.told(session_id)).values()}
    assert threads[item_id("s", "a4")] == "agent"
    assert threads[item_id("s", "m3")] == ""
    assert [one["report"]["native_id"] for one in await place.sessions()] == ["s"]


async def test_a_hub_that_is_away_and_comes_back_misses_nothing(place: Place, root: Path) -> None:
    """What was added meanwhile is read from the file by the hub's mark; once."""
    path = root / "s.jsonl"
    path.write_bytes(row("user", "0", "old"))
    await place.host_up()
    await listed(place, "s")
    add(path, row("say", "a", "before"))

    async def before() -> bool:
        return await told_texts(place, "s") == ["before"]

    await until(before)
    await place.hub_down()
    for number in range(50):
        add(path, row("say", f"w{number}", f"while {number}"))
    await place.hub_up()
    add(path, row("say", "z", "after"))

    async def all_told() -> bool:
        return await told_texts(place, "s") == ["before", *[f"while {n}" for n in range(50)], "after"]

    await until(all_told)


async def test_a_host_that_was_down_goes_on_at_the_hubs_mark(place: Place, root: Path) -> None:
    """A restart of the host neither loses nor repeats what was appended meanwhile."""
    path = root / "s.jsonl"
    path.write_bytes(row("user", "0", "old"))
    await place.host_up()
    await listed(place, "s")
    add(path, row("call", "c", "run"))

    async def one() -> bool:
        return len(await told_texts(place, "s")) == 1

    await until(one)
    await place.host_down()
    add(path, row("result", "c", "done"), row("say", "b", "meanwhile"))
    await place.host_up()

    async def both() -> bool:
        session = await place.session("s")
        assert session is not None
        items = await place.told(session["report"]["session_id"])
        return (
            set(items) == {item_id("s", "c"), item_id("s", "b")}
            and items[item_id("s", "c")]["tool"]["output"] == "done"
        )

    await until(both)


async def test_a_rewritten_file_is_told_anew_and_its_old_part_can_be_read(place: Place, root: Path) -> None:
    """Nothing of two contents is joined."""
    path = root / "s.jsonl"
    path.write_bytes(row("user", "0", "old"))
    await place.host_up()
    await listed(place, "s")
    await until(lambda: _imported(place))
    other = root / "other"
    other.write_bytes(row("user", "0", "renewed") + row("say", "1", "more"))
    other.rename(path)

    async def anew() -> bool:
        return await told_texts(place, "s") == ["renewed", "more"]

    await until(anew)
    session = await place.session("s")
    assert session is not None
    where = f"/v1/sessions/{session['report']['session_id']}/items"

    async def older() -> object:
        page = await place.client.get(where)
        return page if page["before"] else None

    page = await until(older)
    earlier = await place.client.get(where, before=page["before"])  # type: ignore[index]
    assert [item["content"][0]["text"] for item in earlier["items"]] == ["old"]


def _imported(place: Place) -> bool:
    from ekiden.host.store import indexed_share

    assert place.host is not None
    return place.host.outbox._store.read(indexed_share) == 1.0


async def test_a_deleted_file_leaves_a_session_that_can_be_read(place: Place, root: Path) -> None:
    """Source gone: listed as gone, read from the copy, found by the search. A store that vanishes whole changes
    nothing, and a file that comes back is followed again."""
    for name in ("a", "b", "c"):
        (root / f"{name}.jsonl").write_bytes(row("user", "1", f"text of {name}"))
    await place.host_up()
    await listed(place, "a", "b", "c")
    await until(lambda: _imported(place))
    (root / "a.jsonl").unlink()

    async def gone() -> bool:
        session = await place.session("a")
        return session is not None and session["state"] == "gone"

    await until(gone)
    session = await place.session("a")
    assert session is not None
    assert "source_gone" in session["report"]["notices"]
    page = await place.client.get(f"/v1/sessions/{session['report']['session_id']}/items")
    assert (page["from_copy"], page["items"][0]["content"][0]["text"]) == (True, "text of a")
    hits = (await place.client.get("/v1/search", text="text of a"))["hits"]
    assert [hit["session_id"] for hit in hits] == [session["report"]["session_id"]]
    root.rename(root.with_name("unmounted"))  # noqa: ASYNC240 (a test may wait for its disk)
    assert place.host is not None
    await place.host.catalogue.scan()
    states = {one["report"]["native_id"]: one["state"] for one in await place.sessions()}
    assert states == {"a": "gone", "b": "idle", "c": "idle"}
    root.with_name("unmounted").rename(root)
    (root / "a.jsonl").write_bytes(row("user", "1", "text of a") + row("say", "2", "back"))
    await place.host.catalogue.scan()

    async def back() -> bool:
        session = await place.session("a")
        return session is not None and session["state"] == "idle" and "back" in await told_texts(place, "a")

    await until(back)


async def test_a_session_that_changes_its_form_stays_one_session(place: Place, root: Path) -> None:
    """Plain, both, compressed with a temporary file beside, moved to another folder, plain again and growing."""
    path, packed = root / "s.jsonl", root / "s.jsonl.zst"
    first = row("user", "1", "one")
    path.write_bytes(first)
    await place.host_up()
    assert place.host is not None
    await listed(place, "s")
    (root / "s.jsonl.zst.compress.1.0.tmp").write_bytes(b"half")
    packed.write_bytes(zstandard.ZstdCompressor().compress(first))
    await place.host.catalogue.scan()
    path.unlink()
    (root / "s.jsonl.zst.compress.1.0.tmp").unlink()

    async def compressed() -> bool:
        session = await place.session("s")
        return session is not None and "compressed" in session["report"].get("notices", ())

    await until(compressed)
    (root / "archive").mkdir()
    packed.rename(root / "archive" / packed.name)
    await place.host.catalogue.scan()
    session = await place.session("s")
    assert session is not None
    assert session["state"] == "idle"
    page = await place.client.get(f"/v1/sessions/{session['report']['session_id']}/items")
    assert [item["content"][0]["text"] for item in page["items"]] == ["one"]
    (root / "archive" / packed.name).unlink()
    path.write_bytes(first + row("say", "2", "two"))
    await place.host.catalogue.scan()

    async def grown() -> bool:
        return await told_texts(place, "s") == ["two"]

    await until(grown)
    assert len(await place.sessions()) == 1


async def test_projects_come_from_the_lines_and_stay_apart(place: Place, root: Path, tmp_path: Path) -> None:
    """Never from folder names; a worktree counts as its repository; the counts are the same after more scans."""
    top = tmp_path / "repo"
    (top / ".git" / "worktrees" / "w").mkdir(parents=True)
    (top / "src").mkdir()
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {top}/.git/worktrees/w\n")
    cwds = {"a": "/x/my_app", "b": "/x/my-app", "c": "/x/my.app", "d": "/x/my/app", "e": "/x/数据", "f": "/x/项目"}
    cwds |= {"g": str(top / "src"), "h": str(tree), "i": "/" + "long/" * 60}
    folder = root / "-x-my-app"
    folder.mkdir()
    for name, cwd in cwds.items():
        (folder / f"{name}.jsonl").write_bytes(row("user", "1", name, cwd=cwd))
    await place.host_up()
    await listed(place, *cwds)
    assert place.host is not None
    for _ in range(3):
        await place.host.catalogue.scan()
    projects = {one["report"]["native_id"]: one["report"]["project"] for one in await place.sessions()}
    assert projects == {**cwds, "g": str(top), "h": str(top)}


async def test_helpers_and_empty_files_are_no_sessions_and_unknown_forms_are_seen(
    place: Place, root: Path
) -> None:
    """A helper's run and a file without a message are left out, however often we look; a form that cannot be read
    is listed as such."""
    (root / "helper.jsonl").write_bytes(row("user", "1", "summarise", helper=True))
    (root / "title.jsonl").write_bytes(row("noise", "1", "only a title"))
    (root / "zero.jsonl").write_bytes(b"")
    (root / "new.jsonl").write_bytes(row("future", "1", "x") * 5)
    (root / "real.jsonl").write_bytes(row("user", "1", "hi"))
    (root / "real@agent.jsonl").write_bytes(row("user", "1", "of a sub-agent"))
    await place.host_up()
    await listed(place, "real", "new")
    assert place.host is not None
    for _ in range(3):
        await place.host.catalogue.scan()
    await listed(place, "real", "new")
    session = await place.session("new")
    assert session is not None
    assert session["report"]["drift"] == "nothing_parsed"


async def test_who_holds_a_session_is_shown_and_a_turn_without_writer_is_lost(place: Place, root: Path) -> None:
    """Running only while the writer is proven alive."""
    path = root / "s.jsonl"
    path.write_bytes(row("user", "1", "go", open=True))
    owner = Owner(os.getpid(), 1.0, "Line in a terminal", busy=True, evidence="it says so")
    place.vendor.discovery.held["s"] = owner
    await place.host_up()

    async def state(wanted: str) -> bool:
        session = await place.session("s")
        return session is not None and session["state"] == wanted

    await until(lambda: state("running"))
    session = await place.session("s")
    assert session is not None
    assert (session["report"]["rung"], session["report"]["holder"]["pid"]) == ("held", os.getpid())
    whys = {one["name"]: one.get("why", "") for one in session["report"]["abilities"]}
    assert (whys["continue"], whys["interrupt"], whys["quote"]) == ("held_elsewhere", "held_elsewhere", "")
    place.vendor.discovery.held.clear()
    await until(lambda: state("lost"))
    session = await place.session("s")
    assert session is not None
    assert session["report"]["proof_at"]
    add(path, row("say", "2", "done", open=False))
    await until(lambda: state("idle"))


async def test_without_watches_changes_are_found_by_looking_and_it_says_so(
    place: Place, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No watches left after some: new sessions and growth still come, with the notice."""
    monkeypatch.setattr("ekiden.host.catalogue.SWEEP_POLLING_S", 0.1)
    added = 0
    real = ctypes.CDLL(None, use_errno=True).inotify_add_watch

    def scarce(descriptor: int, path: bytes, mask: int) -> int:
        nonlocal added
        added += 1
        if added > 2:
            ctypes.set_errno(errno.ENOSPC)
            return -1
        return real(descriptor, path, mask)

    monkeypatch.setattr("ekiden.host.watch.add_watch_of", lambda _: scarce)
    for number in range(5):
        (root / f"d{number}").mkdir()
    (root / "d4" / "s.jsonl").write_bytes(row("user", "1", "old"))
    await place.host_up()
    await listed(place, "s")
    add(root / "d4" / "s.jsonl", row("say", "2", "new"))
    add(root / "d3" / "t.jsonl", row("user", "1", "other"))

    async def both() -> bool:
        return await told_texts(place, "s") == ["new"] and await told_texts(place, "t") == ["other"]

    await until(both)

    async def said() -> bool:
        session = await place.session("s")
        return session is not None and "polling" in session["report"].get("notices", ())

    await until(said)


async def test_a_lost_stretch_of_events_is_made_good_by_a_look(place: Place, root: Path) -> None:
    """When the kernel says that it dropped events, everything is looked at."""
    await place.host_up()
    assert place.host is not None
    watcher = place.host.catalogue._watcher
    assert watcher.count == 1
    asyncio.get_running_loop().remove_reader(watcher._descriptor)
    add(root / "s.jsonl", row("user", "1", "unheard"))
    place.host.catalogue._heard(watch.Changes(frozenset(), frozenset(), missed=True))

    async def told() -> bool:
        return await told_texts(place, "s") == ["unheard"]

    await until(told)
    asyncio.get_running_loop().add_reader(watcher._descriptor, watcher._read)


async def test_thousands_of_files_are_listed_while_the_loop_stays_free(place: Place, root: Path) -> None:
    """A large store at the start: all are listed, newest first, and other work on the loop goes on meanwhile."""
    for number in range(1500):
        path = root / f"s{number}.jsonl"
        path.write_bytes(row("user", "1", f"text {number}"))
    waits: list[float] = []
    loop = asyncio.get_running_loop()

    async def beat() -> None:
        while True:
            began = loop.time()
            await asyncio.sleep(0.01)
            waits.append(loop.time() - began)

    beating = asyncio.create_task(beat())
    await place.host_up()

    async def all_there() -> bool:
        return (await place.client.get("/v1/sessions", limit=1))["total"] == 1500

    await until(all_there, 60)
    beating.cancel()
    assert len(waits) > 20


async def test_a_second_host_on_the_same_home_is_refused(place: Place) -> None:
    """One host per data folder."""
    from ekiden.host.main import Host, HostSettings
    from ekiden.kernel.errors import StoreHeld

    host = await place.host_up()
    with pytest.raises(StoreHeld):
        await Host(HostSettings(host.settings.home, "x", {}, []), place.client, "hos_x").run()


async def test_an_idle_open_line_is_told_as_provisional(
    place: Place, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its whole form replaces it."""
    monkeypatch.setattr("ekiden.host.tails.PROVISIONAL_AFTER_S", 0.3)
    path = root / "s.jsonl"
    path.write_bytes(row("user", "1", "old"))
    await place.host_up()
    await listed(place, "s")
    line = row("say", "2", "open")
    add(path, line[:-1])

    async def shown() -> dict | None:
        session = await place.session("s")
        assert session is not None
        return (await place.told(session["report"]["session_id"])).get(item_id("s", "2"))

    item = await until(shown)
    assert item["provisional"]  # type: ignore[index]
    add(path, b"\n")

    async def whole() -> bool:
        item = await shown()
        return item is not None and not item.get("provisional")

    await until(whole)
