"""The one thread that writes: many commands to a commit, each of them whole or not there at all.

The order of things in a batch:
1. `BEGIN IMMEDIATE`, so that a foreign writer is waited for before anything is read;
2. each command runs to its end. Its events and its answer are held in memory; what it changes in tables it changes
   at once. Commands decide before they change, so one that refuses has most often changed nothing. If one had, the
   batch is rolled back and all of it runs again, carefully: each command in a savepoint of its own;
3. all events, answers and heads are written with few statements for each table, then `COMMIT` (with fsync);
4. the event loop is woken once: followers first, then the callers.

If the disk refuses at any point, the whole batch is rolled back and every caller in it is told that nothing
was stored. Between batches, when nobody waits, the write-ahead log is taken back into the database and old
answers of commands are dropped.
"""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ekiden.kernel import limits
from ekiden.kernel.clock import Clock, SteadyTime, iso
from ekiden.kernel.errors import EkidenError
from ekiden.log.appending import as_text, encoded, new_event, proper, reused
from ekiden.log.port import Actor, Command, Event, Row, Verb, Written
from ekiden.log.redacting import redact
from ekiden.log.sqlite_connection import (
    Queries,
    drive,
    fault_of_database,
    insert_rows,
    read_head,
    select_rows,
    unavailable,
)

Chore = Callable[[sqlite3.Connection], object]
"""Work of the log itself on the writer's connection, outside any batch."""


@dataclass(slots=True)
class Job:
    """One command on its way: what to run, and the future that its caller waits for."""

    team_id: str
    verb: Verb
    command: Command | None
    answered: asyncio.Future[Written]


@dataclass(slots=True)
class ChoreJob:
    """One piece of housekeeping on its way."""

    run: Chore
    answered: asyncio.Future[Any]


@dataclass(slots=True)
class Outcome:
    """What became of a job, on its way back to the loop."""

    job: Job | ChoreJob
    answer: object = None
    error: BaseException | None = None


@dataclass(slots=True)
class Batch:
    """What the commands of one commit have brought together so far."""

    careful: bool = False
    """Whether each command that changes a table does so in a savepoint."""
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    events: list[tuple[str, Event]] = field(default_factory=list[tuple[str, Event]])
    inserted: int = 0
    """How many of `events` are rows already."""
    commands: list[tuple[object, ...]] = field(default_factory=list[tuple[object, ...]])
    answered: dict[tuple[str, str, str], list[Any]] = field(default_factory=dict[tuple[str, str, str], list[Any]])
    """(digest, answer, seq, when) of those commands of the batch that were answered before."""


Settle = Callable[[Sequence[Outcome], Sequence[tuple[str, Event]], str | None], None]
"""Called on the loop after each batch: outcomes, committed events, and why the database fails ("" if it works,
None if this says nothing of it)."""


class _Spoiled(Exception):
    """A command refused after it had changed a table, and no savepoint takes that back."""


