"""The log on SQLite, in a file or in memory: the loop's side.

Writing goes through one thread (`sqlite_writer`), reading through a few reader connections, each question on a
consistent snapshot of its own. What `log.port` promises is held here by:
- WAL with `synchronous = FULL`: a commit has been synced when its callers are told (law 1);
- answers of commands in the same transaction as what they did (law 2);
- one event loop: commands in flight, and followers in the order of `seq`, need no lock.

A log belongs to the event loop that it was opened on.
"""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, cast

from ekiden.kernel import limits
from ekiden.kernel.clock import Clock, SteadyTime, iso
from ekiden.kernel.cursors import Cursor
from ekiden.kernel.errors import Unavailable
from ekiden.log.appending import LOG_TABLES, closing, running, too_many
from ekiden.log.lock import DataLock
from ekiden.log.port import Command, Event, Follower, Health, Question, Row, Verb, Written
from ekiden.log.redacting import QUERIES as REDACTING
from ekiden.log.sqlite_connection import (
    Queries,
    connect,
    drive,
    own,
    read_events,
    read_head,
    translated,
)
from ekiden.log.sqlite_files import copy_database
from ekiden.log.sqlite_writer import Chore, ChoreJob, Job, Outcome, Writer

T = TypeVar("T")


class SqliteReading:
    """A consistent view; see `log.port.Reading`."""

    __slots__ = ("_connection", "_queries", "now", "seq", "steady_ms", "team_id")

    def __init__(
        self, connection: sqlite3.Connection, queries: Queries, team_id: str, *, now: str, steady_ms: int
    ) -> None:
        self._connection = connection
        self._queries = queries
        self.team_id = team_id
        self.now = now
        self.steady_ms = steady_ms
        self.seq = read_head(connection, team_id)

    async def rows(self, query: str, /, **parameters: object) -> list[Row]:
        return self._queries.rows(self._connection, query, parameters)

    async def row(self, query: str, /, **parameters: object) -> Row | None:
        return self._queries.row(self._connection, query, parameters)


