"""Following one native file: what was appended, exactly once, whatever happens to the file.

The position only ever stands behind a newline. What counts as the same file is its content: device and inode
may change (compressed and back, saved anew) while the bytes go on, and the bytes may change while the inode
stays. So each reading first checks the bytes before the position (`fingerprint`); where they are other bytes,
a new revision begins and is read from its start, and nothing of the two is joined.
"""

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from ekiden.host.lines import (
    ByteSource,
    PlainSource,
    fingerprint,
    first_line_end,
    head_of,
    last_line_end,
    lines_forward,
    window_start,
)
from ekiden.host.unpacked import Opener
from ekiden.kernel.limits import LINE_BYTES_MAX, PAGE_WINDOW_BYTES_MAX, TAIL_PRIME_BYTES_MAX, TAIL_READ_BYTES_MAX
from ekiden.transcript.items import Item
from ekiden.transcript.reading import Drift, Facts, Fold, Line
from ekiden.vendors.port import FoundFile, Vendor


class Mark(msgspec.Struct, frozen=True):
    """A position that the hub can hold for a session: the content by its first line, the revision, the byte."""

    head: str
    revision: int
    offset: int

    def __str__(self) -> str:
        return f"{self.head}.{self.revision}.{self.offset}"


def parse_mark(text: str) -> Mark | None:
    """Reads what `str(mark)` wrote; None for anything else."""
    head, _, rest = text.partition(".")
    revision, _, offset = rest.partition(".")
    if not (head and revision.isdigit() and offset.isdigit()):
        return None
    return Mark(head, int(revision), int(offset))


class Growth(msgspec.Struct):
    """What one reading of a file gave."""

    items: list[Item]
    more: bool = False
    """There is more to read at once."""
    rewritten: bool = False
    """A new revision has begun with this reading."""
    lines: int = 0


def snapshot(facts: Facts) -> Facts:
    """A copy that further feeding of a fold does not change."""
    return dataclasses.replace(facts, unknown_kinds=dict(facts.unknown_kinds))


_COUNTS = ("rows", "messages", "unknown_rows", "unreadable_rows")
_FIRST = ("native_id", "first_prompt", "created_at", "forked_from", "history_base", "cwd")


def joined(base: Facts, primed: Facts, now: Facts) -> Facts:
    """The facts of a whole file from those of its first part (`base`) and of a fold that read a few lines
    before the rest (`primed`) and then the rest (`now`)."""
    fields: dict[str, Any] = {}
    for name in Facts.__dataclass_fields__:
        old, new = getattr(base, name), getattr(now, name)
        if name in _COUNTS:
            fields[name] = old + new - getattr(primed, name)
        elif name in _FIRST or name in ("is_subagent", "is_helper"):
            fields[name] = old or new
        elif name in ("turn_open", "drift"):
            fields[name] = new
        elif name == "unknown_kinds":
            kinds = dict(base.unknown_kinds)
            for kind, count in now.unknown_kinds.items():
                kinds[kind] = kinds.get(kind, 0) + count - primed.unknown_kinds.get(kind, 0)
            fields[name] = {kind: count for kind, count in kinds.items() if count > 0}
        else:
            fields[name] = new or old
    facts = Facts(**fields)
    if facts.drift is Drift.NOTHING_PARSED and facts.messages > 0:
        facts.drift = Drift.UNKNOWN_ROWS if facts.unknown_rows else Drift.NONE
    return facts


def primed_fold(
    vendor: Vendor, file: FoundFile, source: ByteSource, offset: int, size: int = TAIL_PRIME_BYTES_MAX
) -> Fold:
    """A fold that has read about `size` bytes of lines before `offset`, so that results find their calls."""
    fold = vendor.fold(file)
    for line in lines_forward(source, window_start(source, offset, size), offset):
        fold.feed(line)
    return fold


