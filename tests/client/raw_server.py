"""A server that answers bytes as scripted, for faults that a well-behaved one does not have."""

import asyncio


class RawServer:
    """Answers each connection with the next scripted bytes after reading one request, then closes it."""

    def __init__(self, scripts: list[bytes]) -> None:
        self.scripts = scripts
        self.heads: list[bytes] = []
        self.url = ""

    async def __aenter__(self) -> "RawServer":
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        await self.server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self.scripts.pop(0))
        await writer.drain()
        writer.close()
        await writer.wait_closed()


OK = b'HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"ok":true}'
HALF = b'HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"ok'
