"""How a request reaches the door: over a socket, or straight into the application in the same process.

A client is written against this protocol only, so that tests run the same client without sockets.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request. `target` is the path with its query, percent-encoded; header names are lower case."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    streaming: bool = False
    """The answer is an endless stream: it gets a connection of its own and no deadline for its end."""


class Answer(Protocol):
    """The head of an answer; its body is read by `chunks`, once. Close it in any case."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes. Ends where the answer ends.

        Raises:
            Unavailable: if it breaks off before.
        """
        ...

    async def close(self) -> None:
        """Lets the connection go: back to the pool if the whole body was read, else it is cut."""
        ...


class Transport(Protocol):
    """Carries requests to one door."""

    url: str
    """Scheme, host and port of the door, without a slash at the end: for `Host` and for messages."""

    async def open(self, request: Request) -> Answer:
        """Sends `request` and returns once the head of its answer is here.

        Raises:
            Unavailable: if nobody answers, or the connection breaks.
        """
        ...

    async def close(self) -> None:
        """Closes every connection, open answers too."""
        ...
