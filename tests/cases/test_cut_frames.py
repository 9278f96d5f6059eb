"""Compressed sessions that break off before the first line, and what becomes of them."""

import os
from pathlib import Path

import pytest
import zstandard

from cases.desk import Desk, thread_id
from vendors.codex.files import joined, meta, written

pytestmark = pytest.mark.anyio

S1 = thread_id(1)


def rollout() -> bytes:
    return joined([meta(S1), written("user", f"one {os.urandom(50_000).hex()}"), written("assistant", "two")])


def cut_in_first_block(data: bytes) -> bytes:
    packed = zstandard.ZstdCompressor().compress(data)
    cut = packed[:200]
    assert zstandard.ZstdDecompressor().decompressobj().decompress(cut) == b""
    return cut


def put(path: Path, data: bytes) -> None:
    """The whole file appears at once."""
    other = Path(f"{path}.tmp")
    other.write_bytes(data)
    other.rename(path)


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


async def said_cut(desk: Desk) -> bool:
    report = await desk.find(S1)
    return report is not None and "compressed_cut" in report.notices


async def test_a_frame_that_gives_no_line_is_listed_and_says_so(desk: Desk) -> None:
    """Named by its file; after a start anew too. Whole again, it is read and the notice is gone."""
    data = rollout()
    path = desk.codex(S1, cut_in_first_block(data), suffix=".jsonl.zst")
    await desk.up()
    await desk.until(lambda: said_cut(desk))
    await desk.host_down()
    await desk.host_up()
    await desk.until(lambda: said_cut(desk))
    path.write_bytes(zstandard.ZstdCompressor().compress(data))

    async def whole() -> bool:
        return (await desk.texts(S1))[1:] == ["two"] and not await said_cut(desk)

    await desk.until(whole)
    assert len(await desk.sessions()) == 1


@pytest.mark.parametrize("beside", [False, True], ids=["instead of it", "beside it"])
@pytest.mark.parametrize("known", [False, True], ids=["first seen cut", "known before"])
async def test_a_plain_file_that_is_back_after_a_cut_frame_is_read_at_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, beside: bool, known: bool
) -> None:
    """Whether the broken frame stays beside it or not, and also if the frame is written to again; what is appended
    to the plain file is told. Without a look at the whole store."""
    monkeypatch.setattr("ekiden.host.catalogue.SWEEP_S", 3600.0)
    data = rollout()
    packed = desk.codex(S1, b"", suffix=".jsonl.zst")
    plain = packed.with_suffix("")
    packed.unlink()
    if known:
        plain.write_bytes(data)
    else:
        packed.write_bytes(cut_in_first_block(data))
    await desk.up()
    if known:
        await desk.read(S1)
        packed.write_bytes(cut_in_first_block(data))
        plain.unlink()
    await desk.until(lambda: said_cut(desk))
    put(plain, data)
    if beside:
        packed.write_bytes(cut_in_first_block(data) + b"more")
    else:
        packed.unlink()

    async def whole() -> bool:
        report = await desk.find(S1)
        assert report is not None
        shown = report.file == str(plain) and not await said_cut(desk) and "compressed" not in report.notices
        return shown and (await desk.texts(S1))[-1:] == ["two"] and len(await desk.texts(S1)) in (2, 4)

    await desk.until(whole)
    append(plain, written("user", "three") + b"\n")

    async def told() -> bool:
        return [item.text() for item in (await desk.told(S1)).values()].count("three") == 1

    await desk.until(told)
    assert (await desk.texts(S1))[-2:] == ["two", "three"]
    assert len(await desk.sessions()) == 1
