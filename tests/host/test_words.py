"""What is searched is found, in any script."""

import sqlite3

import pytest

from ekiden.host.words import excerpt_of, indexed_text, match_expression, terms_of

TEXTS = [
    "我喜欢写代码 with foo.bar_baz",
    "Straße Café handoff now",
    "日本語テストです",
    "한국어 문장",
    'quotes " and AND OR NEAR( * ^ : - words',
]


def find(query: str) -> list[int]:
    connection = sqlite3.connect(":memory:")
    connection.execute(
        'CREATE VIRTUAL TABLE search USING fts5 (text, content = "", tokenize = "unicode61 remove_diacritics 2")'
    )
    for number, text in enumerate(TEXTS):
        connection.execute("INSERT INTO search (rowid, text) VALUES (?, ?)", (number, indexed_text(text)))
    terms = terms_of(query)
    if not terms:
        return []
    found = connection.execute("SELECT rowid FROM search WHERE search MATCH ?", (match_expression(terms),))
    rows = [values[0] for values in found]
    connection.close()
    return rows


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("代", [0]),
        ("喜欢", [0]),
        ("写码", []),
        ("语", []),
        ("テス", [2]),
        ("国", []),
        ("국", [3]),
        ("cafe", [1]),
        ("CAFÉ", [1]),
        ("hand", [1]),
        ("andoff", []),
        ("foo.bar", [0]),
        ('"bar baz"', [0]),
        ('"baz bar"', []),
        ("喜欢 foo", [0]),
        ("喜欢 cafe", []),
        ('" AND (', [4]),
        ("NEAR(", [4]),
        ("*", []),
        ("", []),
    ],
)
def test_words_and_single_characters_are_found(query: str, found: list[int]) -> None:
    """One and two characters of CJK text, folded case and accents, beginnings of words; no syntax gets through."""
    assert find(query) == found


@pytest.mark.parametrize("text", ["x" * 500 + " 我喜欢写代码 " + "y" * 500, "喜欢", "İstanbul " * 50 + "喜欢"])
def test_an_excerpt_shows_the_find_and_where_it_is(text: str) -> None:
    """The spans are code points of the excerpt, whatever stands before."""
    excerpt, spans = excerpt_of(text, terms_of("喜欢"))
    assert len(excerpt) < 200
    assert [excerpt[start:end] for start, end in spans] == ["喜欢"]
