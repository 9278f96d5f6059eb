"""Opens the log in a database of Postgres: makes or migrates the schema, then starts the engine."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import asyncpg

from ekiden.kernel import limits
from ekiden.kernel.clock import Clock, SteadyTime, iso
from ekiden.kernel.errors import StoreAway, Unavailable
from ekiden.log.lock import DataLock
from ekiden.log.migrations import read_migrations, refuse_half_moved
from ekiden.log.postgres import PostgresLog
from ekiden.log.postgres_connection import (
    Connection,
    comes_back,
    connect,
    end,
    fault_of_database,
    own,
    shown,
    translated,
)
from ekiden.log.postgres_migrations import migrate
from ekiden.log.wakeups import NotifyWakeups, Wakeups


async def open_postgres(
    url: str,
    *,
    clock: Clock,
    queries: Mapping[str, str],
    log_id: str,
    wakeups: Wakeups | None,
    lock: DataLock | None,
) -> PostgresLog:
    """See `log.open.open_log`. `log_id` names the history if the database is made now."""
    migrations = read_migrations(engine="postgres")
    async with prepared(url) as connection:
        await migrate(connection, migrations, log_id=log_id, made_at=iso(clock.now()))
        meta = {row["name"]: row["value"] for row in await connection.fetch(own("meta"))}
        refuse_half_moved(meta)
        heads = {row["team_id"]: row["head"] for row in await connection.fetch(own("heads"))}
        steady = SteadyTime(clock)
        steady.follow(await connection.fetchval(own("now_s")))
        return PostgresLog(
            url,
            log_id=meta["log_id"],
            schema=migrations[-1].number,
            heads=heads,
            queries=queries,
            clock=clock,
            steady=steady,
            wakeups=wakeups or NotifyWakeups(url),
            lock=lock,
        )


@asynccontextmanager
async def prepared(url: str) -> AsyncGenerator[Connection]:
    """A connection for work that takes its time.

    Raises:
        StoreAway: if the database cannot be reached; says which, without the password.
        Unavailable: if it cannot be used.
    """
    connection: Connection | None = None
    try:
        connection = await connect(url, answer_s=limits.LOG_DATABASE_MIGRATE_S)
        yield connection
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError, ValueError) as error:
        reason = fault_of_database(error, connection)
        if not reason and connection is not None:
            raise translated(error) from error
        away = comes_back(error)
        raise (StoreAway if away else Unavailable)(
            f"The database {shown(url)} cannot be used: {reason or str(error)}.",
            hint="Look whether it runs, and at its address." if away else "Look at its address, user and rights.",
            reason=reason or str(error),
        ) from error
    finally:
        if connection is not None:
            await end(connection)
