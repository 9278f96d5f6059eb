"""One file followed, whatever happens to it."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from ekiden.host.follow import Tail, parse_mark
from ekiden.host.unpacked import CUT_FRAME, Opener
from ekiden.kernel.errors import NotFound
from ekiden.transcript.items import Item
from ekiden.transcript.reading import Facts, Line

from .line_vendor import LineFold, LineVendor, row


def tail_of(vendor: LineVendor, opener: Opener, path: Path) -> Tail:
    file = vendor.discovery.recognise(path)
    assert file is not None
    return Tail(vendor, file, opener, head="", revision=0, offset=0)


def texts(items: list[Item]) -> list[str]:
    return [item.text() for item in items]


@pytest.mark.parametrize("letter", ["é", "喜", "😀"])
def test_half_a_line_is_not_read_before_its_newline(
    vendor: LineVendor, opener: Opener, root: Path, letter: str
) -> None:
    """Cut at every byte, inside a character too: nothing before the newline, then one exact message."""
    whole = row("user", "2", f"caf{letter}")
    for cut in range(1, len(whole)):
        path = root / f"s{cut}.jsonl"
        path.write_bytes(row("user", "1", "first"))
        tail = tail_of(vendor, opener, path)
        assert texts(tail.read().items) == ["first"]
        mark = tail.mark
        with path.open("ab") as file:
            file.write(whole[:cut])
        assert tail.read().items == []
        assert tail.mark == mark
        with path.open("ab") as file:
            file.write(whole[cut:])
        assert texts(tail.read().items) == [f"caf{letter}"]
        assert tail.read().items == []


def test_a_restart_at_any_mark_neither_loses_nor_repeats(vendor: LineVendor, opener: Opener, root: Path) -> None:
    """A second reader at the first one's mark has exactly the rest, with results under their calls."""
    path = root / "s.jsonl"
    rows = [row("user", "1", "a"), row("call", "2", "run"), row("say", "3", "b"), row("result", "2", "done")]
    path.write_bytes(b"")
    for cut in range(len(rows) + 1):
        path.write_bytes(b"".join(rows[:cut]))
        first = tail_of(vendor, opener, path)
        before = first.read().items
        mark = parse_mark(first.mark) if cut else None
        path.write_bytes(b"".join(rows))
        second = Tail(
            vendor,
            first.file,
            opener,
            head=mark.head if mark else "",
            revision=0,
            offset=mark.offset if mark else 0,
        )
        merged = {item.id: item for item in [*before, *second.read().items]}
        assert len(merged) == 3
        tool = next(item.tool for item in merged.values() if item.tool)
        assert tool.output == "done"


def test_an_idle_open_line_is_shown_as_provisional_and_its_end_replaces_it(
    vendor: LineVendor, opener: Opener, root: Path
) -> None:
    """The position stays before it; the whole line has the same id."""
    path = root / "s.jsonl"
    path.write_bytes(row("user", "1", "a") + row("say", "2", "b")[:-1])
    tail = tail_of(vendor, opener, path)
    assert texts(tail.read().items) == ["a"]
    [shown] = tail.open_line()
    assert (shown.text(), shown.provisional) == ("b", True)
    with path.open("ab") as file:
        file.write(b"\n")
    [whole] = tail.read().items
    assert (whole.id, whole.provisional) == (shown.id, False)


def _truncate(path: Path, new: bytes) -> None:
    path.write_bytes(new)


def _rename_over(path: Path, new: bytes) -> None:
    other = path.with_name("other")
    other.write_bytes(new)
    other.rename(path)


def _create_anew(path: Path, new: bytes) -> None:
    path.rename(path.with_name("old"))
    path.write_bytes(new)


def _in_place(path: Path, new: bytes) -> None:
    status = path.stat()
    with path.open("r+b") as file:
        file.write(new)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("change", [_truncate, _rename_over, _create_anew, _in_place])
