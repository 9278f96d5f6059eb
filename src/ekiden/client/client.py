"""The door as Python calls. Answers come as the types that are asked for, refusals as the errors they were.

Every write has a command id, the caller's or one made here, so that a write whose answer was lost on the way
is sent again without a second effect. What is sent again: reads, and writes with a command id or declared
`repeatable`; after a broken connection, and where the door itself says that the command still runs.
"""

import asyncio
from types import TracebackType
from typing import Any, TypeVar, overload

import msgspec

from ekiden.client.network import NetworkTransport
from ekiden.client.problems import error_from
from ekiden.client.requests import QueryValue, new_command_id, read_request, write_request
from ekiden.client.stream import Reconnect, Stream
from ekiden.client.transport import Request, Transport
from ekiden.kernel.errors import CommandInFlight, TooLarge, Unavailable
from ekiden.kernel.limits import CLIENT_ANSWER_BYTES_MAX, CLIENT_TRIES_MAX, CLIENT_TRY_AGAIN_S

T = TypeVar("T")


class Client:
    """A client of the door at `url` with `key` (empty for none). `transport` replaces the network.

    All methods raise `EkidenError`: what the door refused with, or `Unavailable` if it cannot be reached.
    """

    def __init__(self, url: str = "", key: str = "", *, transport: Transport | None = None) -> None:
        self.transport: Transport = transport or NetworkTransport(url)
        self.key = key
        """May be replaced; the next request uses it."""

    @property
    def url(self) -> str:
        """Where the door is."""
        return self.transport.url

    @overload
    async def get(self, path: str, *, type: type[T], **query: QueryValue) -> T: ...
    @overload
    async def get(self, path: str, *, type: None = None, **query: QueryValue) -> Any: ...
    async def get(self, path: str, *, type: type[Any] | None = None, **query: QueryValue) -> Any:
        """Reads `path`. Query values that are None or empty are left out; without a type, plain JSON values."""
        return _read(await self._send(read_request(self.key, path, query), repeat=True), type)

    async def get_bytes(self, path: str, **query: QueryValue) -> bytes:
        """Reads `path` and returns the body as it is."""
        return await self._send(read_request(self.key, path, query), repeat=True)

    @overload
    async def post(
        self,
        path: str,
        body: object = None,
        *,
        type: type[T],
        command_id: str | None = None,
        repeatable: bool = False,
    ) -> T: ...
    @overload
    async def post(
        self,
        path: str,
        body: object = None,
        *,
        type: None = None,
        command_id: str | None = None,
        repeatable: bool = False,
    ) -> Any: ...
    async def post(
        self,
        path: str,
        body: object = None,
        *,
        type: type[Any] | None = None,
        command_id: str | None = None,
        repeatable: bool = False,
    ) -> Any:
        """Writes `body` (a struct, JSON values, or bytes that are JSON already).

        `command_id` None makes one. A `repeatable` write has none and may be sent twice; an empty id sends none
        and the request at most once.
        """
        return await self._write("POST", path, body, type, command_id, repeatable)

    @overload
    async def put(
        self,
        path: str,
        body: object = None,
        *,
        type: type[T],
        command_id: str | None = None,
        repeatable: bool = True,
    ) -> T: ...
    @overload
    async def put(
        self,
        path: str,
        body: object = None,
        *,
        type: None = None,
        command_id: str | None = None,
        repeatable: bool = True,
    ) -> Any: ...
    async def put(
        self,
        path: str,
        body: object = None,
        *,
        type: type[Any] | None = None,
        command_id: str | None = None,
        repeatable: bool = True,
    ) -> Any:
        """Puts `body` in the place of what is there; repeatable unless said otherwise."""
        return await self._write("PUT", path, body, type, command_id, repeatable)

    @overload
    async def patch(
        self, path: str, body: object = None, *, type: type[T], command_id: str | None = None
    ) -> T: ...
    @overload
    async def patch(
        self, path: str, body: object = None, *, type: None = None, command_id: str | None = None
    ) -> Any: ...
    async def patch(
        self, path: str, body: object = None, *, type: type[Any] | None = None, command_id: str | None = None
    ) -> Any:
        """Changes a part of what is at `path`; what `body` leaves out stays."""
        return await self._write("PATCH", path, body, type, command_id, False)

    @overload
    async def delete(
        self, path: str, body: object = None, *, type: type[T], command_id: str | None = None
    ) -> T: ...
    @overload
    async def delete(
        self, path: str, body: object = None, *, type: None = None, command_id: str | None = None
    ) -> Any: ...
    async def delete(
        self, path: str, body: object = None, *, type: type[Any] | None = None, command_id: str | None = None
    ) -> Any:
        """Deletes what is at `path`; `body` says on which terms, where there are any."""
        return await self._write("DELETE", path, body, type, command_id, False)

    def stream(
        self,
        topics: str | tuple[str, ...] | list[str],
        after: str | None = None,
        *,
        reconnect: Reconnect | None = None,
    ) -> Stream:
        """Follows `topics` after the cursor `after` (from now on if empty). Nothing is sent before the first
        frame is asked for. Without `reconnect` a lost stream raises `Unavailable`."""
        wanted = (topics,) if isinstance(topics, str) else tuple(topics)
        return Stream(self.transport, lambda: self.key, wanted, after or "", reconnect)

    async def close(self) -> None:
        """Closes all connections."""
        await self.transport.close()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _write(
        self,
        method: str,
        path: str,
        body: object,
        type: type[Any] | None,
        command_id: str | None,
        repeatable: bool,
    ) -> Any:
        if command_id is None:
            command_id = "" if repeatable else new_command_id()
        request = write_request(method, self.key, path, body, command_id)
        return _read(await self._send(request, repeat=repeatable or bool(command_id)), type)

    async def _send(self, request: Request, *, repeat: bool) -> bytes:
        tries = 0
        while True:
            tries += 1
            try:
                return await self._once(request)
            except (_Broken, CommandInFlight) as error:
                if not repeat or tries >= CLIENT_TRIES_MAX:
                    raise error.cause if isinstance(error, _Broken) else error from None
            await asyncio.sleep(CLIENT_TRY_AGAIN_S * 2 ** (tries - 1))

    async def _once(self, request: Request) -> bytes:
        try:
            answer = await self.transport.open(request)
        except Unavailable as error:
            raise _Broken(error) from None
        try:
            pieces: list[bytes] = []
            size = 0
            try:
                async for piece in answer.chunks():
                    pieces.append(piece)
                    size += len(piece)
                    if size > CLIENT_ANSWER_BYTES_MAX:
                        raise TooLarge("The answer is too large to hold.", size=size, max=CLIENT_ANSWER_BYTES_MAX)
            except Unavailable as error:
                raise _Broken(error) from None
        finally:
            await answer.close()
        body = b"".join(pieces)
        if answer.status >= 400:
            raise error_from(answer.status, body)
        return body


class _Broken(Exception):
    """The connection failed, so that nobody knows whether the request was carried out."""

    def __init__(self, cause: Unavailable) -> None:
        super().__init__(cause.message)
        self.cause = cause


def _read(body: bytes, type: type[Any] | None) -> Any:
    if not body:
        return None
    try:
        return msgspec.json.decode(body, type=type) if type is not None else msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise Unavailable(
            f"The door answered in a form that this client does not know: {error}",
            hint="Are hub and command line of the same version?",
        ) from error
