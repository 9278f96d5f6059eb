"""The grammar of mentions: which names a text calls. Pure. `web/state/mentions.js` is its twin; both are held to
one set of vectors.

`@name` calls somebody if it stands free: no letter, digit, dot, slash or the like before it; brackets, quotes and
marks of emphasis may be. A name is letters, digits, `_`, `-` and `.`; one with spaces is written `@"Phone 2"`, a
role as `@role:reviewer` or by its bare name. Nobody is called by what is not said to anybody: code (spans and
fenced blocks), quoted lines (`> …`), addresses (`me@bob.example`, `https://…/@bob`), package names (`@bob/tool`),
and an `@` with a backslash before it.
"""

import re
import unicodedata

from ekiden.kernel.limits import MENTION_CHARS_MAX

_LINE_END = re.compile(r"\r\n|\r|\n")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_QUOTED = re.compile(r" {0,3}>")
_TICKS = re.compile(r"`+")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,30}://[^ \t\n\f\v\u00a0\u2028\u2029\u3000<>`]*")
_NOT_BEFORE = frozenset("./@+-=&#%$^")
"""An `@` after one of these is a part of something else: of an address, a path, an expression."""
_EMPHASIS = "_*~"
_ROLE = "role:"


def mentions_in(text: str) -> tuple[str, ...]:
    """The names that `text` calls, as written (a role as `role:NAME`), each once, in order."""
    if "@" not in text:
        return ()
    found: dict[str, None] = {}
    for piece in _spoken(text):
        _scan(piece, found)
    return tuple(found)


def _spoken(text: str) -> list[str]:
    """What is left of a text without fenced blocks and quoted lines, in pieces that a code span cannot leave."""
    pieces: list[str] = []
    lines: list[str] = []
    fence = ""
    for line in _LINE_END.split(text):
        marks = _FENCE.fullmatch(line)
        if fence:
            if marks and marks[1][0] == fence[0] and len(marks[1]) >= len(fence) and not marks[2].strip(" \t"):
                fence = ""
            continue
        opens = marks is not None and not (marks[1][0] == "`" and "`" in marks[2])
        if opens or not line.strip(" \t") or _QUOTED.match(line):
            pieces.append("\n".join(lines))
            lines = []
            if opens and marks is not None:
                fence = marks[1]
            continue
        lines.append(line)
    pieces.append("\n".join(lines))
    return pieces


def _scan(piece: str, found: dict[str, None]) -> None:
    position = 0
    while position < len(piece):
        letter = piece[position]
        if letter == "\\":
            position += 2
        elif letter == "`":
            position = _after_code(piece, position)
        elif letter == "@":
            name, position = _name_at(piece, position)
            if name:
                found[name] = None
        elif letter.isascii() and letter.isalpha() and (position == 0 or not _is_word(piece[position - 1])):
            url = _URL.match(piece, position)
            position = url.end() if url else position + 1
        else:
            position += 1


def _after_code(piece: str, position: int) -> int:
    """Where a code span that begins at `position` ends; after its marks, if it never ends."""
    opening = _TICKS.match(piece, position)
    assert opening is not None
    for closing in _TICKS.finditer(piece, opening.end()):
        if len(closing[0]) == len(opening[0]):
            return closing.end()
    return opening.end()


def _name_at(piece: str, at: int) -> tuple[str, int]:
    """The name that is called at `at`, "" for none, and where to go on."""
    start = at + 1
    if not _stands_free(piece, at):
        return "", start
    if piece.startswith('"', start):
        end = piece.find('"', start + 1)
        name = piece[start + 1 : end].strip(" \t") if end > 0 else ""
        if not name or "\n" in name or len(name) > MENTION_CHARS_MAX:
            return "", start
        return name, end + 1
    role = piece.startswith(_ROLE, start) and _is_word(piece[start + len(_ROLE) : start + len(_ROLE) + 1])
    end = begin = start + len(_ROLE) if role else start
    while end < len(piece) and (_is_word(piece[end]) or piece[end] in "-."):
        end += 1
    if not _is_word(piece[begin : begin + 1]):
        return "", start
    after = piece[end : end + 1]
    if after == "@" or (after in ("/", "\\") and _is_word(piece[end + 1 : end + 2])):
        return "", end
    name = piece[begin:end].rstrip("-.")
    if at > 0 and piece[at - 1] == "_":
        name = name.rstrip("_")
    if not name or len(name) > MENTION_CHARS_MAX:
        return "", end
    return (_ROLE + name if role else name), end


def _stands_free(piece: str, at: int) -> bool:
    """Whether an `@` begins something; marks of emphasis may stand before it."""
    before = at
    while before > 0 and piece[before - 1] in _EMPHASIS:
        before -= 1
    return before == 0 or not (_is_word(piece[before - 1]) or piece[before - 1] in _NOT_BEFORE)


def _is_word(letter: str) -> bool:
    return letter == "_" or (letter != "" and unicodedata.category(letter)[0] in "LNM")
