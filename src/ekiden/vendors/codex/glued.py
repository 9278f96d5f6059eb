"""Rows that stand on one line because a writer was killed before its newline, taken apart again.

Nearly always a line is one row, which a search for the beginning of a second one tells without parsing. A very
long line is parsed for this only where a second row is certain.
"""

from ekiden.kernel.limits import CODEX_GLUED_PARSED_BYTES_MAX, CODEX_GLUED_ROWS_MAX
from ekiden.transcript.reading import Line
from ekiden.vendors.codex.native import decoded

_BEGINS = b'{"timestamp":'
_FOLLOWS = b"}" + _BEGINS
"""Never inside a whole row: within its texts the quotes are escaped."""


def rows_on(line: Line) -> list[Line]:
    """The rows on a line, each with its own place in the file; what lies between them is a row that cannot be
    read. The line itself where it is one row, or where nothing on it can be read."""
    raw = line.raw
    if raw.find(_BEGINS, 1) < 0 or len(raw) < line.end - line.start:
        return [line]
    if _FOLLOWS not in raw and (len(raw) > CODEX_GLUED_PARSED_BYTES_MAX or _is_row(raw)):
        return [line]
    begins = _beginnings(raw)
    pieces: list[Line] = []
    position = 0
    while position < len(raw):
        later = [begin for begin in begins if begin > position]
        end = next((end for end in (*later[:1], len(raw)) if _is_row(raw[position:end])), None)
        end = end if end is not None else later[0] if later else len(raw)
        pieces.append(Line(raw[position:end], line.start + position, line.start + end, line.number))
        position = end
    return pieces


def _beginnings(raw: bytes) -> list[int]:
    found: list[int] = []
    at = raw.find(_BEGINS, 1)
    while at >= 0 and len(found) < CODEX_GLUED_ROWS_MAX:
        found.append(at)
        at = raw.find(_BEGINS, at + 1)
    return found


def _is_row(raw: bytes) -> bool:
    try:
        return isinstance(decoded(raw), dict)
    except ValueError:
        return False
