"""The log on Postgres as it is at one moment; see `log.moment`."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from ekiden.kernel.clock import SystemClock, iso
from ekiden.log.port import Event, Question
from ekiden.log.postgres import PostgresReading, read_bounds, read_events
from ekiden.log.postgres_connection import Connection, Queries, Steps, drive, own
from ekiden.log.postgres_move import at_one_moment

_MS_PER_S = 1_000


class PostgresMoment:
    """See `log.moment.Moment`; `connection` is within a transaction."""

    def __init__(self, connection: Connection, queries: Mapping[str, str]) -> None:
        self._connection = connection
        self._queries = Queries(queries)

    async def teams(self) -> list[str]:
        return sorted(row["team_id"] for row in await self._connection.fetch(own("heads")))

    async def ask(self, team_id: str, question: Question) -> Any:
        now = SystemClock().now()
        _, head = await self.bounds(team_id)
        reading = PostgresReading(
            self._connection, self._queries, team_id, head, now=iso(now), steady_ms=int(now * _MS_PER_S)
        )
        steps = Steps(question(reading))
        steps.go_on()
        return await drive(steps, reading.perform)

    async def events(self, team_id: str, after: int, *, limit: int) -> Sequence[Event]:
        return await read_events(self._connection, team_id, after, None, limit)

    async def bounds(self, team_id: str) -> tuple[int, int]:
        return await read_bounds(self._connection, team_id)


@asynccontextmanager
async def postgres_moment(url: str, queries: Mapping[str, str]) -> AsyncGenerator[PostgresMoment]:
    """The database at `url`, in a transaction that only reads.

    Raises:
        StoreNewer, Conflict, Unavailable: if it cannot be read, or is not of this program's schema.
    """
    async with at_one_moment(url, stopped=False) as connection:
        yield PostgresMoment(connection, queries)
