"""The door without sockets: carries requests straight into an ASGI application in the same process.

It is a `client.transport.Transport`, so the very same client runs over it. Both directions flow at once: an
endless answer is read piece by piece while other requests go on, a reader that takes nothing holds the
application back after `HIGH_WATER_BYTES` as a socket would, closing an answer tells the application so, and an
application may cut the connection.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import unquote, urlsplit

from ekiden.client.transport import Request
from ekiden.kernel.errors import Unavailable

HIGH_WATER_BYTES = 64 * 1024

Message = MutableMapping[str, Any]
Application = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]


class _Exchange:
    """One request on its way through the application; also the answer that the client reads."""

    def __init__(self, bridge: "Bridge", request: Request) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.set_cookies: tuple[str, ...] = ()
        """Every `set-cookie` header, since a mapping holds only one."""
        self.started = asyncio.Event()
        self._bridge = bridge
        self._body: deque[bytes] = deque([request.body])
        self._pieces: deque[bytes] = deque()
        self._held_bytes = 0
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._gone = asyncio.Event()
        self._whole = False
        self._cut = False
        self.failure: BaseException | None = None
        self.task = asyncio.ensure_future(self._run(bridge.scope(request, self._abort)))

    async def _run(self, scope: MutableMapping[str, Any]) -> None:
        try:
            await self._bridge.application(scope, self._receive, self._send)
        except Exception as error:  # the application's own failure is the client's broken connection
            self.failure = error
        finally:
            self._cut = self._cut or not self._whole
            self.started.set()
            self._readable.set()
            self._bridge.forget(self)

    def _abort(self) -> None:
        self._cut = True
        self._gone.set()
        self._writable.set()
        self._readable.set()

    async def _receive(self) -> Message:
        if self._body:
            return {"type": "http.request", "body": self._body.popleft(), "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]]
            self.status = message["status"]
            self.headers = dict(pairs)
            self.set_cookies = tuple(value for name, value in pairs if name == "set-cookie")
            self.started.set()
            return
        await self._writable.wait()
        if self._gone.is_set():
            return
        piece: bytes = message.get("body", b"")
        if piece:
            self._pieces.append(piece)
            self._held_bytes += len(piece)
        if self._held_bytes >= HIGH_WATER_BYTES:
            self._writable.clear()
        self._whole = not message.get("more_body", False)
        if self._whole:
            self._gone.set()
        self._readable.set()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes.

        Raises:
            Unavailable: if the application failed, or cut the connection.
        """
        while True:
            await self._readable.wait()
            while self._pieces:
                piece = self._pieces.popleft()
                self._held_bytes -= len(piece)
                if self._held_bytes < HIGH_WATER_BYTES:
                    self._writable.set()
                yield piece
            if self._whole:
                return
            if self._cut:
                raise Unavailable("The connection to the door broke.") from self.failure
            self._readable.clear()

    async def close(self) -> None:
        """Tells the application that the client is gone, and waits for its end."""
        self._gone.set()
        self._writable.set()
        if self.task is not asyncio.current_task():
            with contextlib.suppress(asyncio.CancelledError):
                await self.task


class Bridge:
    """A transport into `application`. `client` is the address that the application sees."""

    def __init__(
        self, application: Application, *, url: str = "http://127.0.0.1:7433", client: str = "127.0.0.1"
    ) -> None:
        self.application = application
        self.url = url
        self._client = (client, 50_000)
        self._open: set[_Exchange] = set()

    def scope(self, request: Request, abort: Callable[[], None]) -> MutableMapping[str, Any]:
        """The ASGI scope of a request."""
        raw_path, _, query = request.target.partition("?")
        parts = urlsplit(self.url)
        headers = {"host": parts.netloc, **request.headers}
        if request.body or request.method != "GET":
            headers.setdefault("content-length", str(len(request.body)))
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": parts.scheme,
            "path": unquote(raw_path),
            "raw_path": raw_path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(_bytes(name.lower()), _bytes(value)) for name, value in headers.items()],
            "client": self._client,
            "server": (parts.hostname, parts.port),
            "extensions": {"ekiden.abort": abort},
        }

    async def open(self, request: Request) -> _Exchange:
        """Sends `request` and returns once the head of its answer is here.

        Raises:
            Unavailable: if the application failed before it answered.
        """
        exchange = _Exchange(self, request)
        self._open.add(exchange)
        try:
            await exchange.started.wait()
        except BaseException:
            await exchange.close()
            raise
        if not exchange.status:
            raise Unavailable("The door did not answer.") from exchange.failure
        return exchange

    def forget(self, exchange: _Exchange) -> None:
        """An exchange has ended."""
        self._open.discard(exchange)

    async def close(self) -> None:
        """Closes every open answer."""
        await asyncio.gather(*(exchange.close() for exchange in list(self._open)))


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")
