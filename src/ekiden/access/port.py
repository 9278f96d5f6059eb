"""What the access room is given from outside. Feature rooms do not know each other; `hub/` hands these in."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ekiden.log.port import Actor, Reading, Transaction

May = Callable[[str, str], bool]
"""Whether a verb on a resource is allowed."""


class Taint(Protocol):
    """Distrusts what a key has written after a time: marks it, and puts back what can be put back."""

    async def __call__(self, tx: Transaction, actor: Actor, key_id: str, since: str) -> object:
        """Runs inside the transaction of the revocation. Returns what was marked and put back, told as JSON."""
        ...


class Places(Protocol):
    """The channels that guests are invited to."""

    async def resource_of(self, reading: Reading, channel: str, may: May) -> str | None:
        """What permission maps call an open channel, by its name or id; None if there is none that may be read."""
        ...

    async def join(self, tx: Transaction, actor: Actor, kind: str, resource: str) -> None:
        """Makes `actor`, a principal of this kind, a member of the channel, if that is still there."""
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    """All of it; what is left out is done by nobody."""

    taint: Taint | None = None
    places: Places | None = None
