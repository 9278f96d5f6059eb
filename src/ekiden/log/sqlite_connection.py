"""How SQLite is opened and asked here: pragmas, rows as mappings, and which errors are the database's own fault.

Nothing outside `log/` imports this. Connections run in autocommit; transactions are said with BEGIN and COMMIT.
"""

import re
import sqlite3
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from ekiden.kernel import limits
from ekiden.kernel.errors import EkidenError, Invalid, Unavailable
from ekiden.log.appending import actor_of, topics_of
from ekiden.log.port import Event, Row
from ekiden.log.queries import bound, room_queries

T = TypeVar("T")

APPLICATION_ID = 0x454B4944
"""`EKID`, in the header of every database that Ekiden made."""

LOG_QUERIES = room_queries("ekiden.log")
"""The log's own statements, under `log.…`."""

_CACHED_STATEMENTS = 512
_PAGE_BYTES = 4096
_SQLITE_BUSY, _SQLITE_LOCKED, _SQLITE_NOMEM, _SQLITE_READONLY = 5, 6, 7, 8
_SQLITE_IOERR, _SQLITE_CORRUPT, _SQLITE_FULL, _SQLITE_CANTOPEN = 10, 11, 13, 14
_SQLITE_PROTOCOL, _SQLITE_NOTADB = 15, 26
_REASONS = {
    _SQLITE_BUSY: "another process holds the database",
    _SQLITE_LOCKED: "another process holds the database",
    _SQLITE_NOMEM: "there is no memory left",
    _SQLITE_READONLY: "the database cannot be written",
    _SQLITE_IOERR: "the disk reported an error",
    _SQLITE_CORRUPT: "the database file is damaged",
    _SQLITE_FULL: "the disk is full",
    _SQLITE_CANTOPEN: "the database file cannot be opened",
    _SQLITE_PROTOCOL: "another process holds the database",
    _SQLITE_NOTADB: "the file is not a database",
}


def own(query: str) -> str:
    """One of the log's own statements, ready for parameters in the order of their first use."""
    return bound(LOG_QUERIES[f"log.{query}"], "?").sql


_VALUES = re.compile(r"VALUES\s*\((?P<row>[^)]*)\)")
_ROWS_AT_ONCE = (64, 32, 16, 8, 4, 2, 1)


@lru_cache(maxsize=64)
def _of_rows(query: str, count: int) -> str:
    """One of the log's own statements with `VALUES (…)`, for `count` rows or keys at once."""
    sql = own(query)
    found = _VALUES.search(sql)
    assert found is not None, query
    row = "(" + ", ".join("?" for _ in found["row"].split(",")) + ")"
    return sql[: found.start()] + "VALUES " + ", ".join([row] * count) + sql[found.end() :]


def _by_few(query: str, rows: Sequence[Sequence[object]]) -> Iterator[tuple[str, list[object]]]:
    """The statement and its values for the next rows, as often as needed. Few sizes, so that all stay prepared."""
    start = 0
    for count in _ROWS_AT_ONCE:
        while len(rows) - start >= count:
            yield _of_rows(query, count), [value for row in rows[start : start + count] for value in row]
            start += count


def insert_rows(connection: sqlite3.Connection, query: str, rows: Sequence[Sequence[object]]) -> None:
    """Runs one of the log's own INSERT statements for many rows, as few statements.

    Each step of a statement lets go of the interpreter, and while the event loop is busy it may be milliseconds
    until this thread gets it back. So what counts is how many steps there are, more than what each does.
    """
    for sql, values in _by_few(query, rows):
        connection.execute(sql, values)


def select_rows(
    connection: sqlite3.Connection, query: str, keys: Sequence[Sequence[object]]
) -> list[tuple[Any, ...]]:
    """Runs one of the log's own SELECT statements for many keys, as few statements."""
    found: list[tuple[Any, ...]] = []
    for sql, values in _by_few(query, keys):
        found.extend(connection.execute(sql, values).fetchall())
    return found


def connect(location: Path | str, *, reader: bool = False) -> sqlite3.Connection:
    """A connection to a database file, or to a new database in memory for `:memory:`. It touches nothing yet.

    Raises:
        sqlite3.Error: if it cannot be opened.
    """
    connection = sqlite3.connect(
        str(location),
        timeout=limits.LOG_FOREIGN_WRITER_WAIT_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=_CACHED_STATEMENTS,
    )
    if reader:
        connection.execute("PRAGMA query_only = ON")
    return connection


def prepare_writer(connection: sqlite3.Connection) -> None:
    """Makes a connection to a database that is known to be ours the one that writes."""
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    # What a savepoint needs to be undone stays in memory; it is at most what one command has changed.
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(f"PRAGMA cache_size = -{limits.LOG_CACHE_BYTES_MAX // 1024}")
    connection.execute(f"PRAGMA journal_size_limit = {limits.LOG_WAL_BYTES_MAX}").fetchall()
    connection.execute(f"PRAGMA wal_autocheckpoint = {limits.LOG_CHECKPOINT_BYTES // _PAGE_BYTES}").fetchall()


def fault_of_database(error: BaseException) -> str:
    """Why the database itself could not do its work (disk, lock, damage), or "" if the statement was at fault."""
    if not isinstance(error, sqlite3.DatabaseError):
        return ""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return "" if code is None else _REASONS.get(code & 0xFF, "")


