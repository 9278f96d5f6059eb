"""A cursor: a position in one team's log, opaque to clients.

It names the log that it belongs to, so that a cursor from another database (a restored backup, another
hub) is told apart from a position that is merely old.
"""

from dataclasses import dataclass

from ekiden.kernel.errors import Invalid


@dataclass(frozen=True, slots=True)
class Cursor:
    """After the event `seq` of the log `log_id` (8 letters made when the log was made)."""

    log_id: str
    seq: int

    def __str__(self) -> str:
        return f"{self.log_id}.{self.seq}"


def parse_cursor(text: str) -> Cursor:
    """Reads what `str(cursor)` wrote.

    Raises:
        Invalid: if it is anything else.
    """
    log_id, dot, seq = text.partition(".")
    if not (dot and log_id.isalnum() and log_id.isascii() and seq.isascii() and seq.isdigit() and len(seq) <= 18):
        raise Invalid("The cursor is not one that this door gave out.", hint="Start again without a cursor.")
    return Cursor(log_id, int(seq))
