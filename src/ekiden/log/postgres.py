"""The log on Postgres: the same promises as on SQLite, for one node or several.

All state is in the database, so any node may answer anything. What `log.port` promises is held here by:
- `synchronous_commit = on`: a commit has been synced when its callers are told (law 1);
- answers of commands in the transaction of what they did, under the team's lock (law 2), whichever node is
  asked;
- `told`: up to which seq this node's followers know a team. Commits of this node are told at once; those of others
  come by a wake-up, or by the slow poll under it, and are read from the log. Only what continues `told` is told,
  so there is no gap and no double (law 4).

A log belongs to the event loop that it was opened on.
"""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import asyncpg

from ekiden.kernel import limits
from ekiden.kernel.clock import Clock, SteadyTime, iso
from ekiden.kernel.cursors import Cursor
from ekiden.kernel.errors import Invalid, StoreNewer
from ekiden.log.appending import LOG_TABLES, actor_of, closing, running, too_many, topics_of
from ekiden.log.lock import DataLock
from ekiden.log.port import Command, Event, Follower, Health, Question, Row, Verb, Written
from ekiden.log.postgres_connection import (
    Asked,
    Away,
    Connection,
    Connections,
    Queries,
    Statement,
    Steps,
    asking,
    connect,
    drive,
    end,
    fault_of_database,
    own,
    translated,
    unavailable,
)
from ekiden.log.postgres_migrations import declare_present
from ekiden.log.postgres_writer import Job, Outcome, Writers
from ekiden.log.redacting import QUERIES as REDACTING
from ekiden.log.wakeups import Wakeups

T = TypeVar("T")

_BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class PostgresReading:
    """A consistent view; see `log.port.Reading`."""

    __slots__ = ("_connection", "_queries", "now", "seq", "steady_ms", "team_id")

    def __init__(
        self, connection: Connection, queries: Queries, team_id: str, seq: int, *, now: str, steady_ms: int
    ) -> None:
        self._connection = connection
        self._queries = queries
        self.team_id = team_id
        self.seq = seq
        self.now = now
        self.steady_ms = steady_ms

    async def rows(self, query: str, /, **parameters: object) -> list[Row]:
        return await asking(Asked.ROWS, query, parameters)

    async def row(self, query: str, /, **parameters: object) -> Row | None:
        rows: list[Row] = await asking(Asked.ROWS, query, parameters)
        return rows[0] if rows else None

    async def perform(self, statement: Statement) -> list[Row]:
        """Runs what the question asks for.

        Raises:
            Away: if Postgres went away.
        """
        try:
            return await self._queries.rows(self._connection, statement)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
            if isinstance(error, asyncpg.exceptions.ReadOnlySQLTransactionError):
                raise  # a question that would write is a mistake in the program
            reason = fault_of_database(error, self._connection)
            if reason:
                raise Away(reason) from error
            raise translated(error) from error


