"""Files that are half written, compressed, moved, cut, replaced and deleted while they are followed."""

import os
import shutil
from pathlib import Path

import pytest
import zstandard

from cases.desk import Desk, thread_id
from vendors.claude.files import assistant, encode, user
from vendors.codex.files import joined, meta, written

pytestmark = pytest.mark.anyio

S1, S2, S3 = (thread_id(n) for n in (1, 2, 3))


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


async def texts_are(desk: Desk, native_id: str, expected: list[str]) -> None:
    async def right() -> bool:
        return await desk.texts(native_id) == expected

    await desk.until(right, f"{native_id} reads {expected}")


@pytest.mark.parametrize("character", ["é", "漢", "😀"])
async def test_a_line_is_told_when_it_is_whole_wherever_it_was_cut(desk: Desk, character: str) -> None:
    """Cut inside a character, at each of its bytes: nothing before the newline, then exactly one item; so too when
    the host is started anew in the gap."""
    path = desk.claude(S1, encode([user("u0", None, "old")]))
    await desk.up()
    await desk.read(S1)
    expected = []
    for cut in range(1, len(character.encode())):
        text = f"caf{character} {cut}"
        line = encode([user(f"u{cut}", f"u{cut - 1}", text)])
        at = line.index(character.encode()) + cut
        append(path, line[:at])
        if cut == 1:
            await desk.host_down()
            await desk.host_up()
            await desk.read(S1)
        marker = desk.claude(thread_id(100 + cut), encode([user("m", None, f"marker {cut}")]))

        async def seen(marker: Path = marker) -> bool:
            return await desk.find(marker.stem) is not None

        await desk.until(seen)  # what was written later has been seen
        assert [item.text() for item in (await desk.told(S1)).values()] == expected
        append(path, line[at:])
        expected.append(text)

        async def told() -> bool:
            return [item.text() for item in (await desk.told(S1)).values()] == expected

        await desk.until(told)
    events = [one for one in await desk.events((await desk.read(S1)).session_id) if one["kind"] == "items.added"]
    assert sum(len(one["body"]["items"]) for one in events) == len(expected)
    assert await desk.texts(S1) == ["old", *expected]


async def test_a_rollout_through_all_its_forms_is_one_session(desk: Desk) -> None:
    """Compressed while it is followed, both for a while, beside a temporary file; archived; then plain again and
    growing: listed once throughout, never gone, nothing twice."""
    rows = [meta(S1), written("user", "one"), written("assistant", "two")]
    plain = desk.codex(S1, joined(rows))
    await desk.up()
    await desk.read(S1)
    packed = zstandard.ZstdCompressor().compress(joined(rows))
    compressed = plain.with_name(f"{plain.name}.zst")
    archived = desk.home / ".codex" / "archived_sessions" / compressed.name
    archived.parent.mkdir()
    seen: list[list[tuple[str, str]]] = []

    async def look(*expected: str) -> None:
        assert desk.host is not None
        await desk.host.catalogue.scan()
        seen.append([(one.native_id, one.state) for one in await desk.sessions()])
        await texts_are(desk, S1, list(expected))

    plain.with_name(f"{plain.name}.zst.compress.1.0.tmp").write_bytes(packed[:10])
    await look("one", "two")
    compressed.write_bytes(packed)
    await look("one", "two")
    plain.unlink()
    await look("one", "two")
    shutil.move(compressed, archived)
    await look("one", "two")
    archived.unlink()
    plain.write_bytes(joined(rows))
    append(plain, written("user", "three") + b"\n")
    await look("one", "two", "three")
    assert seen == [[(S1, "idle")]] * len(seen)

    async def told() -> bool:
        return [item.text() for item in (await desk.told(S1)).values()].count("three") == 1

    await desk.until(told)


