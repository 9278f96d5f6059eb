"""A plain round-robin before the nodes of a hub: each request goes to the next one, and comes back as it comes.

Nodes may be preferred for some requests, as by a proxy with sticky sessions. A node that cannot be reached is
passed by, what may have been seen is never repeated, and where no node is left the answer is 502. It puts no mark
on requests: to the nodes they come from this computer, as they do in truth.
"""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Iterator, Sequence

_HEAD_BYTES_MAX = 64 * 1024
_PIECE_BYTES = 64 * 1024
_NOBODY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 8\r\nConnection: close\r\n\r\nno node\n"


class RoundRobin:
    """Listens on loopback from `start` to `stop`, in a thread of its own, so that a browser may occupy the test's.

    `ports` are those of the nodes; `taken` counts the requests that each has got, and `where` says which of them
    answers one that is still open.
    """

    def __init__(self, ports: Sequence[int]) -> None:
        self.ports = tuple(ports)
        self.taken = dict.fromkeys(self.ports, 0)
        self._order = itertools.cycle(self.ports)
        self._numbers = itertools.count()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._talks: set[asyncio.Task[None]] = set()
        self._open: dict[bytes, int] = {}
        self._preferred: dict[tuple[str, ...], int] = {}
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10.0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def where(self, *words: str) -> list[int]:
        """The ports of the nodes that now answer requests with all these words in their heads."""
        return [port for head, port in list(self._open.items()) if all(word.encode() in head for word in words)]

    def prefer(self, port: int, *words: str) -> None:
        """Sends requests with all these words in their heads to this node, for as long as it can be reached."""
        self._preferred[words] = port

    def stop(self) -> None:
        """Cuts what is open and listens no more."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10.0)
        self._loop.close()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_HEAD_BYTES_MAX)

    async def _end(self) -> None:
        self._server.close()
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = asyncio.ensure_future(self._talk(reader, writer))
        self._talks.add(talk)
        talk.add_done_callback(self._talks.discard)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request and its answer; whoever ends first ends it for both."""
        with contextlib.closing(writer), contextlib.suppress(OSError, EOFError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            node = await self._reach(head)
            if node is None:
                writer.write(_NOBODY)
                await writer.drain()
                return
            port, node_reader, node_writer = node
            with contextlib.closing(node_writer), self._noted(head, port):
                node_writer.write(_for_one_request(head))
                ways = [
                    asyncio.ensure_future(_pass_on(reader, node_writer)),
                    asyncio.ensure_future(_pass_on(node_reader, writer)),
                ]
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.gather(*ways, return_exceptions=True)

    def _preferred_by(self, head: bytes) -> list[int]:
        return [port for words, port in self._preferred.items() if all(word.encode() in head for word in words)]

    @contextlib.contextmanager
    def _noted(self, head: bytes, port: int) -> Iterator[None]:
        name = b"%d " % next(self._numbers) + head
        self._open[name] = port
        try:
            yield
        finally:
            del self._open[name]

    async def _reach(self, head: bytes) -> tuple[int, asyncio.StreamReader, asyncio.StreamWriter] | None:
        in_turn = itertools.islice(self._order, len(self.ports))
        for port in itertools.chain(self._preferred_by(head), in_turn):
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                self.taken[port] += 1
                return port, reader, writer
        return None


def _for_one_request(head: bytes) -> bytes:
    """The head of a request whose connection ends with the answer."""
    lines = [line for line in head[:-4].split(b"\r\n") if not line.lower().startswith(b"connection:")]
    return b"\r\n".join((*lines, b"Connection: close", b"", b""))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE_BYTES):
        writer.write(piece)
        await writer.drain()
