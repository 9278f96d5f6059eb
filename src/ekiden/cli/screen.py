"""Text for a terminal. What comes from outside is shown as text: it cannot move the cursor, change colours,
set a title, hide or reorder anything.

Control characters, escapes, and characters that reorder or hide text become visible marks like `<1B>` or
`<202E>`. Colours and fitting to the width are only for a terminal; a pipe gets plain whole lines.
"""

import os
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any, TextIO

_HIDING = frozenset(
    [
        *range(0x202A, 0x202F),  # bidirectional embeddings and overrides
        *range(0x2066, 0x206A),  # bidirectional isolates
        0x061C,
        0x200E,
        0x200F,
        *range(0x200B, 0x200D),  # zero width space and non-joiner (the joiner stays: emoji need it)
        *range(0x2060, 0x2065),
        0xFEFF,
        0x2028,
        0x2029,
        0x00AD,
        0x180E,
        *range(0xFFF9, 0xFFFC),
        *range(0xE0000, 0xE0080),  # tags
    ]
)
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


def _mark(character: str, kept: str) -> str:
    code = ord(character)
    if character in kept:
        return character
    if code < 0x20 or 0x7F <= code < 0xA0 or code in _HIDING or 0xD800 <= code < 0xE000:
        return f"<{code:02X}>"
    return character


def visible(text: str, *, lines: bool = True) -> str:
    """`text` with every character that is not plainly visible as a mark. Newlines and tabs stay if `lines`."""
    if text.isprintable() and text.isascii():
        return text
    kept = "\n\t" if lines else ""
    if lines:
        text = text.replace("\r\n", "\n")
    return "".join(_mark(character, kept) for character in text)


def line_of(text: str) -> str:
    """`text` as one visible line: white space runs become one space."""
    return visible(" ".join(text.split()), lines=False)


def columns_of(text: str) -> int:
    """How many columns of a terminal `text` takes: wide East Asian characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def fitted(text: str, columns: int) -> str:
    """`text` cut to `columns` with an ellipsis where it does not fit."""
    if columns_of(text) <= columns:
        return text
    kept: list[str] = []
    left = columns - 1
    for character in text:
        left -= columns_of(character)
        if left < 0:
            break
        kept.append(character)
    return "".join(kept) + "…"


class Screen:
    """Where a command prints. `json` output goes through `data`, text for people through `say`."""

    def __init__(self, out: TextIO | None = None, environment: dict[str, str] | None = None) -> None:
        self._out = out or sys.stdout
        environment = dict(os.environ) if environment is None else environment
        self.is_terminal = self._out.isatty()
        self.colours = self.is_terminal and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
        self.columns = shutil.get_terminal_size((100, 24)).columns if self.is_terminal else 0
        """0 where nothing has to fit."""

    def style(self, text: str, *names: str) -> str:
        """`text` in a style, on a terminal that has any. `text` must be visible text already."""
        if not (self.colours and names and text):
            return text
        codes = ";".join(_STYLES[name] for name in names)
        return f"\x1b[{codes}m{text}\x1b[0m"

    def say(self, text: str = "", end: str = "\n") -> None:
        """Prints text that is safe: the program's own, or passed through `visible`."""
        self._out.write(text + end)
        self._out.flush()

    def data(self, value: Any) -> None:
        """Prints a value as one line of JSON. JSON text escapes control characters itself; what hides or
        reorders is escaped too, so that this is safe on a terminal as well."""
        import json

        import msgspec

        plain = msgspec.json.decode(msgspec.json.encode(value))
        self.say(json.dumps(plain, ensure_ascii=self.is_terminal))

    def table(self, rows: Sequence[Sequence[str]], *, styles: Sequence[tuple[str, ...]] = ()) -> None:
        """Prints rows in columns; the last column takes what is left of the width."""
        if not rows:
            return
        widths = [max(columns_of(row[at]) for row in rows) for at in range(len(rows[0]))]
        for row in rows:
            cells: list[str] = []
            used = 0
            for at, cell in enumerate(row):
                last = at == len(row) - 1
                if last:
                    shown = fitted(cell, max(10, self.columns - used)) if self.columns else cell
                else:
                    shown = cell + " " * (widths[at] - columns_of(cell))
                    used += widths[at] + 2
                cells.append(self.style(shown, *(styles[at] if at < len(styles) else ())))
            self.say("  ".join(cells).rstrip())
