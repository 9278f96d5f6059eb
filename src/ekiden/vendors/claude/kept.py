"""The newest form of the items given so far, so that one can be told again: changed, or as abandoned.

Bounded in bytes; the oldest go first. Rows whose items are gone are remembered by number only.
"""

import itertools
from collections import OrderedDict
from collections.abc import Iterator

import msgspec

from ekiden.kernel.limits import FOLD_KEPT_ITEMS_BYTES_MAX, FOLD_MESSAGES_OPEN_MAX
from ekiden.transcript.items import Item, Text
from ekiden.vendors.claude.tree import NONE


class Kept:
    """Items by id, each with the number of the row that it comes from."""

    def __init__(self) -> None:
        self._items: OrderedDict[str, tuple[int, Item, int]] = OrderedDict()
        self._bytes = 0
        self._abandoned: set[int] = set()
        self._gone: set[int] = set()

    def get(self, item_id: str) -> Item | None:
        """The newest form of an item, if it is still kept."""
        known = self._items.get(item_id)
        return known[1] if known else None

    def put(self, item: Item, row: int = NONE) -> Item:
        """Keeps `item`, under the row that it had before if none is given; returns it as it is to be told."""
        known = self._items.pop(item.id, None)
        if known is not None:
            row = known[0] if row == NONE else row
            self._bytes -= known[2]
        if row == NONE:
            return item
        if row in self._abandoned and not item.abandoned:
            item = msgspec.structs.replace(item, abandoned=True)
        size = _weight(item)
        self._items[item.id] = (row, item, size)
        self._bytes += size
        while self._bytes > FOLD_KEPT_ITEMS_BYTES_MAX and len(self._items) > 1:
            _, (gone, _, weight) = self._items.popitem(last=False)
            self._bytes -= weight
            self._gone.add(gone)
        return item

    def newest_of(self, row: int) -> list[Item]:
        """The items of a row that was read lately."""
        newest = itertools.islice(reversed(self._items.values()), FOLD_MESSAGES_OPEN_MAX)
        return [item for number, item, _ in newest if number == row != NONE]

    def abandon(self, rows: set[int]) -> tuple[list[Item], list[int]]:
        """`rows` are now the abandoned ones. Returns the items that this changes, and the newly abandoned rows
        whose items are gone from here."""
        changed = self._abandoned ^ rows
        lost = sorted(changed & rows & self._gone)
        self._abandoned = rows
        return (list(self._changed(changed)) if changed else []), lost

    def _changed(self, rows: set[int]) -> Iterator[Item]:
        for key, (row, item, size) in list(self._items.items()):
            if row in rows:
                item = msgspec.structs.replace(item, abandoned=row in self._abandoned)
                self._items[key] = (row, item, size)
                yield item


def _weight(item: Item) -> int:
    """Roughly the memory that an item takes."""
    size = 600
    for block in item.content:
        if isinstance(block, Text):
            size += len(block.text)
    tool = item.tool
    if tool is not None:
        size += len(tool.output) + len(bytes(tool.input))
        for diff in tool.diffs:
            size += len(diff.unified)
    return size
