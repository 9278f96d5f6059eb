"""The tree of a session's rows: which branch the program would go on from, and where the chain is broken.

Rows name their parent. The live branch is walked from the leaf (the last row of the conversation) to its
root. A root is bridged, so that nothing earlier is hidden: over `logicalParentUuid` where a compaction says
it, else to the row that stands before it in the file. What the walk does not meet and what shares no message
or tool call with it is abandoned. No recursion; a cycle is cut at its earliest row.

Memory: one small entry for each row that has a uuid.
"""

from array import array
from dataclasses import dataclass, field

NONE = -1


@dataclass(slots=True)
class Shape:
    """What a whole look at the tree finds. All are row numbers, counted from 0 in file order."""

    abandoned: set[int] = field(default_factory=set[int])
    dangling: list[int] = field(default_factory=list[int])
    """Rows whose parent is named and is not in the file."""
    cycles: list[int] = field(default_factory=list[int])
    """The earliest row of each cycle."""


class Tree:
    """Grows row by row. `dirty` says that `shape` may have changed since it was last asked for."""

    def __init__(self) -> None:
        self.dirty = False
        self._number: dict[str, int] = {}
        self._parent = array("q")
        self._logical = array("q")
        self._missing: dict[int, tuple[str, str]] = {}
        """Rows with a parent or logical parent that has not been seen yet."""
        self._said: list[int] = []
        """Rows of the main conversation, ascending."""
        self._groups: dict[int, str] = {}
        """Row -> the model's message that it is a block of."""
        self._tip = NONE

    def __len__(self) -> int:
        return len(self._parent)

    def number(self, uuid: str) -> int:
        """The row of `uuid`, or NONE."""
        return self._number.get(uuid, NONE)

    def add(self, uuid: str, parent: str, logical: str, *, said: bool, group: str = "") -> int:
        """Adds a row and returns its number. `said`: it is a row of the main conversation, so it may be the
        leaf; `group` is the id of the model's message that it belongs to."""
        row = len(self._parent)
        self._number[uuid] = row
        up = self._number.get(parent, NONE) if parent else NONE
        over = self._number.get(logical, NONE) if logical else NONE
        self._parent.append(up)
        self._logical.append(over)
        if (parent and up == NONE) or (logical and over == NONE):
            self._missing[row] = (parent if up == NONE else "", logical if over == NONE else "")
        if group:
            self._groups[row] = group
        if up != self._tip or up == NONE:
            self.dirty = True
        if said:
            self._said.append(row)
        self._tip = row
        return row

    def _settle(self) -> None:
        """Links rows whose parents came later in the file."""
        for row, (parent, logical) in list(self._missing.items()):
            up = self._number.get(parent, NONE) if parent else NONE
            over = self._number.get(logical, NONE) if logical else NONE
            if up != NONE:
                self._parent[row] = up
                parent = ""
            if over != NONE:
                self._logical[row] = over
                logical = ""
            if parent or logical:
                self._missing[row] = (parent, logical)
            else:
                del self._missing[row]

    def shape(self) -> Shape:
        """A whole look: linear in the number of rows."""
        self._settle()
        self.dirty = False
        shape = Shape(dangling=sorted(row for row, (parent, _) in self._missing.items() if parent))
        shape.cycles = self._cut_cycles()
        live = self._live()
        shape.abandoned = {row for row in self._said if not live[row]}
        return shape

    def _cut_cycles(self) -> list[int]:
        """Makes the earliest row of each cycle a root."""
        count = len(self._parent)
        walk_of = array("q", [NONE]) * count
        found: list[int] = []
        for start in range(count):
            row = start
            while row != NONE and walk_of[row] == NONE:
                walk_of[row] = start
                row = self._parent[row]
            if row != NONE and walk_of[row] == start:
                cycle = [row]
                step = self._parent[row]
                while step != row:
                    cycle.append(step)
                    step = self._parent[step]
                earliest = min(cycle)
                self._parent[earliest] = NONE
                found.append(earliest)
        return found

    def _live(self) -> bytearray:
        """1 for each row on the live branch, below its leaf, or joined to it by its message."""
        count = len(self._parent)
        live = bytearray(count)
        if not self._said:
            return live
        before = self._rows_before()
        row = leaf = self._said[-1]
        while row != NONE and not live[row]:
            live[row] = 1
            up = self._parent[row]
            if up == NONE:
                up = self._logical[row]
            row = before[row] if up == NONE else up
        groups = {self._groups[row] for row in self._groups if live[row]}
        for row, group in self._groups.items():
            if group in groups:
                live[row] = 1
        for row in range(leaf + 1, count):
            up = self._parent[row]
            if up != NONE and live[up] and up >= leaf:
                live[row] = 1
        return live

    def _rows_before(self) -> "array[int]":
        """For each row the conversation's row before it in the file."""
        before = array("q", [NONE]) * len(self._parent)
        last = NONE
        said = iter(self._said)
        following = next(said, NONE)
        for row in range(len(before)):
            before[row] = last
            if row == following:
                last = row
                following = next(said, NONE)
        return before
