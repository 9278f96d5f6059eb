"""Writing to Postgres: for each team one worker that takes all who wait into one commit.

The order of things in a batch:
1. `BEGIN` and the lock on the team's row, which orders the commits of all nodes; only then are commands taken from
   the queue, so that all who came meanwhile share the commit;
2. one query finds which of their command ids were answered before, by whichever node;
3. each verb runs to its end. One that only appends asks nothing of Postgres: events and answers are held in
   memory. One that runs statements does so in a savepoint of its own, and is rolled back alone if it refuses;
4. events, answers and the head are written, each table at once, then `COMMIT`;
5. those who follow are told, then the callers.

Teams do not wait for each other. If Postgres goes away before the commit was asked for, nothing was stored and
every caller of the batch is told so; verbs are never run twice. If it goes away during the commit, the mark that
each batch leaves in its own transaction tells afterwards whether it took place, and callers wait for that.
"""

import asyncio
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import asyncpg

from ekiden.kernel import limits
from ekiden.kernel.clock import Clock, SteadyTime, iso
from ekiden.kernel.errors import EkidenError
from ekiden.log.appending import as_text, encoded, new_event, proper, reused, storable_text
from ekiden.log.port import Actor, Command, Event, Row, Verb, Written
from ekiden.log.postgres_connection import (
    Asked,
    Away,
    Connection,
    Connections,
    Queries,
    Statement,
    drive,
    fault_of_database,
    own,
    translated,
    unavailable,
    unknown,
)

_EVENT_COLUMNS = ("team_id", "seq", "kind", "topics", "at", "actor_id", "actor_key", "actor_name", "body")
_ANSWER_COLUMNS = ("team_id", "principal_id", "command_id", "digest", "answer", "seq", "done_at_s")


@dataclass(slots=True)
class Job:
    """One command on its way: what to run, and the future that its caller waits for."""

    team_id: str
    verb: Verb
    command: Command | None
    answered: asyncio.Future[Written]


@dataclass(slots=True)
class Outcome:
    """What became of a job."""

    job: Job
    answer: Written | None = None
    error: BaseException | None = None


Settle = Callable[[str, int, Sequence[Event], Sequence[Outcome]], Awaitable[None]]
"""Called after each batch with the team, its head before, the committed events and what became of the jobs."""


@dataclass(slots=True)
class _Answer:
    """What a command was answered, as it is kept."""

    principal_id: str
    command_id: str
    digest: str
    answer: str
    seq: int
    done_at_s: int


@dataclass(slots=True)
class Batch:
    """What the commands of one commit have brought together so far."""

    connection: Connection
    team_id: str
    head_before: int
    alone: bool
    """Whether it is one command only: then the transaction itself is its savepoint."""
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    head: int = 0
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    events: list[Event] = field(default_factory=list[Event])
    inserted: int = 0
    """How many of `events` are rows already."""
    answers: list[_Answer] = field(default_factory=list[_Answer])
    answered: dict[tuple[str, str], _Answer] = field(default_factory=dict[tuple[str, str], _Answer])
    """Of those commands of the batch that were answered before."""
    changed: bool = False
    """Whether a command that stands has changed a table."""
    savepoint: bool = False
    committing: bool = False

    async def open_savepoint(self) -> None:
        """Marks where a command begins; the mark of the one before is no longer needed."""
        await self.connection.execute(
            "RELEASE SAVEPOINT command; SAVEPOINT command" if self.savepoint else "SAVEPOINT command"
        )
        self.savepoint = True

    async def insert_events(self) -> None:
        """Writes the batch's events that are not rows yet, a bounded number of bytes at once."""
        while self.inserted < len(self.events):
            size, end = 0, self.inserted
            while end < len(self.events) and size < limits.LOG_DATABASE_INSERT_BYTES_MAX:
                size += len(self.events[end].body)
                end += 1
            await _insert(self.connection, self.team_id, self.events[self.inserted : end])
            self.inserted = end

    async def insert_answers(self) -> None:
        """Writes what the batch's commands are answered, a bounded number of bytes at once."""
        stale = [
            key for answer in self.answers if (key := (answer.principal_id, answer.command_id)) in self.answered
        ]
        if stale:
            await self.connection.execute(
                own("forget_answers"),
                [principal for principal, _ in stale],
                [name for _, name in stale],
                self.team_id,
            )
        start = 0
        while start < len(self.answers):
            size, end = 0, start
            while end < len(self.answers) and size < limits.LOG_DATABASE_INSERT_BYTES_MAX:
                size += len(self.answers[end].answer)
                end += 1
            await self.connection.copy_records_to_table(
                "commands",
                columns=_ANSWER_COLUMNS,
                records=[
                    (
                        self.team_id,
                        answer.principal_id,
                        answer.command_id,
                        answer.digest,
                        answer.answer,
                        answer.seq,
                        answer.done_at_s,
                    )
                    for answer in self.answers[start:end]
                ],
            )
            start = end


