"""The same server without a database: what a durable command is measured against.

The rooms' own verbs run on this as they run on the log, decide the same, encode the same events and the same
answer, and tell the same live state. What they load and keep lies in dictionaries: no SQL, no disk, no thread.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ekiden.hub.live import Live
from ekiden.kernel.clock import Clock, iso
from ekiden.log.port import Actor, Command, Event, Log, Row, Verb, Written
from ekiden.log.sqlite_connection import drive

_encode = msgspec.json.Encoder().encode


class Memory:
    """Sessions and messages of one team, each table a dictionary of rows by id."""

    def __init__(self, team_id: str, sessions: Mapping[str, Row], log: Log, clock: Clock) -> None:
        self.team_id = team_id
        self.sessions: dict[str, dict[str, Any]] = {key: dict(row) for key, row in sessions.items()}
        self.messages: dict[str, dict[str, Any]] = {}
        self.seq = 0
        self._answers: dict[tuple[str, str], tuple[str, Written]] = {}
        self._live = Live(team_id, log, clock, lambda *_: None)
        self._clock = clock

    async def write(self, verb: Verb, command: Command) -> Written:
        """Runs a verb at once; a repeated command gets the answer that it had."""
        key = (command.principal_id, command.id)
        known = self._answers.get(key)
        if known is not None:
            assert known[0] == command.digest
            return known[1]
        transaction = _Transaction(self, iso(self._clock.now()))
        answer = _encode(drive(verb(transaction)))
        written = Written(answer, self.seq)
        self._answers[key] = (command.digest, written)
        self._live.take(transaction.events)
        return written


class _Transaction:
    """What a verb sees; see `log.port.Transaction`."""

    def __init__(self, memory: Memory, now: str) -> None:
        self.team_id = memory.team_id
        self.now = now
        self.events: list[Event] = []
        self._memory = memory

    @property
    def seq(self) -> int:
        return self._memory.seq

    async def row(self, query: str, /, **parameters: Any) -> Row | None:
        match query:
            case "sessions.session":
                return self._memory.sessions.get(parameters["session_id"])
            case "sessions.message":
                return self._memory.messages.get(parameters["message_id"])
            case _:
                raise LookupError(query)

    async def put(self, query: str, /, **parameters: Any) -> None:
        match query:
            case "sessions.set_counts":
                self._memory.sessions[parameters["session_id"]].update(parameters)
            case "sessions.put_message":
                self._memory.messages[parameters["message_id"]] = parameters
            case _:
                raise LookupError(query)

    def append(self, kind: str, body: object, *, topics: Sequence[str], actor: Actor) -> int:
        self._memory.seq += 1
        self.events.append(Event(self._memory.seq, kind, tuple(topics), self.now, actor, _encode(body)))
        return self._memory.seq