@pytest.mark.parametrize("length", ["shorter", "same", "longer"])
def test_other_bytes_begin_a_new_revision(
    vendor: LineVendor, opener: Opener, root: Path, change: object, length: str
) -> None:
    """Cut, replaced or rewritten, longer or not: all of the new is read, and nothing of the old with it."""
    path = root / "s.jsonl"
    path.write_bytes(row("noise", "0") + b"".join(row("user", f"{n}", f"old {n:03}") for n in range(200)))
    tail = tail_of(vendor, opener, path)
    tail.read()
    count = {"shorter": 50, "same": 200, "longer": 300}[length]
    if change is _in_place and length == "shorter":
        return
    change(path, row("noise", "0") + b"".join(row("user", f"{n}", f"new {n:03}") for n in range(count)))  # type: ignore[operator]
    growth = tail.read()
    assert growth.rewritten
    assert tail.revision == 1
    assert texts(growth.items) == [f"new {n:03}" for n in range(count)]


def test_an_inode_that_carries_the_same_bytes_is_the_same_file(
    vendor: LineVendor, opener: Opener, root: Path
) -> None:
    """An editor that saves anew, or a restored backup, is no new revision: only what was added is read."""
    path = root / "s.jsonl"
    path.write_bytes(row("user", "1", "a"))
    tail = tail_of(vendor, opener, path)
    tail.read()
    _rename_over(path, row("user", "1", "a") + row("say", "2", "b"))
    growth = tail.read()
    assert (growth.rewritten, texts(growth.items)) == (False, ["b"])


def test_a_file_that_is_compressed_and_back_goes_on(vendor: LineVendor, opener: Opener, root: Path) -> None:
    """The mark is of the content, so the session continues where it was in either form."""
    plain, packed = root / "s.jsonl", root / "s.jsonl.zst"
    first, second = row("user", "1", "a"), row("say", "2", "b")
    plain.write_bytes(first)
    tail = tail_of(vendor, opener, plain)
    tail.read()
    packed.write_bytes(zstandard.ZstdCompressor().compress(first))
    plain.unlink()
    file = vendor.discovery.recognise(packed)
    assert file is not None
    tail.file = file
    growth = tail.read()
    assert (growth.items, growth.rewritten) == ([], False)
    plain.write_bytes(first + second)
    file = vendor.discovery.recognise(plain)
    assert file is not None
    tail.file = file
    growth = tail.read()
    assert (texts(growth.items), growth.rewritten, tail.revision) == (["b"], False, 0)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_cut_frame_gives_its_readable_part_and_says_so(
    vendor: LineVendor, opener: Opener, root: Path, share: float
) -> None:
    """Never an error and never silent; two frames in a row are one file."""
    data = b"".join(row("user", f"{n}", os.urandom(40).hex()) for n in range(20_000))
    frame = zstandard.ZstdCompressor().compress(data)
    path = root / "s.jsonl.zst"
    path.write_bytes(frame[: int(len(frame) * share)])
    file = vendor.discovery.recognise(path)
    assert file is not None
    with opener.open(vendor, file) as opened:
        assert CUT_FRAME in opened.notices
        got = opened.source.read(0, opened.source.size())
        assert data.startswith(got)
        assert len(got) >= len(data) * (share - 0.1)
    path.write_bytes(frame + zstandard.ZstdCompressor().compress(b"more\n"))
    file = vendor.discovery.recognise(path)
    assert file is not None
    with opener.open(vendor, file) as opened:
        assert CUT_FRAME not in opened.notices
        assert opened.source.read(0, opened.source.size()) == data + b"more\n"


def test_a_result_far_behind_its_call_is_joined_with_it(vendor: LineVendor, opener: Opener, root: Path) -> None:
    """A reader that begins in the middle goes further back when it misses the call of a result."""
    path = root / "s.jsonl"
    path.write_bytes(row("call", "c", "run") + b"".join(row("noise", f"{n}", "x" * 1000) for n in range(1000)))
    first = tail_of(vendor, opener, path)
    first.read()
    second = Tail(vendor, first.file, opener, head=first.head, revision=0, offset=first.offset)
    with path.open("ab") as file:
        file.write(row("result", "c", "done"))
    [item] = second.read().items
    assert item.tool is not None
    assert (item.tool.title, item.tool.output) == ("run", "done")