class Tail:
    """The reader of one growing file. One thread reads at a time; `rest` and `rebase` may be called from another
    meanwhile, and take effect once that reading is over."""

    def __init__(
        self, vendor: Vendor, file: FoundFile, opener: Opener, *, head: str, revision: int, offset: int
    ) -> None:
        """Goes on at `offset` of `revision`; what lies before it is taken as told."""
        self._vendor = vendor
        self._opener = opener
        self.file = file
        self.head = head
        self.revision = revision
        self.offset = offset
        self.facts: Facts | None = None
        """What the lines read so far and a few before them say; None before the first reading."""
        self.size = 0
        """Of the file at the last reading."""
        self._fold: Fold | None = None
        self._primed: Facts | None = None
        self._base: Facts | None = None
        self._fingerprint = ""
        self._modified_ns = -1
        self._scanned_to = 0
        self._guard = threading.Lock()
        self._reading = False
        self._waiting: list[Callable[[], None]] = []

    @property
    def mark(self) -> str:
        """The position for the hub."""
        return str(Mark(self.head, self.revision, self.offset))

    def set_base(self, facts: Facts | None) -> None:
        """What is known of the file up to the position, for the joined facts."""
        if self._base is None:
            self._base = facts

    def rebase(self, facts: Facts) -> None:
        """The whole file up to the position says `facts`: from here on they are counted on. The fold stays. A
        reading that goes on moves the position, and then `facts` say nothing of it any more."""
        of = (self.revision, self.offset)
        self._between_readings(lambda: self._rebase(facts, of))

    def _rebase(self, facts: Facts, of: tuple[int, int]) -> None:
        if of != (self.revision, self.offset):
            return
        self._base = self.facts = facts
        if self._fold is not None:
            self._primed = snapshot(self._fold.facts)

    def rest(self) -> None:
        """Gives up the fold, to save memory; the next reading makes another."""
        self._between_readings(self._rest)

    def _rest(self) -> None:
        if self._fold is not None:
            self._base = self.facts or self._base
            self._fold = None

    def _between_readings(self, change: Callable[[], None]) -> None:
        with self._guard:
            if self._reading:
                self._waiting.append(change)
            else:
                change()

    @property
    def resting(self) -> bool:
        return self._fold is None

    def _begin_anew(self) -> None:
        self.offset = 0
        self._fold = None
        self._base = None
        self.facts = None
        self._fingerprint = ""
        self._scanned_to = 0

    def read(self, bytes_max: int = TAIL_READ_BYTES_MAX) -> Growth:
        """Reads whole lines from the position on, about `bytes_max` bytes of them.

        Raises:
            NotFound, Forbidden: if the file is not there, or not a plain file inside its store.
        """
        with self._guard:
            self._reading = True
        try:
            return self._read(bytes_max)
        except BaseException:
            self._rest()  # a fold that broke off inside its lines would count them twice
            raise
        finally:
            with self._guard:
                self._reading = False
                waiting, self._waiting = self._waiting, []
                for change in waiting:
                    change()

    def _read(self, bytes_max: int) -> Growth:
        with self._opener.open(self._vendor, self.file) as opened:
            source = opened.source
            size = source.size()
            growth = Growth([])
            if not self._goes_on(source, size):
                self.revision += 1
                growth.rewritten = True
                self._begin_anew()
                self.head = ""
            self.size = size
            if not self.head:
                self.head = head_of(source)
            if self.head and size > self.offset:
                self._take(source, size, bytes_max, growth)
            self._fingerprint = fingerprint(source, self.offset)
            self._modified_ns = source.modified_ns() if isinstance(source, PlainSource) else 0
            return growth

    def _goes_on(self, source: ByteSource, size: int) -> bool:
        if size < self.offset:
            return False
        if self.head and head_of(source) != self.head:
            return False
        return not self._fingerprint or fingerprint(source, self.offset) == self._fingerprint

    def _take(self, source: ByteSource, size: int, bytes_max: int, growth: Growth) -> None:
        end = min(size, self.offset + bytes_max)
        whole = last_line_end(source, end, not_before=max(self.offset, min(self._scanned_to, end)))
        if whole <= self.offset or source.read(whole - 1, 1) != b"\n":
            after = first_line_end(source, max(self.offset, min(self._scanned_to, size)), size)
            if after is None:
                self._scanned_to = size
                return
            whole = after
        self._scanned_to = 0
        if self._fold is None:
            self._prime(source, TAIL_PRIME_BYTES_MAX)
        gathered = self._fed(source, whole, growth)
        assert self._fold is not None
        assert self._primed is not None
        if self._fold.facts.wants_earlier > self._primed.wants_earlier and self.offset > TAIL_PRIME_BYTES_MAX:
            # A result came whose call stands further back than the few lines that were read before.
            self._prime(source, PAGE_WINDOW_BYTES_MAX)
            gathered = self._fed(source, whole, growth)
        growth.items = list(gathered.values())
        growth.more = whole < size and first_line_end(source, whole, min(size, whole + LINE_BYTES_MAX)) is not None
        self.offset = whole
        now = self._fold.facts
        self.facts = joined(self._base, self._primed, now) if self._base is not None else snapshot(now)

    def _prime(self, source: ByteSource, size: int) -> None:
        if self._fold is not None:
            self._base = self.facts or self._base
        self._fold = primed_fold(self._vendor, self.file, source, self.offset, size)
        self._primed = snapshot(self._fold.facts)
        if self._base is None and self.offset == 0:
            self._base = Facts()

    def _fed(self, source: ByteSource, whole: int, growth: Growth) -> dict[str, Item]:
        assert self._fold is not None
        gathered: dict[str, Item] = {}
        growth.lines = 0
        for line in lines_forward(source, self.offset, whole):
            growth.lines += 1
            for item in self._fold.feed(line):
                gathered[item.id] = item
        return gathered

    def open_line(self) -> list[Item]:
        """What the last line would be if it ended here: items marked as provisional. The position stays."""
        with self._opener.open(self._vendor, self.file) as opened:
            source = opened.source
            size = source.size()
            if size <= self.offset or size - self.offset > LINE_BYTES_MAX or not self._goes_on(source, size):
                return []
            raw = source.read(self.offset, size - self.offset)
            if b"\n" in raw:
                return []
            fold = primed_fold(self._vendor, self.file, source, self.offset)
            items = fold.feed(Line(raw, self.offset, size, complete=False))
        return [msgspec.structs.replace(item, provisional=True) for item in items]
