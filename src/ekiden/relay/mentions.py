"""The grammar of mentions: which names a text calls. Pure; `web/state/mentions.js` is its twin, letter by letter,
and both are held to the vectors in `web/state/mentions.vectors.json`.

`@name` calls somebody if it stands free: at the start, after a space, or after a sign that opens something. A
name is letters, digits, `_`, `-` and `.`; one with spaces is written `@"Phone 2"`, a role as `@role:reviewer` or
by its bare name. Nobody is called by what is not said to anybody: code (spans and fenced blocks), quoted lines
(`> …`), addresses (`me@bob.example`, `https://…/@bob`), package names (`@bob/tool`), and an `@` that is escaped
(`\\@bob`).
"""

import re
import unicodedata

from ekiden.kernel.limits import MENTION_CHARS_MAX

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_TICKS = re.compile(r"`+")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s<>`]*")
_OPENERS = frozenset(" \t\r\n\f\v\u00a0\u3000([{<\"'*~,;:!?|>«“‘„‚（「『【《，。、；：！？—–…")
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
    for line in re.split(r"\r\n|\r|\n", text):
        marks = _FENCE.fullmatch(line)
        if fence:
            if marks and marks[1][0] == fence[0] and len(marks[1]) >= len(fence) and not marks[2].strip(" \t"):
                fence = ""
            continue
        opens = marks is not None and not (marks[1][0] == "`" and "`" in marks[2])
        if opens or not line.strip(" \t") or re.match(r" {0,3}>", line):
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
        name = piece[start + 1 : end].strip() if end > 0 else ""
        if not name or "\n" in name or len(name) > MENTION_CHARS_MAX:
            return "", start
        return name, end + 1
    role = piece.startswith(_ROLE, start) and _is_word(piece[start + len(_ROLE) : start + len(_ROLE) + 1])
    end = begin = start + len(_ROLE) if role else start
    while end < len(piece) and (_is_word(piece[end]) or piece[end] in "-."):
        end += 1
    if end == begin or not _is_word(piece[begin : begin + 1]):
        return "", start
    after = piece[end : end + 1]
    if (after in ("/", "\\") and end + 1 < len(piece) and _is_word(piece[end + 1])) or after == "@":
        return "", end
    name = piece[begin:end].rstrip("-.")
    if at > 0 and piece[at - 1] == "_":
        name = name.rstrip("_")
    if not name or len(name) > MENTION_CHARS_MAX:
        return "", end
    return (_ROLE + name if role else name), end


def _stands_free(piece: str, at: int) -> bool:
    """Whether an `@` begins a word of its own; marks of emphasis may stand before it."""
    before = at
    while before > 0 and piece[before - 1] in "_*~":
        before -= 1
    return before == 0 or piece[before - 1] in _OPENERS or (before == at and piece[before - 1] == "`")


def _is_word(letter: str) -> bool:
    return letter == "_" or (letter != "" and unicodedata.category(letter)[0] in "LNM")