def test_facts_of_a_followed_file_count_on(vendor: LineVendor, opener: Opener, root: Path) -> None:
    """Rows and messages are those of the whole file, also after the reader has rested."""
    path = root / "s.jsonl"
    path.write_bytes(b"")
    tail = tail_of(vendor, opener, path)
    for number in range(1, 6):
        with path.open("ab") as file:
            file.write(row("user", f"{number}", "x"))
        tail.read()
        assert tail.facts is not None
        assert (tail.facts.rows, tail.facts.messages) == (number, number)
        tail.rest()


def test_a_missing_file_is_told(vendor: LineVendor, opener: Opener, root: Path) -> None:
    """Reading a file that has gone is an error that the catalogue takes, not an end."""
    path = root / "s.jsonl"
    path.write_bytes(row("user", "1", "a"))
    tail = tail_of(vendor, opener, path)
    path.unlink()
    with pytest.raises(NotFound):
        tail.read()


def whole(path: Path) -> Facts:
    return Facts(native_id="s", rows=path.read_bytes().count(b"\n"), messages=path.read_bytes().count(b"\n"))


@pytest.mark.parametrize(
    "change", [lambda tail, _: tail.rest(), lambda tail, path: tail.rebase(whole(path))], ids=["rest", "rebase"]
)
def test_what_changes_a_reader_while_it_reads_takes_effect_afterwards(
    vendor: LineVendor,
    opener: Opener,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Tail, Path], None],
) -> None:
    """Between any two lines of a reading by another thread: nothing is lost, doubled or counted wrongly, and the
    reader goes on."""
    path = root / "s.jsonl"
    path.write_bytes(row("user", "0", "0"))
    tail = tail_of(vendor, opener, path)
    tail.read()
    at_line, go_on = threading.Semaphore(0), threading.Semaphore(0)
    feed = LineFold.feed

    def stopped_feed(fold: LineFold, line: Line) -> list[Item]:
        at_line.release()
        assert go_on.acquire(timeout=10)
        return feed(fold, line)

    count = 3
    with path.open("ab") as file:
        file.write(b"".join(row("say", f"{n}", f"{n}") for n in range(1, count + 1)))
    read: list[list[str]] = []
    monkeypatch.setattr(LineFold, "feed", stopped_feed)
    thread = threading.Thread(target=lambda: read.append(texts(tail.read().items)), daemon=True)
    thread.start()
    for _ in range(count):
        assert at_line.acquire(timeout=10)
        change(tail, path)
        go_on.release()
    thread.join(10)
    monkeypatch.setattr(LineFold, "feed", feed)
    assert read == [["1", "2", "3"]]
    assert tail.facts is not None
    assert (tail.facts.rows, tail.facts.messages) == (4, 4)
    with path.open("ab") as file:
        file.write(row("say", "4", "4"))
    assert texts(tail.read().items) == ["4"]
    assert tail.facts.rows == 5


def test_a_reading_that_breaks_off_is_made_good_by_the_next(
    vendor: LineVendor, opener: Opener, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader of the form that fails in the middle of the new lines: they are told once, and counted once."""
    path = root / "s.jsonl"
    path.write_bytes(row("user", "0", "0"))
    tail = tail_of(vendor, opener, path)
    tail.read()
    with path.open("ab") as file:
        file.write(row("say", "1", "1") + row("say", "2", "2"))
    feed = LineFold.feed

    def failing(fold: LineFold, line: Line) -> list[Item]:
        if b'"2"' in line.raw:
            raise KeyError("an unforeseen form")
        return feed(fold, line)

    monkeypatch.setattr(LineFold, "feed", failing)
    with pytest.raises(KeyError):
        tail.read()
    monkeypatch.setattr(LineFold, "feed", feed)
    assert texts(tail.read().items) == ["1", "2"]
    assert tail.facts is not None
    assert tail.facts.rows == 3
