"""Lines as bytes, in both directions, and the marks made of them."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ekiden.host.lines import (
    NewlineIndex,
    PlainSource,
    fingerprint,
    head_of,
    lines_forward,
    open_inside,
    window_start,
)
from ekiden.kernel import limits
from ekiden.kernel.errors import Forbidden, NotFound


class Held:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def size(self) -> int:
        return len(self.data)

    def read(self, start: int, length: int) -> bytes:
        return self.data[start : start + length]

    def close(self) -> None:
        pass


@given(
    st.lists(st.binary(max_size=40).map(lambda one: one.replace(b"\n", b"")), max_size=30), st.binary(max_size=9)
)
def test_lines_are_cut_at_newline_bytes_only_and_lose_nothing(parts: list[bytes], rest: bytes) -> None:
    """Whatever the bytes are, the lines and the open line put together again are the file."""
    rest = rest.replace(b"\n", b"")
    data = b"".join(part + b"\n" for part in parts) + rest
    lines = list(lines_forward(Held(data), 0, len(data), number=1, open_line=True))
    assert [line.raw for line in lines] == parts + ([rest] if rest else [])
    assert [data[line.start : line.end] for line in lines] == [line.raw for line in lines]
    assert [line.number for line in lines] == list(range(1, len(lines) + 1))
    assert all(line.complete for line in lines[: len(parts)])
    assert not any(line.complete for line in lines[len(parts) :])


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r"])
def test_unicode_line_ends_do_not_cut(mark: str) -> None:
    """What Python's splitlines cuts at is legal inside a JSON string."""
    data = f'{{"a":"x{mark}y"}}\n{{"b":1}}\n'.encode()
    assert len(list(lines_forward(Held(data), 0, len(data)))) == 2


@given(st.lists(st.integers(0, 900), min_size=1, max_size=40), st.integers(1, 4000))
def test_a_window_begins_at_a_line_and_holds_one(sizes: list[int], size: int) -> None:
    """However long the lines are, a window backwards starts on a line start and is never empty."""
    data = b"".join(b"x" * one + b"\n" for one in sizes)
    starts = {line.start for line in lines_forward(Held(data), 0, len(data))}
    start = window_start(Held(data), len(data), size)
    assert start in starts
    assert start < len(data)


def test_a_line_over_the_bound_is_handed_out_in_part_with_its_true_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A huge line costs bounded memory, is counted, and the line behind it is read."""
    monkeypatch.setattr("ekiden.host.lines.LINE_BYTES_MAX", 3 * limits.MIB)
    data = b"a\n" + b"x" * (5 * limits.MIB) + b"\nb\n"
    lines = list(lines_forward(Held(data), 0, len(data)))
    assert [len(line.raw) for line in lines] == [1, 64 * limits.KIB, 1]
    assert lines[1].end - lines[1].start == 5 * limits.MIB
    assert lines[2].raw == b"b"


@pytest.mark.parametrize("place", [0, 1, 100, 5_000, 16_000])
def test_a_fingerprint_sees_any_changed_byte_of_a_small_file(place: int) -> None:
    """Also a rewrite that keeps the size."""
    data = bytearray(os.urandom(16_001))
    before = fingerprint(Held(bytes(data)), len(data))
    data[place] ^= 1
    assert fingerprint(Held(bytes(data)), len(data)) != before


def test_a_fingerprint_of_a_large_file_does_not_read_it_whole() -> None:
    """Its cost is bounded, and it still sees another head or end."""
    data = os.urandom(2 * limits.MIB)
    read = 0

    class Counting(Held):
        def read(self, start: int, length: int) -> bytes:
            nonlocal read
            read += length
            return super().read(start, length)

    before = fingerprint(Counting(data), len(data))
    assert read < 16 * limits.KIB
    assert fingerprint(Held(b"y" + data[1:]), len(data)) != before
    assert fingerprint(Held(data[:-1] + b"y"), len(data)) != before


def test_a_head_names_content_once_its_first_line_is_whole() -> None:
    """An open first line has no name yet; growth does not change it."""
    assert head_of(Held(b'{"a":1}')) == ""
    assert head_of(Held(b'{"a":1}\n')) == head_of(Held(b'{"a":1}\n{"b":2}\n')) != ""


@given(st.lists(st.integers(0, 30), min_size=1, max_size=900), st.data())
def test_the_newline_index_knows_numbers_and_starts(sizes: list[int], data: st.DataObject) -> None:
    """Line numbers and line starts agree with counting from the beginning."""
    held = Held(b"".join(b"x" * one + b"\n" for one in sizes))
    lines = list(lines_forward(held, 0, held.size(), number=1))
    index = NewlineIndex()
    for line in lines:
        index.add(line)
    chosen = data.draw(st.sampled_from(lines))
    assert index.number_at(held, chosen.start) == chosen.number
    assert index.start_of(held, chosen.number - 1) == chosen.start
    assert index.start_of(held, len(lines)) == held.size()
    assert len(index.offsets) <= len(lines) // limits.NEWLINES_PER_MARK + 1


def test_only_plain_files_inside_are_opened(tmp_path: Path) -> None:
    """Links out, pipes, folders and paths that climb out are refused; what is missing is missing."""
    inside = tmp_path / "in"
    inside.mkdir()
    outside = tmp_path / "in-evil"
    outside.mkdir()
    (outside / "secret").write_bytes(b"s\n")
    (inside / "good").write_bytes(b"g\n")
    (inside / "link").symlink_to(outside / "secret")
    (inside / "folder-link").symlink_to(outside)
    os.mkfifo(inside / "pipe")
    for bad in ("link", "pipe", ".", "folder-link/secret", "../in-evil/secret"):
        with pytest.raises(Forbidden):
            open_inside(inside / bad, [inside])
    with pytest.raises(NotFound):
        open_inside(inside / "none", [inside])
    source = open_inside(inside / "good", [inside])
    assert source.read(0, 10) == b"g\n"
    source.close()


def test_a_plain_source_reads_what_is_there(tmp_path: Path) -> None:
    """A read past the end gives what there is."""
    path = tmp_path / "f"
    path.write_bytes(b"abc")
    source = PlainSource(os.open(path, os.O_RDONLY))
    assert (source.size(), source.read(1, 10), source.read(5, 1)) == (3, b"bc", b"")
    source.close()
