"""Pages of a session, read from any place of its file without reading the rest.

A page towards the beginning reads a window of whole lines backwards from its cursor and folds it. The window
grows, up to a bound, until it holds enough items. An item stands where its first line does: lines behind the
cursor are read along, up to a bound, for the results of the window's calls, and results of earlier calls are left
to the page that has the call. What only a whole reading can know (abandoned
branches, gaps in the tree) is taken from the import where it has been there; where it has not, the page says so.

A cursor is the file's mark (content, revision, byte), so one of an earlier revision is told apart. Before the
first line of a file come, in this order: the parent's lines for a session that branches from it by reference,
then earlier revisions from the copy.
"""

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from ekiden.host import copies
from ekiden.host.copies import Placed
from ekiden.host.follow import Mark, parse_mark
from ekiden.host.lineage import Lineage
from ekiden.host.lines import ByteSource, NewlineIndex, head_of, last_line_end, lines_forward, window_start
from ekiden.host.side_files import with_side_files
from ekiden.host.store import FileRow, Store, indexed_end
from ekiden.host.unpacked import Opened, Opener
from ekiden.kernel.errors import Forbidden, Invalid, NotFound
from ekiden.kernel.limits import (
    PAGE_AHEAD_BYTES_MAX,
    PAGE_BYTES_MAX,
    PAGE_ROWS_DEFAULT,
    PAGE_ROWS_MAX,
    PAGE_WINDOW_BYTES,
    PAGE_WINDOW_BYTES_MAX,
    PAGE_WINDOWS_KEPT_MAX,
    RAW_LINE_CHARS_MAX,
    TAIL_PRIME_BYTES_MAX,
)
from ekiden.sessions.wire import ItemPage, RawLine, RawPage
from ekiden.transcript.items import Item, ItemKind, ToolState, encode_item
from ekiden.transcript.reading import Line
from ekiden.vendors.port import Vendor

OF_THE_WHOLE = frozenset({"gap", "branch", "cycle", "orphan_result"})
"""Notices that a reading of a part cannot judge."""
NOT_JUDGED = "not_judged"
"""A page's notice: the import has not been here, so broken chains and abandoned branches are not marked yet."""
_OPEN_STATES = frozenset({ToolState.PENDING, ToolState.RUNNING})


@dataclass(slots=True)
class _Read:
    """What folding a window gave: items in file order with the start of the line that gave each first."""

    items: dict[str, Item] = field(default_factory=dict[str, Item])
    starts: dict[str, int] = field(default_factory=dict[str, int])
    start: int = 0
    end: int = 0
    whole: bool = False
    """Whether the fold has seen the file from its begin to its end, so that its word on the tree holds."""

    def take(self, items: Iterable[Item], start: int) -> None:
        for item in items:
            self.items[item.id] = item
            self.starts.setdefault(item.id, start)


@dataclass(frozen=True, slots=True)
class _Part:
    """What one file gives to a page: its items, where their first line begins (0 if nothing comes before), where
    the reading ended, the size of the items, and how many lines the file has, where that is known."""

    items: list[Item]
    first: int
    end: int
    bytes: int
    total_lines: int | None
    judged: bool
    """Whether broken chains and abandoned branches are known for all of it."""


def _bounded(limit: int | None) -> int:
    return max(1, min(limit or PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX))


