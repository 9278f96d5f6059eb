"""The bus over what nodes have between them, NATS or the NOTIFY of their Postgres: one subject per team, one for
all nodes and one for each node.

Subjects begin with the log's id, so several hubs can share a NATS. Whoever may read or write these subjects sees
and says what nodes tell each other: NATS belongs behind the same wall as the database.
"""

from collections.abc import Callable
from typing import Protocol

from ekiden.hub.bus import Ear, Message, new_node_id, pack, unpack
from ekiden.hub.bus_parts import Parts, parts_of
from ekiden.kernel.limits import BUS_PART_BYTES_MAX
from ekiden.log.nats_link import NatsLink
from ekiden.log.notify_link import NotifyLink


class Link(Protocol):
    """What carries a bus: a connection that comes and goes by itself and drops what it cannot send."""

    @property
    def connected(self) -> bool: ...
    @property
    def dropped(self) -> int: ...
    @property
    def bytes_max(self) -> int: ...
    def subscribe(self, subject: str, taker: Callable[[bytes], None], /) -> None: ...
    def on_joined(self, joined: Callable[[], None], /) -> None: ...
    def publish(self, subject: str, data: bytes, /) -> bool: ...
    async def open(self) -> None: ...
    async def close(self) -> None: ...


def nats_bus(url: str, log_id: str) -> "LinkedBus":
    """A bus over NATS core."""
    return LinkedBus(NatsLink(url, name="ekiden-bus"), log_id)


def notify_bus(url: str, log_id: str) -> "LinkedBus":
    """A bus over the NOTIFY of the Postgres at `url`."""
    return LinkedBus(NotifyLink(url), log_id)


class LinkedBus:
    """See `bus.Bus`."""

    def __init__(self, link: Link, log_id: str) -> None:
        self.node_id = new_node_id()
        self._prefix = f"ekiden.{log_id}"
        self._link = link
        self._parts = Parts()
        self._ear: Ear | None = None

    @property
    def connected(self) -> bool:
        """Whether the link is there at this moment."""
        return self._link.connected

    @property
    def dropped(self) -> int:
        """Messages that could not go out."""
        return self._link.dropped

    async def open(self, ear: Ear) -> None:
        """Raises:
        Unavailable: if the client for NATS is not installed.
        """
        self._ear = ear
        for subject in (f"{self._prefix}.team.*", f"{self._prefix}.all", f"{self._prefix}.node.{self.node_id}"):
            self._link.subscribe(subject, self._take)
        self._link.on_joined(ear.joined)
        await self._link.open()

    def tell(self, message: Message, *, team_id: str = "", to: str = "") -> None:
        if to:
            subject = f"{self._prefix}.node.{to}"
        else:
            subject = f"{self._prefix}.team.{team_id}" if team_id else f"{self._prefix}.all"
        bytes_max = min(self._link.bytes_max or BUS_PART_BYTES_MAX, BUS_PART_BYTES_MAX)
        for part in parts_of(pack(self.node_id, team_id, message), bytes_max):
            if not self._link.publish(subject, part):
                return

    def _take(self, data: bytes) -> None:
        whole = self._parts.take(data)
        envelope = unpack(whole) if whole is not None else None
        if envelope is not None and envelope.node_id != self.node_id and self._ear is not None:
            self._ear.heard(envelope.node_id, envelope.team_id, envelope.message)

    async def close(self) -> None:
        await self._link.close()
        self._ear = None
