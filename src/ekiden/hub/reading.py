"""Reading a request: its query, its body within the bounds, and whether a program on this computer sent it."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from ekiden.hub.asgi import Receive, Scope
from ekiden.kernel.errors import Invalid, TooLarge, Unavailable
from ekiden.kernel.limits import (
    QUERY_FIELDS_MAX,
    REFUSED_BODY_BYTES_MAX,
    REFUSED_BODY_PAUSE_S,
    REFUSED_BODY_WAIT_S,
    REQUEST_BODY_BYTES_MAX,
    REQUEST_BODY_WAIT_S,
)

_LOOPBACK = ("127.", "::1", "::ffff:127.")
_PROXY_HEADERS = (b"forwarded", b"x-forwarded-for", b"x-real-ip", b"via")


class BodyOver(TooLarge):
    """A request's body of `size` bytes, or of at least so many, is over the bound. `unread`: some of it may still
    be on its way."""

    def __init__(self, size: int, *, unread: bool) -> None:
        super().__init__(
            f"The body of a request may have {REQUEST_BODY_BYTES_MAX} bytes.",
            size=size,
            max=REQUEST_BODY_BYTES_MAX,
        )
        self.unread = unread


class BodyLate(Unavailable):
    """A request's body came too slowly."""

    code = "body_late"
    status = 408
    retry_helps = True
    unread = True


def decode_body(decode: Callable[[bytes], Any], body: bytes) -> Any:
    """The body as the shape that an endpoint takes; no body at all is an empty object.

    Raises:
        Invalid: with the place in the body that is wrong, where it is JSON at all.
    """
    try:
        return decode(body or b"{}")
    except msgspec.ValidationError as error:
        raise Invalid(f"The body is not of the form that is asked for: {error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Invalid("The body is not JSON.") from None


def read_query(query: bytes) -> dict[str, str]:
    """The query by name; of a name that stands twice the last.

    Raises:
        Invalid: if it has over `QUERY_FIELDS_MAX` fields, or is not ASCII.
    """
    try:
        return dict(parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX))
    except ValueError:
        raise Invalid("The query of the URL cannot be read.") from None


def from_loopback(scope: Scope, headers: Mapping[bytes, bytes]) -> bool:
    """Whether a program on this computer sent the request itself: no proxy has put its mark on it."""
    client = scope.get("client")
    return (
        bool(client)
        and str(client[0]).startswith(_LOOPBACK)
        and not any(name in headers for name in _PROXY_HEADERS)
    )


async def read_body(receive: Receive) -> bytes:
    """The whole body within its bounds.

    Raises:
        BodyOver: if it is over `REQUEST_BODY_BYTES_MAX`.
        BodyLate: if it does not come within `REQUEST_BODY_WAIT_S`.
        Invalid: if the client went away.
    """
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(REQUEST_BODY_WAIT_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Invalid("The request broke off.")
                piece = message.get("body", b"")
                size += len(piece)
                if size > REQUEST_BODY_BYTES_MAX:
                    raise BodyOver(size, unread=message.get("more_body", False))
                if not message.get("more_body", False):
                    return piece if not pieces else b"".join((*pieces, piece))
                pieces.append(piece)
    except TimeoutError:
        raise BodyLate(f"The body did not come within {REQUEST_BODY_WAIT_S:g} s.") from None


async def discard_body(receive: Receive) -> None:
    """Takes the rest of a refused body, and throws it away, until it ends, the client goes, or a bound is reached.

    Most clients read no answer before they have sent all. If the connection were closed while they send, they
    would get a reset for the rest, and never read the answer.
    """
    size = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(REFUSED_BODY_WAIT_S):
            while size <= REFUSED_BODY_BYTES_MAX:
                async with asyncio.timeout(REFUSED_BODY_PAUSE_S):
                    message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
                size += len(message.get("body", b""))
