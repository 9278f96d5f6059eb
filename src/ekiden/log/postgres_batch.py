"""The commands of one commit to Postgres, and what a verb sees of it.

Whoever waits for Postgres waits for the others of the batch too, so as little as can be is asked of it:
- *ahead*: verbs that begin with a lookup are begun together, and their lookups go to Postgres as one. Each is then
  carried on in its turn; if a command before it may have changed what it saw, it is asked again;
- *late*: what a verb only puts (`Transaction.put`) waits until something could notice, and goes out with its like;
- events, answers and the head are written when all verbs have ended, by one statement.

So commands see what those before them did, as if each had the database for itself. One that refuses takes back
what it put and appended, which Postgres has not heard of. Should Postgres refuse a statement, or a verb refuse
after some of its changes went out, the batch is *spoiled*: it is rolled back and carried out once more,
*carefully*, each command at its own pace and in a savepoint of its own.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import asyncpg

from ekiden.kernel import limits
from ekiden.kernel.clock import SteadyTime
from ekiden.log.appending import new_event, proper
from ekiden.log.port import Actor, Event, Row
from ekiden.log.postgres_connection import (
    Asked,
    Away,
    Connection,
    Queries,
    Spoiled,
    Statement,
    asking,
    fault_of_database,
    own,
    own_with,
    translated,
)
from ekiden.log.redacting import redact
from ekiden.log.touching import Traces

T = TypeVar("T")

REFUSALS = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)
"""What asyncpg raises when a statement does not succeed."""


class NotYet(BaseException):
    """A verb that was begun before its turn wants what it can only have in its turn; it is begun anew then."""


@dataclass(slots=True)
class Answer:
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
    queries: Queries
    queries_of_events: frozenset[str]
    steady: SteadyTime
    team_id: str
    node_id: str
    at_s: int
    """When it began, in whole seconds since the epoch."""
    head_before: int
    answered: dict[tuple[str, str], Answer]
    """Of those commands of the batch that were answered before."""
    careful: bool = False
    alone: bool = False
    """Whether it is one command only: then the transaction itself is its savepoint."""
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    head: int = field(init=False)
    events: list[Event] = field(default_factory=list[Event])
    inserted: int = 0
    """How many of `events` are rows already."""
    answers: list[Answer] = field(default_factory=list[Answer])
    late: list[Statement] = field(default_factory=list[Statement])
    """What has been put and not gone out yet, in order."""
    gone_out: int = 0
    """How many changes Postgres has been told."""
    traces: Traces = field(default_factory=Traces)
    """What has been changed, gone out or not."""
    committing: bool = False
    _savepoint: bool = False

    def __post_init__(self) -> None:
        self.head = self.head_before

    @property
    def changed(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self.events or self.answers or self.late or self.gone_out)

    async def ask_ahead(self, statements: Sequence[Statement]) -> list[list[Row] | None]:
        """What lookups give before anything of the batch is done, each query once; None for what cannot be asked
        so."""
        found: list[list[Row] | None] = [None] * len(statements)
        by_query: dict[str, list[int]] = {}
        for place, statement in enumerate(statements):
            if statement.query not in self.queries_of_events and self.queries.is_lookup(statement):
                by_query.setdefault(statement.query, []).append(place)
        for places in by_query.values():
            rows = await self.queries.rows_of_each(self.connection, [statements[place] for place in places])
            for place, of_one in zip(places, rows, strict=True):
                found[place] = of_one
        return found

    def still_holds(self, statement: Statement) -> bool:
        """Whether what a lookup gave ahead is what it gives now."""
        return not self.traces.meets(self.queries.touched(statement.query), statement.parameters)

    def put(self, statement: Statement) -> None:
        """Notes a change that need not go out at once."""
        self.traces.add(self.queries.touched(statement.query), statement.parameters)
        self.late.append(statement)

    async def send_late(self) -> None:
        """Lets go out what was put."""
        late, self.late = self.late, []
        self.gone_out += len(late)
        for alike in self._grouped(late):
            await self.queries.change_each(self.connection, alike)

    def _grouped(self, late: Iterable[Statement]) -> Iterator[list[Statement]]:
        """The changes, those of one query together; none before one that it meets."""
        late = list(late)
        queries = list(dict.fromkeys(statement.query for statement in late))
        tables = [table for query in queries for table in self.queries.touched(query).tables or ("", "")]
        if len(set(tables)) == len(tables):  # the usual case: each query has its own table
            return ([one for one in late if one.query == query] for query in queries)
        groups: list[tuple[str, list[Statement], Traces]] = []
        for statement in late:
            touched = self.queries.touched(statement.query)
            alike: list[Statement] | None = None
            traces = Traces()
            for query, statements, changed in reversed(groups):
                if query == statement.query:
                    alike, traces = statements, changed
                    break
                if changed.meets(touched, statement.parameters):
                    break
            if alike is None:
                alike = []
                groups.append((statement.query, alike, traces))
            alike.append(statement)
            traces.add(touched, statement.parameters)
        return (alike for _, alike, _ in groups)

    async def perform(self, statement: Statement) -> list[Row] | int:
        """Runs a statement now, with all that it could notice before it.

        Raises:
            whatever asyncpg says.
        """
        if statement.asked is Asked.ROWS:
            if self.late and not self.still_holds(statement):
                await self.send_late()
            if statement.query in self.queries_of_events:
                await self.insert_events()
            return await self.queries.rows(self.connection, statement)
        if self.late:
            await self.send_late()
        if statement.query in self.queries_of_events:
            await self.insert_events()
        self.gone_out += 1
        self.traces.add(self.queries.touched(statement.query), statement.parameters)
        return await self.queries.change(self.connection, statement)

    async def open_savepoint(self) -> None:
        """Marks where a command begins; the mark of the one before is no longer needed."""
        await self.connection.execute(
            "RELEASE SAVEPOINT command; SAVEPOINT command" if self._savepoint else "SAVEPOINT command"
        )
        self._savepoint = True

    async def insert_events(self) -> None:
        """Writes the batch's events that are not rows yet."""
        waiting = self.events[self.inserted :]
        for events in _portions(waiting, [len(event.body) for event in waiting]):
            await self._write(events, ())

    async def write_down(self) -> None:
        """Writes events, answers and the head."""
        stale = [
            key for answer in self.answers if (key := (answer.principal_id, answer.command_id)) in self.answered
        ]
        if stale:
            principals, names = zip(*stale, strict=True)
            await self.connection.execute(own("forget_answers"), list(principals), list(names), self.team_id)
        portions = list(_portions(self.answers, [len(answer.answer) for answer in self.answers]))
        waiting = sum(len(event.body) for event in self.events[self.inserted :])
        if len(portions) > 1 or waiting > limits.LOG_DATABASE_INSERT_BYTES_MAX:
            await self.insert_events()
        for answers in portions or [()]:
            await self._write(self.events[self.inserted :], answers)

    async def _write(self, events: Sequence[Event], answers: Sequence[Answer]) -> None:
        """Writes the next of the batch's events, and these answers."""
        head_before = self.head_before + self.inserted
        mark, columns = _columns(
            kinds=[event.kind for event in events],
            topics=[proper(event.kind, event.topics)[1] for event in events],
            ats=[event.at for event in events],
            actor_ids=[event.actor.principal_id for event in events],
            actor_keys=[event.actor.key_id for event in events],
            actor_names=[event.actor.name for event in events],
            bodies=[str(event.body, "utf-8") for event in events],
            principal_ids=[one.principal_id for one in answers],
            command_ids=[one.command_id for one in answers],
            digests=[one.digest for one in answers],
            answers=[one.answer for one in answers],
            answer_seqs=[str(one.seq) for one in answers],
        )
        sql, values = own_with(
            "write_batch",
            mark=mark,
            team_id=self.team_id,
            head_before=head_before,
            head=head_before + len(events),
            at_s=self.at_s,
            node_id=self.node_id,
            batch_id=self.id,
            **columns,
        )
        await self.connection.execute(sql, *values)
        self.inserted += len(events)