class SqliteLog:
    """See `log.port.Log`. Made by `log.open.open_log`, which also locks and migrates."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        location: Path | None,
        *,
        log_id: str,
        queries: Mapping[str, str],
        clock: Clock,
        lock: DataLock | None = None,
    ) -> None:
        """`connection` is the writer's, migrated; `location` is None for a database in memory. `lock` is let go
        when all is closed."""
        self.log_id = log_id
        self.health = Health()
        self._location = location
        self._clock = clock
        self._steady = SteadyTime(clock)
        self._lock = lock
        queries = {**queries, **REDACTING}
        self._queries = Queries(queries)
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._turn = threading.Lock()
        self._writer = Writer(
            connection,
            self._queries,
            frozenset(name for name, text in queries.items() if LOG_TABLES.search(text)),
            clock=clock,
            steady=self._steady,
            loop=self._loop,
            settle=self._settle,
            turn=self._turn,
        )
        self._in_flight: dict[tuple[str, str, str], str] = {}
        self._waiting = 0
        self._asking = 0
        self._written = 0
        """Commands since the write-ahead log was last taken back while writing goes on."""
        self._taking_back = False
        self._followers: list[Follower] = []
        self._closing = False
        self._readers: list[sqlite3.Connection] = []
        self._pool = ThreadPoolExecutor(limits.LOG_READERS_MAX, thread_name_prefix="ekiden-log-reader")
        in_file = location is not None
        self._writer.start(
            idle_chores=[*([self._take_back_wal] if in_file else []), self._forget_commands],
            busy_chores=[self._cut_wal] if in_file else [],
        )

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
        self._writer.put(Job(team_id, verb, command, answered))
        return await answered

    async def ask(self, team_id: str, question: Question) -> Any:
        def put(connection: sqlite3.Connection) -> Any:
            now, steady_ms = iso(self._clock.now()), self._steady.now_ms()
            return drive(question(SqliteReading(connection, self._queries, team_id, now=now, steady_ms=steady_ms)))

        return await self._read(put)

    async def events(
        self, team_id: str, after: int, *, topics: Sequence[str] | None = None, limit: int
    ) -> Sequence[Event]:
        return await self._read(lambda connection: read_events(connection, team_id, after, topics, limit))

    async def bounds(self, team_id: str) -> tuple[int, int]:
        def look(connection: sqlite3.Connection) -> tuple[int, int]:
            head = read_head(connection, team_id)
            oldest = connection.execute(own("oldest"), (team_id,)).fetchone()[0]
            return (head + 1 if oldest is None else oldest, head)

        return await self._read(look)

    def follow(self, follower: Follower) -> Callable[[], None]:
        self._followers.append(follower)

        def stop() -> None:
            with contextlib.suppress(ValueError):
                self._followers.remove(follower)

        return stop

    def cursor(self, seq: int) -> Cursor:
        return Cursor(self.log_id, seq)

    def announce(self, url: str) -> None:
        """Says at which url this hub answers, to the one who finds the data held."""
        if self._lock is not None:
            self._lock.announce(url)

    async def forget(self, team_id: str, before: int) -> int:
        """Drops the team's events with seq < `before` and returns how many there were. The head stays, so that
        no seq is given twice; tables that were projected from the events stay as well."""

        def forget(connection: sqlite3.Connection) -> int:
            connection.execute("BEGIN IMMEDIATE")
            try:
                count = connection.execute(own("forget_events"), (team_id, before)).rowcount
                connection.execute(own("forget_event_topics"), (team_id, before))
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return count

        return await self._chore(forget)

    async def backup(self, target: Path) -> None:
        """See `log.port.Log.backup`. The copy has mode 0600.

        Raises:
            Conflict: if `target` exists.
            Unavailable: if the disk refuses.
        """
        try:
            await self._read(lambda connection: copy_database(connection, target), snapshot=False)
        except OSError as error:
            raise Unavailable(f"The backup could not be written: {error.strerror}.", target=str(target)) from error

    async def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._writer.end()
        await self._loop.run_in_executor(None, self._writer.join)
        await asyncio.sleep(0)  # what the writer said last is settled before its connection goes
        self._pool.shutdown(wait=True)
        for connection in self._readers:
            connection.close()
        self._readers.clear()
        with contextlib.suppress(sqlite3.Error):
            if self._location is not None:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()
        self.health = Health(False, "the log is closed", iso(self._clock.now()))
        if self._lock is not None:
            self._lock.release()

    def _check_open(self) -> None:
        if self._closing:
            raise closing()

    def _settle(self, outcomes: Sequence[Outcome], events: Sequence[tuple[str, Event]], fault: str | None) -> None:
        """On the loop, after a batch: first those who follow, then those who wait."""
        if fault:
            if self.health.reason != fault:
                self.health = Health(False, fault, iso(self._clock.now()))
        elif fault is not None and not self.health.ok and not self._closing:
            self.health = Health()
        if events and self._followers:
            self._tell_followers(events)
        self._written += len(outcomes)
        if self._written >= limits.LOG_CHECKPOINT_AHEAD_COMMANDS and not self._taking_back:
            self._take_back_ahead()
        for outcome in outcomes:
            job = outcome.job
            self._waiting -= 1
            if isinstance(job, Job) and job.command is not None:
                self._in_flight.pop((job.team_id, job.command.principal_id, job.command.id), None)
            answered = cast("asyncio.Future[Any]", job.answered)
            if answered.done():  # the caller has gone; what was done stays done
                continue
            if outcome.error is None:
                answered.set_result(outcome.answer)
            else:
                answered.set_exception(outcome.error)

    def _tell_followers(self, events: Sequence[tuple[str, Event]]) -> None:
        of_team: dict[str, list[Event]] = {}
        for team_id, event in events:
            of_team.setdefault(team_id, []).append(event)
        for team_id, committed in of_team.items():
            for follower in tuple(self._followers):
                try:
                    follower(team_id, committed)
                except Exception as error:  # one follower's fault must not keep the news from the others
                    self._loop.call_exception_handler(
                        {"message": "A follower of the log failed", "exception": error}
                    )

    async def _chore(self, chore: Chore) -> Any:
        self._check_open()
        self._waiting += 1
        answered: asyncio.Future[Any] = self._loop.create_future()
        self._writer.put(ChoreJob(chore, answered))
        try:
            return await answered
        except sqlite3.Error as error:
            raise translated(error) from error

    async def _read(self, look: Callable[[sqlite3.Connection], T], *, snapshot: bool = True) -> T:
        self._check_open()
        if self._asking >= limits.LOG_WAITING_QUESTIONS_MAX:
            raise too_many("questions", limits.LOG_WAITING_QUESTIONS_MAX)
        self._asking += 1
        try:
            return await self._loop.run_in_executor(self._pool, self._look, look, snapshot)
        except sqlite3.Error as error:
            raise translated(error, reading=True) from error
        finally:
            self._asking -= 1

    def _look(self, look: Callable[[sqlite3.Connection], T], snapshot: bool) -> T:
        """On a reader's thread: runs `look` on one snapshot."""
        if self._location is None:
            with self._turn:
                if not snapshot:
                    return look(self._connection)
                self._connection.execute("PRAGMA query_only = ON")
                try:
                    return look(self._connection)
                finally:
                    self._connection.execute("PRAGMA query_only = OFF")
        # As many connections as threads: a thread that finds none free makes its own, and none waits for one.
        try:
            connection = self._readers.pop()
        except IndexError:
            connection = connect(self._location, reader=True)
        try:
            if not snapshot:
                return look(connection)
            connection.execute("BEGIN")
            try:
                return look(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        finally:
            self._readers.append(connection)

    def _take_back_ahead(self) -> None:
        """Moves what is in the write-ahead log into the database beside the writer. Otherwise a commit would do so
        every now and then, while all who write wait for it; it still does if this does not keep up."""
        self._written = 0
        if self._location is None or self._closing:
            return

        def take_back(connection: sqlite3.Connection) -> None:
            # What is wrong with the disk is the writer's to find and to tell.
            with contextlib.suppress(sqlite3.Error):
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

        def done(_: object) -> None:
            self._taking_back = False

        self._taking_back = True
        self._loop.run_in_executor(self._pool, self._look, take_back, False).add_done_callback(done)

    def _take_back_wal(self, connection: sqlite3.Connection) -> None:
        """Moves what is in the write-ahead log into the database, as far as readers let it."""
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        self._cut_wal(connection)

    def _cut_wal(self, connection: sqlite3.Connection) -> None:
        """Begins the write-ahead log anew if it is over its bound. SQLite does so by itself when no reader looks
        at it; with one reader always following another, it never would. A reader that stays longer than
        `LOG_CHECKPOINT_WAIT_S` puts it off to the next time."""
        assert self._location is not None
        wal = self._location.with_name(self._location.name + "-wal")
        if not wal.exists() or wal.stat().st_size <= limits.LOG_WAL_BYTES_MAX:
            return
        connection.execute(f"PRAGMA busy_timeout = {int(limits.LOG_CHECKPOINT_WAIT_S * 1000)}").fetchall()
        try:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            wait_ms = int(limits.LOG_FOREIGN_WRITER_WAIT_S * 1000)
            connection.execute(f"PRAGMA busy_timeout = {wait_ms}").fetchall()

    def _forget_commands(self, connection: sqlite3.Connection) -> None:
        """Drops answers that are too old to be asked for, some at a time."""
        before = int(self._clock.now()) - limits.COMMAND_ANSWERS_KEPT_S
        connection.execute(own("forget_commands"), (before, limits.LOG_FORGET_ROWS_MAX))
