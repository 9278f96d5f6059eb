"""A synchronous client of the door for the command line, over the standard library's `http.client`.

One request at a time on one kept connection; a stream has a connection of its own. Same rules for what is sent
again as `ekiden.client.client`. It imports neither asyncio nor h11: a command that shows one page starts fast.
"""

import http.client
import time
from collections.abc import Iterator
from typing import Any, TypeVar, overload
from urllib.parse import urlsplit

import msgspec

from ekiden.client.frames import LOST, Frame, FrameParser, Hello, Lost
from ekiden.client.problems import error_from
from ekiden.client.requests import QueryValue, new_command_id, read_request, stream_request, write_request
from ekiden.client.transport import Request
from ekiden.kernel.errors import CommandInFlight, EkidenError, Invalid, TooLarge, Unavailable
from ekiden.kernel.limits import (
    CLIENT_ANSWER_BYTES_MAX,
    CLIENT_ANSWER_S,
    CLIENT_BEATS_MISSED_MAX,
    CLIENT_CONNECT_S,
    CLIENT_TRIES_MAX,
    CLIENT_TRY_AGAIN_S,
    STREAM_BEAT_S,
)

T = TypeVar("T")

_READ_BYTES = 64 * 1024


class PlainClient:
    """A client of the door at `url` with `key`. Raises as `ekiden.client.client.Client` does."""

    def __init__(self, url: str, key: str = "") -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Invalid(f"{url!r} is no address of a hub.", hint="It looks like http://127.0.0.1:7433.")
        self.url = f"{parts.scheme}://{parts.netloc}"
        self.key = key
        self._parts = parts
        self._connection: http.client.HTTPConnection | None = None

    @overload
    def get(self, path: str, *, type: type[T], **query: QueryValue) -> T: ...
    @overload
    def get(self, path: str, *, type: None = None, **query: QueryValue) -> Any: ...
    def get(self, path: str, *, type: type[Any] | None = None, **query: QueryValue) -> Any:
        """Reads `path`; without a type, plain JSON values."""
        return self._read(self._send(read_request(self.key, path, query), repeat=True), type)

    @overload
    def post(self, path: str, body: object = None, *, type: type[T], command_id: str | None = None) -> T: ...
    @overload
    def post(self, path: str, body: object = None, *, type: None = None, command_id: str | None = None) -> Any: ...
    def post(
        self, path: str, body: object = None, *, type: type[Any] | None = None, command_id: str | None = None
    ) -> Any:
        """Writes `body`. `command_id` None makes one; an empty one sends the request at most once."""
        command_id = new_command_id() if command_id is None else command_id
        request = write_request("POST", self.key, path, body, command_id)
        return self._read(self._send(request, repeat=bool(command_id)), type)

    @overload
    def put(self, path: str, body: object = None, *, type: type[T]) -> T: ...
    @overload
    def put(self, path: str, body: object = None, *, type: None = None) -> Any: ...
    def put(self, path: str, body: object = None, *, type: type[Any] | None = None) -> Any:
        """Puts `body` in the place of what is there."""
        return self._write("PUT", path, body, type)

    @overload
    def patch(self, path: str, body: object = None, *, type: type[T]) -> T: ...
    @overload
    def patch(self, path: str, body: object = None, *, type: None = None) -> Any: ...
    def patch(self, path: str, body: object = None, *, type: type[Any] | None = None) -> Any:
        """Changes a part of what is at `path`; what `body` leaves out stays."""
        return self._write("PATCH", path, body, type)

    @overload
    def delete(self, path: str, body: object = None, *, type: type[T]) -> T: ...
    @overload
    def delete(self, path: str, body: object = None, *, type: None = None) -> Any: ...
    def delete(self, path: str, body: object = None, *, type: type[Any] | None = None) -> Any:
        """Deletes what is at `path`; `body` says on which terms, where there are any."""
        return self._write("DELETE", path, body, type)

    def _write(self, method: str, path: str, body: object, type: type[Any] | None) -> Any:
        request = write_request(method, self.key, path, body, new_command_id())
        return self._read(self._send(request, repeat=True), type)

    def stream(self, topics: tuple[str, ...], after: str = "", *, for_ever: bool = True) -> Iterator[Frame]:
        """Follows `topics`. With `for_ever`, a lost stream is opened again after the last cursor, and a
        `client.lost` frame says so first; else the loss is raised."""
        tries = 0
        while True:
            try:
                for frame in self._stream_once(topics, after):
                    if frame.kind == "stream.hello":
                        tries = 0
                        after = after or frame.read(Hello).cursor
                    after = _resume_after(frame) or after
                    yield frame
                    if frame.kind == "stream.end":
                        reason = frame.read(dict[str, Any]).get("reason")
                        if reason in ("revoked", "expired") or not for_ever:
                            return
                        break
                raise Unavailable("The door closed the stream.")
            except EkidenError as error:
                if not (for_ever and error.retry_helps):
                    raise
                tries += 1
                again_in_s = min(5.0, CLIENT_TRY_AGAIN_S * 2 ** min(tries, 8))
                body = msgspec.json.encode(Lost(reason=error.message, again_in_s=again_in_s))
                yield Frame(id="", kind=LOST, body=msgspec.Raw(body))
                time.sleep(again_in_s)

    def close(self) -> None:
        """Closes the kept connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> "PlainClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connect(self, wait_s: float) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        assert self._parts.hostname is not None
        connection = kind(self._parts.hostname, self._parts.port, timeout=CLIENT_CONNECT_S)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise _NobodyThere(
                f"Nobody answers at {self.url}.", hint="Start the hub with `ekiden up`.", said=str(error)
            ) from error
        if connection.sock is not None:
            connection.sock.settimeout(wait_s)
        return connection

    def _send(self, request: Request, *, repeat: bool) -> bytes:
        tries = 0
        while True:
            tries += 1
            fresh = self._connection is None
            try:
                return self._once(request)
            except _NobodyThere:
                raise
            except (Unavailable, CommandInFlight) as error:
                broken = isinstance(error, CommandInFlight) or "said" in error.details
                if not repeat or not broken or tries >= CLIENT_TRIES_MAX:
                    raise
            if fresh:
                time.sleep(CLIENT_TRY_AGAIN_S * 2 ** (tries - 1))

    def _once(self, request: Request) -> bytes:
        if self._connection is None:
            self._connection = self._connect(CLIENT_ANSWER_S)
        connection = self._connection
        try:
            connection.request(request.method, request.target, request.body or None, dict(request.headers))
            with connection.getresponse() as answer:
                if answer.length is None and not answer.chunked:
                    # `http.client` takes a head that was cut off for a whole one without a length.
                    raise http.client.IncompleteRead(b"")
                body = answer.read(CLIENT_ANSWER_BYTES_MAX + 1)
                status = answer.status
                whole = answer.isclosed()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Unavailable(f"The connection to the door at {self.url} broke.", said=str(error)) from error
        except BaseException:
            self.close()
            raise
        if not whole:
            self.close()
            if len(body) > CLIENT_ANSWER_BYTES_MAX:
                raise TooLarge("The answer is too large to hold.", max=CLIENT_ANSWER_BYTES_MAX)
            raise Unavailable(f"The connection to the door at {self.url} broke.", said="its answer is not whole")
        if status >= 400:
            raise error_from(status, body)
        return body

    def _stream_once(self, topics: tuple[str, ...], after: str) -> Iterator[Frame]:
        request = stream_request(self.key, topics, after)
        connection = self._connect(STREAM_BEAT_S * CLIENT_BEATS_MISSED_MAX)
        try:
            connection.request("GET", request.target, headers=dict(request.headers))
            with connection.getresponse() as answer:
                if answer.status >= 400:
                    raise error_from(answer.status, answer.read(CLIENT_ANSWER_BYTES_MAX))
                parser = FrameParser()
                while piece := answer.read1(_READ_BYTES):
                    yield from parser.feed(piece)
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"The stream from {self.url} broke: {error}") from error
        finally:
            connection.close()

    def _read(self, body: bytes, type: type[Any] | None) -> Any:
        if not body:
            return None
        try:
            return msgspec.json.decode(body, type=type) if type is not None else msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            raise Unavailable(
                f"The door answered in a form that this client does not know: {error}",
                hint="Are hub and command line of the same version?",
            ) from error


class _NobodyThere(Unavailable):
    """No connection at all: said at once, since waiting rarely starts a hub."""


def _resume_after(frame: Frame) -> str:
    match frame.kind:
        case "stream.gap":
            return str(frame.read(dict[str, Any]).get("to") or "")
        case "stream.reset":
            return str(frame.read(dict[str, Any]).get("cursor") or "")
        case _:
            return frame.id