async def test_a_compressed_file_that_breaks_off_shows_what_can_be_read_and_says_so(desk: Desk) -> None:
    """One session, with its beginning and a notice; with the file whole again nothing is there twice."""
    said = ["one", "two", *(f"more {number} {os.urandom(1_000).hex()}" for number in range(300))]
    rows = [meta(S1), *(written("user" if n % 2 == 0 else "assistant", text) for n, text in enumerate(said))]
    packed = zstandard.ZstdCompressor().compress(joined(rows))
    path = desk.codex(S1, packed[: len(packed) // 2], suffix=".jsonl.zst")
    await desk.up()

    async def broken() -> bool:
        report = await desk.find(S1)
        if report is None:
            return False
        page = await desk.client.get(f"/v1/sessions/{report.session_id}/items", limit=5)
        return "compressed_cut" in page.get("notices", ())

    await desk.until(broken, "that the frame is broken is said")
    assert (await desk.texts(S1))[:2] == ["one", "two"]
    path.write_bytes(packed)
    await texts_are(desk, S1, said)
    assert len(await desk.sessions()) == 1


@pytest.mark.parametrize("how", ["cut", "renamed over", "made anew", "rewritten in place"])
async def test_other_bytes_under_the_same_name_are_never_joined_with_the_old(desk: Desk, how: str) -> None:
    """The file is read anew and its former content stays readable before it."""
    old = [f"old {number}" for number in range(60)]
    path = desk.claude(S1, encode([user(f"o{n}", None, text) for n, text in enumerate(old)]))
    await desk.up()
    await desk.read(S1)
    size = path.stat().st_size
    new = encode([user(f"n{n}", None, f"new {n}") for n in range(10 if how == "cut" else 80)])
    if how == "rewritten in place":
        new = encode([user(f"n{n}", None, f"new {n}") for n in range(60)])
        assert len(new) == size
    if how in ("cut", "rewritten in place"):
        with path.open("r+b") as file:
            file.truncate(0) if how == "cut" else None
            file.write(new)
    else:
        other = path.with_name("other")
        other.write_bytes(new)
        if how == "made anew":
            path.rename(path.with_name("away"))
        other.rename(path)
    count = new.count(b"\n")

    async def anew() -> bool:
        texts = await desk.texts(S1)
        return texts[-count:] == [f"new {n}" for n in range(count)]

    await desk.until(anew)
    texts = await desk.texts(S1)
    assert texts in ([f"new {n}" for n in range(count)], [*old, *(f"new {n}" for n in range(count))])

    async def both() -> bool:
        return await desk.texts(S1) == [*old, *(f"new {n}" for n in range(count))]

    await desk.until(both, "the former content stays before it")


async def test_what_the_vendor_deletes_stays_readable_here(desk: Desk) -> None:
    """Two of three files go: the sessions stay, marked, readable, found by search. The whole store goes: nothing
    changes. Another file under a name that is gone is read as what it is now, its former content before it."""
    files = {
        name: desk.claude(name, encode([user("u", None, f"words of {name}"), assistant("a", "u", "read")]))
        for name in (S1, S2, S3)
    }
    await desk.up()
    for name in files:
        await desk.read(name)
    files[S1].unlink()
    files[S2].unlink()

    async def marked() -> bool:
        reports = {one.native_id: one for one in await desk.sessions()}
        return [reports[name].state for name in (S1, S2, S3)] == ["gone", "gone", "idle"]

    await desk.until(marked)
    assert "source_gone" in (await desk.read(S1)).notices
    assert await desk.texts(S1) == [f"words of {S1}", "read"]
    assert sorted(await desk.finds("words of")) == [S1, S2, S3]
    assert desk.host is not None
    root, away = desk.claude_root, desk.claude_root.with_name("away")
    root.rename(away)
    await desk.host.catalogue.scan()
    assert len(await desk.sessions()) == 3
    assert {one.native_id: one.state for one in await desk.sessions()}[S3] == "idle"
    away.rename(root)
    files[S1].write_bytes(encode([user("v", None, "born again"), assistant("w", "v", "seen")]))
    await desk.host.catalogue.scan()

    async def back() -> bool:
        report = await desk.find(S1)
        return report is not None and report.state == "idle" and (await desk.texts(S1))[-1] == "seen"

    await desk.until(back)
    assert await desk.texts(S1) in (["born again", "seen"], [f"words of {S1}", "read", "born again", "seen"])
    await desk.host_down()
    await desk.host_up()
    assert len(await desk.sessions()) == 3
    assert await desk.texts(S2) == [f"words of {S2}", "read"]
