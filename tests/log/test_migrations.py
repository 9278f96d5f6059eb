"""The schema grows by numbered steps, each whole or not at all, and never touches a newer database."""

import hashlib
import sqlite3

import pytest
from tests.log.conftest import QUERIES, TEAM, appends

from ekiden.kernel.errors import StoreNewer, Unavailable
from ekiden.log import open as opening
from ekiden.log.migrations import migrate, read_migrations, split, version_of
from ekiden.log.open import open_log
from ekiden.log.port import Command


def shipped_first():
    step = read_migrations()[0]
    return ("0001_log.sql", "\n".join(step.statements))


def database():
    return sqlite3.connect(":memory:", isolation_level=None)


def tables(connection):
    return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_the_shipped_steps_have_no_hole_and_make_the_whole_schema():
    connection = database()
    before, after = migrate(connection, read_migrations(), log_id="abcdefgh", made_at="now")
    assert before == 0
    assert after == version_of(connection) >= 2
    assert {"meta", "events", "event_topics", "commands", "teams", "keys", "principals"} <= tables(connection)
    assert migrate(connection, read_migrations(), log_id="other", made_at="later") == (after, after)
    assert dict(connection.execute("SELECT name, value FROM meta"))["log_id"] == "abcdefgh"
    connection.close()


def test_a_database_of_an_earlier_ekiden_goes_on_from_where_it_is():
    connection = database()
    migrate(connection, read_migrations([shipped_first()]), log_id="abcdefgh", made_at="now")
    connection.execute("INSERT INTO teams VALUES ('tem_1', 7)")
    later = [
        shipped_first(),
        ("0002_more.sql", "CREATE TABLE more (a text); ALTER TABLE teams ADD COLUMN b text;"),
    ]
    assert migrate(connection, read_migrations(later), log_id="x", made_at="x") == (1, 2)
    assert connection.execute("SELECT head, b FROM teams").fetchall() == [(7, None)]
    connection.close()


def test_a_step_that_fails_leaves_the_step_before_it_whole():
    connection = database()
    steps = [
        shipped_first(),
        ("0002_good.sql", "CREATE TABLE good (a text);"),
        ("0003_bad.sql", "CREATE TABLE half (a text); INSERT INTO nowhere VALUES (1);"),
    ]
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, read_migrations(steps), log_id="abcdefgh", made_at="now")
    assert version_of(connection) == 2
    assert "good" in tables(connection)
    assert "half" not in tables(connection)
    connection.close()


def test_what_differs_on_sqlite_comes_after_what_is_shared_and_other_engines_are_passed_over():
    files = [
        ("0001_a.sqlite.sql", "CREATE INDEX i ON a (x);"),
        ("0001_a.postgres.sql", "CREATE TABLE only_there (x text);"),
        ("0001_a.sql", "CREATE TABLE a (x text);"),
    ]
    (step,) = read_migrations(files)
    assert step.statements == ("CREATE TABLE a (x text);", "CREATE INDEX i ON a (x);")


@pytest.mark.parametrize(
    "names",
    [
        ["0001_a.sql", "0003_b.sql"],
        ["0002_a.sql"],
        ["0001_a.sql", "0001_b.sql"],
        ["0001_a.sql", "0002_b.sql", "0002_c.sqlite.sql"],
        ["1_a.sql"],
        ["0001-a.sql"],
        ["0001_A.sql"],
    ],
    ids=str,
)
def test_numbers_with_a_hole_or_two_names_are_refused(names):
    with pytest.raises(ValueError):
        read_migrations([(name, "SELECT 1;") for name in names])


def test_statements_are_split_where_sql_ends_them_and_nowhere_else():
    text = """-- A comment; with a semicolon
CREATE TABLE a (x text DEFAULT 'a;b'); -- after it

CREATE TRIGGER t AFTER INSERT ON a BEGIN
  UPDATE a SET x = ';';
  DELETE FROM a;
END;
INSERT INTO a VALUES
  -- inside
  ('1');
"""
    connection = database()
    statements = split(text)
    for statement in statements:
        connection.execute(statement)
    assert len(statements) == 3
    connection.close()
    with pytest.raises(ValueError, match="no end"):
        split("SELECT 1; SELECT 2")


# As the hub meets it


async def opened(path, clock):
    return await open_log(str(path), clock=clock, queries=QUERIES)


@pytest.mark.anyio
async def test_a_newer_database_is_refused_and_not_a_byte_of_it_is_touched(tmp_path, clock):
    path = tmp_path / "ekiden.db"
    log = await opened(path, clock)
    newest = read_migrations()[-1].number
    await log.write(TEAM, appends(), command=Command("c", "pri_1", "d"))
    await log.close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE meta SET value = ? WHERE name = 'schema_version'", (str(newest + 1),))
    connection.commit()
    connection.close()
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(StoreNewer, match="newer Ekiden") as refused:
        await opened(path, clock)
    assert refused.value.details == {"schema": newest + 1, "known": newest}
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    with pytest.raises(StoreNewer):  # and its lock was let go
        await opened(path, clock)


@pytest.mark.anyio
@pytest.mark.parametrize("content", ["text", "other database", "other with the same table names"])
async def test_a_file_that_is_not_ekiden_s_is_refused_and_left_alone(tmp_path, clock, content):
    path = tmp_path / "ekiden.db"
    if content == "text":
        path.write_text("not a database, but longer than the header of one is: " + "x" * 200)
    else:
        connection = sqlite3.connect(path)
        name = "notes" if content == "other database" else "meta"
        connection.execute(f"CREATE TABLE {name} (name, value)")
        connection.close()
    before = path.read_bytes()
    with pytest.raises(Unavailable):
        await opened(path, clock)
    assert path.read_bytes() == before


@pytest.mark.anyio
async def test_a_step_that_fails_at_start_says_so_and_lets_the_data_go(tmp_path, clock, monkeypatch):
    path = tmp_path / "ekiden.db"
    await (await opened(path, clock)).close()
    steps = read_migrations()
    bad = type(steps[0])(len(steps) + 1, "bad", ("INSERT INTO nowhere VALUES (1);",))
    with monkeypatch.context() as patched:
        patched.setattr(opening, "read_migrations", lambda: (*steps, bad))
        with pytest.raises(sqlite3.OperationalError, match="nowhere"):
            await opened(path, clock)
    log = await opened(path, clock)
    assert (await log.write(TEAM, appends())).seq == 1
    await log.close()
