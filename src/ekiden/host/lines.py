"""Lines of a native file as bytes, from any place of it, in either direction.

A line ends at byte 0x0A and nowhere else: Unicode's other line ends are legal inside JSON strings, and a
character cut in two by the end of a read is whole again once its line is. What comes after the last newline
is an open line: it is handed out only on request, marked `complete=False`.

A line longer than `LINE_BYTES_MAX` is never held whole: its beginning is handed out with the true end, so that
the reader of the form counts it as one line that it cannot read.
"""

import hashlib
import os
import stat
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from ekiden.kernel.errors import Forbidden, NotFound
from ekiden.kernel.limits import KIB, LINE_BYTES_MAX, NEWLINES_PER_MARK
from ekiden.transcript.reading import Line

_BLOCK_BYTES = 256 * KIB
_OVERSIZE_SHOWN_BYTES = 64 * KIB
_HEAD_BYTES = 4 * KIB
_WHOLE_BYTES = 16 * KIB
_SAMPLES = 16
_SAMPLE_BYTES = 64


class ByteSource(Protocol):
    """Bytes that can be read from any place; the size is read anew each time."""

    def size(self) -> int: ...

    def read(self, start: int, length: int) -> bytes:
        """Up to `length` bytes from `start`; fewer only at the end."""
        ...

    def close(self) -> None: ...


class PlainSource:
    """An open regular file. Positions are given with each read, so threads may share it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def modified_ns(self) -> int:
        return os.fstat(self._descriptor).st_mtime_ns

    def read(self, start: int, length: int) -> bytes:
        first = os.pread(self._descriptor, length, start)
        if len(first) == length or not first:
            return first
        pieces = [first]
        got = len(first)
        while got < length:
            piece = os.pread(self._descriptor, length - got, start + got)
            if not piece:
                break
            pieces.append(piece)
            got += len(piece)
        return b"".join(pieces)

    def close(self) -> None:
        os.close(self._descriptor)


def open_inside(path: Path, roots: Sequence[Path]) -> PlainSource:
    """Opens a regular file for reading if it really lies under one of `roots`.

    The check is made on the open descriptor, so nothing can be swapped between check and use: no link as the
    last part of the path, no pipe or device, no way out through a linked folder.

    Raises:
        NotFound: if there is no such file.
        Forbidden: if it is not a plain file inside.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound("The file is not there.") from None
    except OSError as error:
        raise Forbidden(f"The file cannot be read: {error.strerror}.") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Forbidden("This is not a plain file.")
        real = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if not any(real.is_relative_to(os.path.realpath(root)) for root in roots):
            raise Forbidden("The file lies outside the folders that belong to this product.")
    except BaseException:
        os.close(descriptor)
        raise
    return PlainSource(descriptor)


def lines_forward(
    source: ByteSource,
    start: int,
    end: int,
    *,
    number: int = 0,
    open_line: bool = False,
    block_bytes: int = _BLOCK_BYTES,
) -> Iterator[Line]:
    """Lines of [start, end), where `start` begins a line. `number` is that of the first line, 0 if unknown. The
    file is read `block_bytes` at a time.

    Bytes after the last newline before `end` are handed out as a last, incomplete line only with `open_line`.
    """
    position = start
    step = 1 if number else 0
    held: list[bytes] = []
    held_bytes = 0
    skipped = 0
    while position < end:
        block = source.read(position, min(block_bytes, end - position))
        if not block:
            break
        begin = 0
        newline = block.find(b"\n")  # five times as quick over long lines as to split the block
        while newline >= 0:
            raw = block[begin:newline]
            length = newline - begin
            if held or skipped:
                held.append(raw[: max(0, LINE_BYTES_MAX - held_bytes)])
                raw = b"".join(held)
                length += held_bytes + skipped
                held, held_bytes, skipped = [], 0, 0
                if length > LINE_BYTES_MAX:
                    raw = raw[:_OVERSIZE_SHOWN_BYTES]
            yield Line(raw, start, start + length, number)
            start += length + 1
            number += step
            begin = newline + 1
            newline = block.find(b"\n", begin)
        rest = block[begin:]
        if rest:
            keep = rest[: max(0, LINE_BYTES_MAX - held_bytes)]
            if keep:
                held.append(keep)
            held_bytes += len(keep)
            skipped += len(rest) - len(keep)
        position += len(block)
    if open_line and (held or skipped):
        length = held_bytes + skipped
        raw = b"".join(held)
        yield Line(
            raw if length <= LINE_BYTES_MAX else raw[:_OVERSIZE_SHOWN_BYTES],
            start,
            start + length,
            number,
            complete=False,
        )