def _columns(**columns: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Columns of texts as one text each, and the mark that parts them, which is in none of the texts.

    asyncpg looks twice at each text of an array whether it is an array itself, which costs it more than all else.
    """
    mark = "\x1f"
    while True:
        joined = {name: mark.join(column) for name, column in columns.items()}
        if all(joined[name].count(mark) == max(len(column) - 1, 0) for name, column in columns.items()):
            return mark, joined
        mark = f"\x1f{uuid.uuid4().hex}\x1e"  # nobody can have said this; it overlaps itself nowhere


def _portions(whole: Sequence[T], sizes: Sequence[int]) -> Iterator[Sequence[T]]:
    """Parts of it of a bounded number of bytes."""
    start = 0
    while start < len(whole):
        size, end = 0, start
        while end < len(whole) and size < limits.LOG_DATABASE_INSERT_BYTES_MAX:
            size += sizes[end]
            end += 1
        yield whole[start:end]
        start = end


class PostgresTransaction:
    """One command's transaction; see `log.port.Transaction`. Of no use after its verb has ended."""

    __slots__ = (
        "_batch",
        "_ended",
        "_events_from",
        "_failed",
        "_inserted_before",
        "_late_from",
        "_out_before",
        "_started",
        "_turn",
        "now",
    )

    def __init__(self, batch: Batch, now: str) -> None:
        self.now = now
        self._batch = batch
        self._turn = False
        """Whether those before it have ended."""
        self._started = False
        """Whether a savepoint was opened for it."""
        self._out_before: int | None = None
        """How many changes had gone out when it made its first; None if it made none."""
        self._failed: BaseException | None = None
        """The statement that Postgres refused: after it, nothing of this command can stand."""
        self._ended = False

    @property
    def team_id(self) -> str:
        return self._batch.team_id

    @property
    def seq(self) -> int:
        """The team's head in this view, this command's own events included."""
        self._check_turn()
        return self._batch.head

    @property
    def steady_ms(self) -> int:
        """See `log.port.Reading`."""
        return self._batch.steady.now_ms()

    async def rows(self, query: str, /, **parameters: object) -> list[Row]:
        self._check_open()
        return await asking(Asked.ROWS, query, parameters)

    async def row(self, query: str, /, **parameters: object) -> Row | None:
        self._check_open()
        rows: list[Row] = await asking(Asked.ROWS, query, parameters)
        return rows[0] if rows else None

    async def run(self, query: str, /, **parameters: object) -> int:
        self._check_open()
        return await asking(Asked.CHANGE, query, parameters)

    async def put(self, query: str, /, **parameters: object) -> None:
        self._check_open()
        await asking(Asked.PUT, query, parameters)

    async def redact(self, *seqs: int, answers: bool = True) -> int:
        return await redact(self, seqs, answers=answers)

    def append(self, kind: str, body: object, *, topics: Sequence[str], actor: Actor) -> int:
        self._check_open()
        self._check_turn()
        batch = self._batch
        event = new_event(batch.head + 1, kind, body, topics=topics, actor=actor, at=self.now)
        batch.head = event.seq
        batch.events.append(event)
        return event.seq

    def take_turn(self) -> None:
        """Lets it go on: those before it have ended."""
        batch = self._batch
        self._turn = True
        self._events_from = len(batch.events)
        self._inserted_before = batch.inserted

    async def perform(self, statement: Statement) -> list[Row] | int | None:
        """Does what the verb asks for.

        Raises:
            Away: if Postgres went away; the batch is lost.
            Spoiled: if Postgres refuses, and the batch is to be carried out carefully.
        """
        if self._failed is not None:
            raise self._failed
        batch = self._batch
        try:
            if statement.asked is not Asked.ROWS and self._out_before is None:
                self._out_before, self._late_from = batch.gone_out, len(batch.late)
            if statement.asked is Asked.PUT and not batch.careful:
                batch.put(statement)
                return None
            if batch.careful and not batch.alone and not self._started:
                await batch.open_savepoint()
            self._started = True
            return await batch.perform(statement)
        except REFUSALS as error:
            reason = fault_of_database(error, batch.connection)
            if reason:
                raise Away(reason) from error
            if not batch.careful:
                raise Spoiled from error
            self._failed = translated(error)
            raise self._failed from error

    def end(self) -> None:
        """Lets what the command did stand, for the commit of its batch.

        Raises:
            whatever Postgres refused a statement with, also if the verb paid no heed to it.
        """
        self._ended = True
        if self._failed is not None:
            raise self._failed

    async def undo(self) -> None:
        """Takes back all that the command did.

        Raises:
            Spoiled: if some of it has gone out, and there is no savepoint to go back to.
        """
        self._ended = True
        batch = self._batch
        out = self._out_before is not None and batch.gone_out > self._out_before
        if batch.careful:
            if self._started:
                await batch.connection.execute("ROLLBACK" if batch.alone else "ROLLBACK TO SAVEPOINT command")
                batch.inserted = self._inserted_before
                if self._out_before is not None:
                    batch.gone_out = self._out_before
        elif out or batch.inserted > self._events_from:
            raise Spoiled
        elif self._out_before is not None:
            del batch.late[self._late_from :]
        del batch.events[self._events_from :]
        batch.head = batch.events[-1].seq if batch.events else batch.head_before

    def _check_open(self) -> None:
        if self._ended:
            raise RuntimeError("this transaction has ended: a verb must not keep it")

    def _check_turn(self) -> None:
        if not self._turn:
            raise NotYet
