"""How a native session file is read: one pure fold, fed with lines, for every way of reading.

The host follows a growing file, opens the newest page of a huge one, and imports a whole one. All three
feed `Line`s to a vendor's `Fold` and take `Item`s out of it; only where the lines come from differs. A fold
does no I/O and never raises on content: a bad line becomes an `unreadable` item.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import msgspec

from ekiden.transcript.items import Item


class Line(msgspec.Struct, frozen=True, gc=False):
    """One line of a native file without its newline. `number` counts from 1, or is 0 where it is not known
    (a page read from the end of a file without an index). Bytes are [start, end) and leave the newline out.

    Never on the wire: a struct because there is one for every line, and it is made in a tenth of the time.
    """

    raw: bytes
    start: int
    end: int
    number: int = 0
    complete: bool = True
    """False for a last line that has no newline yet."""


class Drift(StrEnum):
    """Whether the file's form is one that this reader knows."""

    NONE = "none"
    UNKNOWN_ROWS = "unknown_rows"
    """Read, but a noticeable share of the rows is of kinds that this reader does not know."""
    NOTHING_PARSED = "nothing_parsed"
    """There are bytes, and not one message came out of them."""


@dataclass(slots=True)
class Facts:
    """What the lines fed so far say of the session as a whole. All fields may be empty in a partial reading."""

    native_id: str = ""
    title: str = ""
    first_prompt: str = ""
    cwd: str = ""
    git_branch: str = ""
    model: str = ""
    vendor_version: str = ""
    created_at: str = ""
    updated_at: str = ""
    forked_from: str = ""
    """Native id of the session that this one branches from."""
    history_base: tuple[str, int] | None = None
    """A Codex fork by reference: (parent's native id, end ordinal exclusive)."""
    is_subagent: bool = False
    called_by: str = ""
    """For a sub-agent's file: id of the item of the call that started it, where that is known."""
    is_helper: bool = False
    """A run of Ekiden's own or of the vendor for itself (titles, summaries), not a person's session."""
    turn_open: bool = False
    """The file's last word is a turn that has begun and not ended. Not proof that anything runs."""
    turn_id: str = ""
    """Neutral id of the newest turn (`trn_…`, derived)."""
    rows: int = 0
    messages: int = 0
    unknown_rows: int = 0
    unreadable_rows: int = 0
    unknown_kinds: dict[str, int] = field(default_factory=dict[str, int])
    drift: Drift = Drift.NONE
    wants_earlier: int = 0
    """In a reading that begins inside the file: how many results and blocks belong to calls and messages that
    stand before it. They give no item here; a window that begins earlier has them whole."""


class Fold(Protocol):
    """Takes the lines of one native file in file order and gives neutral items."""

    facts: Facts

    def feed(self, line: Line) -> list[Item]:
        """Items that are new or changed by this line, each whole. Often empty: bookkeeping rows give none."""
        ...

    def finish(self) -> list[Item]:
        """Items whose state only the end of the reading settles: calls without a result become `unrecorded`,
        items off the live branch become `abandoned`, a gap or cycle in the tree gets its notice. The fold can
        be fed further afterwards."""
        ...
