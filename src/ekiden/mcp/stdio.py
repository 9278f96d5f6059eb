"""MCP over standard input and output: one JSON object to a line. Starts fast, since each session of an agent
starts one; what speaks to the hub is imported after the first answer.

It lives as long as its input is open. The hub may come and go meanwhile: a call that cannot reach it says so, the
next one tries anew. Calls run side by side, a bounded number of them; each may be cancelled. Whatever else in this
process writes to standard output writes to standard error instead.
"""

import asyncio
import json
import os
import queue
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ekiden.kernel.limits import MCP_CALLS_OPEN_MAX, MCP_END_S, MCP_LINE_BYTES_MAX
from ekiden.mcp.protocol import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    CallTool,
    Conversation,
    cancelled_id,
    error_response,
    is_notification,
    is_request,
)

_READ_BYTES = 64 * 1024


class Lines:
    """Takes bytes in pieces of any size and gives whole lines. One over the bound is given as None, once."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._rest = bytearray()
        self._skipping = False

    def feed(self, piece: bytes) -> list[bytes | None]:
        """The lines that `piece` completes."""
        lines: list[bytes | None] = []
        *whole, rest = piece.split(b"\n")
        for part in whole:
            if self._skipping:
                self._skipping = False
            elif len(self._rest) + len(part) > self._bytes_max:
                lines.append(None)
            else:
                lines.append(bytes(self._rest) + part)
            self._rest.clear()
        if not self._skipping:
            self._rest += rest
            if len(self._rest) > self._bytes_max:
                lines.append(None)
                self._rest.clear()
                self._skipping = True
        return lines


class Server:
    """Answers what comes in lines, through `write`, which takes one line at a time."""

    def __init__(self, call_tool: CallTool, write: Callable[[bytes], None]) -> None:
        self._conversation = Conversation(call_tool)
        self._write = write
        self._open: dict[str | int, asyncio.Task[None]] = {}

    async def take(self, line: bytes | None) -> None:
        """One line from the client; None for one that was too long."""
        if line is None:
            self._say(error_response(None, INVALID_REQUEST, f"a message has at most {MCP_LINE_BYTES_MAX} bytes"))
            return
        if not line.strip():
            return
        try:
            message: Any = json.loads(line)
        except (ValueError, RecursionError):
            self._say(error_response(None, PARSE_ERROR, "that is not JSON"))
            return
        if not is_request(message):
            self._note(message)
            return
        number = message["id"]
        if number in self._open or len(self._open) >= MCP_CALLS_OPEN_MAX:
            why = "this id is in use" if number in self._open else f"{MCP_CALLS_OPEN_MAX} calls are open already"
            self._say(error_response(number, INVALID_REQUEST, why))
            return
        task = asyncio.ensure_future(self._answer(message))
        self._open[number] = task
        task.add_done_callback(lambda _: self._open.pop(number, None))
        if message["method"] != "tools/call":
            # What comes next may rest on it, as everything does on `initialize`.
            await task

    async def end(self) -> None:
        """Ends all calls that are still open, unanswered."""
        for task in list(self._open.values()):
            task.cancel()
        await asyncio.gather(*self._open.values(), return_exceptions=True)

    def _note(self, message: Any) -> None:
        if not is_notification(message):
            self._say(error_response(None, INVALID_REQUEST, "that is no request and no notification"))
            return
        cancelled = cancelled_id(message)
        if cancelled is not None and cancelled in self._open:
            self._open[cancelled].cancel()

    async def _answer(self, request: dict[str, Any]) -> None:
        try:
            self._say(await self._conversation.answer(request))
        except Exception as error:  # a fault of ours must not leave the client waiting
            self._say(
                error_response(request["id"], INTERNAL_ERROR, f"a fault inside Ekiden: {type(error).__name__}")
            )

    def _say(self, message: dict[str, Any]) -> None:
        # ASCII only: a lone surrogate in a text could not be written otherwise.
        self._write(json.dumps(message, separators=(",", ":")).encode() + b"\n")


class _Output:
    """Writes on a thread of its own, so that a client that does not read holds up nothing but itself."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def write(self, line: bytes) -> None:
        self._waiting.put(line)

    def end(self, within_s: float) -> None:
        self._waiting.put(None)
        self._thread.join(within_s)

    def _run(self) -> None:
        while (line := self._waiting.get()) is not None:
            view = memoryview(line)
            try:
                while view:
                    view = view[os.write(self._descriptor, view) :]
            except OSError:
                return  # nobody reads any more: the input will end too


@dataclass(frozen=True, slots=True)
class Ready:
    """What carries out calls, once it is there, and how it ends."""

    call_tool: CallTool
    close: Callable[[], Awaitable[None]]


async def serve(make: Callable[[], Ready]) -> None:
    """Serves standard input and output until the input ends. `make` imports and makes what carries out calls, at
    the first of them."""
    reading, writing = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    loop = asyncio.get_running_loop()
    made: list[Ready] = []

    async def call_tool(name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        if not made:
            made.append(make())
        return await made[0].call_tool(name, arguments)

    output = _Output(writing)
    server = Server(call_tool, output.write)
    lines = Lines(MCP_LINE_BYTES_MAX)
    ended = asyncio.Event()

    async def feed(piece: bytes) -> None:
        for line in lines.feed(piece):
            await server.take(line)

    def read() -> None:
        try:
            while piece := os.read(reading, _READ_BYTES):
                asyncio.run_coroutine_threadsafe(feed(piece), loop).result()
        finally:
            loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=read, daemon=True).start()
    try:
        await ended.wait()
    finally:
        await server.end()
        for ready in made:
            await ready.close()
        output.end(MCP_END_S)
