"""What a vendor's folder offers the host. Three parts, each in its own module:

- `transcript.py`: a `Fold` (pure; see `ekiden.transcript.reading`),
- `discover.py`: a `Discovery`: where its session files lie and which live process writes one,
- `runtime.py`: a `Runtime` that drives one session through a resident process which Ekiden owns.

The host knows vendors only through this module.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import msgspec

from ekiden.transcript.items import Item, ItemKind
from ekiden.transcript.reading import Fold

Environment = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A native session file. The identity of a session is vendor + native id, never the path."""

    path: Path
    native_id: str
    size: int
    modified_at: float
    """Seconds since the epoch."""
    compressed: bool = False
    archived: bool = False
    thread: str = ""
    """Not empty for a sub-agent's file: the thread's name; `native_id` is then the main session's."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A live process outside Ekiden that writes a native session, as far as can be proven."""

    pid: int
    started_at: float
    """Process start in seconds since the epoch; with the pid it names one process for good."""
    program: str
    """What a person would call it: `Claude Code in a terminal`, `Codex app-server`."""
    busy: bool | None = None
    waits_for: str = ""
    """Not empty while the program itself asks its person something (`permission prompt`)."""
    evidence: str = ""
    """How this is known: the registry file, the lock file, the open descriptor."""


@dataclass(frozen=True, slots=True)
class Program:
    """An installed vendor program."""

    path: Path
    version: str


class Discovery(Protocol):
    """Finds a vendor's sessions on this computer. All methods read only; none raises for missing folders."""

    def roots(self) -> Sequence[Path]:
        """Folders to watch; they need not exist yet."""
        ...

    def files(self) -> Iterable[FoundFile]:
        """All session files, newest first where that is cheap. Temporary and bookkeeping files are left out."""
        ...

    def recognise(self, path: Path) -> FoundFile | None:
        """What `path` is, or None if it is no session file."""
        ...

    def owners(self) -> Mapping[str, Owner]:
        """Native id -> the live process that holds it. Dead pids and reused pids are left out."""
        ...

    def titles(self) -> Mapping[str, str]:
        """Native id -> a title that the vendor keeps outside the session file, where it does."""
        ...

    def program(self) -> Program | None:
        """The vendor's program, or None if it is not installed."""
        ...

    def notices(self) -> Sequence[str]:
        """Full sentences for `ekiden doctor`: what was found odd, what will not work and why."""
        ...


class OptionKind(StrEnum):
    """What an answer to an approval means, after the ACP's option kinds."""

    ALLOW_ONCE = "allow_once"
    ALLOW_ALWAYS = "allow_always"
    DENY = "deny"


class Option(msgspec.Struct, frozen=True):
    """One answer that the runtime offers. `id` is the runtime's own; `label` is for people."""

    id: str
    label: str
    kind: OptionKind


@dataclass(frozen=True, slots=True)
class TurnStarted:
    turn_id: str


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """`outcome` is completed, interrupted or failed; `reason` a sentence where it failed."""

    turn_id: str
    outcome: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Grew:
    """A piece of text for an item that is still growing. `item_id` is the id that the whole item will have."""

    turn_id: str
    item_id: str
    kind: ItemKind
    text: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """A growing item that will never be in the native file; `item` is what was seen of it, to be kept here."""

    item: Item


@dataclass(frozen=True, slots=True)
class Asked:
    """The turn waits for a person. `native_id` is the runtime's request id. `question` is `run_command`,
    `edit_file`, `use_tool`, `answer` or `other`; `detail` is the exact input that an answer is bound to."""

    native_id: str
    turn_id: str
    question: str
    title: str
    tool: str
    detail: msgspec.Raw
    command: str = ""
    cwd: str = ""
    diff: str = ""
    options: tuple[Option, ...] = ()
    item_id: str = ""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The runtime no longer waits for this (interrupted, or answered on its own side)."""

    native_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Placed:
    """A message was taken by the runtime. `how` is new_turn, queued or steered."""

    message_id: str
    turn_id: str
    how: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The runtime's process is gone. `said` is the tail of its standard error, for people."""

    exit_code: int | None
    said: str = ""


RuntimeEvent = TurnStarted | TurnEnded | Grew | Dropped | Asked | Withdrawn | Placed | Ended


@dataclass(frozen=True, slots=True)
class ToolServer:
    """An MCP server over standard pipes that the runtime gives its agent beside the person's own. Nothing in it is
    secret: it may end up in an argument list. Its tools run without a question, since what they may is decided
    where they lead to."""

    name: str
    command: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Begin:
    """How a runtime is to begin. Exactly one of the three ways:
    - a new session: all ids empty,
    - continue: `resume` is the native id,
    - fork: `fork_of` is the native id; the new session gets an id of its own.
    """

    cwd: Path
    resume: str = ""
    fork_of: str = ""
    model: str = ""
    """Empty for the vendor's own default."""
    tools: ToolServer | None = None


class Runtime(Protocol):
    """One owned session. Made by `VendorPort.runtime`; everything here is called from one event loop."""

    native_id: str
    """Known after `start`; for Claude Code and Codex before the first message."""
    pid: int

    async def start(self) -> None:
        """Starts or joins the resident process.

        Raises:
            VendorFailed: with what the program said.
            HeldElsewhere: if the vendor's own lock names another writer.
        """
        ...

    def events(self) -> AsyncIterator[RuntimeEvent]:
        """All events in order; ends after `Ended`. One reader."""
        ...

    async def send(self, message_id: str, text: str, *, steer: bool = False) -> None:
        """Gives the runtime a message. A second call with the same `message_id` has no second effect.
        `steer` asks to add it to the running turn where the vendor can."""
        ...

    async def interrupt(self) -> None:
        """Asks the running turn to stop; the end comes as `TurnEnded`."""
        ...

    async def decide(
        self, native_id: str, option_id: str, *, message: str = "", answers: msgspec.Raw | None = None
    ) -> bool:
        """Answers what was `Asked`. False if the runtime no longer waits for it."""
        ...

    async def close(self) -> None:
        """Lets the session go: ends the process (or unloads the thread) and what it started."""
        ...


class Vendor(Protocol):
    """A vendor's folder as one value; the host holds one per vendor."""

    name: str
    """`claude`, `codex`, `demo`: in ids, URLs and files."""
    label: str
    """`Claude Code`, `Codex`, `Demo`: for people."""
    discovery: Discovery

    def fold(self, file: FoundFile) -> Fold:
        """A fresh fold for this file."""
        ...

    def runtime(self, begin: Begin, environment: Environment) -> Runtime:
        """A runtime that has not started yet. `environment` is the whole environment of its process."""
        ...
