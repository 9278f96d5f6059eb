"""Which files a session's conversation runs through: its own, and before it those that it continues by reference.

A fork by reference names its parent and up to which row the parent's history is its own. Rows are counted on
through all parents. What a file's first line says is read from the file itself where the import has not been yet.
"""

from collections.abc import Callable

from ekiden.host.lines import NewlineIndex, first_line_end, head_of, lines_forward
from ekiden.host.store import FileRow, Store, file_of, newlines_of
from ekiden.host.unpacked import Opener
from ekiden.kernel.errors import EkidenError
from ekiden.kernel.limits import LINE_BYTES_MAX, PARENTS_MAX, PEEK_HEAD_BYTES
from ekiden.vendors.port import Vendor


class Lineage:
    """Answers from the store and the files of one host. Reads files: call it from a thread."""

    def __init__(self, store: Store, opener: Opener, vendors: Callable[[str], Vendor]) -> None:
        self._store = store
        self._opener = opener
        self._vendors = vendors

    def parents(self, row: FileRow) -> list[tuple[FileRow, int]]:
        """Each file that `row` continues by reference, nearest first, with the ordinal that it counts up to."""
        parents: list[tuple[FileRow, int]] = []
        base = self._base(row)
        while base is not None and len(parents) < PARENTS_MAX:
            vendor, native_id = row.vendor, base[0]
            parent = self._store.read(
                lambda connection, of=vendor, native=native_id: file_of(connection, of, native)
            )
            if parent is None or parent.id == row.id or any(parent.id == seen.id for seen, _ in parents):
                break
            parents.append((parent, base[1]))
            base = self._base(parent)
        return parents

    def head(self, row: FileRow) -> str:
        """What names the file's content at this moment; empty if it cannot be read."""
        try:
            with self._opener.open(self._vendors(row.vendor), row.found()) as opened:
                return head_of(opened.source)
        except EkidenError:
            return ""

    def _base(self, row: FileRow) -> tuple[str, int] | None:
        if row.facts is not None and (row.facts_whole or row.facts.history_base is not None):
            return row.facts.history_base
        vendor = self._vendors(row.vendor)
        try:
            with self._opener.open(vendor, row.found()) as opened:
                source = opened.source
                size = source.size()
                end = first_line_end(source, 0, min(size, LINE_BYTES_MAX)) or 0
                fold = vendor.fold(row.found())
                for line in lines_forward(source, 0, max(end, min(size, PEEK_HEAD_BYTES))):
                    fold.feed(line)
                return fold.facts.history_base
        except EkidenError:
            return None

    def offset_of(self, parent: FileRow, ordinal: int) -> int | None:
        """Where the row with this ordinal begins in `parent`; None if it is before it, or nothing can be read."""
        base = self._base(parent)
        row = ordinal - (base[1] if base is not None else 0)
        if row <= 0:
            return None
        try:
            with self._opener.open(self._vendors(parent.vendor), parent.found()) as opened:
                index = self.newlines(parent)
                found = index.start_of(opened.source, row)
                if found is None:
                    index = NewlineIndex()
                    for line in lines_forward(opened.source, 0, opened.source.size()):
                        index.add(line)
                        if index.rows >= row:
                            break
                    found = index.end
                return found
        except EkidenError:
            return None

    def newlines(self, row: FileRow) -> NewlineIndex:
        """Where the lines of a file begin, as far as the import has been."""
        revision, index = self._store.read(lambda connection: newlines_of(connection, row.id))
        return index if revision == row.revision else NewlineIndex()
