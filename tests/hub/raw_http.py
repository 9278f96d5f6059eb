"""HTTP/1.1 by hand, for requests that no decent client would send."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from hub.door_kit import WAIT_S


@dataclass(frozen=True)
class Answered:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def problem(self) -> Any:
        assert self.headers["content-type"] == "application/problem+json"
        return self.json


def head_of(
    port: int, method: str, target: str, size: int, *, key: str = "", headers: Mapping[str, str] | None = None
) -> bytes:
    """The head of a request; `headers` replace the usual ones."""
    usual = {"Host": f"127.0.0.1:{port}"}
    if key:
        usual["Authorization"] = f"Bearer {key}"
    if method != "GET":
        usual["Content-Type"] = "application/json"
        if not headers or "Transfer-Encoding" not in headers:
            usual["Content-Length"] = str(size)
    lines = [f"{name}: {value}" for name, value in {**usual, **(headers or {})}.items()]
    return "\r\n".join((f"{method} {target} HTTP/1.1", *lines, "", "")).encode()


async def raw_request(
    port: int,
    method: str,
    target: str,
    body: bytes = b"",
    *,
    key: str = "",
    headers: Mapping[str, str] | None = None,
) -> Answered:
    """Sends exactly this and reads one answer with a length."""
    async with asyncio.timeout(WAIT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(head_of(port, method, target, len(body), key=key, headers=headers) + body)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            status_line, *lines = head.strip().split("\r\n")
            told = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
            whole = await reader.readexactly(int(told["content-length"]))
        finally:
            writer.close()
            await writer.wait_closed()
    return Answered(int(status_line.split(" ")[1]), told, whole)