async def _insert(connection: Connection, team_id: str, events: Sequence[Event]) -> None:
    """Adds events, with what finds them by topic. COPY costs both sides about half of what an INSERT does."""
    await connection.copy_records_to_table(
        "events",
        columns=_EVENT_COLUMNS,
        records=[
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
            for event in events
        ],
    )
    await connection.copy_records_to_table(
        "event_topics",
        columns=("team_id", "topic", "seq"),
        records=[(team_id, topic, event.seq) for event in events for topic in event.topics],
    )


class PostgresTransaction:
    """One command's transaction; see `log.port.Transaction`. Of no use after its verb has ended."""

    __slots__ = ("_batch", "_ended", "_events_from", "_failed", "_inserted_before", "_started", "_writers", "now")

    def __init__(self, writers: "Writers", batch: Batch, now: str) -> None:
        self.now = now
        self._writers = writers
        self._batch = batch
        self._events_from = len(batch.events)
        self._inserted_before = batch.inserted
        self._started = False
        """Whether it has run a statement."""
        self._failed: BaseException | None = None
        """The statement that Postgres refused: after it, nothing of this command can stand."""
        self._ended = False

    @property
    def team_id(self) -> str:
        return self._batch.team_id

    @property
    def seq(self) -> int:
        """The team's head in this view, this command's own events included."""
        return self._batch.head

    @property
    def steady_ms(self) -> int:
        """See `log.port.Reading`."""
        return self._writers.steady.now_ms()

    async def rows(self, query: str, /, **parameters: object) -> list[Row]:
        self._check_open()
        return await Statement(Asked.ROWS, query, parameters)

    async def row(self, query: str, /, **parameters: object) -> Row | None:
        self._check_open()
        rows: list[Row] = await Statement(Asked.ROWS, query, parameters)
        return rows[0] if rows else None

    async def run(self, query: str, /, **parameters: object) -> int:
        self._check_open()
        return await Statement(Asked.CHANGE, query, parameters)

    def append(self, kind: str, body: object, *, topics: Sequence[str], actor: Actor) -> int:
        self._check_open()
        batch = self._batch
        event = new_event(batch.head + 1, kind, body, topics=topics, actor=actor, at=self.now)
        batch.head = event.seq
        batch.events.append(event)
        return event.seq

    async def perform(self, statement: Statement) -> list[Row] | int:
        """Runs what the verb asks for.

        Raises:
            Away: if Postgres went away; the batch is lost.
        """
        if self._failed is not None:
            raise self._failed
        batch = self._batch
        try:
            if not self._started and not batch.alone:
                await batch.open_savepoint()
            self._started = True
            if statement.query in self._writers.queries_of_events:
                await batch.insert_events()
            if statement.asked is Asked.ROWS:
                return await self._writers.queries.rows(batch.connection, statement)
            count = await self._writers.queries.change(batch.connection, statement)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
            reason = fault_of_database(error, batch.connection)
            if reason:
                raise Away(reason) from error
            self._failed = translated(error)
            raise self._failed from error
        batch.changed = True
        return count

    def end(self) -> None:
        """Lets what the command did stand, for the commit of its batch.

        Raises:
            whatever Postgres refused a statement with, also if the verb paid no heed to it.
        """
        self._ended = True
        if self._failed is not None:
            raise self._failed

    async def undo(self, *, changed_before: bool) -> None:
        """Takes back all that the command did."""
        self._ended = True
        batch = self._batch
        if self._started:
            await batch.connection.execute("ROLLBACK" if batch.alone else "ROLLBACK TO SAVEPOINT command")
            batch.inserted = self._inserted_before
            batch.changed = changed_before
        del batch.events[self._events_from :]
        batch.head = batch.events[-1].seq if batch.events else batch.head_before

    def _check_open(self) -> None:
        if self._ended:
            raise RuntimeError("this transaction has ended: a verb must not keep it")