class PostgresLog:
    """See `log.port.Log`. Made by `log.open.open_log`, which also migrates."""

    def __init__(
        self,
        url: str,
        *,
        log_id: str,
        schema: int,
        heads: Mapping[str, int],
        queries: Mapping[str, str],
        clock: Clock,
        steady: SteadyTime,
        wakeups: Wakeups,
        lock: DataLock | None = None,
    ) -> None:
        """`schema` is the newest step that this program knows; `heads` how far each team is; `steady` follows the
        database's clock. `wakeups` are closed and `lock` let go when the log is closed."""
        self.log_id = log_id
        self.health = Health()
        self._url = url
        self._schema = schema
        self._clock = clock
        self._steady = steady
        self._lock = lock
        self._loop = asyncio.get_running_loop()
        queries = {**queries, **REDACTING}
        self._queries = Queries(queries)
        self._connections = Connections(url, changed=self._changed)
        self._writers = Writers(
            self._connections,
            self._queries,
            frozenset(name for name, text in queries.items() if LOG_TABLES.search(text)),
            clock=clock,
            steady=steady,
            node_id=uuid.uuid4().hex,
            settle=self._settle,
        )
        self._in_flight: dict[tuple[str, str, str], str] = {}
        self._waiting = 0
        self._asking = 0
        self._followers: list[Follower] = []
        self._told = dict(heads)
        self._catching_up: dict[str, asyncio.Task[None]] = {}
        self._closing = False
        self._newer: StoreNewer | None = None
        """Set once a newer program has taken away what this one needs."""
        self._wakeups = wakeups
        wakeups.subscribe(self._woken)
        self._watching = self._loop.create_task(self._watch())

    async def write(self, team_id: str, verb: Verb, *, command: Command | None = None) -> Written:
        self._check_open()
        if self._waiting >= limits.LOG_WAITING_COMMANDS_MAX:
            raise too_many("commands", limits.LOG_WAITING_COMMANDS_MAX)
        if command is not None:
            key = (team_id, command.principal_id, command.id)
            digest_running = self._in_flight.get(key)
            if digest_running is not None:
                raise running(digest_running, command.digest)
            self._in_flight[key] = command.digest
        self._waiting += 1
        answered: asyncio.Future[Written] = self._loop.create_future()
        self._writers.put(Job(team_id, verb, command, answered))
        return await answered

    async def ask(self, team_id: str, question: Question) -> Any:
        async def begin(connection: Connection) -> int:
            await connection.execute(_BEGIN_READING)
            return await connection.fetchval(own("head"), team_id) or 0

        async with self._reading(begin) as (connection, seq):
            now, steady_ms = iso(self._clock.now()), self._steady.now_ms()
            reading = PostgresReading(connection, self._queries, team_id, seq, now=now, steady_ms=steady_ms)
            answer, failed = None, None
            try:
                steps = Steps(question(reading))
                steps.go_on()
                answer = await drive(steps, reading.perform)
            except Away:
                raise
            except Exception as error:  # it is the question's own, and the connection is as good as before
                failed = error
            await connection.execute("ROLLBACK")
        if failed is not None:
            raise failed
        return answer

    async def events(
        self, team_id: str, after: int, *, topics: Sequence[str] | None = None, limit: int
    ) -> Sequence[Event]:
        chosen = sorted(set(topics)) if topics is not None else None
        if chosen is not None and len(chosen) > limits.STREAM_TOPICS_MAX:
            raise Invalid(f"At most {limits.STREAM_TOPICS_MAX} topics can be read at once.")

        async def look(connection: Connection) -> list[Event]:
            return await read_events(connection, team_id, after, chosen, limit)

        async with self._reading(look) as (_, events):
            return events

    async def bounds(self, team_id: str) -> tuple[int, int]:
        async def look(connection: Connection) -> tuple[int, int]:
            return await read_bounds(connection, team_id)

        async with self._reading(look) as (_, bounds):
            return bounds

    def follow(self, follower: Follower) -> Callable[[], None]:
        self._followers.append(follower)

        def stop() -> None:
            with contextlib.suppress(ValueError):
                self._followers.remove(follower)

        return stop

    def cursor(self, seq: int) -> Cursor:
        return Cursor(self.log_id, seq)

    def announce(self, url: str) -> None:
        """Says at which url this hub answers, to the one who finds its home in use. A second hub on the same
        database is another node, not a mistake."""
        if self._lock is not None:
            self._lock.announce(url)

    async def forget(self, team_id: str, before: int) -> int:
        """Drops the team's events with seq < `before` and returns how many there were. The head stays, so that
        no seq is given twice; tables that were projected from the events stay as well."""
        self._check_open()

        async def begin(connection: Connection) -> None:
            await connection.execute("BEGIN")
            await connection.fetchval(own("lock_team"), team_id)

        async with self._lent(self._connections.writers, begin) as (connection, _):
            status = await connection.execute(own("forget_events"), team_id, before)
            await connection.execute(own("forget_event_topics"), team_id, before)
            await connection.execute("COMMIT")
        return int(status.rpartition(" ")[2])

    async def backup(self, target: Path) -> None:
        """See `log.port.Log.backup`. The copy is a database of SQLite's, mode 0600: either engine can be restored
        from it.

        Raises:
            Conflict: if `target` exists.
            Unavailable: if the disk or Postgres refuses.
        """
        from ekiden.log.move import copy_out

        self._check_open()
        await copy_out(self._url, target)

    async def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        await self._writers.stop()
        tasks = [self._watching, *self._catching_up.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._wakeups.close()
        await self._connections.close()
        self.health = Health(False, "the log is closed", iso(self._clock.now()))
        if self._lock is not None:
            self._lock.release()

    # Telling

    async def _settle(
        self, team_id: str, head_before: int, events: Sequence[Event], outcomes: Sequence[Outcome]
    ) -> None:
        """After a batch: first those who follow, then those who wait."""
        if events:
            if self._told.get(team_id, 0) < head_before:
                # Another node has written in between. If that cannot be read now, the poll brings it and these.
                with contextlib.suppress(Exception):
                    await self._catch_up(team_id)
            else:
                self._tell(team_id, events)
            self._wakeups.publish(team_id, events[-1].seq)
        for outcome in outcomes:
            job = outcome.job
            self._waiting -= 1
            if job.command is not None:
                self._in_flight.pop((job.team_id, job.command.principal_id, job.command.id), None)
            if job.answered.done():  # the caller has gone; what was done stays done
                continue
            if outcome.answer is not None:
                job.answered.set_result(outcome.answer)
            else:
                assert outcome.error is not None
                job.answered.set_exception(outcome.error)

    def _tell(self, team_id: str, events: Sequence[Event]) -> None:
        """Tells followers what continues what they know; `events` must begin at or before the next one."""
        told = self._told.get(team_id, 0)
        fresh = [event for event in events if event.seq > told]
        if not fresh:
            return
        self._told[team_id] = fresh[-1].seq
        for follower in tuple(self._followers):
            try:
                follower(team_id, fresh)
            except Exception as error:  # one follower's fault must not keep the news from the others
                self._loop.call_exception_handler({"message": "A follower of the log failed", "exception": error})

    def _woken(self, team_id: str, seq: int, *, sure: bool = False) -> None:
        """A team's log has grown up to `seq`, here or elsewhere; `sure` if that was seen in the log itself."""
        if seq <= self._told.get(team_id, 0) or team_id in self._catching_up or self._closing:
            return
        task = self._loop.create_task(self._catch_up(team_id, seq if sure else 0))
        self._catching_up[team_id] = task
        task.add_done_callback(lambda done: self._caught_up(team_id, done))

    def _caught_up(self, team_id: str, task: "asyncio.Task[None]") -> None:
        del self._catching_up[team_id]
        if not task.cancelled():
            task.exception()  # Postgres is away; the poll asks again

    async def _catch_up(self, team_id: str, head: int = 0) -> None:
        """Reads and tells what followers of a team do not know yet, until nothing is left. What is not there up to
        `head`, which was seen in the log, has been forgotten."""
        while True:
            after = self._told.get(team_id, 0)
            events = await self.events(team_id, after, limit=limits.LOG_CATCH_UP_EVENTS_MAX)
            if not events:
                self._told[team_id] = max(head, self._told.get(team_id, 0))
                return
            self._tell(team_id, events)

    async def _watch(self) -> None:
        """Looks at all heads every `LOG_DATABASE_POLL_S`, on a connection that also says that this program is
        present; brings the log back to health when Postgres is back."""
        while True:
            connection: Connection | None = None
            try:
                connection = await connect(self._url)
                await declare_present(connection, self._schema)
                tidied_at = 0.0
                while True:
                    if self._loop.time() - tidied_at >= limits.LOG_DATABASE_TIDY_S:
                        tidied_at = self._loop.time()
                        await self._tidy(connection)
                    self._steady.follow(await connection.fetchval(own("now_s")))
                    for team_id, head in [tuple(row.values()) for row in await connection.fetch(own("heads"))]:
                        self._woken(team_id, head, sure=True)
                    if self._connections.away:
                        self._connections.works()
                    await asyncio.sleep(limits.LOG_DATABASE_POLL_S)
            except StoreNewer as newer:
                self._newer = newer
                self._changed(newer.message)
            except Exception as error:  # whatever it is, it is shown as health, and looked at again
                self._changed(fault_of_database(error, connection) or f"{type(error).__name__}: {error}")
            finally:
                if connection is not None:
                    await end(connection)
            await asyncio.sleep(limits.LOG_DATABASE_RETRY_S_MAX)

    async def _tidy(self, connection: Connection) -> None:
        """Drops answers that are too old to be asked for, some at a time, and traces of nodes that are gone.
        Several nodes may do so at once: what one has dropped, the next does not find."""
        now_s = int(self._clock.now())
        await connection.execute(own("forget_batches"), now_s - limits.LOG_TRACES_KEPT_S)
        before = now_s - limits.COMMAND_ANSWERS_KEPT_S
        await connection.execute(own("forget_commands"), before, limits.LOG_FORGET_ROWS_MAX)

    # Asking

    def _check_open(self) -> None:
        if self._closing:
            raise closing()
        if self._newer is not None:
            raise self._newer

    def _changed(self, away: str) -> None:
        if self._closing:
            return
        if away and self.health.reason != away:
            self.health = Health(False, away, iso(self._clock.now()))
        elif not away and not self.health.ok:
            self.health = Health()

    @asynccontextmanager
    async def _reading(self, begin: Callable[[Connection], Awaitable[T]]) -> AsyncGenerator[tuple[Connection, T]]:
        self._check_open()
        if self._asking >= limits.LOG_WAITING_QUESTIONS_MAX:
            raise too_many("questions", limits.LOG_WAITING_QUESTIONS_MAX)
        self._asking += 1
        try:
            async with self._lent(self._connections.readers, begin) as lent:
                yield lent
        finally:
            self._asking -= 1

    @asynccontextmanager
    async def _lent(
        self, slot: asyncio.Semaphore, begin: Callable[[Connection], Awaitable[T]]
    ) -> AsyncGenerator[tuple[Connection, T]]:
        try:
            async with self._connections.begun(slot, begin) as lent:
                yield lent
        except Away as away:
            raise unavailable(str(away)) from away
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
            raise translated(error) from error


@lru_cache(maxsize=limits.LOG_DATABASE_STATEMENTS_KEPT_MAX)
def _events_of_topics(count: int, most: int) -> str:
    """Reads events of `count` topics: $1 team, $2 after, $3 limit, then the topics.

    Each topic gives at most `most`, a power of two that is no less than the limit, from a range of its own. So the
    work is bounded however long the log is; and since the text says how little that is, Postgres plans it once and
    not each time anew.
    """
    ranges = " UNION ".join(
        "SELECT seq FROM (SELECT seq FROM event_topics WHERE team_id = $1"  # noqa: S608 - only numbers are put in
        f" AND topic = ${number} AND seq > $2 ORDER BY seq LIMIT {most}) AS topic_{number}"
        for number in range(4, 4 + count)
    )
    return (
        "SELECT e.seq, e.kind, e.topics, e.at, e.actor_id, e.actor_key, e.actor_name, e.body"  # noqa: S608 - as above
        f" FROM (SELECT seq FROM ({ranges}) AS found ORDER BY seq LIMIT $3) AS wanted"
        " JOIN events AS e ON e.team_id = $1 AND e.seq = wanted.seq ORDER BY e.seq"
    )


async def read_events(
    connection: Connection, team_id: str, after: int, topics: Sequence[str] | None, limit: int
) -> list[Event]:
    """Up to `limit` events after a seq, in order; only those with one of `topics`, if given."""
    if topics is None:
        rows = await connection.fetch(own("events_after"), team_id, after, limit)
    elif topics:
        sql = _events_of_topics(len(topics), 1 << (limit - 1).bit_length())
        rows = await connection.fetch(sql, team_id, after, limit, *topics)
    else:
        rows = []
    return [
        Event(seq, kind, topics_of(on), at, actor_of(actor_id, actor_key, name), body.encode())
        for seq, kind, on, at, actor_id, actor_key, name, body in [tuple(row.values()) for row in rows]
    ]


async def read_bounds(connection: Connection, team_id: str) -> tuple[int, int]:
    """See `log.port.Log.bounds`."""
    row = await connection.fetchrow(own("bounds"), team_id)
    assert row is not None
    head: int = row["head"] or 0
    return (head + 1 if row["oldest"] is None else row["oldest"], head)
