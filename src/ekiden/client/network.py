"""The door over sockets: HTTP/1.1 by h11 on asyncio streams, with a bounded pool of kept connections.

A connection goes back to the pool only after a whole answer was read. One that the door closed meanwhile is
noticed before use where the operating system already knows, and is told apart (`before_answer`) where not.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from urllib.parse import urlsplit

import h11

from ekiden.client.transport import Answer, Request
from ekiden.kernel.errors import Invalid, Unavailable
from ekiden.kernel.limits import CLIENT_ANSWER_S, CLIENT_CONNECT_S, CLIENT_CONNECTIONS_MAX

_READ_BYTES = 256 * 1024


class _Connection:
    """One socket with its HTTP state."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.http = h11.Connection(h11.CLIENT, max_incomplete_event_size=256 * 1024)

    async def send(self, *parts: h11.Event) -> None:
        for part in parts:
            data = self.http.send(part)
            if data:
                self._writer.write(data)
        await self._writer.drain()

    async def next_event(self) -> h11.Event:
        """The next part of the answer."""
        while True:
            event = self.http.next_event()
            if event is h11.NEED_DATA:
                self.http.receive_data(await self._reader.read(_READ_BYTES))
                continue
            if event is h11.PAUSED:
                return h11.ConnectionClosed()
            assert not isinstance(event, type)
            return event

    @property
    def usable(self) -> bool:
        """Whether another request may be sent on it."""
        return not self._reader.at_eof() and not self._writer.is_closing()

    def renew(self) -> bool:
        """Makes it ready for the next request; False if it cannot be."""
        if self.http.our_state is h11.DONE and self.http.their_state is h11.DONE:
            self.http.start_next_cycle()
            return self.usable
        return False

    def cut(self) -> None:
        """Closes the socket at once."""
        self._writer.close()

    async def close(self) -> None:
        """Closes the socket and waits until it is."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except (OSError, ssl.SSLError):
            return


class _NetworkAnswer:
    def __init__(
        self, owner: "NetworkTransport", connection: _Connection, head: h11.Response, *, streaming: bool
    ) -> None:
        self.status = head.status_code
        self.headers: Mapping[str, str] = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers
        }
        self._owner = owner
        self._connection: _Connection | None = connection
        self._streaming = streaming

    async def chunks(self) -> AsyncIterator[bytes]:
        connection = self._connection
        while connection is not None:
            try:
                if self._streaming:
                    event = await connection.next_event()
                else:
                    async with asyncio.timeout(CLIENT_ANSWER_S):
                        event = await connection.next_event()
            except TimeoutError as error:
                raise Unavailable("The door stopped in the middle of its answer.") from error
            except (OSError, h11.RemoteProtocolError) as error:
                raise Unavailable(f"The connection to the door broke: {error}") from error
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return
            else:
                raise Unavailable("The door closed the connection in the middle of its answer.")

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._owner.give_back(connection, streaming=self._streaming)


class NetworkTransport:
    """Carries requests to the door at `url` (`http://` or `https://`)."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Invalid(f"{url!r} is no address of a hub.", hint="It looks like http://127.0.0.1:7433.")
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._host = parts.hostname
        self._netloc = parts.netloc
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._room = asyncio.Semaphore(CLIENT_CONNECTIONS_MAX)
        self._closed = False

    async def open(self, request: Request) -> Answer:
        if not request.streaming:
            await self._room.acquire()
        try:
            return await self._open_answer(request)
        except BaseException:
            if not request.streaming:
                self._room.release()
            raise

    async def _open_answer(self, request: Request) -> Answer:
        while True:
            connection, kept = await self._connection()
            try:
                async with asyncio.timeout(CLIENT_ANSWER_S):
                    head = await self._exchange(connection, request)
                return _NetworkAnswer(self, connection, head, streaming=request.streaming)
            except TimeoutError as error:
                self._drop(connection)
                raise Unavailable(f"The door at {self.url} did not answer in time.") from error
            except (OSError, h11.RemoteProtocolError, _Closed) as error:
                self._drop(connection)
                if kept and isinstance(error, _Closed) and request.method == "GET":
                    continue
                raise Unavailable(f"The connection to the door at {self.url} broke: {error}") from error
            except BaseException:
                self._drop(connection)
                raise

    async def _exchange(self, connection: _Connection, request: Request) -> h11.Response:
        headers = [("host", self._netloc), *request.headers.items()]
        if request.body or request.method != "GET":
            headers.append(("content-length", str(len(request.body))))
        head = h11.Request(method=request.method, target=request.target, headers=headers)
        parts: list[h11.Event] = [head]
        if request.body:
            parts.append(h11.Data(data=request.body))
        await connection.send(*parts, h11.EndOfMessage())
        while True:
            event = await connection.next_event()
            if isinstance(event, h11.Response):
                return event
            if not isinstance(event, h11.InformationalResponse):
                raise _Closed("closed before its answer")

    async def _connection(self) -> tuple[_Connection, bool]:
        """A connection, and whether it was used before."""
        if self._closed:
            raise Unavailable("This client is closed.")
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                self._open.add(connection)
                return connection, True
            connection.cut()
        try:
            async with asyncio.timeout(CLIENT_CONNECT_S):
                reader, writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
        except (OSError, TimeoutError) as error:
            raise Unavailable(
                f"Nobody answers at {self.url}.", hint="Start the hub with `ekiden up`.", said=str(error)
            ) from error
        connection = _Connection(reader, writer)
        self._open.add(connection)
        return connection, False

    async def give_back(self, connection: _Connection, *, streaming: bool) -> None:
        """Keeps a connection whose answer was read whole, and closes any other."""
        self._open.discard(connection)
        if not streaming:
            self._room.release()
        if not self._closed and not streaming and connection.renew():
            self._idle.append(connection)
        else:
            await connection.close()

    def _drop(self, connection: _Connection) -> None:
        self._open.discard(connection)
        connection.cut()

    async def close(self) -> None:
        self._closed = True
        connections = [*self._idle, *self._open]
        self._idle.clear()
        self._open.clear()
        await asyncio.gather(*(connection.close() for connection in connections))


class _Closed(Exception):
    """The door closed a connection before it began to answer."""