class Writers:
    """The workers of all teams that are written to at this moment. `put` starts one where there is none."""

    def __init__(
        self,
        connections: Connections,
        queries: Queries,
        queries_of_events: frozenset[str],
        *,
        clock: Clock,
        steady: SteadyTime,
        node_id: str,
        settle: Settle,
    ) -> None:
        self.queries = queries
        self.queries_of_events = queries_of_events
        self.steady = steady
        self._connections = connections
        self._clock = clock
        self._node_id = node_id
        self._settle = settle
        self._waiting: dict[str, deque[Job]] = {}
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._now_ms = -1
        self._now = ""

    def put(self, job: Job) -> None:
        """Takes a command on."""
        waiting = self._waiting.get(job.team_id)
        if waiting is not None:
            waiting.append(job)
            return
        self._waiting[job.team_id] = deque([job])
        self._workers[job.team_id] = asyncio.get_running_loop().create_task(self._work(job.team_id))

    async def stop(self) -> None:
        """Waits until all that was taken on has been carried out."""
        while self._workers:
            await asyncio.wait(list(self._workers.values()))

    async def _work(self, team_id: str) -> None:
        waiting = self._waiting[team_id]
        try:
            while waiting:
                await self._carry_out(team_id, waiting)
        finally:
            del self._waiting[team_id], self._workers[team_id]

    async def _carry_out(self, team_id: str, waiting: deque[Job]) -> None:
        """Runs a batch to its commit, or to nothing at all, and tells the callers."""
        batch: Batch | None = None
        jobs: list[Job] = []
        error: EkidenError | None = None
        try:
            slot = self._connections.writers
            async with self._connections.begun(slot, lambda connection: _begin(connection, team_id)) as begun:
                jobs = [waiting.popleft() for _ in range(min(len(waiting), limits.LOG_BATCH_COMMANDS_MAX))]
                connection, head = begun
                batch = Batch(connection, team_id, head, len(jobs) == 1, head=head)
                await self._run(batch, jobs)
        except Exception as failed:  # every caller must hear of it, and the worker must live
            reason = _reason(failed, batch)
            if batch is None:
                jobs = [waiting.popleft() for _ in range(len(waiting))]
                error = unavailable(reason)
            else:
                stored = await self._was_stored(batch) if batch.committing else False
                error = None if stored else unavailable(reason) if stored is False else unknown(reason)
        if error is not None or batch is None:
            await self._settle(team_id, 0, (), [Outcome(job, error=error) for job in jobs])
        else:
            await self._settle(team_id, batch.head_before, batch.events, batch.outcomes)

    async def _run(self, batch: Batch, jobs: Sequence[Job]) -> None:
        await self._look_up_commands(batch, jobs)
        for job in jobs:
            await self._run_one(batch, job)
        if not (batch.events or batch.answers or batch.changed):
            await batch.connection.execute("ROLLBACK")
            return
        await batch.insert_events()
        await batch.insert_answers()
        now_s = int(self._clock.now())
        await batch.connection.execute(own("end_batch"), batch.head, batch.team_id, self._node_id, batch.id, now_s)
        batch.committing = True
        status = await batch.connection.execute("COMMIT")
        if status != "COMMIT":
            batch.committing = False
            raise Away("Postgres refused the commit")

    async def _run_one(self, batch: Batch, job: Job) -> None:
        """Runs one command.

        Raises:
            Away: if Postgres went away; then the batch is lost.
        """
        outcome = Outcome(job)
        batch.outcomes.append(outcome)
        command = job.command
        done_at_s = 0
        if command is not None:
            done_at_s = int(self._clock.now())
            told = _told_before(batch, command, done_at_s)
            if isinstance(told, Written):
                outcome.answer = told
                return
            if told is not None:
                outcome.error = told
                return
        changed_before = batch.changed
        transaction = PostgresTransaction(self, batch, self._now_text())
        try:
            value = await drive(job.verb(transaction), transaction.perform)
            answer = as_text(value) if isinstance(value, bytes) else encoded(value)
            answer_text = str(answer, "utf-8")
            transaction.end()
        except Away:
            raise
        except Exception as error:  # it belongs to this command's caller and spoils no other
            await transaction.undo(changed_before=changed_before)
            outcome.error = error
            return
        outcome.answer = Written(answer, batch.head)
        if command is not None:
            principal_id, command_id = _key(command)
            batch.answers.append(
                _Answer(principal_id, command_id, command.digest, answer_text, batch.head, done_at_s)
            )

    async def _look_up_commands(self, batch: Batch, jobs: Sequence[Job]) -> None:
        """Finds out which commands of the batch were answered before. No id is twice in a batch: a command that
        still runs here is told apart before it comes to this, and the team's lock keeps the other nodes out."""
        keys = [_key(job.command) for job in jobs if job.command is not None]
        if not keys:
            return
        principals, names = [principal for principal, _ in keys], [name for _, name in keys]
        if len(set(principals)) == 1:  # the usual case, and the cheaper question
            rows = await batch.connection.fetch(own("answers_of"), names, batch.team_id, principals[0])
        else:
            rows = await batch.connection.fetch(own("answers"), principals, names, batch.team_id)
        batch.answered = {(row["principal_id"], row["command_id"]): _Answer(**dict(row)) for row in rows}

    async def _was_stored(self, batch: Batch) -> bool | None:
        """Whether a batch took place whose commit was not answered; None if that cannot be found out in time."""

        async def look(connection: Connection) -> str | None:
            # Whoever may still be busy with the commit in question holds the team until it is decided.
            await _begin(connection, batch.team_id)
            found: str | None = await connection.fetchval(own("last_batch"), batch.team_id, self._node_id)
            await connection.execute("ROLLBACK")
            return found

        loop = asyncio.get_running_loop()
        deadline = loop.time() + limits.LOG_DATABASE_COMMIT_UNKNOWN_S
        while loop.time() < deadline:
            try:
                async with self._connections.begun(self._connections.writers, look) as (_, found):
                    return found == batch.id
            except (Away, asyncpg.PostgresError):
                await asyncio.sleep(limits.LOG_DATABASE_RETRY_S_MAX)
        return None

    def _now_text(self) -> str:
        now = self._clock.now()
        now_ms = int(now * 1000)
        if now_ms != self._now_ms:
            self._now_ms, self._now = now_ms, iso(now)
        return self._now


