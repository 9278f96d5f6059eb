"""How Postgres is reached here: connections, a verb's way to them, and which errors are the database's own fault.

Nothing outside `log/` imports this. It needs the extra `ekiden[postgres]`; `log.open` says so where it is missing.
"""

import asyncio
import importlib.resources
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeVar, cast
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from ekiden.kernel import limits
from ekiden.kernel.errors import Invalid, Unavailable
from ekiden.log.appending import storable_text
from ekiden.log.port import Row
from ekiden.log.queries import bound, bound_to, load_queries, room_queries
from ekiden.log.touching import Touched, touched

T = TypeVar("T")

OWN_QUERIES = room_queries("ekiden.log") | load_queries(
    "log", importlib.resources.files("ekiden.log").joinpath("postgres.sql").read_text("utf-8")
)
"""The log's own statements, under `log.…`."""


class Connection(Protocol):
    """What is used of asyncpg's connection."""

    async def execute(self, query: str, *values: object, timeout: float | None = None) -> str: ...

    async def executemany(self, query: str, values: Sequence[Sequence[object]]) -> None: ...

    async def prepare(self, query: str) -> Any: ...

    async def fetch(self, query: str, *values: object) -> list[Mapping[str, Any]]: ...

    async def fetchrow(self, query: str, *values: object) -> Mapping[str, Any] | None: ...

    async def fetchval(self, query: str, *values: object) -> Any: ...

    async def copy_records_to_table(
        self, table_name: str, *, records: Sequence[Sequence[object]], columns: Sequence[str]
    ) -> str: ...

    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...

    def add_termination_listener(self, callback: Callable[..., None]) -> None: ...

    def transaction(self, *, isolation: str, readonly: bool = False) -> Any: ...

    def cursor(self, query: str, *values: object, prefetch: int) -> Any: ...

    def is_closed(self) -> bool: ...

    def terminate(self) -> None: ...

    async def close(self, *, timeout: float | None = None) -> None: ...


def shown(url: str) -> str:
    """The URL as it may be shown: without password and options."""
    parts = urlsplit(url)
    name = f"{parts.username}@" if parts.username else ""
    port = f":{parts.port}" if parts.port else ""
    return urlunsplit((parts.scheme, f"{name}{parts.hostname or ''}{port}", parts.path, "", ""))


def own(query: str) -> str:
    """One of the log's own statements, ready for parameters in the order of their first use."""
    return bound(OWN_QUERIES[f"log.{query}"]).sql


def own_with(query: str, **values: object) -> tuple[str, list[object]]:
    """One of the log's own statements, and its parameters, which are given by name, in their order."""
    sql, names = bound(OWN_QUERIES[f"log.{query}"])
    return sql, [values[name] for name in names]


class Away(Exception):
    """The database cannot be used at this moment; the text says why."""


class Spoiled(Exception):
    """Nothing of a batch can stand, though the database works."""


_FAULTS: tuple[tuple[type[BaseException], str], ...] = (
    (asyncpg.exceptions.AdminShutdownError, "Postgres is being stopped"),
    (asyncpg.exceptions.CrashShutdownError, "Postgres has crashed"),
    (asyncpg.exceptions.CannotConnectNowError, "Postgres is starting or stopping"),
    (asyncpg.exceptions.PostgresConnectionError, "the connection to Postgres was lost"),
    (asyncpg.exceptions.TooManyConnectionsError, "Postgres has no connection left"),
    (asyncpg.exceptions.DiskFullError, "the disk of Postgres is full"),
    (asyncpg.exceptions.InsufficientResourcesError, "Postgres has no memory or disk left"),
    (asyncpg.exceptions.PostgresIOError, "the disk of Postgres reported an error"),
    (asyncpg.exceptions.DataCorruptedError, "the database of Postgres is damaged"),
    (asyncpg.exceptions.IndexCorruptedError, "the database of Postgres is damaged"),
    (asyncpg.exceptions.IdleInTransactionSessionTimeoutError, "a transaction took too long"),
    (asyncpg.exceptions.ReadOnlySQLTransactionError, "Postgres takes no writes"),
    (asyncpg.exceptions.InvalidAuthorizationSpecificationError, "Postgres does not let this user in"),
    (asyncpg.exceptions.InvalidCatalogNameError, "Postgres has no such database"),
    (asyncpg.exceptions.InsufficientPrivilegeError, "the database user lacks a right"),
    (ssl.SSLError, "the encrypted connection to Postgres failed"),
    (TimeoutError, "Postgres did not answer in time"),
    (OSError, "Postgres cannot be reached"),
)
_OF_ONE_COMMAND: tuple[tuple[type[BaseException], str], ...] = (
    (asyncpg.exceptions.DeadlockDetectedError, "another transaction was in the way"),
    (asyncpg.exceptions.SerializationError, "another transaction was in the way"),
    (asyncpg.exceptions.LockNotAvailableError, "another transaction was in the way for too long"),
    (asyncpg.exceptions.QueryCanceledError, "a statement took too long"),
    (asyncpg.exceptions.InvalidCachedStatementError, "the schema is being changed"),
)