def unavailable(reason: str) -> Unavailable:
    """What callers are told while the database cannot work."""
    return Unavailable(
        f"The log cannot be used at this moment: {reason}.",
        hint="Nothing of this was stored. Free space or mend the disk, then try again.",
        reason=reason,
    )


class _Statement:
    """A named query as SQLite takes it: parameters by number, which is quicker than by name."""

    __slots__ = ("columns", "names", "sql")

    def __init__(self, text: str) -> None:
        self.sql, self.names = bound(text, "?")
        self.columns: tuple[str, ...] = ()
        """Of its rows; known once it has run."""


class Queries:
    """The rooms' named queries as SQLite takes them."""

    def __init__(self, queries: Mapping[str, str]) -> None:
        self._queries = queries
        self._statements: dict[str, _Statement] = {}

    def _statement(self, query: str) -> _Statement:
        statement = self._statements.get(query)
        if statement is None:
            try:
                statement = self._statements[query] = _Statement(self._queries[query])
            except KeyError:
                raise LookupError(f"no room has a query {query!r}") from None
        return statement

    def run(self, connection: sqlite3.Connection, query: str, parameters: Mapping[str, object]) -> sqlite3.Cursor:
        """Runs a query.

        Raises:
            LookupError: if no room has such a query, or one of its parameters is missing.
            Invalid: if a text is not whole Unicode and so cannot be stored.
            sqlite3.Error: whatever the database says.
        """
        statement = self._statement(query)
        try:
            return connection.execute(statement.sql, [parameters[name] for name in statement.names])
        except UnicodeEncodeError:
            raise Invalid("The text holds half of a surrogate pair and cannot be stored.") from None

    def rows(self, connection: sqlite3.Connection, query: str, parameters: Mapping[str, object]) -> list[Row]:
        """All rows that the query gives; raises what `run` raises."""
        cursor = self.run(connection, query, parameters)
        found = cursor.fetchall()
        if not found:
            return []
        statement = self._statements[query]
        if not statement.columns:
            statement.columns = tuple(column[0] for column in cursor.description)
        columns = statement.columns
        return [dict(zip(columns, row, strict=True)) for row in found]

    def row(self, connection: sqlite3.Connection, query: str, parameters: Mapping[str, object]) -> Row | None:
        """The first row that the query gives; raises what `run` raises."""
        rows = self.rows(connection, query, parameters)
        return rows[0] if rows else None


@lru_cache(maxsize=limits.STREAM_TOPICS_MAX)
def _events_of_topics(count: int) -> str:
    """Reads events of `count` topics: ?1 team, ?2 after, ?3 limit, then the topics.

    Each topic gives at most the limit from its own range, so that the work is bounded however long the log is.
    """
    ranges = " UNION ".join(
        "SELECT seq FROM (SELECT seq FROM event_topics WHERE team_id = ?1"  # noqa: S608 - only numbers are put in
        f" AND topic = ?{number} AND seq > ?2 ORDER BY seq LIMIT ?3) AS topic_{number}"
        for number in range(4, 4 + count)
    )
    return (
        "SELECT e.seq, e.kind, e.topics, e.at, e.actor_id, e.actor_key, e.actor_name, e.body"  # noqa: S608 - as above
        f" FROM (SELECT seq FROM ({ranges}) AS found ORDER BY seq LIMIT ?3) AS wanted"
        " JOIN events AS e ON e.team_id = ?1 AND e.seq = wanted.seq ORDER BY e.seq"
    )


def read_events(
    connection: sqlite3.Connection, team_id: str, after: int, topics: Sequence[str] | None, limit: int
) -> list[Event]:
    """Up to `limit` events after a seq, in order; only those with one of `topics`, if given."""
    if topics is None:
        rows = connection.execute(own("events_after"), (team_id, after, limit))
    else:
        chosen = sorted(set(topics))
        if not chosen:
            return []
        if len(chosen) > limits.STREAM_TOPICS_MAX:
            raise Invalid(f"At most {limits.STREAM_TOPICS_MAX} topics can be read at once.")
        rows = connection.execute(_events_of_topics(len(chosen)), (team_id, after, limit, *chosen))
    return [
        Event(seq, kind, topics_of(on), at, actor_of(actor_id, actor_key, name), body.encode())
        for seq, kind, on, at, actor_id, actor_key, name, body in rows
    ]


def read_head(connection: sqlite3.Connection, team_id: str) -> int:
    """The seq of the team's newest event, 0 if it never had one."""
    row = connection.execute(own("head"), (team_id,)).fetchone()
    return row[0] if row else 0


def drive(awaitable: Awaitable[T]) -> T:
    """Runs an awaitable that never really waits, on this thread, and returns what it gives.

    Raises:
        RuntimeError: if it waits for anything but its transaction.
    """
    steps = awaitable.__await__()
    try:
        next(steps)
    except StopIteration as end:
        return end.value
    close = getattr(steps, "close", None)
    if close is not None:
        close()
    raise RuntimeError("inside the log nothing but the transaction's own methods may be awaited")


def translated(error: sqlite3.Error, *, reading: bool = False) -> EkidenError | sqlite3.Error:
    """The error as callers are to see it: `Unavailable` where the database itself is at fault. A question that
    would write is a mistake in the program, and stays the error that it is."""
    if reading and getattr(error, "sqlite_errorcode", 0) & 0xFF == _SQLITE_READONLY:
        return error
    reason = fault_of_database(error)
    return unavailable(reason) if reason else error
