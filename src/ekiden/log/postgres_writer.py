"""Writing to Postgres: for each team one worker that takes all who wait into one commit.

The order of things:
1. `BEGIN` and the lock on the team's row, which orders the commits of all nodes; only then are commands taken from
   the queue, so that all who came meanwhile share the commit;
2. one query tells the head, and which of their command ids were answered before, by whichever node;
3. the verbs run, see `postgres_batch`;
4. events, answers and the head are written, then `COMMIT`;
5. those who follow are told, then the callers.

Teams do not wait for each other. If Postgres goes away before the commit was asked for, nothing was stored and
every caller of the batch is told so. If it goes away during the commit, the mark that each batch leaves in its own
transaction tells afterwards whether it took place, and callers wait for that.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import asyncpg

from ekiden.kernel import limits
from ekiden.kernel.clock import Clock, SteadyTime, iso
from ekiden.kernel.errors import EkidenError
from ekiden.log.appending import as_text, encoded, reused, storable_text
from ekiden.log.port import Command, Event, Row, Verb, Written
from ekiden.log.postgres_batch import REFUSALS, Answer, Batch, NotYet, PostgresTransaction
from ekiden.log.postgres_connection import (
    Asked,
    Away,
    Connection,
    Connections,
    Queries,
    Spoiled,
    Statement,
    Steps,
    drive,
    fault_of_database,
    own,
    translated,
    unavailable,
    unknown,
)


@dataclass(slots=True)
class Job:
    """One command on its way: what to run, and the future that its caller waits for."""

    team_id: str
    verb: Verb
    command: Command | None
    answered: asyncio.Future[Written]
    key: tuple[str, str] = field(init=False)
    """Principal and id of its command, as Postgres can hold them."""

    def __post_init__(self) -> None:
        command = self.command
        self.key = ("", "")
        if command is not None:
            self.key = (storable_text(command.principal_id), storable_text(command.id))


@dataclass(slots=True)
class Outcome:
    """What became of a job."""

    job: Job
    answer: Written | None = None
    error: BaseException | None = None


Settle = Callable[[str, int, Sequence[Event], Sequence[Outcome]], Awaitable[None]]
"""Called after each batch with the team, its head before, the committed events and what became of the jobs."""


class _Begun:
    """A verb that was begun: it waits, has ended, or has failed."""

    __slots__ = ("_failed", "rows", "steps", "transaction")

    def __init__(self, batch: Batch, job: Job, now: str, *, in_turn: bool) -> None:
        self.transaction = PostgresTransaction(batch, now)
        if in_turn:
            self.transaction.take_turn()
        self.steps = Steps(job.verb(self.transaction))
        self.rows: list[Row] | None = None
        """What its first lookup gave, if that was asked ahead."""
        self._failed: BaseException | None = None
        try:
            self.steps.go_on()
        except (Exception, NotYet) as error:
            self._failed = error

    @property
    def asks(self) -> Statement | None:
        """What it would read, if it waits for that."""
        wanted = self.steps.wanted
        return wanted if wanted is not None and wanted.asked is Asked.ROWS else None

    async def finish(self, batch: Batch) -> object:
        """Takes it to its end, in its turn."""
        if self._failed is not None:
            raise self._failed
        wanted = self.steps.wanted
        if self.rows is not None and wanted is not None and batch.still_holds(wanted):
            self.steps.go_on(self.rows)
        return await drive(self.steps, self.transaction.perform)


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
        self._queries = queries
        self._queries_of_events = queries_of_events
        self._steady = steady
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
        outcomes: list[Outcome] = []
        error: EkidenError | None = None
        taken = False
        try:
            slot = self._connections.writers
            async with self._connections.begun(slot, lambda connection: _begin(connection, team_id)) as begun:
                jobs = [waiting.popleft() for _ in range(min(len(waiting), limits.LOG_BATCH_COMMANDS_MAX))]
                (connection, held), taken = begun, True
                try:
                    batch = await self._batch(connection, team_id, jobs, held=held)
                    outcomes = await self._run(batch, jobs)
                except Spoiled:
                    await connection.execute("ROLLBACK")
                    held = await _begin(connection, team_id)
                    batch = await self._batch(connection, team_id, jobs, held=held, careful=True)
                    outcomes = await self._run(batch, jobs)
                await self._commit(batch)
        except Exception as failed:  # every caller must hear of it, and the worker must live
            reason = _reason(failed, batch)
            if not taken:
                jobs = [waiting.popleft() for _ in range(len(waiting))]
            stored = await self._was_stored(batch) if batch is not None and batch.committing else False
            error = None if stored else unavailable(reason) if stored is False else unknown(reason)
        if error is not None or batch is None:
            await self._settle(team_id, 0, (), [Outcome(job, error=error) for job in jobs])
        else:
            await self._settle(team_id, batch.head_before, batch.events, outcomes)

    async def _batch(
        self, connection: Connection, team_id: str, jobs: Sequence[Job], *, held: bool, careful: bool = False
    ) -> Batch:
        """A batch that has the team's lock, and knows which of its commands were answered before. `held` says
        whether the transaction has the lock already. No id is twice in it: a command that still runs here is told
        apart before it comes to this, and the lock keeps the other nodes out."""
        if not held:  # another node may have made the row since: what is read before the lock may be out of date
            await connection.execute(own("add_team"), team_id)
            await _begin(connection, team_id, "")
        keys = [job.key for job in jobs if job.command is not None]
        rows = await connection.fetch(own("taken"), team_id, [one for one, _ in keys], [name for _, name in keys])
        head: int = rows[0]["head"]
        answers = [Answer(*tuple(row.values())[1:]) for row in rows if row["command_id"] is not None]
        alone = len(jobs) == 1
        return Batch(
            connection,
            self._queries,
            self._queries_of_events,
            self._steady,
            team_id,
            self._node_id,
            int(self._clock.now()),
            head,
            {(answer.principal_id, answer.command_id): answer for answer in answers},
            careful=careful or alone,
            alone=alone,
        )

    async def _run(self, batch: Batch, jobs: Sequence[Job]) -> list[Outcome]:
        """Carries out the commands, and says what they are answered once the batch is committed.

        Raises:
            Away: if Postgres went away; then the batch is lost.
            Spoiled: if it must be carried out carefully.
        """
        outcomes = [_told_before(batch, job) for job in jobs]
        left = [outcome for outcome in outcomes if outcome.answer is None and outcome.error is None]
        begun: dict[int, _Begun] = {}
        for place, outcome in enumerate(left):
            one = begun.get(place)
            if one is None:
                one = _Begun(batch, outcome.job, self._now_text(), in_turn=True)
                if one.asks is not None and not begun and not batch.careful:
                    begun = {place: one} | self._begin_ahead(batch, left, place + 1)
                    await _ask_ahead(batch, list(begun.values()))
            else:
                one.transaction.take_turn()
            await self._finish(batch, outcome, one)
        if batch.late:
            with _of_many(batch):
                await batch.send_late()
        return outcomes

    def _begin_ahead(self, batch: Batch, left: Sequence[Outcome], start: int) -> dict[int, _Begun]:
        """Begins the verbs from a place on before their turn; gives those that begin with reading."""
        begun: dict[int, _Begun] = {}
        for place in range(start, len(left)):
            one = _Begun(batch, left[place].job, self._now_text(), in_turn=False)
            if one.asks is not None:
                begun[place] = one
            else:
                one.steps.leave()
        return begun

    async def _finish(self, batch: Batch, outcome: Outcome, one: _Begun) -> None:
        """Runs one command to its end; see `_run`."""
        try:
            value = await one.finish(batch)
            answer = as_text(value) if isinstance(value, bytes) else encoded(value)
            answer_text = str(answer, "utf-8")
            one.transaction.end()
        except (Away, Spoiled):
            raise
        except Exception as error:  # it belongs to this command's caller and spoils no other
            await one.transaction.undo()
            outcome.error = error
            return
        outcome.answer = Written(answer, batch.head)
        command = outcome.job.command
        if command is not None:
            batch.answers.append(Answer(*outcome.job.key, command.digest, answer_text, batch.head, batch.at_s))

    async def _commit(self, batch: Batch) -> None:
        if not batch.changed:
            await batch.connection.execute("ROLLBACK")
            return
        await batch.write_down()
        batch.committing = True
        status = await batch.connection.execute("COMMIT")
        if status != "COMMIT":
            batch.committing = False
            raise Away("Postgres refused the commit")

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


@contextmanager
def _of_many(batch: Batch) -> Generator[None]:
    """What Postgres refuses in here belongs to no single command.

    Raises:
        Away, Spoiled: if Postgres is away, or refuses.
    """
    try:
        yield
    except REFUSALS as error:
        reason = fault_of_database(error, batch.connection)
        raise Away(reason) if reason else Spoiled from error


async def _ask_ahead(batch: Batch, begun: Sequence[_Begun]) -> None:
    """Asks what verbs begin with reading, together."""
    with _of_many(batch):
        found = await batch.ask_ahead([one.asks for one in begun if one.asks is not None])
    for one, rows in zip(begun, found, strict=True):
        one.rows = rows


async def _begin(connection: Connection, team_id: str, begin: str = "BEGIN; ") -> bool:
    """Begins a transaction that holds the team, and says whether it does: a team without a row cannot be held."""
    quoted = team_id.replace("'", "''")
    status = await connection.execute(f"{begin}SELECT FROM teams WHERE team_id = '{quoted}' FOR UPDATE")
    return status == "SELECT 1"


def _told_before(batch: Batch, job: Job) -> Outcome:
    """What the job is told if its command came before: its answer, or that it may not come with another body."""
    command = job.command
    if command is None:
        return Outcome(job)
    kept = batch.answered.get(job.key) if batch.answered else None
    if kept is None or kept.done_at_s < batch.at_s - limits.COMMAND_ANSWERS_KEPT_S:
        return Outcome(job)
    if kept.digest != command.digest:
        return Outcome(job, error=reused())
    return Outcome(job, Written(kept.answer.encode(), kept.seq, repeated=True))


def _reason(error: BaseException, batch: Batch | None) -> str:
    """Why a batch was lost."""
    reason = fault_of_database(error, batch.connection if batch is not None else None)
    if reason:
        return reason
    seen = translated(error)
    if isinstance(seen, EkidenError):
        return str(seen.details.get("reason") or seen.message)
    return f"{type(error).__name__}: {error}"