class SqliteTransaction:
    """One command's transaction; see `log.port.Transaction`. Of no use after its verb has ended."""

    __slots__ = (
        "_changed",
        "_ended",
        "_events_from",
        "_head_before",
        "_inserted_before",
        "_writer",
        "now",
        "team_id",
    )

    def __init__(self, writer: "Writer", team_id: str, now: str) -> None:
        self.team_id = team_id
        self.now = now
        self._writer = writer
        self._events_from = len(writer.batch.events)
        self._head_before = writer.head(team_id)
        self._inserted_before = 0
        self._changed = False
        self._ended = False

    @property
    def seq(self) -> int:
        """The team's head in this view, this command's own events included."""
        return self._writer.head(self.team_id)

    @property
    def steady_ms(self) -> int:
        """See `log.port.Reading`."""
        return self._writer.steady.now_ms()

    async def rows(self, query: str, /, **parameters: object) -> list[Row]:
        self._prepare(query)
        return self._writer.queries.rows(self._writer.connection, query, parameters)

    async def row(self, query: str, /, **parameters: object) -> Row | None:
        self._prepare(query)
        return self._writer.queries.row(self._writer.connection, query, parameters)

    async def run(self, query: str, /, **parameters: object) -> int:
        self._prepare(query)
        if not self._changed:
            self._begin_to_change()
        return self._writer.queries.run(self._writer.connection, query, parameters).rowcount

    async def put(self, query: str, /, **parameters: object) -> None:
        await self.run(query, **parameters)

    async def redact(self, *seqs: int, answers: bool = True) -> int:
        return await redact(self, seqs, answers=answers)

    def append(self, kind: str, body: object, *, topics: Sequence[str], actor: Actor) -> int:
        self._check_open()
        seq = self._writer.head(self.team_id) + 1
        event = new_event(seq, kind, body, topics=topics, actor=actor, at=self.now)
        self._writer.heads[self.team_id] = seq
        self._writer.batch.events.append((self.team_id, event))
        return seq

    def end(self) -> None:
        """Keeps what the command did, for the commit of its batch."""
        self._ended = True
        if self._changed and self._writer.batch.careful:
            self._writer.connection.execute("RELEASE command")

    def undo(self) -> None:
        """Takes back all that the command did.

        Raises:
            _Spoiled: if that can only be done by taking back the whole batch.
        """
        self._ended = True
        batch = self._writer.batch
        if self._changed:
            if not batch.careful:
                raise _Spoiled
            self._writer.connection.execute("ROLLBACK TO command")
            self._writer.connection.execute("RELEASE command")
            batch.inserted = self._inserted_before
        del batch.events[self._events_from :]
        self._writer.heads[self.team_id] = self._head_before

    def _check_open(self) -> None:
        if self._ended:
            raise RuntimeError("this transaction has ended: a verb must not keep it")

    def _prepare(self, query: str) -> None:
        """Makes earlier events of the batch visible to a query that reads the log's own tables."""
        self._check_open()
        if query in self._writer.queries_of_events and self._writer.batch.inserted < len(
            self._writer.batch.events
        ):
            if not self._changed:
                self._begin_to_change()
            self._writer.insert_events()

    def _begin_to_change(self) -> None:
        self._changed = True
        if self._writer.batch.careful:
            self._writer.connection.execute("SAVEPOINT command")
            self._inserted_before = self._writer.batch.inserted