def fault_of_database(error: BaseException, connection: Connection | None = None) -> str:
    """Why the database itself could not do its work, or "" if the statement was at fault. A `connection` that has
    ended is a fault, whatever the error says."""
    if isinstance(error, Away):
        return str(error)
    for kind, reason in _FAULTS:
        if isinstance(error, kind):
            return reason
    if connection is not None and connection.is_closed():
        return "the connection to Postgres was lost"
    return ""


_COMES_BACK = (
    asyncpg.exceptions.AdminShutdownError,
    asyncpg.exceptions.CrashShutdownError,
    asyncpg.exceptions.CannotConnectNowError,
    asyncpg.exceptions.PostgresConnectionError,
    asyncpg.exceptions.TooManyConnectionsError,
    OSError,
    TimeoutError,
)


def comes_back(error: BaseException) -> bool:
    """Whether it may pass without anybody changing a setting."""
    return isinstance(error, _COMES_BACK) and not isinstance(error, ssl.SSLError)


def unavailable(reason: str) -> Unavailable:
    """What callers are told while the database cannot work."""
    return Unavailable(
        f"The log cannot be used at this moment: {reason}.",
        hint="Nothing of this was stored. Try again when Postgres is back.",
        reason=reason,
    )


def unknown(reason: str) -> Unavailable:
    """What callers are told if nobody can say whether their commit took place."""
    return Unavailable(
        f"It is not known whether this was stored: {reason} during the commit.",
        hint="Send it again with the same Command-Id: it is done once and answered once.",
        reason=reason,
    )


def translated(error: BaseException, connection: Connection | None = None) -> BaseException:
    """The error as callers are to see it."""
    for kind, reason in _OF_ONE_COMMAND:
        if isinstance(error, kind):
            return unavailable(reason)
    reason = fault_of_database(error, connection)
    return unavailable(reason) if reason else error


class Asked(StrEnum):
    """What a verb wants of a statement."""

    ROWS = "rows"
    CHANGE = "change"
    """How many rows it changes."""
    PUT = "put"
    """Only that it is done before anything can notice."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A named query on its way from a verb to whoever drives it."""

    asked: Asked
    query: str
    parameters: dict[str, object]

    def __await__(self) -> Generator["Statement", Any, Any]:
        answer: Any = yield self
        return answer


class Steps:
    """A verb or question on its way: it waits for a statement (`wanted`), or has ended with `value`."""

    __slots__ = ("_steps", "value", "wanted")

    def __init__(self, awaitable: Awaitable[object]) -> None:
        self._steps = cast("Any", awaitable.__await__())
        self.wanted: Statement | None = None
        self.value: Any = None

    def go_on(self, answer: object = None, error: BaseException | None = None) -> None:
        """Takes it to its next statement, or to its end; what it waits for is answered, or fails.

        Raises:
            RuntimeError: if it waits for anything but its transaction.
            whatever it raises.
        """
        try:
            wanted = self._steps.send(answer) if error is None else self._steps.throw(error)
        except StopIteration as end:
            self.wanted, self.value = None, end.value
            return
        if not isinstance(wanted, Statement):
            self.leave()
            raise RuntimeError("inside the log nothing but the transaction's own methods may be awaited")
        self.wanted = wanted

    def leave(self) -> None:
        """Ends it where it stands."""
        self._steps.close()