async def _begin(connection: Connection, team_id: str) -> int:
    """Begins a transaction that has the team, and returns its head."""
    await connection.execute("BEGIN")
    head: int | None = await connection.fetchval(own("lock_team"), team_id)
    if head is None:
        await connection.execute(own("add_team"), team_id)
        head = await connection.fetchval(own("lock_team"), team_id)
        assert head is not None
    return head


def _key(command: Command) -> tuple[str, str]:
    """Principal and id of a command, as Postgres can hold them."""
    return storable_text(command.principal_id), storable_text(command.id)


def _told_before(batch: Batch, command: Command, now_s: int) -> Written | EkidenError | None:
    """The answer that this command had before, or that it may not be asked with another body."""
    kept = batch.answered.get(_key(command)) if batch.answered else None
    if kept is None or kept.done_at_s < now_s - limits.COMMAND_ANSWERS_KEPT_S:
        return None
    return reused() if kept.digest != command.digest else Written(kept.answer.encode(), kept.seq, repeated=True)


def _reason(error: BaseException, batch: Batch | None) -> str:
    """Why a batch was lost."""
    reason = fault_of_database(error, batch.connection if batch is not None else None)
    if reason:
        return reason
    seen = translated(error)
    if isinstance(seen, EkidenError):
        return str(seen.details.get("reason") or seen.message)
    return f"{type(error).__name__}: {error}"
