"""The words of ASGI 3 that the hub uses, and one of its own."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

ABORT = "ekiden.abort"
"""Name of the scope extension by which a server lets a connection be cut at once: a callable without arguments.
A reader that takes nothing cannot be told anything, and a polite close would wait for it."""