async def drive(steps: Steps, perform: Callable[[Statement], Awaitable[Any]]) -> Any:
    """Runs a verb or question to its end, `perform`s each statement that it waits for, and returns its value.

    One that asks for nothing more gets there at once, without a turn of the event loop.

    Raises:
        RuntimeError: if it waits for anything but its transaction.
        Away, Spoiled: if the database went away, or the batch is lost; then it is ended where it was.
    """
    while steps.wanted is not None:
        answer, error = None, None
        try:
            answer = await perform(steps.wanted)
        except (Away, Spoiled):
            steps.leave()
            raise
        except Exception as failed:  # it belongs to the one who asked
            error = failed
        steps.go_on(answer, error)
    return steps.value


class _Query(NamedTuple):
    """A named query as Postgres takes it."""

    sql: str
    names: tuple[str, ...]
    touched: Touched


class Queries:
    """The rooms' named queries as Postgres takes them."""

    def __init__(self, queries: Mapping[str, str]) -> None:
        self._queries = {name: _Query(*bound(text), touched(text)) for name, text in queries.items()}
        self._texts = queries
        self._together: dict[str, str] = {}

    def touched(self, query: str) -> Touched:
        """What a query touches.

        Raises:
            LookupError: if no room has it.
        """
        return self._query(query).touched

    def is_lookup(self, statement: Statement) -> bool:
        """Whether it may be asked together with others of its query; what is wrong with it, it is told alone."""
        query = self._queries.get(statement.query)
        return query is not None and query.touched.lookup and statement.parameters.keys() >= set(query.names)

    async def rows(self, connection: Connection, statement: Statement) -> list[Row]:
        """All rows that the query gives."""
        sql, values = self._ready(statement)
        return [dict(record) for record in await connection.fetch(sql, *values)]

    async def change(self, connection: Connection, statement: Statement) -> int:
        """Runs the query and returns how many rows it changed."""
        sql, values = self._ready(statement)
        status = await connection.execute(sql, *values)
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def change_each(self, connection: Connection, statements: Sequence[Statement]) -> None:
        """Runs one query with the parameters of each of these, in order, without waiting in between."""
        if len(statements) == 1:
            await self.change(connection, statements[0])
            return
        ready = [self._ready(statement) for statement in statements]
        await connection.executemany(ready[0][0], [values for _, values in ready])

    async def rows_of_each(self, connection: Connection, statements: Sequence[Statement]) -> list[list[Row]]:
        """What one lookup gives with the parameters of each of these, by one statement."""
        if len(statements) == 1:
            return [await self.rows(connection, statements[0])]
        query = statements[0].query
        sql = self._together.get(query)
        if sql is None:
            sql = self._together[query] = await self._many(connection, query)
        given = zip(*[self._ready(statement)[1] for statement in statements], strict=True)
        found: list[list[Row]] = [[] for _ in statements]
        for record in await connection.fetch(sql, *(list(values) for values in given)):
            row = dict(record)
            number: int = row.pop(_NUMBER)
            found[number - 1].append(row)
        return found

    async def _many(self, connection: Connection, query: str) -> str:
        """The lookup as one statement that takes an array for each parameter. `OFFSET 0` keeps each a look of its
        own into an index, whatever the planner thinks of the table when it first sees the statement."""
        sql, names, _ = self._query(query)
        kinds = (await connection.prepare(sql)).get_parameters()
        arrays = ", ".join(f"${number}::{kind.name}[]" for number, kind in enumerate(kinds, 1))
        text = bound_to(self._texts[query], "given")
        return (
            f"SELECT given.{_NUMBER}, found.*"  # noqa: S608 - made of a room's own text
            f" FROM unnest({arrays}) WITH ORDINALITY AS given ({', '.join(names)}, {_NUMBER})"
            f" CROSS JOIN LATERAL ({text}\nOFFSET 0) AS found"
        )

    def _query(self, query: str) -> _Query:
        try:
            return self._queries[query]
        except KeyError:
            raise LookupError(f"no room has a query {query!r}") from None

    def _ready(self, statement: Statement) -> tuple[str, list[object]]:
        sql, names, _ = self._query(statement.query)
        parameters = statement.parameters
        return sql, [parameters[name] for name in names]


_NUMBER = "number_of_the_lookup"


def asking(asked: Asked, query: str, parameters: dict[str, object]) -> Statement:
    """The statement, its texts as Postgres can hold them.

    Raises:
        Invalid: if a text holds half of a surrogate pair.
    """
    for name, value in parameters.items():
        if isinstance(value, str) and not value.isascii():
            _refuse_half(value)
        if isinstance(value, str) and "\0" in value:
            parameters[name] = storable_text(value)
    return Statement(asked, query, parameters)


