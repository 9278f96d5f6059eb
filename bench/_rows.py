"""Logs that are long from the start: rows put into the tables in bulk, as many commands would have left them."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ekiden.kernel.clock import SystemClock
from ekiden.log.open import open_log
from ekiden.log.postgres_connection import connect, end

TEAM = "tem_00000000000000000000"
PIECE = 20_000
_COLUMNS = (
    "SELECT attname::text AS name FROM pg_attribute"
    " WHERE attrelid = $1::text::regclass AND attnum > 0 ORDER BY attnum"
)
_BODY = '{"message_id":"msg_00000000000000000000","text":"please run the tests again","state":"stored"}'


def events(first: int, count: int) -> list[tuple[Any, ...]]:
    """Rows of `events`."""
    actor = ("pri_00000000000000000000", "key_00000000000000000000", "bench")
    return [
        (
            TEAM,
            seq,
            "message.stored",
            f"session:ses_{seq % 100:020} team",
            "2026-01-01T00:00:00.000Z",
            *actor,
            _BODY,
        )
        for seq in range(first, first + count)
    ]


def topics(first: int, count: int) -> list[tuple[Any, ...]]:
    """Rows of `event_topics`."""
    pairs = ((f"session:ses_{seq % 100:020}", seq) for seq in range(first, first + count))
    return [row for topic, seq in pairs for row in ((TEAM, topic, seq), (TEAM, "team", seq))]


def answers(first: int, count: int) -> list[tuple[Any, ...]]:
    """Rows of `commands`."""
    return [
        (TEAM, "pri_00000000000000000000", f"c{seq:08}", "d" * 64, f'{{"seq":{seq}}}', seq, 1_900_000_000)
        for seq in range(first, first + count)
    ]


TABLES = (("events", events, 9), ("event_topics", topics, 3), ("commands", answers, 7))


def pieces(first: int, last: int) -> Iterator[tuple[int, int]]:
    """(first, count) of each piece."""
    for start in range(first, last + 1, PIECE):
        yield start, min(PIECE, last + 1 - start)


async def fill_sqlite(path: Path, count: int, *, first: int = 1) -> None:
    """Has a file hold events `first` to `count`."""
    log = await open_log(str(path), clock=SystemClock(), queries={})
    await log.close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("BEGIN")
    for start, many in pieces(first, count):
        for name, rows, width in TABLES:
            marks = ", ".join("?" * width)
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows(start, many))
    connection.execute(
        "INSERT INTO teams VALUES (?, ?) ON CONFLICT DO UPDATE SET head = excluded.head", (TEAM, count)
    )
    connection.execute("COMMIT")
    connection.close()


async def fill_postgres(url: str, count: int, *, first: int = 1) -> None:
    """Has a database hold events `first` to `count`."""
    log = await open_log(url, clock=SystemClock(), queries={})
    await log.close()
    connection = await connect(url, answer_s=60.0)
    await connection.execute("SET synchronous_commit = off")
    for start, many in pieces(first, count):
        for name, rows, width in TABLES:
            found = await connection.fetch(_COLUMNS, name)
            columns = [row["name"] for row in found]
            assert len(columns) == width
            await connection.copy_records_to_table(name, records=rows(start, many), columns=columns)
    await connection.execute(
        "INSERT INTO teams VALUES ($1, $2) ON CONFLICT (team_id) DO UPDATE SET head = excluded.head", TEAM, count
    )
    await end(connection)