class Pages:
    """Answers questions for pages of one host's sessions. Reads files: call it from a thread."""

    def __init__(self, store: Store, opener: Opener, vendors: Callable[[str], Vendor]) -> None:
        self._store = store
        self._opener = opener
        self._vendors = vendors
        self._lineage = Lineage(store, opener, vendors)
        self._windows: dict[int, int] = {}
        """How much of each file the last page took, in bytes."""

    def page(
        self,
        row: FileRow,
        *,
        before: str = "",
        after: str = "",
        limit: int | None = None,
        running: bool = False,
        idle_open_line: bool = False,
    ) -> ItemPage:
        """A page of the session whose file is `row`.

        `running`: a writer is proven alive, so calls without a result are still open. `idle_open_line`: show
        what the last line would be if it ended here.

        Raises:
            Invalid: for a cursor that is not one.
            NotFound: if there is neither file nor copy.
        """
        wanted = _bounded(limit)
        if before.startswith("copy."):
            return self._kept(row, before, wanted)
        mark = parse_mark(before or after) if before or after else None
        if (before or after) and mark is None:
            raise Invalid("The cursor is not one that this session gave out.", hint="Start without a cursor.")
        owner = self._of_mark(row, mark)
        try:
            opened = self._opener.open(self._vendors(row.vendor), owner.found())
        except (NotFound, Forbidden):
            return self._kept(row, "", wanted)
        with opened:
            head = head_of(opened.source)
            if mark is not None and (
                mark.head != head or (owner.head == head and mark.revision != owner.revision)
            ):
                if before:
                    return self._kept(row, f"copy.{row.id}.{mark.revision}", wanted)
                raise Invalid("The file was rewritten since this page was read.", hint="Start without a cursor.")
            if after:
                assert mark is not None
                return self._forwards(owner, opened, mark.offset, wanted)
            part = self._part(
                owner, opened, mark.offset if mark else None, wanted, PAGE_BYTES_MAX, running, idle_open_line
            )
        items = part.items
        if part.first > 0:
            earlier = str(Mark(head, owner.revision, part.first))
        else:
            items, earlier = self._further(row, owner, part, wanted)
        return ItemPage(
            items=tuple(items),
            before=earlier,
            after=str(Mark(head, owner.revision, part.end)) if head else "",
            total_lines=part.total_lines,
            notices=opened.notices if part.judged else (*opened.notices, NOT_JUDGED),
        )

    def _of_mark(self, row: FileRow, mark: Mark | None) -> FileRow:
        """The file that a cursor is of: the session's own, or one that it branches from by reference."""
        if mark is None or mark.head in (row.head, self._lineage.head(row)):
            return row
        for parent, _ in self._lineage.parents(row):
            if mark.head in (parent.head, self._lineage.head(parent)):
                return parent
        return row

    def _further(self, row: FileRow, owner: FileRow, part: _Part, wanted: int) -> tuple[list[Item], str]:
        """(the items of a part that begins its file, filled up with what comes before that file; the cursor before
        them): first the parents of a session that branches by reference, then earlier revisions in the copy."""
        items, room = part.items, PAGE_BYTES_MAX - part.bytes
        chain = [(row, 0), *self._lineage.parents(row)]
        position = next((index for index, (file, _) in enumerate(chain) if file.id == owner.id), 0)
        for parent, ordinal in chain[position + 1 :]:
            offset = self._lineage.offset_of(parent, ordinal)
            if not offset:
                continue
            try:
                opened = self._opener.open(self._vendors(parent.vendor), parent.found())
            except (NotFound, Forbidden):
                continue
            with opened:
                head = head_of(opened.source)
                if len(items) >= wanted or room <= 0:
                    return items, str(Mark(head, parent.revision, offset))
                older = self._part(parent, opened, offset, wanted - len(items), room, False, False)
            items, room = older.items + items, room - older.bytes
            if older.first > 0:
                return items, str(Mark(head, parent.revision, older.first))
        for revision in self._store.read(lambda connection: copies.revisions(connection, row.id)):
            if revision < row.revision:
                return items, f"copy.{row.id}.{revision}"
        return items, ""

    def _part(
        self,
        file: FileRow,
        opened: Opened,
        offset: int | None,
        wanted: int,
        bytes_max: int,
        running: bool,
        idle_open_line: bool,
    ) -> _Part:
        """Up to `wanted` items of one file before `offset`, or the newest."""
        source = opened.source
        newest = offset is None
        whole_end = last_line_end(source, source.size())
        end = whole_end if offset is None else min(offset, whole_end)
        newlines = self._lineage.newlines(file)
        window = self._windows.get(file.id, PAGE_WINDOW_BYTES)
        while True:
            start = window_start(source, end, window)
            read = self._fold(file, source, start, end, whole_end, newlines, running, newest and idle_open_line)
            items, judged = self._judged(file, read)
            if len(items) >= wanted or start == 0 or window >= PAGE_WINDOW_BYTES_MAX:
                break
            window = min(
                PAGE_WINDOW_BYTES_MAX, int(window * max(1.5, min(8.0, 1.3 * wanted / max(1, len(items)))))
            )
        page, first, size = _newest(items, read.starts, wanted, start, bytes_max)
        self._remember_window(file.id, end - first)
        page = self._with_dropped(file, page, read.starts, first, None if newest else end)
        return _Part(page, first, end, size, newlines.rows if newlines.end >= whole_end else None, judged)

    def _remember_window(self, file_id: int, used_bytes: int) -> None:
        """The next page of the file will most likely need about as much: then it is folded once, not in steps."""
        self._windows[file_id] = min(PAGE_WINDOW_BYTES_MAX, max(PAGE_WINDOW_BYTES, int(used_bytes * 1.2)))
        if len(self._windows) > PAGE_WINDOWS_KEPT_MAX:
            with contextlib.suppress(StopIteration, KeyError):
                self._windows.pop(next(iter(self._windows)))

    def _with_dropped(
        self, row: FileRow, page: list[Item], starts: dict[str, int], first: int, end: int | None
    ) -> list[Item]:
        """The page with what was seen live in its range and then dropped by the vendor."""
        dropped = self._store.read(
            lambda connection: copies.dropped(connection, row.vendor, row.native_id, first, end)
        )
        here = {item.id for item in page}
        for position, item in dropped:
            if item.id in here:
                continue
            index = next((i for i, one in enumerate(page) if starts.get(one.id, 0) >= position), len(page))
            page.insert(index, item)
            starts[item.id] = position
        return page

    def _fold(
        self,
        row: FileRow,
        source: ByteSource,
        start: int,
        end: int,
        whole_end: int,
        newlines: NewlineIndex,
        running: bool,
        idle_open_line: bool,
    ) -> _Read:
        fold = self._vendors(row.vendor).fold(row.found())
        read = _Read(start=start, end=end)
        number = newlines.number_at(source, start)
        for line in lines_forward(source, start, end, number=number):
            read.take(fold.feed(line), line.start)
        ahead = end
        small = start == 0 and whole_end <= PAGE_WINDOW_BYTES
        ahead_end = min(whole_end, end + PAGE_AHEAD_BYTES_MAX) if small or _open_calls(read) else end
        for line in lines_forward(source, end, ahead_end, block_bytes=PAGE_WINDOW_BYTES):
            if not small and not _open_calls(read):
                break
            ahead = line.end + 1
            for item in fold.feed(line):
                if item.id in read.items:
                    read.items[item.id] = item
        if ahead >= whole_end:
            read.whole = start == 0
            for item in fold.finish():
                known = read.items.get(item.id)
                if running and known is not None:  # what is open stays open
                    read.items[item.id] = msgspec.structs.replace(known, abandoned=item.abandoned)
                elif running and item.note not in OF_THE_WHOLE:
                    continue
                elif known is not None:
                    read.items[item.id] = item
                elif start <= item.source.start < end:
                    read.take([item], item.source.start)
        if idle_open_line and source.size() > whole_end:
            rest = source.read(whole_end, source.size() - whole_end)
            if b"\n" not in rest:
                line = Line(rest, whole_end, whole_end + len(rest), complete=False)
                read.take((msgspec.structs.replace(item, provisional=True) for item in fold.feed(line)), whole_end)
        return read

    def _judged(self, row: FileRow, read: _Read) -> tuple[list[tuple[str, Item]], bool]:
        """(items in file order, whether the tree is known for all of them). What only a whole reading knows is
        taken from the import where this reading was none."""
        judged = True
        if not read.whole:
            judged = self._take_marks(row, read)
        # A notice at a row has no length and stands before it.
        ordered = sorted(read.items.values(), key=lambda item: copies.standing(Placed(item, read.starts[item.id])))
        return [(item.id, item) for item in ordered], judged

    def _take_marks(self, row: FileRow, read: _Read) -> bool:
        """Puts what the import found in the range of `read` in the place of what the fold of a part says of the
        tree; whether the import has been through that range."""
        notices, marks, indexed_to = self._store.read(
            lambda connection: (
                copies.notices_between(connection, row.id, row.revision, read.start, read.end, OF_THE_WHOLE),
                copies.marks_of(connection, row.id, row.revision, list(read.items)),
                indexed_end(connection, row.id, row.revision),
            )
        )
        for item_id, item in list(read.items.items()):
            known = marks.get(item_id)
            if item.kind is ItemKind.NOTICE and item.note in OF_THE_WHOLE and known is None:
                del read.items[item_id]
            elif known is not None and known != item.abandoned:
                read.items[item_id] = msgspec.structs.replace(item, abandoned=known)
        for placed in notices:
            read.take([placed.item], placed.start)
        return read.start < indexed_to or read.start >= read.end

    def _forwards(self, row: FileRow, opened: Opened, offset: int, wanted: int) -> ItemPage:
        source = opened.source
        whole_end = last_line_end(source, source.size())
        fold = self._vendors(row.vendor).fold(row.found())
        start = window_start(source, min(offset, whole_end), TAIL_PRIME_BYTES_MAX)
        for line in lines_forward(source, start, min(offset, whole_end)):
            fold.feed(line)
        position = min(offset, whole_end)
        read = _Read(start=position)
        number = self._lineage.newlines(row).number_at(source, position)
        for line in lines_forward(source, position, whole_end, number=number):
            if len(read.items) >= wanted:
                break
            read.take(fold.feed(line), line.start)
            position = line.end + 1
        read.end = position
        items, judged = self._judged(row, read)
        at_end = position >= whole_end
        return ItemPage(
            items=tuple(item for _, item in items),
            before=str(Mark(row.head or head_of(source), row.revision, offset)),
            after="" if at_end else str(Mark(row.head or head_of(source), row.revision, position)),
            notices=opened.notices if judged else (*opened.notices, NOT_JUDGED),
        )

    def _kept(self, row: FileRow, cursor: str, wanted: int) -> ItemPage:
        """A page of the copy. Its cursors are `copy.FILE.REVISION` and `copy.FILE.REVISION.CHUNK.INDEX`."""
        place: tuple[int, int] | None = None
        file_id, revision = row.id, -1
        if cursor:
            parts = cursor.split(".")[1:]
            if len(parts) not in (2, 4) or not all(part.isdigit() and len(part) < 18 for part in parts):
                raise Invalid("The cursor is not one that this session gave out.", hint="Start without a cursor.")
            numbers = [int(part) for part in parts]
            if numbers[0] != row.id:
                raise Invalid("The cursor is of another session.", hint="Start without a cursor.")
            revision = numbers[1]
            place = (numbers[2], numbers[3]) if len(numbers) == 4 else None
        held = self._store.read(lambda connection: copies.revisions(connection, file_id))
        if revision < 0:
            if not held:
                raise NotFound("Neither the session's file nor a copy of it is on this computer.")
            revision = held[0]
        items, place = self._store.read(
            lambda connection: copies.kept_page(connection, file_id, revision, place, wanted)
        )
        earlier = next((older for older in held if older < revision), None)
        if place is not None:
            before = f"copy.{file_id}.{revision}.{place[0]}.{place[1]}"
        else:
            before = f"copy.{file_id}.{earlier}" if earlier is not None else ""
        notices = ["source_gone"] if row.gone_at else []
        if revision < row.revision:
            notices.append("earlier_revision")
        if row.trimmed:
            notices.append("copy_trimmed")
        return ItemPage(items=tuple(items), before=before, from_copy=True, notices=tuple(notices))

    def item(self, row: FileRow, item_id: str) -> Item:
        """One item, whole: from its place in the file or in one that it continues, else from the copy.

        Raises:
            NotFound: if none has it.
        """
        for file in (row, *(parent for parent, _ in self._lineage.parents(row))):
            found = self._item_of(file, item_id)
            if found is not None:
                return found
        raise NotFound("This session has no such item.")

    def _item_of(self, row: FileRow, item_id: str) -> Item | None:
        kept = self._store.read(lambda connection: copies.kept_item(connection, row.id, item_id))
        vendor = self._vendors(row.vendor)
        try:
            with self._opener.open(vendor, row.found()) as opened:
                source = opened.source
                whole_end = last_line_end(source, source.size())
                if kept is not None and kept[2] == row.revision and kept[1] < whole_end:
                    found = self._item_at(row, source, item_id, kept[1], whole_end)
                else:
                    found = self._item_searched(row, source, item_id, whole_end)
                if found is not None:
                    return with_side_files(row, found)
        except (NotFound, Forbidden):
            pass
        return kept[0] if kept is not None else None

    def _item_at(self, row: FileRow, source: ByteSource, item_id: str, start: int, whole_end: int) -> Item | None:
        begin = window_start(source, start, TAIL_PRIME_BYTES_MAX) if start else 0
        fold = self._vendors(row.vendor).fold(row.found())
        found: Item | None = None
        number = self._lineage.newlines(row).number_at(source, begin)
        for line in lines_forward(source, begin, min(whole_end, start + PAGE_WINDOW_BYTES_MAX), number=number):
            for item in fold.feed(line):
                if item.id == item_id:
                    found = item
            settled = found is not None and (found.tool is None or found.tool.state not in _OPEN_STATES)
            if line.start >= start and (settled or line.start > start + PAGE_AHEAD_BYTES_MAX):
                break
        return found

    def _item_searched(self, row: FileRow, source: ByteSource, item_id: str, whole_end: int) -> Item | None:
        """For a file that the import has not read yet: the newest part of it."""
        fold = self._vendors(row.vendor).fold(row.found())
        found: Item | None = None
        begin = window_start(source, whole_end, PAGE_WINDOW_BYTES_MAX)
        number = self._lineage.newlines(row).number_at(source, begin)
        for line in lines_forward(source, begin, whole_end, number=number):
            for item in fold.feed(line):
                if item.id == item_id:
                    found = item
        return found

    def raw(self, row: FileRow, *, before: str = "", limit: int | None = None) -> RawPage:
        """Lines of the native file as they are, newest page first.

        Raises:
            NotFound: if the file is gone.
            Invalid: for a cursor that is not of this file as it is now.
        """
        wanted = _bounded(limit)
        with self._opener.open(self._vendors(row.vendor), row.found()) as opened:
            source = opened.source
            head = head_of(source) or "0"
            end = source.size()
            if before:
                mark = parse_mark(before)
                if mark is None or mark.head != head or mark.offset > end:
                    raise Invalid(
                        "The cursor is not one of this file as it is now.", hint="Start without a cursor."
                    )
                end = mark.offset
            complete = last_line_end(source, end)
            window = PAGE_WINDOW_BYTES
            while True:
                start = window_start(source, complete, window)
                lines = list(lines_forward(source, start, end, open_line=True))
                if len(lines) >= wanted or start == 0 or window >= PAGE_WINDOW_BYTES_MAX:
                    break
                window *= 4
            lines = lines[-wanted:]
            kept: list[Line] = []
            size = 0
            for line in reversed(lines):
                size += min(len(line.raw), RAW_LINE_CHARS_MAX)
                if kept and size > PAGE_BYTES_MAX:
                    break
                kept.append(line)
            kept.reverse()
            first = kept[0].start if kept else 0
            number = self._lineage.newlines(row).number_at(source, first) if kept else 0
            shown = tuple(_raw_line(line, number + index if number else 0) for index, line in enumerate(kept))
            return RawPage(lines=shown, before=str(Mark(head, row.revision, first)) if first else "")


