"""The engines that the log's contract is held over. Another engine joins with one line in `ENGINES`."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ekiden.log.open import MEMORY, open_log
from ekiden.log.port import Actor
from ekiden.log.queries import load_queries
from ekiden.log.sqlite import SqliteLog
from ekiden.testing.clock import StillClock

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
    open: Callable[[], Any]
    clock: StillClock
    opened: list[SqliteLog] = field(default_factory=list)

    async def log(self) -> SqliteLog:
        log = await self.open()
        self.opened.append(log)
        return log


ENGINES: dict[str, Callable[[Path, StillClock], Engine]] = {
    "file": lambda folder, clock: Engine(
        "file",
        True,
        True,
        lambda: open_log(str(folder / "data" / "ekiden.db"), clock=clock, queries=QUERIES),
        clock,
    ),
    "memory": lambda _, clock: Engine(
        "memory", False, False, lambda: open_log(MEMORY, clock=clock, queries=QUERIES), clock
    ),
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
async def log(engine: Engine) -> SqliteLog:
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


class Held:
    """Holds the writer in a verb, so that what is written meanwhile lands in one batch."""

    def __init__(self, log: SqliteLog) -> None:
        self._log = log
        self._reached = threading.Event()
        self._let_go = threading.Event()

    async def __aenter__(self) -> "Held":
        async def verb(_: Any) -> None:
            self._reached.set()
            assert self._let_go.wait(BOUND_S)

        self._task = asyncio.create_task(self._log.write("tem_holds", verb))
        assert await asyncio.to_thread(self._reached.wait, BOUND_S)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._let_go.set()
        await self._task


async def in_one_batch(log: SqliteLog, *writes: Any) -> list[Any]:
    """Runs these `log.write(…)` so that one commit holds them all; returns answers and errors in order."""
    async with Held(log):
        tasks = [asyncio.ensure_future(write) for write in writes]
        await asyncio.sleep(0)  # each task runs up to where it waits for the writer
    return await asyncio.gather(*tasks, return_exceptions=True)