class Writer:
    """Owns the writing connection. `put` from the loop; `settle` is called on the loop."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        queries: Queries,
        queries_of_events: frozenset[str],
        *,
        clock: Clock,
        steady: SteadyTime,
        loop: asyncio.AbstractEventLoop,
        settle: Settle,
        turn: threading.Lock,
    ) -> None:
        self.connection = connection
        self.queries = queries
        self.queries_of_events = queries_of_events
        self.heads: dict[str, int] = {}
        self.batch = Batch()
        self.steady = steady
        self._clock = clock
        self._loop = loop
        self._settle = settle
        self._turn = turn
        """Held while the connection is in use; readers of a database in memory share the connection."""
        self._jobs: queue.SimpleQueue[Job | ChoreJob | None] = queue.SimpleQueue()
        self._fresh: list[Job | ChoreJob] = []
        """Put in this turn of the loop; not handed over yet."""
        self._idle_chores: list[Chore] = []
        self._busy_chores: list[Chore] = []
        self._commits = 0
        self._dirty = False
        self._data_version = -1
        self._now_ms = -1
        self._now = ""
        self._thread = threading.Thread(target=self._work, name="ekiden-log-writer", daemon=True)

    def start(self, *, idle_chores: Sequence[Chore], busy_chores: Sequence[Chore] = ()) -> None:
        """Begins to work; `idle_chores` run when nothing has been written for a moment, `busy_chores` after every
        `LOG_WAL_LOOK_COMMITS` commits however busy it is."""
        self._idle_chores = list(idle_chores)
        self._busy_chores = list(busy_chores)
        self._thread.start()

    def put(self, job: Job | ChoreJob) -> None:
        """Hands a job over, on the loop. The caller bounds how many wait.

        Jobs go to the thread together, once the loop has run what is ready. If the thread began with the first of
        them, the two would take the interpreter from each other for each statement of it, and the others would
        not be in its commit.
        """
        if not self._fresh:
            self._loop.call_soon(self._hand_over)
        self._fresh.append(job)

    def _hand_over(self) -> None:
        fresh, self._fresh = self._fresh, []
        for job in fresh:
            self._jobs.put(job)

    def end(self) -> None:
        """Lets the thread end after the jobs that were put so far."""
        self._hand_over()
        self._jobs.put(None)

    def join(self) -> None:
        """Waits for the thread's end, on another thread than the loop's."""
        self._thread.join()

    def head(self, team_id: str) -> int:
        """The seq of the team's newest event, the batch's own included."""
        head = self.heads.get(team_id)
        if head is None:
            head = self.heads[team_id] = read_head(self.connection, team_id)
        return head

    def insert_events(self) -> None:
        """Writes the batch's events that are not rows yet."""
        batch = self.batch
        waiting = batch.events[batch.inserted :]
        insert_rows(
            self.connection,
            "add_event",
            [
                (
                    team_id,
                    event.seq,
                    event.kind,
                    proper(event.kind, event.topics)[1],
                    event.at,
                    event.actor.principal_id,
                    event.actor.key_id,
                    event.actor.name,
                    str(event.body, "utf-8"),
                )
                for team_id, event in waiting
            ],
        )
        insert_rows(
            self.connection,
            "add_event_topic",
            [(team_id, topic, event.seq) for team_id, event in waiting for topic in event.topics],
        )
        batch.inserted = len(batch.events)

    def _work(self) -> None:
        jobs = self._jobs
        while True:
            job = self._next()
            ending = job is None
            batch: list[Job] = []
            while job is not None:
                if isinstance(job, ChoreJob):
                    if batch:
                        self._carry_out(batch)
                        batch = []
                    self._do_chore(job)
                else:
                    batch.append(job)
                    if len(batch) == limits.LOG_BATCH_COMMANDS_MAX:
                        break
                try:
                    job = jobs.get_nowait()
                except queue.Empty:
                    break
                ending = job is None
            if batch:
                self._carry_out(batch)
            if ending:
                return

    def _next(self) -> Job | ChoreJob | None:
        """Waits for the next job; does the housekeeping when none comes for a moment after writing."""
        while True:
            try:
                return self._jobs.get(timeout=limits.LOG_CHECKPOINT_IDLE_S if self._dirty else None)
            except queue.Empty:
                self._dirty = False
                self._do(self._idle_chores)

    def _do(self, chores: Sequence[Chore]) -> None:
        for chore in chores:
            try:
                with self._turn:
                    chore(self.connection)
            except sqlite3.Error as error:
                self._tell([], [], fault_of_database(error) or str(error))
                return

    def _do_chore(self, job: ChoreJob) -> None:
        outcome = Outcome(job)
        try:
            with self._turn:
                outcome.answer = job.run(self.connection)
        except BaseException as error:  # whatever it is belongs to the caller, and the thread must live
            outcome.error = error
        self._dirty = True
        self._tell([outcome], [], None)

    def _carry_out(self, jobs: list[Job]) -> None:
        """Runs a batch to its commit, or to nothing at all, and tells the loop."""
        fault = ""
        with self._turn:
            try:
                try:
                    self._commit(jobs)
                except _Spoiled:
                    self._abandon()
                    self._commit(jobs, careful=True)
            except BaseException as error:  # every caller must hear of it, and the thread must live
                fault = fault_of_database(error) or f"{type(error).__name__}: {error}"
                self._abandon()
        self._dirty = True
        if fault:
            self._tell([Outcome(job, error=unavailable(fault)) for job in jobs], [], fault)
        else:
            self._tell(self.batch.outcomes, self.batch.events, "")
        self._commits += 1
        if self._commits % limits.LOG_WAL_LOOK_COMMITS == 0:
            self._do(self._busy_chores)

    def _commit(self, jobs: list[Job], *, careful: bool = False) -> None:
        self.batch = Batch(careful)
        self.connection.execute("BEGIN IMMEDIATE")
        self._notice_foreign_writes()
        self._look_up_commands(jobs)
        for job in jobs:
            self._run_one(job)
        self._write_down()
        self.connection.execute("COMMIT")

    def _run_one(self, job: Job) -> None:
        """Runs one command.

        Raises:
            _Spoiled: if the batch has to be run again, carefully.
            sqlite3.Error: only where the database itself is at fault; then the batch is lost.
        """
        outcome = Outcome(job)
        self.batch.outcomes.append(outcome)
        command = job.command
        done_at_s = 0
        if command is not None:
            done_at_s = int(self._clock.now())
            told = self._told_before(job.team_id, command, done_at_s)
            if told is not None:
                if isinstance(told, EkidenError):
                    outcome.error = told
                else:
                    outcome.answer = told
                return
        transaction = SqliteTransaction(self, job.team_id, self._now_text())
        try:
            value = drive(job.verb(transaction))
            answer = as_text(value) if isinstance(value, bytes) else encoded(value)
            answer_text = str(answer, "utf-8")
            transaction.end()
        except BaseException as error:  # it belongs to this command's caller and spoils no other
            if fault_of_database(error) or not self.connection.in_transaction:
                raise
            transaction.undo()
            outcome.error = error
            return
        seq = self.heads[job.team_id]
        outcome.answer = Written(answer, seq)
        if command is not None:
            self.batch.commands.append(
                (
                    job.team_id,
                    command.principal_id,
                    command.id,
                    command.digest,
                    answer_text,
                    seq,
                    done_at_s,
                )
            )

    def _look_up_commands(self, jobs: list[Job]) -> None:
        """Finds out which commands of the batch were answered before. No id is twice in a batch: a command that
        still runs is told apart before it comes here."""
        keys = [(job.team_id, job.command.principal_id, job.command.id) for job in jobs if job.command is not None]
        rows = select_rows(self.connection, "commands", keys) if keys else []
        self.batch.answered = {(team, principal, name): answered for team, principal, name, *answered in rows}

    def _told_before(self, team_id: str, command: Command, now_s: int) -> Written | EkidenError | None:
        """The answer that this command had before, or that it may not be asked with another body."""
        answered = self.batch.answered.get((team_id, command.principal_id, command.id))
        if answered is None:
            return None
        digest, answer, seq, done_at_s = answered
        if done_at_s < now_s - limits.COMMAND_ANSWERS_KEPT_S:
            return None
        return reused() if digest != command.digest else Written(answer.encode(), seq, repeated=True)

    def _write_down(self) -> None:
        batch = self.batch
        if batch.events:
            if batch.inserted < len(batch.events):
                self.insert_events()
            teams = {team_id for team_id, _ in batch.events}
            insert_rows(self.connection, "set_head", [(team_id, self.heads[team_id]) for team_id in teams])
        if batch.commands:
            insert_rows(self.connection, "add_command", batch.commands)

    def _abandon(self) -> None:
        """Leaves no trace of the batch."""
        self.heads.clear()
        self.batch = Batch()
        try:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
        except sqlite3.Error:
            # SQLite rolls back by itself when the connection or the process goes; BEGIN will say so again.
            return

    def _notice_foreign_writes(self) -> None:
        """Forgets the known heads if another process has written to the database."""
        version = self.connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._data_version:
            self._data_version = version
            self.heads.clear()

    def _now_text(self) -> str:
        now = self._clock.now()
        now_ms = int(now * 1000)
        if now_ms != self._now_ms:
            self._now_ms, self._now = now_ms, iso(now)
        return self._now

    def _tell(self, outcomes: Sequence[Outcome], events: Sequence[tuple[str, Event]], fault: str | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._settle, outcomes, events, fault)
        except RuntimeError:
            # The loop was closed under the log: nobody is left to be told, and what is committed stays.
            return
