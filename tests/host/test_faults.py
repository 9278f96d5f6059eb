"""A fault stays where it is: with its file, its vendor's store, its host."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from ekiden.sessions.wire import SessionState
from ekiden.transcript.items import Item
from ekiden.transcript.reading import Line

from .conftest import Place, until
from .line_vendor import LineFold, row

pytestmark = pytest.mark.anyio


def add(path: Path, *rows: bytes) -> None:
    with path.open("ab") as file:
        file.write(b"".join(rows))


async def texts_told(place: Place, native_id: str) -> list[str]:
    session = await place.session(native_id)
    if session is None:
        return []
    items = await place.told(session["report"]["session_id"])
    return ["".join(block["text"] for block in item.get("content", ())) for item in items.values()]


async def notices(place: Place, native_id: str) -> list[str] | None:
    session = await place.session(native_id)
    return None if session is None else session["report"].get("notices", [])


@pytest.mark.parametrize("how", ["the reader fails", "the file is barred"])
async def test_a_file_that_cannot_be_read_says_so_and_the_others_go_on(
    place: Place,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    how: str,
) -> None:
    """Its session has a notice, the reason is logged once however often it is tried, and once it can be read
    all of it is told, once."""
    bad, good = root / "bad.jsonl", root / "good.jsonl"
    for path in (bad, good):
        path.write_bytes(row("user", "0", f"old {path.stem}"))
    host = await place.host_up()

    async def both() -> bool:
        return {one["report"]["native_id"] for one in await place.sessions()} == {"bad", "good"}

    await until(both)
    feed = LineFold.feed

    def failing(fold: LineFold, line: Line) -> list[Item]:
        if b"poison" in line.raw:
            raise ZeroDivisionError("unforeseen")
        return feed(fold, line)

    elsewhere = root.parent / "elsewhere"
    if how == "the reader fails":
        monkeypatch.setattr(LineFold, "feed", failing)
        add(bad, row("say", "1", "poison"))
    else:
        elsewhere.write_bytes(bad.read_bytes() + row("say", "1", "poison"))
        bad.unlink()
        bad.symlink_to(elsewhere)

    async def said() -> bool:
        return "unreadable_now" in (await notices(place, "bad") or ())

    await until(said)
    for number in range(3):
        await host.catalogue.scan()
        add(good, row("say", f"{number + 1}", f"{number}"))

        async def told(number: int = number) -> bool:
            return await texts_told(place, "good") == [f"{n}" for n in range(number + 1)]

        await until(told)
    assert await said()
    logged = [one for one in caplog.records if "cannot be read now" in one.getMessage()]
    assert len(logged) == 1
    if how == "the reader fails":
        monkeypatch.setattr(LineFold, "feed", feed)
    else:
        bad.unlink()
        elsewhere.rename(bad)
    await host.catalogue.scan()

    async def over() -> bool:
        return await notices(place, "bad") == [] and await texts_told(place, "bad") == ["poison"]

    await until(over)


async def test_a_session_that_can_never_be_read_is_listed_with_a_notice(
    place: Place, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reader fails at the first look, so there is neither title nor message: it is not hidden for that."""

    def failing(_fold: LineFold, _line: Line) -> list[Item]:
        raise ZeroDivisionError("unforeseen")

    feed = LineFold.feed
    monkeypatch.setattr(LineFold, "feed", failing)
    (root / "s.jsonl").write_bytes(row("user", "0", "hello"))
    host = await place.host_up()

    async def said() -> bool:
        return await notices(place, "s") == ["unreadable_now"]

    await until(said)
    monkeypatch.setattr(LineFold, "feed", feed)
    await host.catalogue.scan()

    async def read() -> bool:
        session = await place.session("s")
        assert session is not None
        return session["report"].get("notices", []) == [] and session["report"]["title"] == "hello"

    await until(read)


@pytest.mark.parametrize("what", ["files", "titles", "owners"])
async def test_a_store_that_cannot_be_looked_through_leaves_what_is_known(
    place: Place, root: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The host goes on and follows; the store is looked through again at the next look; the host's report says so
    meanwhile."""
    path = root / "s.jsonl"
    path.write_bytes(row("user", "0", "old"))
    host = await place.host_up()

    async def listed() -> bool:
        return await place.session("s") is not None

    await until(listed)

    def failing() -> Mapping[str, str]:
        raise ZeroDivisionError("unforeseen")

    with monkeypatch.context() as patch:
        patch.setattr(place.vendor.discovery, what, failing)
        await host.catalogue.scan()
        await host.catalogue.check_owners(set())
        assert [vendor for vendor, _ in host.catalogue.faults] == ["line"]
        add(path, row("say", "1", "new"))

        async def told() -> bool:
            return await texts_told(place, "s") == ["new"]

        await until(told)
        session = await place.session("s")
        assert session is not None
        assert session["report"].get("state") != SessionState.GONE
    await host.catalogue.scan()
    await host.catalogue.check_owners(set())
    assert host.catalogue.faults == {}


async def test_a_session_keeps_the_title_it_was_begun_with(place: Place, root: Path) -> None:
    """Looks at the store, of which the vendor has no title, do not take it away; what the vendor has is better."""
    host = await place.host_up()
    tracked = host.catalogue.tracked("line", "s")
    tracked.origin, tracked.given_title = "fork", "What it came from"
    (root / "s.jsonl").write_bytes(row("user", "0", "Go on"))
    await host.catalogue.scan()
    await host.catalogue.scan()

    async def title_is(title: str) -> bool:
        session = await place.session("s")
        return session is not None and session["report"]["title"] == title

    await until(lambda: title_is("What it came from"))
    place.vendor.discovery.titles = lambda: {"s": "Named by a person"}
    await host.catalogue.scan()
    await until(lambda: title_is("Named by a person"))


async def test_a_task_that_fails_ends_all_of_the_host(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """So that it can be started again: nothing of it works on beside the next one."""
    caplog.set_level(logging.CRITICAL, logger="asyncio")
    before = asyncio.all_tasks()
    host = await place.host_up()

    def failing(*_: object) -> None:
        raise ZeroDivisionError("unforeseen")

    host.catalogue.check_owners = failing
    host.catalogue._owners_now.set()
    task = place._task
    assert task is not None
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(asyncio.shield(task), 20)
    await host.client.close()
    left = [one for one in asyncio.all_tasks() - before if "/ekiden/host/" in one.get_coro().cr_code.co_filename]
    assert left == []
    place._task = None
    await place.host_up()
