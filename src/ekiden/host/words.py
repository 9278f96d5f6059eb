"""How text is made findable, how a query is read, and where in a text it was found. Pure.

The index holds words as SQLite's `unicode61` tokenizer cuts them (letters and digits, case and diacritics
folded). Chinese, Japanese and Korean text has no spaces, so each such character is set apart as a word of its
own before it is indexed; a query's run of such characters becomes a phrase of single characters. So one or two
characters are found inside any text, without a dictionary and without a second index.

A query's words must all occur, in any order; the last letters of a word may be missing (`hand` finds
`handoff`). Text in double quotes, and letters joined by punctuation (`foo.bar_baz`), must occur in that order.
"""

import re
import unicodedata
from collections.abc import Sequence

from ekiden.kernel.canonical import whole_text
from ekiden.kernel.limits import ITEM_TEXT_SEARCHED_CHARS_MAX, SEARCH_EXCERPT_CHARS, SEARCH_TERMS_MAX
from ekiden.transcript.items import Item, Text

_CJK = (
    "\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u3130-\u318f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_EACH_CJK = re.compile(f"([{_CJK}])")
_PIECES = re.compile(f"[{_CJK}]|[^\\W_{_CJK}]+")
_TERMS = re.compile(r'"([^"]*)"|(\S+)')

Term = tuple[str, ...]
"""The words of one term, in the order in which they must stand."""


def plain_text(item: Item) -> str:
    """What people can find of an item: its text, and for a tool its title, command, paths and output. Bounded
    by `ITEM_TEXT_SEARCHED_CHARS_MAX`."""
    parts = [block.text for block in item.content if isinstance(block, Text)]
    tool = item.tool
    if tool is not None:
        parts.append(tool.title)
        if tool.command not in tool.title:
            parts.append(tool.command)
        parts.extend(diff.path for diff in tool.diffs)
        parts.append(tool.output)
    parts.extend(entry.text for entry in item.plan)
    return whole_text("\n".join(part for part in parts if part)[:ITEM_TEXT_SEARCHED_CHARS_MAX])


def indexed_text(text: str) -> str:
    """`text` in the form that the index takes."""
    return text if text.isascii() else _EACH_CJK.sub(r" \1 ", text)


def terms_of(query: str) -> list[Term]:
    """The terms of a query, at most `SEARCH_TERMS_MAX`. Empty if nothing in it can be found."""
    terms: list[Term] = []
    for quoted, single in _TERMS.findall(whole_text(query)):
        words = tuple(_PIECES.findall(quoted or single))
        if words:
            terms.append(words)
    return terms[:SEARCH_TERMS_MAX]


def match_expression(terms: Sequence[Term]) -> str:
    """The terms as an FTS5 expression. Words hold letters and digits only, so nothing in them is syntax."""
    phrases: list[str] = []
    for words in terms:
        open_end = "" if _EACH_CJK.match(words[-1]) else "*"
        phrases.append(f'"{" ".join(words)}"{open_end}')
    return " AND ".join(phrases)


def _folded(text: str) -> str:
    """`text` with case and diacritics folded, one character for one."""
    if text.isascii():
        return text.lower()
    return "".join(
        letter if letter < "\x80" else (unicodedata.normalize("NFD", letter)[0].lower()[:1] or letter)
        for letter in text.lower()
    )


def excerpt_of(text: str, terms: Sequence[Term]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """(a part of `text` of about `SEARCH_EXCERPT_CHARS` code points around the first find, where in it the
    terms stand as (start, end) code points)."""
    folded = _folded(text)
    if len(folded) != len(text):
        folded = text.lower() if len(text.lower()) == len(text) else text
    patterns = [
        re.compile(r"[\W_]*".join(re.escape(_folded(word)) for word in words), re.IGNORECASE) for words in terms
    ]
    first = min((found.start() for pattern in patterns if (found := pattern.search(folded))), default=0)
    begin = max(0, first - SEARCH_EXCERPT_CHARS // 3)
    end = min(len(text), begin + SEARCH_EXCERPT_CHARS)
    before = "…" if begin else ""
    after = "…" if end < len(text) else ""
    shift = len(before) - begin
    spans = sorted(
        (found.start() + shift, found.end() + shift)
        for pattern in patterns
        for found in pattern.finditer(folded, begin, end)
    )
    apart: list[tuple[int, int]] = []
    for start, stop in spans:
        if apart and start < apart[-1][1]:
            apart[-1] = (apart[-1][0], max(stop, apart[-1][1]))
        else:
            apart.append((start, stop))
    return before + text[begin:end] + after, tuple(apart)
