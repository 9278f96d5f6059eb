"""The log as the rooms see it: verbs, no engine.

A room's verb is an `async def verb(tx)`: it loads with named queries, decides with its own pure rules, appends
events and projects them into tables. All of it is one transaction. The engine chooses where verbs run (SQLite: on
the one writer thread, many to a commit; a transaction's awaitables never really wait there), so a verb must not
await anything but its transaction. A verb may be begun more than once before its command is answered, and only
what its last run did stands: what it leaves outside its transaction, it must leave as if it had run once.

Promises of every engine, held by one contract suite:
- what `write` returned is on disk, once (law 1);
- a command id answers again what it answered first, with another digest `CommandReused`, while it runs
  `CommandInFlight` (law 2);
- `seq` is gapless per team and follows commit order; subscribers see events in that order, after the commit;
- a verb that raises leaves no trace, and spoils no other verb of its batch.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from ekiden.kernel.cursors import Cursor

LOG_TOPIC = "log"
"""The topic of what happens to the log itself; no stream can ask for it."""

Row = Mapping[str, Any]
"""One row of a named query, by column name."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts: the principal, the key it used, and the device name that people know it by."""

    principal_id: str
    key_id: str = ""
    name: str = ""


class Event(msgspec.Struct, frozen=True, gc=False):
    """One immutable line of a team's log. `body` is JSON text already; it is never decoded on its way out."""

    seq: int
    kind: str
    topics: tuple[str, ...]
    """The first is the event's own topic and decides who may read it; the others announce it more widely."""
    at: str
    actor: Actor
    body: bytes


@dataclass(frozen=True, slots=True)
class Command:
    """The client's own name for one write. `digest` is of verb, path and body."""

    id: str
    principal_id: str
    digest: str


@dataclass(frozen=True, slots=True)
class Written:
    """`answer` is the verb's answer as JSON; `seq` the log's head after its commit (for a repeated command,
    the head at its first run)."""

    answer: bytes
    seq: int
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the log can store at this moment; if not, why and since when (RFC 3339)."""

    ok: bool = True
    reason: str = ""
    since: str = ""


class Reading(Protocol):
    """A consistent view for queries. Query names are `room.query`; parameters are given by name."""

    @property
    def team_id(self) -> str: ...

    @property
    def seq(self) -> int:
        """The log's head in this view."""
        ...

    @property
    def now(self) -> str:
        """RFC 3339, from the log's own clock. In a transaction it is read once."""
        ...

    @property
    def steady_ms(self) -> int:
        """Milliseconds since the epoch of a clock that does not step: the same for all nodes. For locks."""
        ...

    async def rows(self, query: str, /, **parameters: object) -> list[Row]: ...

    async def row(self, query: str, /, **parameters: object) -> Row | None:
        """The first row, or None."""
        ...


class Transaction(Reading, Protocol):
    """A reading that also writes."""

    async def run(self, query: str, /, **parameters: object) -> int:
        """Runs a named query that changes rows and returns how many it changed."""
        ...

    async def put(self, query: str, /, **parameters: object) -> None:
        """Runs a named query that changes rows, at the latest when this or another command could notice; how many
        it changed is not told. Cheaper than `run` where a statement has a way to go. If the database refuses it,
        the command fails as a whole."""
        ...

    async def redact(self, *seqs: int, answers: bool = True) -> int:
        """Takes what these events said out of the log, and says so in an event `log.redacted`.

        The body of each becomes `{"digest": HEX, "redacted": true}`. With `answers`, what the commands that said
        it were answered goes too: a search among the actor's commands, needless for events that are older than
        `COMMAND_ANSWERS_KEPT_S`. At most `LOG_REDACTED_AT_ONCE_MAX` at once. Returns how many were there and had
        something to lose.
        """
        ...

    def append(self, kind: str, body: object, *, topics: Sequence[str], actor: Actor) -> int:
        """Adds an event and returns its seq. `body` is encoded as JSON; `bytes` are taken as JSON already.

        Raises:
            TooLarge: if the body is over `EVENT_BODY_BYTES_MAX`.
        """
        ...


Verb = Callable[[Transaction], Awaitable[object]]
Question = Callable[[Reading], Awaitable[Any]]
Follower = Callable[[str, Sequence[Event]], None]
"""Called on the event loop with a team id and its newly committed events, in seq order."""


class Log(Protocol):
    """The append-only logs of all teams of one hub."""

    log_id: str
    """Eight letters made when the database was made; part of every cursor."""
    health: Health

    async def write(self, team_id: str, verb: Verb, *, command: Command | None = None) -> Written:
        """Runs `verb` in a transaction and returns once it is on disk.

        Raises:
            EkidenError: whatever the verb refused with; then nothing was written.
            CommandReused, CommandInFlight: see law 2.
            TooMany: if `LOG_WAITING_COMMANDS_MAX` commands wait already.
            Unavailable: if the disk refuses, or the log is closing.
        """
        ...

    async def ask(self, team_id: str, question: Question) -> Any:
        """Runs `question` on a consistent view and returns its answer."""
        ...

    async def events(
        self, team_id: str, after: int, *, topics: Sequence[str] | None = None, limit: int
    ) -> Sequence[Event]:
        """Up to `limit` events with seq > `after`, in order; only those with one of `topics`, if given."""
        ...

    async def bounds(self, team_id: str) -> tuple[int, int]:
        """(seq of the oldest event still held, or head + 1 if none; seq of the newest, 0 if none)."""
        ...

    def follow(self, follower: Follower) -> Callable[[], None]:
        """Calls `follower` after each commit from now on; returns how to stop it."""
        ...

    def cursor(self, seq: int) -> Cursor: ...

    async def backup(self, target: Path) -> None:
        """Writes a consistent copy while running; `target` must not exist."""
        ...

    async def close(self) -> None:
        """Finishes what was accepted, then lets the database go."""
        ...
