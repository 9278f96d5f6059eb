"""A small door for the client's tests: plain ASGI, so that each behaviour of an answer is under control."""

import asyncio
import json
from collections import Counter
from typing import Any


class DoorStub:
    """Counts what arrives; what it answers depends on the path."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.stream_scripts: list[list[bytes | float | str]] = []
        """One script per opened stream: bytes are sent, "hang" waits until the client goes."""
        self.streams_open = 0
        self.gone = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise RuntimeError("only http")
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        query = scope["query_string"].decode()
        path = scope["path"]
        self.seen[path] += 1
        self.requests.append((scope["method"], path + ("?" + query if query else ""), headers, body))
        if path == "/v1/stream":
            await self._stream(receive, send)
        elif path == "/echo":
            answer = {
                "method": scope["method"],
                "query": query,
                "authorization": headers.get("authorization", ""),
                "command_id": headers.get("command-id", ""),
                "content_type": headers.get("content-type", ""),
                "body": json.loads(body) if body else None,
            }
            await self._answer(send, 200, answer)
        elif path == "/in-flight-once" and self.seen[path] == 1:
            await self._problem(send, 409, "command_in_flight", "It still runs.")
        elif path.startswith("/problem/"):
            _, _, status, code = path.split("/")
            await self._problem(
                send, int(status), code, "It was refused.", hint="Do otherwise.", details={"x": [1]}
            )
        elif path == "/page":
            await self._answer(send, 502, b"<html>bad gateway</html>")
        elif path == "/broken-json":
            await self._answer(send, 200, b"{nope")
        elif path == "/big":
            await self._answer(send, 200, b'"' + b"x" * 3_000_000 + b'"')
        elif path == "/nothing":
            await self._answer(send, 204, b"")
        else:
            await self._answer(send, 200, {"ok": True})

    async def _answer(self, send: Any, status: int, answer: Any, kind: bytes = b"application/json") -> None:
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        headers = [(b"content-type", kind)]
        if status != 204:
            headers.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    async def _problem(
        self, send: Any, status: int, code: str, detail: str, hint: str = "", details: Any = None
    ) -> None:
        problem = {
            "type": "about:blank",
            "title": "Refused",
            "status": status,
            "detail": detail,
            "code": code,
            "hint": hint,
            "retry_helps": False,
            "details": details or {},
        }
        await self._answer(send, status, problem, b"application/problem+json")

    async def _stream(self, receive: Any, send: Any) -> None:
        self.streams_open += 1
        try:
            await send(
                {
                    "type": "http.response.start",
                    "status": 200,
                    "headers": [(b"content-type", b"text/event-stream")],
                }
            )
            for step in self.stream_scripts.pop(0):
                if isinstance(step, bytes):
                    await send({"type": "http.response.body", "body": step, "more_body": True})
                elif step == "hang":
                    while (await receive())["type"] != "http.disconnect":
                        continue
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self.streams_open -= 1
            self.gone.set()


def frame(kind: str, body: Any, *, id: str = "", seq: int = 0) -> bytes:
    """One frame in the door's form."""
    data: dict[str, Any] = {"kind": kind, "body": body}
    if seq:
        data |= {
            "seq": seq,
            "topic": "team",
            "at": "2026-01-01T00:00:00.000Z",
            "actor": {"id": "pri_1", "name": "Desk"},
        }
    head = f"id: {id}\n" if id else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def hello(cursor: str = "abcdefgh.5", beat_s: float = 10.0) -> bytes:
    """The first frame of a stream."""
    return frame("stream.hello", {"cursor": cursor, "boot_id": "b", "beat_s": beat_s, "topics": ["team"]})
