"""The engines that the log's contract is held over. Another engine joins with one line in `ENGINES`."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ekiden.log.open import MEMORY, open_log
from ekiden.log.port import Actor
from ekiden.log.postgres import PostgresLog
from ekiden.log.postgres_connection import connect, end
from ekiden.log.queries import load_queries
from ekiden.log.sqlite import SqliteLog
from ekiden.testing.clock import StillClock
from postgres_server import fresh_database

TEAM = "tem_1"
WHO = Actor("pri_1", "key_1", "Ada")
BOUND_S = 20.0
"""How long a test waits for what must come."""

QUERIES = load_queries(
    "test",
    """
-- name: put
-- Remembers a value in a table that is there for every log.
INSERT INTO meta (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: add
-- Remembers a value that must not be there yet.
INSERT INTO meta (name, value) VALUES (:name, :value);

-- name: get
-- What was remembered.
SELECT value FROM meta WHERE name = :name;

-- name: drop
-- Forgets a value.
DELETE FROM meta WHERE name = :name;

-- name: count_events
-- How many events a team has as rows.
SELECT count(*) AS count, coalesce(max(seq), 0) AS head FROM events WHERE team_id = :team_id;

-- name: all_seqs
-- All seqs of a team.
SELECT seq, kind FROM events WHERE team_id = :team_id ORDER BY seq;
""",
)


@dataclass
class Engine:
    """How one engine is opened. `place` is kept from one opening to the next if `durable`."""

    name: str
    durable: bool
    reads_beside_writes: bool
    on_the_loop: bool
    """Whether verbs and questions run on the event loop, so that one that blocks would block the test."""
    open: Callable[[], Any]
    clock: StillClock
    opened: list[Any] = field(default_factory=list)

    async def log(self) -> Any:
        log = await self.open()
        self.opened.append(log)
        return log


def on_postgres(url: str, clock: StillClock) -> Engine:
    """The engine on a database of its own."""
    return Engine("postgres", True, True, True, lambda: open_log(url, clock=clock, queries=QUERIES), clock)


ENGINES: dict[str, Callable[[Path, StillClock], Engine]] = {
    "file": lambda folder, clock: Engine(
        "file",
        True,
        True,
        False,
        lambda: open_log(str(folder / "data" / "ekiden.db"), clock=clock, queries=QUERIES),
        clock,
    ),
    "memory": lambda _, clock: Engine(
        "memory", False, False, False, lambda: open_log(MEMORY, clock=clock, queries=QUERIES), clock
    ),
    "postgres": lambda _, clock: on_postgres(fresh_database(), clock),
}


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture(params=sorted(ENGINES))
async def engine(request, tmp_path: Path, clock: StillClock) -> AsyncIterator[Engine]:
    made = ENGINES[request.param](tmp_path, clock)
    yield made
    for log in made.opened:
        await log.close()


@pytest.fixture
async def log(engine: Engine) -> Any:
    return await engine.log()


@pytest.fixture
async def file_log(tmp_path: Path, clock: StillClock) -> AsyncIterator[SqliteLog]:
    """A log in the file `data/ekiden.db`."""
    log = await open_log(str(tmp_path / "data" / "ekiden.db"), clock=clock, queries=QUERIES)
    yield log
    await log.close()


def appends(kind: str = "test.said", *topics: str, body: object = None) -> Callable[[Any], Any]:
    """A verb that appends one event and answers its seq."""

    async def verb(tx: Any) -> dict[str, int]:
        return {"seq": tx.append(kind, {} if body is None else body, topics=topics or ("team",), actor=WHO)}

    return verb


@asynccontextmanager
async def held(log: Any) -> AsyncIterator[None]:
    """Holds all that is written meanwhile, so that it lands in one batch for each team."""
    async with HeldTables(log) if isinstance(log, PostgresLog) else HeldWriter(log):
        yield


class HeldTables:
    """Holds the table whose rows are the locks of teams, as another program may; one command waits already."""

    def __init__(self, log: PostgresLog) -> None:
        self._log = log

    async def __aenter__(self) -> None:
        self._connection = await connect(self._log._url)
        await self._connection.execute("BEGIN; LOCK TABLE teams IN EXCLUSIVE MODE")

        async def verb(_: Any) -> None:
            pass

        self._task = asyncio.create_task(self._log.write("tem_holds", verb))
        await asyncio.sleep(0)

    async def __aexit__(self, *_: object) -> None:
        await self._connection.execute("COMMIT")
        await end(self._connection)
        await self._task


class HeldWriter:
    """Holds the writer in a verb."""

    def __init__(self, log: SqliteLog) -> None:
        self._log = log
        self._reached = threading.Event()
        self._let_go = threading.Event()

    async def __aenter__(self) -> "HeldWriter":
        async def verb(_: Any) -> None:
            self._reached.set()
            assert self._let_go.wait(BOUND_S)

        self._task = asyncio.create_task(self._log.write("tem_holds", verb))
        assert await asyncio.to_thread(self._reached.wait, BOUND_S)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._let_go.set()
        await self._task


async def in_one_batch(log: Any, *writes: Any) -> list[Any]:
    """Runs these `log.write(…)` so that one commit holds them all; returns answers and errors in order."""
    async with held(log):
        tasks = [asyncio.ensure_future(write) for write in writes]
        await asyncio.sleep(0)  # each task runs up to where it waits for the writer
    return await asyncio.gather(*tasks, return_exceptions=True)
