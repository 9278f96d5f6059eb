"""The schema on Postgres: the same numbered steps, applied by one node at a time while others may be at work.

Each node holds a shared advisory lock that says which step it knows, for as long as it lives. So a step that takes
something away waits until no older node is left, without anybody having to say so. Text is compared by its bytes,
as on SQLite, whatever the database's own language is.
"""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

from ekiden.kernel.errors import Unavailable
from ekiden.log.migrations import LOWEST, VERSION, Migration, refuse_newer
from ekiden.log.postgres_connection import Connection, own

_OURS = 0x454B4944
"""`EKID`: the class of all advisory locks here."""
_MIGRATING = 0
_PRESENT = 1_000
"""The lock `_PRESENT + N` says that a program is at work which knows the steps up to N."""
_LOWEST_NEVER = 10_000
_TEXT = re.compile(r"--[^\n]*|'(?:[^']|'')*'|\btext\b")


async def migrate(
    connection: Connection, migrations: tuple[Migration, ...], *, log_id: str, made_at: str
) -> tuple[int, int]:
    """Brings the database to the newest step that may be taken now; returns (version before, version after).

    `log_id` and `made_at` are written when the database is made. A step that fails leaves the database at the step
    before it. The connection then says that this program is present, for as long as it is open.

    Raises:
        StoreNewer: if the database is ahead of this program and may not be used by it; nothing is touched.
        Unavailable: if the database is not Ekiden's or holds other text than UTF-8.
    """
    if await connection.fetchval("SELECT current_setting('server_encoding')") != "UTF8":
        raise Unavailable(
            "The database does not hold UTF-8.", hint="Make one with: CREATE DATABASE … ENCODING 'UTF8'"
        )
    newest = migrations[-1].number
    async with migrating(connection):
        before = await version_of(connection)
        if before:
            refuse_unusable(before, await _lowest(connection), newest)
        await declare_present(connection, newest)
        after = before
        for step in migrations[before:]:
            if step.lowest and await _older_present(connection, step.lowest):
                break
            await _take(connection, step, log_id=log_id, made_at=made_at)
            after = step.number
    return before, after


@asynccontextmanager
async def migrating(connection: Connection) -> AsyncGenerator[None]:
    """Keeps others from opening or migrating the database meanwhile. May be taken again within."""
    await connection.execute("SELECT pg_advisory_lock($1::int, $2::int)", _OURS, _MIGRATING)
    try:
        yield
    finally:
        if not connection.is_closed():
            await connection.execute("SELECT pg_advisory_unlock($1::int, $2::int)", _OURS, _MIGRATING)


async def version_of(connection: Connection) -> int:
    """The number of the newest step that the database has; 0 for an empty one.

    Raises:
        Unavailable: if the database is not Ekiden's.
    """
    tables = {
        str(row["name"])
        for row in await connection.fetch(
            "SELECT relname::text AS name FROM pg_class"
            " WHERE relkind IN ('r', 'p') AND relnamespace = current_schema()::regnamespace"
        )
    }
    if not tables:
        return 0
    if {"meta", "teams", "events"} <= tables:
        known = {row["name"]: row["value"] for row in await connection.fetch(own("meta"))}
        if VERSION in known and "log_id" in known:
            return int(known[VERSION])
    raise Unavailable(
        "The database holds tables, but they are not Ekiden's.",
        hint="Give Ekiden a database or schema of its own.",
    )


def refuse_unusable(version: int, lowest: int, newest: int) -> None:
    """Raises:
    StoreNewer: if the database is ahead of a program that knows steps up to `newest`, by a step that took
        something away. One that was only added to may be used: so nodes are upgraded one by one.
    """
    if version > newest and lowest > newest:
        refuse_newer(version, newest)


async def declare_present(connection: Connection, newest: int) -> None:
    """Says, as long as the connection is open, that a program is at work which knows the steps up to `newest`.

    Raises:
        StoreNewer: if the database may not be used by it.
    """
    await connection.execute("SELECT pg_advisory_lock_shared($1::int, $2::int)", _OURS, _PRESENT + newest)
    version = await version_of(connection)
    if version:
        refuse_unusable(version, await _lowest(connection), newest)


async def present(connection: Connection) -> int:
    """How many programs are at work on the database, this connection's own not counted."""
    return await _count_present(connection, _LOWEST_NEVER)


async def _lowest(connection: Connection) -> int:
    value = await connection.fetchval("SELECT value FROM meta WHERE name = $1", LOWEST)
    return int(value or 0)


async def _older_present(connection: Connection, lowest: int) -> bool:
    """Whether a program is at work on this database that does not know step `lowest`."""
    return await _count_present(connection, lowest) > 0


async def _count_present(connection: Connection, below: int) -> int:
    count = await connection.fetchval(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = $1::bigint::oid"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        " AND objid >= $2::bigint::oid AND objid < $3::bigint::oid AND pid <> pg_backend_pid()",
        _OURS,
        _PRESENT,
        _PRESENT + below,
    )
    return cast("int", count)


async def _take(connection: Connection, step: Migration, *, log_id: str, made_at: str) -> None:
    async with connection.transaction(isolation="read_committed"):
        for statement in step.statements:
            await connection.execute(by_bytes(statement))
        if step.number == 1:
            await connection.execute(own("set_meta"), "log_id", log_id)
            await connection.execute(own("set_meta"), "made_at", made_at)
        await connection.execute(own("set_meta"), VERSION, str(step.number))
        if step.lowest:
            await connection.execute(own("set_meta"), LOWEST, str(step.lowest))


def by_bytes(statement: str) -> str:
    """A statement of the schema with all text columns compared by their bytes."""
    if not statement.lstrip().upper().startswith(("CREATE TABLE", "ALTER TABLE")):
        return statement
    return _TEXT.sub(lambda found: 'text COLLATE "C"' if found[0] == "text" else found[0], statement)