def _refuse_half(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Invalid("The text holds half of a surrogate pair and cannot be stored.") from None


class Connections:
    """Connections that are lent to one user at a time; `writers` and `readers` bound how many there are.

    While Postgres is away, whoever comes waits for `LOG_DATABASE_WAIT_S` with growing pauses, and is then told so.
    Once that is known (`away`), the next are told at once, until `works` is said.
    """

    def __init__(self, url: str, *, changed: Callable[[str], None]) -> None:
        """`changed` hears why Postgres is away, and "" when it works."""
        self._url = url
        self.writers = asyncio.Semaphore(limits.LOG_DATABASE_WRITERS_MAX)
        self.readers = asyncio.Semaphore(limits.LOG_DATABASE_READERS_MAX)
        self._idle: list[Connection] = []
        self._changed = changed
        self._closed = False
        self.away = ""

    @asynccontextmanager
    async def begun(
        self, slot: asyncio.Semaphore, begin: Callable[[Connection], Awaitable[T]]
    ) -> AsyncGenerator[tuple[Connection, T]]:
        """A connection on which `begin` was done, and what that gave. Where Postgres went away before `begin` had
        ended, it is begun anew elsewhere: nothing else has been done yet. A connection that is left by an error is
        ended, and with it its transaction.

        Raises:
            Away: if Postgres cannot be used.
        """
        async with slot:
            connection, result = await self._begin(begin)
            try:
                yield connection, result
            except BaseException:
                connection.terminate()
                raise
            if self._closed:
                connection.terminate()
            elif not connection.is_closed():
                self._idle.append(connection)

    def works(self) -> None:
        """Says that Postgres answers."""
        self._said("")

    async def close(self) -> None:
        """Ends all connections that nobody uses; the others end when they come back."""
        self._closed = True
        idle, self._idle = self._idle, []
        for connection in idle:
            await end(connection)

    async def _begin(self, begin: Callable[[Connection], Awaitable[T]]) -> tuple[Connection, T]:
        loop = asyncio.get_running_loop()
        pause_s = limits.LOG_DATABASE_RETRY_S
        deadline = loop.time() + limits.LOG_DATABASE_WAIT_S
        while True:
            connection = self._idle.pop() if self._idle else None
            if connection is None and self.away:
                raise Away(self.away)
            try:
                if connection is None or connection.is_closed():
                    connection = await connect(self._url)
                    self._said("")
                return connection, await begin(connection)
            except BaseException as error:
                if connection is not None:
                    connection.terminate()
                reason = fault_of_database(error, connection)
                if not reason:
                    raise
                self._forget_idle()
                if loop.time() + pause_s > deadline or self._closed:
                    self._said(reason)
                    raise Away(reason) from error
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, limits.LOG_DATABASE_RETRY_S_MAX)

    def _forget_idle(self) -> None:
        """Drops the connections that wait: Postgres was away since they were made."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.terminate()

    def _said(self, away: str) -> None:
        self.away = away
        self._changed(away)


async def end(connection: Connection) -> None:
    """Closes a connection, with or without its consent."""
    try:
        await connection.close(timeout=limits.LOG_DATABASE_CONNECT_S)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        connection.terminate()


async def connect(url: str, *, answer_s: float = limits.LOG_DATABASE_ANSWER_S) -> Connection:
    """A connection with the settings that the log's promises need. The URL's own options (TLS among them) hold.

    Raises:
        whatever asyncpg or the network says.
    """
    connection: Connection = await cast("Any", asyncpg).connect(
        url,
        timeout=limits.LOG_DATABASE_CONNECT_S,
        command_timeout=answer_s,
        statement_cache_size=limits.LOG_DATABASE_STATEMENTS_KEPT_MAX,
        max_cached_statement_lifetime=0,
        server_settings={
            "application_name": "ekiden",
            "synchronous_commit": "on",
            "client_encoding": "UTF8",
            "default_transaction_isolation": "read committed",
            "lock_timeout": _milliseconds(min(answer_s, limits.LOG_DATABASE_LOCK_S)),
            "idle_in_transaction_session_timeout": _milliseconds(answer_s),
        },
    )
    return connection


def _milliseconds(seconds: float) -> str:
    return str(int(seconds * 1000))
