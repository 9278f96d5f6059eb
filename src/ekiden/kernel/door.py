"""What a room tells the door about its endpoints. The door (hub/) turns these into routes, checks and OpenAPI.

A room's `routes.py` holds a tuple `ENDPOINTS`. Each endpoint is an async function
`(call: Call, body: B) -> A` (or `(call: Call) -> A` without a body); bodies and answers are msgspec structs.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Need:
    """What a key must be allowed: a verb on a resource. `{name}` in the resource is a path parameter.

    Verbs: read, steer, approve, start, feed, admin; on channels also post, ack, mention, mention:all, lease,
    invite, status:KEY. Resources: `team`, `session:ID`, `host:ID`, `access`, `channel:NAME`, `private:NAME`,
    `inbox:ID`.
    """

    verb: str
    resource: str


@dataclass(frozen=True, slots=True)
class HubFacts:
    """What a hub says of itself. `boot_id` changes with each start, `log_id` with each database."""

    version: str
    boot_id: str
    log_id: str
    url: str


class Bell(Protocol):
    """Rings with each event of one topic, for as long as its `with` block lasts."""

    def __enter__(self) -> "Bell": ...

    def __exit__(self, *_: object) -> None: ...

    async def rung(self) -> bool:
        """Waits for the next ring; False once the bell's time is over, or the hub ends."""
        ...


class Call(Protocol):
    """One request that has passed the door: who calls, with which rights, and what it may use."""

    hub: HubFacts
    from_loopback: bool
    """Whether the caller is a program on this computer, and no proxy stands between."""
    permissions: Mapping[str, Sequence[str]]
    """The key's own map from resource pattern to verbs; empty at an open endpoint."""
    team_id: str
    actor: Any
    """`ekiden.log.port.Actor`"""
    kind: str
    """What the caller is: person, agent, device, service or host; "" at an open endpoint."""
    parameters: Mapping[str, str]
    """From the path."""
    query: Mapping[str, str]

    def may(self, verb: str, resource: str) -> bool:
        """Whether the caller's key allows `verb` on `resource`."""
        ...

    async def write(self, verb: Callable[[Any], Awaitable[object]]) -> Any:
        """Runs a log verb under this request's command id. The answer goes to the client as stored bytes."""
        ...

    async def ask(self, question: Callable[[Any], Awaitable[T]]) -> T:
        """Runs a question on a consistent view of the log."""
        ...

    async def request_host(self, host_id: str, verb: str, arguments: object, *, within_s: float) -> bytes:
        """Asks a connected host and returns its answer as JSON.

        Raises:
            HostAway, HostSilent, or what the host itself refused with.
        """
        ...

    def grow(self, entry: object) -> None:
        """Sends a growing item's delta to those who follow, without storing it as an event."""
        ...

    def growing(self, session_id: str) -> tuple[Any, ...]:
        """The session's items that grow at this moment, each whole so far (`ekiden.sessions.wire.Growing`)."""
        ...

    def bell(self, topic: str, *, within_s: float) -> Bell:
        """A bell for the events of `topic`, for so many seconds from now on.

        Raises:
            TooMany: when it is hung, if `BELLS_PER_TOPIC_MAX` wait for that topic already.
        """
        ...

    def host_here(self, host_id: str) -> bool:
        """Whether the host is connected now."""
        ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One row of the door. `status` is that of success. A `repeatable` write needs no Command-Id."""

    method: str
    path: str
    run: Callable[..., Awaitable[Any]]
    summary: str
    body: type | None = None
    answer: type | None = None
    need: Need | None = None
    status: int = 200
    repeatable: bool = False
    query: tuple[tuple[str, str], ...] = ()
    """(name, what it means) of each query parameter."""
    audience: str = "client"
    """`client`, `host`, or `open` for what needs no key (pairing, health)."""
