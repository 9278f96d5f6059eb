"""The log as it is at one moment, read only: of a hub that runs or of one that is stopped, on either engine.

All that is read comes from one snapshot, so what a hub adds or forgets meanwhile does not show. Nothing is made,
migrated or locked; a writer goes on beside it.
"""

import sqlite3
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ekiden.kernel import limits
from ekiden.kernel.clock import SystemClock, iso
from ekiden.kernel.errors import NotFound
from ekiden.log.move import of_this_program
from ekiden.log.open import POSTGRES_SCHEMES
from ekiden.log.port import Event, Question
from ekiden.log.sqlite import SqliteReading
from ekiden.log.sqlite_connection import Queries, drive, own, read_events, read_head, translated

if TYPE_CHECKING:
    from ekiden.log.postgres_moment import PostgresMoment

_MS_PER_S = 1_000


class Moment(Protocol):
    """What there is to read. For the methods that `log.port.Log` has too, see there."""

    async def teams(self) -> list[str]:
        """Whose logs there are, by id."""
        ...

    async def ask(self, team_id: str, question: Question) -> Any: ...

    async def events(self, team_id: str, after: int, *, limit: int) -> Sequence[Event]: ...

    async def bounds(self, team_id: str) -> tuple[int, int]: ...


@asynccontextmanager
async def one_moment(location: str, queries: Mapping[str, str]) -> AsyncGenerator["SqliteMoment | PostgresMoment"]:
    """Opens the log at `location`, the name of a file or `postgresql://…`; `queries` are the rooms' own.

    Raises:
        NotFound: if there is no such file.
        StoreNewer, Conflict: if another Ekiden wrote it, and it is not of the form that this one reads.
        Unavailable: if disk or database refuse.
    """
    if location.startswith(POSTGRES_SCHEMES):
        from ekiden.log.postgres_moment import postgres_moment

        async with postgres_moment(location, queries) as postgres:
            yield postgres
        return
    path = Path(location)
    if not path.is_file():  # noqa: ASYNC240 - one look, before anything runs beside it
        raise NotFound(f"There is no data in {path}.", hint="--home names another folder.")
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro",  # noqa: ASYNC240 - makes a name
            uri=True,
            timeout=limits.LOG_FOREIGN_WRITER_WAIT_S,
            isolation_level=None,
        )
        try:
            # Text that is damaged is to be seen as other text, not as a fault of the database.
            connection.text_factory = _text
            connection.execute("BEGIN")
            of_this_program(connection)
            yield SqliteMoment(connection, queries)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise translated(error, reading=True) from error


class SqliteMoment:
    """See `Moment`; `connection` is within a transaction."""

    def __init__(self, connection: sqlite3.Connection, queries: Mapping[str, str]) -> None:
        self._connection = connection
        self._queries = Queries(queries)

    async def teams(self) -> list[str]:
        return sorted(team_id for team_id, _ in self._connection.execute(own("heads")))

    async def ask(self, team_id: str, question: Question) -> Any:
        now = SystemClock().now()
        reading = SqliteReading(
            self._connection, self._queries, team_id, now=iso(now), steady_ms=int(now * _MS_PER_S)
        )
        return drive(question(reading))

    async def events(self, team_id: str, after: int, *, limit: int) -> Sequence[Event]:
        return read_events(self._connection, team_id, after, None, limit)

    async def bounds(self, team_id: str) -> tuple[int, int]:
        head = read_head(self._connection, team_id)
        oldest = self._connection.execute(own("oldest"), (team_id,)).fetchone()[0]
        return (head + 1 if oldest is None else oldest, head)


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "replace")
