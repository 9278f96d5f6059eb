"""The Postgres side of a copy: read at one moment, or written piece by piece with COPY."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast

from ekiden.kernel.clock import Clock, iso
from ekiden.kernel.errors import Conflict
from ekiden.log.migrations import MOVING, read_migrations, refuse_newer
from ekiden.log.move import NOT_COPIED, Table, held_by_nodes, select_piece
from ekiden.log.open import new_log_id
from ekiden.log.postgres_connection import Connection, own
from ekiden.log.postgres_migrations import migrate, migrating, present, version_of
from ekiden.log.postgres_open import prepared

_TABLES = """
SELECT c.relname::text AS name,
    array_agg(a.attname::text ORDER BY a.attnum) AS columns,
    (SELECT array_agg(k.attname::text ORDER BY array_position(i.indkey::int2[], k.attnum))
     FROM pg_index AS i JOIN pg_attribute AS k ON k.attrelid = i.indrelid AND k.attnum = ANY (i.indkey)
     WHERE i.indrelid = c.oid AND i.indisprimary) AS key
FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
GROUP BY c.oid, c.relname ORDER BY c.relname
"""


class PostgresStore:
    """A database of Postgres, as source or target."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def tables(self) -> list[Table]:
        return [
            Table(row["name"], tuple(row["columns"]), tuple(row["key"]))
            for row in await self._connection.fetch(_TABLES)
            if row["name"] not in NOT_COPIED
        ]

    async def rows(self, table: Table, after: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        rows = await self._connection.fetch(select_piece(table, bool(after), "$"), *after)
        return [tuple(row.values()) for row in rows]

    async def meta(self) -> dict[str, str]:
        return {row["name"]: row["value"] for row in await self._connection.fetch(own("meta"))}

    async def add(self, table: Table, rows: Sequence[tuple[Any, ...]], meta: tuple[str, str]) -> None:
        async with self._connection.transaction(isolation="read_committed"):
            await self._connection.copy_records_to_table(table.name, records=rows, columns=table.columns)
            await self._connection.execute(own("set_meta"), *meta)

    async def finish(self, meta: dict[str, str], forget: Sequence[str]) -> None:
        async with self._connection.transaction(isolation="read_committed"):
            await self._connection.execute("SET LOCAL synchronous_commit = on")
            for name, value in meta.items():
                await self._connection.execute(own("set_meta"), name, value)
            await self._connection.execute("DELETE FROM meta WHERE name = ANY ($1::text[])", list(forget))

    def at_once(self) -> AbstractAsyncContextManager[object]:
        """A transaction around all that is done in the block."""
        return cast(
            "AbstractAsyncContextManager[object]", self._connection.transaction(isolation="read_committed")
        )

    async def empty(self) -> None:
        """Takes all rows away."""
        names = ", ".join([*(table.name for table in await self.tables()), "batches"])
        await self._connection.execute(f"TRUNCATE {names}")
        await self._connection.execute("DELETE FROM meta WHERE name LIKE $1", f"{MOVING}%")


@asynccontextmanager
async def at_one_moment(url: str, *, stopped: bool) -> AsyncGenerator[Connection]:
    """A connection to the database as it is at one moment, read only.

    Raises:
        StoreHeld: if it must be `stopped` and a hub is at work on it.
        StoreNewer, Conflict, Unavailable: if it cannot be read, or is not of this program's schema.
    """
    newest = read_migrations(engine="postgres")[-1].number
    async with prepared(url) as connection:
        version = await version_of(connection)
        refuse_newer(version, newest)
        if version < newest:
            raise Conflict(
                "The database is of an older Ekiden.", hint="Start this Ekiden on it once.", schema=version
            )
        if stopped and (nodes := await present(connection)):
            raise held_by_nodes(nodes)
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            yield connection


@asynccontextmanager
async def postgres_source(url: str, *, stopped: bool) -> AsyncGenerator[PostgresStore]:
    """The database as `at_one_moment` gives it; raises what that raises."""
    async with at_one_moment(url, stopped=stopped) as connection:
        yield PostgresStore(connection)


@asynccontextmanager
async def postgres_target(url: str, clock: Clock) -> AsyncGenerator[PostgresStore]:
    """The database, migrated, with no hub at work on it.

    Raises:
        StoreHeld: if one is.
        StoreNewer, Unavailable: if it cannot be used.
    """
    async with prepared(url) as connection, migrating(connection):  # a hub that starts now waits until this ends
        if await version_of(connection) and (nodes := await present(connection)):
            raise held_by_nodes(nodes)
        await migrate(
            connection, read_migrations(engine="postgres"), log_id=new_log_id(), made_at=iso(clock.now())
        )
        # A piece that a crash takes is copied again: its mark is in its transaction. The end of a copy waits.
        await connection.execute("SET synchronous_commit = off")
        yield PostgresStore(connection)
