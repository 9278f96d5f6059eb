"""Named queries and the translation of their parameters."""

import re
import sqlite3
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ekiden.log import sqlite_connection
from ekiden.log.migrations import read_migrations
from ekiden.log.queries import QueryFileBroken, bound, joined, load_queries, room_queries


def test_queries_are_known_by_room_and_name():
    text = """
-- Words about the whole file.

-- name: first
-- Gives one.
SELECT 1;

-- name: second_2
-- Gives two,
-- over two lines.
SELECT ':no', -- :no
  :yes;
"""
    queries = load_queries("room", text)
    assert list(queries) == ["room.first", "room.second_2"]
    assert queries["room.first"].endswith("SELECT 1")
    assert queries["room.second_2"].endswith(":yes")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT 1;", "before the first"),
        ("-- name: a\nSELECT 1;", "say in a comment"),
        ("-- name: a\n--\nSELECT 1;", "say in a comment"),
        ("-- name: a\n-- What.\n", "no statement"),
        ("-- name: a\n-- What.\n-- name: b\n-- What.\nSELECT 1;", "no statement"),
        ("-- name: a\n-- What.\nSELECT 1;\n-- name: a\n-- What.\nSELECT 1;", "twice"),
        ("-- name: A\n-- What.\nSELECT 1;", "not a name"),
        ("-- name: a.b\n-- What.\nSELECT 1;", "not a name"),
    ],
)
def test_a_file_of_another_form_is_refused_and_says_where(text, said):
    with pytest.raises(QueryFileBroken, match=said):
        load_queries("room", text)


@pytest.mark.parametrize(
    ("sql", "translated", "names"),
    [
        ("SELECT :a", "SELECT $1", ("a",)),
        ("SELECT :a, :b, :a", "SELECT $1, $2, $1", ("a", "b")),
        ("SELECT ':a', :a", "SELECT ':a', $1", ("a",)),
        ("SELECT 'it''s :a', :b", "SELECT 'it''s :a', $1", ("b",)),
        ("SELECT ':a'':b', :c", "SELECT ':a'':b', $1", ("c",)),
        ('SELECT ":a" FROM "t"":b" WHERE x = :c', 'SELECT ":a" FROM "t"":b" WHERE x = $1', ("c",)),
        ("SELECT x::text, :a::bigint", "SELECT x::text, $1::bigint", ("a",)),
        ("SELECT 1 -- :a\n, :b", "SELECT 1 -- :a\n, $1", ("b",)),
        ("SELECT /* :a \n ' */ :b", "SELECT /* :a \n ' */ $1", ("b",)),
        ("SELECT '--', :a", "SELECT '--', $1", ("a",)),
        ("SELECT 1 -- it's\n, :a", "SELECT 1 -- it's\n, $1", ("a",)),
        ("SELECT :a_1,:b2", "SELECT $1,$2", ("a_1", "b2")),
        ("SELECT 1", "SELECT 1", ()),
        ("SELECT '12:30', x[1:2]", "SELECT '12:30', x[1:2]", ()),
    ],
)
def test_parameters_are_numbered_and_all_else_stays(sql, translated, names):
    assert bound(sql) == (translated, names)


@given(st.text(alphabet="ab':\"-/* \n1", max_size=30), st.text(alphabet="ab':\"-/* \n1", max_size=30))
def test_a_quoted_text_is_never_touched(text, other):
    """Whatever stands in quotes, a parameter after it is found and nothing in it is."""
    quoted = "'" + text.replace("'", "''") + "'"
    name = '"' + other.replace('"', '""') + '"'
    assert bound(f"SELECT {quoted}, {name}, :p") == (f"SELECT {quoted}, {name}, $1", ("p",))


def test_numbered_parameters_mean_on_sqlite_what_the_names_meant():
    connection = sqlite3.connect(":memory:")
    sql, names = bound("SELECT :b || ':a' || :a || :b AS joined -- :c", "?")
    values = {"a": "1", "b": "2"}
    assert connection.execute(sql, [values[name] for name in names]).fetchone() == ("2:a12",)
    connection.close()


@pytest.mark.parametrize("package", ["ekiden.log", "ekiden.access"])
def test_every_named_query_of_these_rooms_fits_the_schema(package):
    connection = sqlite3.connect(":memory:")
    for step in read_migrations():
        for statement in step.statements:
            connection.execute(statement)
    queries = joined(room_queries(package))
    assert queries
    for text in queries.values():
        sql, names = bound(text, "?")
        connection.execute(f"EXPLAIN {sql}", [None] * len(names)).fetchall()
    connection.close()


def test_the_schema_and_the_queries_keep_to_the_common_subset():
    """What SQLite alone knows stands in `.sqlite.sql` files, so that another engine needs only those anew."""
    only_sqlite = ("WITHOUT ROWID", "AUTOINCREMENT", "INSERT OR", "PRAGMA", "STRICT", "rowid", "IFNULL", "GLOB")
    shared = [text for package in ("ekiden.log", "ekiden.access") for text in room_queries(package).values()]
    schema = files("ekiden.log").joinpath("schema").iterdir()
    shared += [file.read_text("utf-8") for file in schema if file.name.count(".") == 1]
    assert len(shared) > 20
    for text in shared:
        statement = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
        assert not [word for word in only_sqlite if word.lower() in statement.lower()], text[:200]


@pytest.mark.parametrize("rows", [1, 4, 16, 64])
def test_what_runs_for_every_command_finds_by_index_and_never_scans_a_table(rows):
    """Whatever the size of the log, a command costs the same."""
    connection = sqlite3.connect(":memory:")
    for step in read_migrations():
        for statement in step.statements:
            connection.execute(statement)
    statements = [
        sqlite_connection._of_rows("commands", rows),
        sqlite_connection._events_of_topics(rows),
        sqlite_connection.own("events_after"),
        sqlite_connection.own("head"),
        sqlite_connection.own("oldest"),
        sqlite_connection.own("forget_commands"),
        bound(room_queries("ekiden.access")["access.key"], "?").sql,
        bound(room_queries("ekiden.access")["access.audit"], "?").sql,
    ]
    tables = ("commands", "events", "event_topics", "teams", "keys", "principals", "c", "e", "t", "k", "p")
    for sql in statements:
        numbered = [int(number) for number in re.findall(r"\?(\d+)", sql)]
        given = max(numbered) if numbered else sql.count("?")
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", [1] * given)]
        assert any("SEARCH" in line for line in plan), (sql, plan)
        assert not [line for line in plan if line.split()[:2] in (["SCAN", name] for name in tables)], (sql, plan)
    connection.close()
