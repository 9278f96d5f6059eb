"""The chains of senders, as far as an export shows them: what is withheld, doubled or in another order.

A link can be absent for reasons that are told: its text was edited or deleted (the statement that replaced it
names it by its digest), or it was purged. An absence that nothing tells of is a finding. What was withheld after
the last link that is shown cannot be seen; the sender's own program can tell.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from ekiden.crypto.exported import Signature


@dataclass(frozen=True, slots=True)
class Linked:
    """One signed statement in its place."""

    where: str
    signature: Signature
    digest: str
    seq: int
    """Of its countersignature, 0 if there is none."""


@dataclass(slots=True)
class Chain:
    """What one program said, as it is shown."""

    links: dict[int, Linked] = field(default_factory=dict[int, Linked])
    forks: list[tuple[Linked, Linked]] = field(default_factory=list[tuple[Linked, Linked]])

    def add(self, one: Linked) -> None:
        """Adds a statement; one number that says two things is a fork."""
        held = self.links.setdefault(one.signature.link, one)
        if held.digest != one.digest:
            self.forks.append((held, one))

    def in_order(self) -> list[Linked]:
        """By number."""
        return [self.links[link] for link in sorted(self.links)]

    def broken(self) -> Iterator[tuple[Linked, Linked]]:
        """Neighbours of which the later does not name the earlier."""
        for before, after in self._neighbours():
            if after.signature.link == before.signature.link + 1 and after.signature.previous != before.digest:
                yield before, after

    def reordered(self) -> Iterator[tuple[Linked, Linked]]:
        """Neighbours that the hub placed in the other order."""
        for before, after in self._neighbours():
            if before.seq and after.seq and before.seq >= after.seq:
                yield before, after

    def absent(self) -> int:
        """How many links before the last are not shown."""
        return max(self.links, default=0) - len(self.links)

    def _neighbours(self) -> Iterator[tuple[Linked, Linked]]:
        return pairwise(self.in_order())
