"""The words of ASGI 3 that the hub uses, and two of its own."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

ABORT = "ekiden.abort"
"""Name of the scope extension by which a server lets a connection be cut at once: a callable without arguments.
A reader that takes nothing cannot be told anything, and a polite close would wait for it."""

EXCHANGE = "ekiden.exchange"
"""Name of the scope extension by which a server gives and takes in one piece what ASGI has in several messages: an
`Exchange`. Most requests and answers are small, and each message costs about as much as a check at the door."""


class Exchange(Protocol):
    """A request that may be here already, and an answer that may leave at once."""

    def arrived(self) -> bytes | None:
        """The whole body, if all of it is here; then `receive` need not be asked for it."""
        ...

    @property
    def gone(self) -> bool:
        """Whether the client went before all of the answer was written."""
        ...

    def answer(self, head: bytes, body: bytes) -> bool:
        """Sends the answer: its head from the status line to the empty line, and its body. False if it has to be
        sent as ASGI has it; then nothing was sent."""
        ...
