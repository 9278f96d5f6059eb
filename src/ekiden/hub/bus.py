"""What the nodes of one hub tell each other, and the bus that carries it.

The log is the truth; the bus carries only what is not stored (pieces of growing items, questions to hosts and
their answers, who is connected where) and hints. A message may be lost or come twice, and a node may be cut off
for a while: whoever hears is written so that this costs a moment and nothing else (`ekiden.hub.neighbours`).

Messages of one node about one team arrive in the order in which they were told. Nothing comes back to its sender.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import msgspec

from ekiden.hub.hosts import HostAnswer
from ekiden.kernel.ids import Prefix, new_id
from ekiden.sessions.wire import FeedGrew, FeedGrown, Growing


class Told(msgspec.Struct, frozen=True):
    """What a host told of its growing items, in order."""

    host_id: str
    entries: tuple[FeedGrew | FeedGrown, ...]


class _Message(msgspec.Struct, frozen=True, tag_field="kind"):
    pass


class Grew(_Message, frozen=True, tag="grew"):
    """Pieces of growing items, as hosts told them to the sender."""

    told: tuple[Told, ...]


class GrowingWanted(_Message, frozen=True, tag="growing_wanted"):
    """Asks for growing items of which the receiver has more pieces than `have` says; with `only`, for these."""

    have: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    only: tuple[str, ...] = ()


class GrowingTold(_Message, frozen=True, tag="growing_told"):
    """Growing items, each whole so far, with the host that runs each. `last` ends an answer."""

    items: tuple[tuple[str, Growing], ...] = ()
    last: bool = True


class HostCame(_Message, frozen=True, tag="host_came"):
    """A stream of the host has begun at the sender."""

    host_id: str


class HostWent(_Message, frozen=True, tag="host_went"):
    """The host has no stream at the sender any more."""

    host_id: str


class HostSpoke(_Message, frozen=True, tag="host_spoke"):
    """A sign of life of a host whose stream is not at the sender."""

    host_id: str


class HostAsked(_Message, frozen=True, tag="host_asked"):
    """A question for the host: whoever has its stream puts `body` on it. The answer goes back to the sender."""

    host_id: str
    request_id: str
    body: msgspec.Raw


class HostAskEnded(_Message, frozen=True, tag="host_ask_ended"):
    """The sender waits for this answer no longer."""

    host_id: str
    request_id: str


class HostAnswered(_Message, frozen=True, tag="host_answered"):
    """A host's answer, given to another node than the one that asked."""

    host_id: str
    answer: HostAnswer


class KeysChanged(_Message, frozen=True, tag="keys_changed"):
    """Keys of the team have changed."""


class WaitChanged(_Message, frozen=True, tag="wait_changed"):
    """Somebody begins to wait for events of a topic at the sender, or nobody does any more."""

    topic: str
    waits: bool


class NodeHere(_Message, frozen=True, tag="node_here"):
    """The sender runs; these hosts have a stream there, by team, and the topics of `waits` are waited for there.
    `boot_id` is the hub's as it knows it. With `asks`, every node answers with the same at once."""

    boot_id: str
    hosts: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict[str, tuple[str, ...]])
    asks: bool = False
    waits: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict[str, tuple[str, ...]])


class NodeLeaves(_Message, frozen=True, tag="node_leaves"):
    """The sender ends."""


Message = (
    Grew
    | GrowingWanted
    | GrowingTold
    | HostCame
    | HostWent
    | HostSpoke
    | HostAsked
    | HostAskEnded
    | HostAnswered
    | KeysChanged
    | WaitChanged
    | NodeHere
    | NodeLeaves
)


class Ear(Protocol):
    """Who hears the bus. Called on the event loop."""

    def heard(self, node_id: str, team_id: str, message: Message) -> None:
        """A message of another node."""
        ...

    def joined(self) -> None:
        """The bus carries (again): what was told by others meanwhile is lost."""
        ...


class Bus(Protocol):
    """Carries messages between the nodes of one hub."""

    node_id: str
    """Of this node; another one at each start."""

    @property
    def connected(self) -> bool:
        """Whether messages go out and come in at this moment."""
        ...

    @property
    def dropped(self) -> int:
        """Messages that could not go out."""
        ...

    async def open(self, ear: Ear) -> None:
        """Begins to carry. Returns after a bounded time even if the bus cannot be reached: it goes on trying."""
        ...

    def tell(self, message: Message, *, team_id: str = "", to: str = "") -> None:
        """Tells all other nodes, or the node `to`. Never waits and never fails: what cannot go out is dropped."""
        ...

    async def close(self) -> None:
        """Lets what was told go out, within a bound, and ends."""
        ...


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    """A message on its way."""

    node_id: str
    team_id: str
    message: Message


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Envelope).decode


def pack(node_id: str, team_id: str, message: Message) -> bytes:
    """A message as bytes for the wire."""
    return _encode(Envelope(node_id, team_id, message))


def unpack(data: bytes) -> Envelope | None:
    """The message in `data`; None for what no node of this version says."""
    try:
        return _decode(data)
    except msgspec.DecodeError:
        return None


def new_node_id() -> str:
    """A name for a node, for as long as it runs."""
    return new_id(Prefix.EVENT).removeprefix("evt_")


class Exchange:
    """Where the buses of several nodes in one process meet."""

    def __init__(self) -> None:
        self.buses: list[LocalBus] = []


class LocalBus:
    """The bus between nodes of one process. What goes over it is encoded, as on every bus."""

    def __init__(self, exchange: Exchange) -> None:
        self.node_id = new_node_id()
        self.connected = False
        self.dropped = 0
        self._exchange = exchange
        self._ear: Ear | None = None

    async def open(self, ear: Ear) -> None:
        self._ear = ear
        self._exchange.buses.append(self)
        self.join()

    def join(self) -> None:
        """Is connected from now on."""
        self.connected = True
        if self._ear is not None:
            self._ear.joined()

    def part(self) -> None:
        """Is cut off from now on: what is told to it or by it is lost."""
        self.connected = False

    def tell(self, message: Message, *, team_id: str = "", to: str = "") -> None:
        if not self.connected:
            self.dropped += 1
            return
        data = pack(self.node_id, team_id, message)
        loop = asyncio.get_running_loop()
        for other in self._others(to):
            loop.call_soon(other.take, data)

    def _others(self, to: str) -> Sequence["LocalBus"]:
        return [bus for bus in self._exchange.buses if bus is not self and (not to or bus.node_id == to)]

    def take(self, data: bytes) -> None:
        """What another node's bus hands over."""
        envelope = unpack(data)
        if self.connected and self._ear is not None and envelope is not None:
            self._ear.heard(envelope.node_id, envelope.team_id, envelope.message)

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.connected = False
        self._ear = None
        if self in self._exchange.buses:
            self._exchange.buses.remove(self)