def last_line_end(source: ByteSource, end: int, *, not_before: int = 0) -> int:
    """The position after the last newline in [not_before, end), or `not_before` if there is none."""
    position = end
    while position > not_before:
        begin = max(not_before, position - _BLOCK_BYTES)
        found = source.read(begin, position - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        position = begin
    return not_before


def first_line_end(source: ByteSource, start: int, end: int) -> int | None:
    """The position after the first newline in [start, end), or None."""
    position = start
    while position < end:
        block = source.read(position, min(_BLOCK_BYTES, end - position))
        if not block:
            return None
        found = block.find(b"\n")
        if found >= 0:
            return position + found + 1
        position += len(block)
    return None


def window_start(source: ByteSource, end: int, size: int) -> int:
    """Where a window of about `size` bytes that ends at the line boundary `end` begins: always at the start of
    a line, and with at least one line in it unless `end` is 0."""
    wanted = end - size
    if wanted <= 0:
        return 0
    found = first_line_end(source, wanted - 1, end - 1)
    return found if found is not None else last_line_end(source, wanted)


def fingerprint(source: ByteSource, offset: int) -> str:
    """32 hex digits that change, for all practical purposes, when any of the first `offset` bytes do.

    Up to 16 KiB every byte counts. Beyond that the head, the end and samples in between, so that the cost does
    not grow with the file.
    """
    digest = hashlib.blake2b(str(offset).encode(), digest_size=16)
    if offset <= _WHOLE_BYTES:
        digest.update(source.read(0, offset))
        return digest.hexdigest()
    digest.update(source.read(0, _HEAD_BYTES))
    for sample in range(1, _SAMPLES + 1):
        digest.update(source.read(offset * sample // _SAMPLES - _SAMPLE_BYTES, _SAMPLE_BYTES))
    return digest.hexdigest()


def head_of(source: ByteSource) -> str:
    """12 hex digits that name a file's content by its first line (at most 4 KiB of it); empty while that line
    is open. A compressed file is named by what is in it, so it keeps its name."""
    head = source.read(0, _HEAD_BYTES)
    newline = head.find(b"\n")
    if newline < 0 and len(head) < _HEAD_BYTES:
        return ""
    return hashlib.blake2b(head[:newline] if newline >= 0 else head, digest_size=6).hexdigest()


class NewlineIndex:
    """Where every `NEWLINES_PER_MARK`-th line of a file begins: 8 bytes for each, about 0.03 a line.

    `offsets[i]` is the start of line `i * NEWLINES_PER_MARK` (from 0); `rows` lines lie before `end`.
    """

    def __init__(self, offsets: list[int] | None = None, rows: int = 0, end: int = 0) -> None:
        self.offsets = offsets if offsets is not None else [0]
        self.rows = rows
        self.end = end

    def add(self, line: Line) -> None:
        """Counts a complete line that begins at `end`."""
        self.rows += 1
        self.end = line.end + 1
        if self.rows % NEWLINES_PER_MARK == 0:
            self.offsets.append(self.end)

    def number_at(self, source: ByteSource, offset: int) -> int:
        """The number, from 1, of the line that begins at `offset`; 0 if it is not covered."""
        if offset > self.end:
            return 0
        mark = bisect_right(self.offsets, offset) - 1
        number = mark * NEWLINES_PER_MARK + 1
        position = self.offsets[mark]
        while position < offset:
            block = source.read(position, min(_BLOCK_BYTES, offset - position))
            if not block:
                return 0
            number += block.count(b"\n")
            position += len(block)
        return number

    def start_of(self, source: ByteSource, row: int) -> int | None:
        """Where the line with index `row` (from 0) begins; the end for `row == rows`; None if not covered."""
        if row > self.rows:
            return None
        mark = row // NEWLINES_PER_MARK
        position = self.offsets[mark]
        for _ in range(row - mark * NEWLINES_PER_MARK):
            after = first_line_end(source, position, self.end)
            if after is None:
                return None
            position = after
        return position