def _raw_line(line: Line, number: int) -> RawLine:
    text = line.raw[: 4 * RAW_LINE_CHARS_MAX].decode("utf-8", "replace")[:RAW_LINE_CHARS_MAX]
    cut = (line.end - line.start) - len(text.encode("utf-8", "surrogatepass"))
    return RawLine(line=number, start=line.start, text=text, cut_bytes=max(0, cut))


def _open_calls(read: _Read) -> bool:
    return any(item.tool is not None and item.tool.state in _OPEN_STATES for item in read.items.values())


def _newest(
    items: list[tuple[str, Item]], starts: dict[str, int], wanted: int, start: int, bytes_max: int
) -> tuple[list[Item], int, int]:
    """(the newest items that fit a page, where the first of their lines begins, their size). Items of one line
    stay together. Lines of the window before the first item are left for the next page: what they belong to may
    stand before."""
    index = len(items)
    size = 0
    while index > 0 and len(items) - index < wanted:
        more = len(encode_item(items[index - 1][1]))
        if size + more > bytes_max and index < len(items):
            break
        size += more
        index -= 1
    while 0 < index < len(items) and starts[items[index - 1][0]] == starts[items[index][0]]:
        index -= 1
    page = [item for _, item in items[index:]]
    return page, (starts[page[0].id] if (page and start > 0) or index > 0 else start), size
