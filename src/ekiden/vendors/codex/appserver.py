"""One `codex app-server` process and the JSON-RPC that is spoken with it over its pipes.

What it promises: a line of any length does not stop the reading (one over the bound is dropped and told to
whoever waits); every request ends, with an answer, a refusal, a time-out or the process's end; answers and
notifications are handed on in the order in which they came. Fields that are not known are borne.

Source: `codex app-server generate-json-schema`, versions 0.163 and 0.171.
"""

import asyncio
import contextlib
import signal
from collections import deque
from collections.abc import Callable, Mapping
from os import killpg
from pathlib import Path
from typing import Protocol

import msgspec

from ekiden.kernel.errors import TooMany, VendorFailed
from ekiden.kernel.limits import (
    CODEX_FRAME_BYTES_MAX,
    CODEX_REQUEST_S,
    CODEX_REQUESTS_OPEN_MAX,
    CODEX_STDERR_BYTES_MAX,
    END_KILL_S,
    END_TERM_S,
    RUNTIME_START_S,
)
from ekiden.vendors.codex.native import Record, decoded, record, text_of

CLIENT_NAME = "ekiden"
_READ_BYTES = 256 * 1024
_NOT_OFFERED = -32601


class Refused(VendorFailed):
    """The app-server answered a request with an error. `message` is its own sentence."""


class Listener(Protocol):
    """What a thread's runtime hears from the app-server."""

    def heard(self, method: str, params: Record) -> None:
        """A notification about this thread."""
        ...

    def asked(self, request_id: int | str, method: str, params: Record) -> bool:
        """A request about this thread that waits for `AppServer.answer`; False if it is of no known kind."""
        ...

    def gone(self, exit_code: int | None, said: str) -> None:
        """The process has ended. Told once."""
        ...


class Frames:
    """Cuts a byte stream into lines. A line over `bytes_max` is dropped; `dropped` counts those."""

    def __init__(self, bytes_max: int) -> None:
        self.dropped = 0
        self._bytes_max = bytes_max
        self._parts: list[bytes] = []
        self._held_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in `chunk`, without their newlines. Empty lines are left out."""
        *ends, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        for end in ends:
            self._hold(end)
            if self._held_bytes > self._bytes_max:
                self.dropped += 1
            elif self._held_bytes:
                lines.append(b"".join(self._parts))
            self._parts, self._held_bytes = [], 0
        self._hold(rest)
        return lines

    def _hold(self, part: bytes) -> None:
        self._held_bytes += len(part)
        if self._held_bytes <= self._bytes_max:
            self._parts.append(part)
        else:
            self._parts = []


class AppServer:
    """A resident app-server. Made once per environment; its threads share it."""

    def __init__(self, program: Path, environment: Mapping[str, str]) -> None:
        self.pid = 0
        self.alive = False
        self._program = program
        self._environment = dict(environment)
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._listeners: dict[str, Listener] = {}
        self._open: dict[int, tuple[asyncio.Future[Record], Callable[[Record], None] | None]] = {}
        self._number = 0
        self._said: deque[bytes] = deque()
        self._said_bytes = 0
        self._ended = asyncio.Event()

    async def start(self, *, version: str) -> None:
        """Starts the process and shakes hands.

        Raises:
            VendorFailed: if it cannot be started or does not answer.
        """
        try:
            self._process = await asyncio.create_subprocess_exec(
                str(self._program),
                "app-server",
                env=self._environment,
                cwd=self._environment.get("HOME") or None,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise VendorFailed(f"Codex could not be started: {error}.", vendor="codex") from error
        self.pid = self._process.pid
        self.alive = True
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._overhear())]
        info = {"name": CLIENT_NAME, "title": "Ekiden", "version": version}
        try:
            await self.request(
                "initialize",
                {"clientInfo": info, "capabilities": {"experimentalApi": True}},
                within_s=RUNTIME_START_S,
            )
        except BaseException:
            await self.close()
            raise
        self._write({"method": "initialized"})

    def join(self, thread_id: str, listener: Listener) -> None:
        """From now on `listener` hears what concerns this thread."""
        self._listeners[thread_id] = listener

    def leave(self, thread_id: str, listener: Listener) -> None:
        """The opposite of `join`."""
        if self._listeners.get(thread_id) is listener:
            del self._listeners[thread_id]

    async def request(
        self,
        method: str,
        params: Record,
        *,
        within_s: float = CODEX_REQUEST_S,
        on_answer: Callable[[Record], None] | None = None,
    ) -> Record:
        """Asks and waits. `on_answer` sees a good answer before anything that came after it is handed on.

        Raises:
            Refused: if the app-server answers with an error.
            VendorFailed: if it does not answer in time, or ends.
            TooMany: if too many requests wait already.
        """
        if not self.alive:
            raise VendorFailed("Codex's app-server has ended.", vendor="codex", said=self.said())
        if len(self._open) >= CODEX_REQUESTS_OPEN_MAX:
            raise TooMany("Codex has too many open requests.", max=CODEX_REQUESTS_OPEN_MAX)
        self._number += 1
        number = self._number
        future: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
        self._open[number] = (future, on_answer)
        self._write({"id": number, "method": method, "params": params})
        try:
            async with asyncio.timeout(within_s):
                return await future
        except TimeoutError:
            raise VendorFailed(
                f"Codex did not answer {method} within {within_s:g} s.", vendor="codex", said=self.said()
            ) from None
        finally:
            self._open.pop(number, None)

    def answer(self, request_id: int | str, result: object) -> None:
        """Answers a request of the app-server."""
        self._write({"id": request_id, "result": result})

    async def close(self) -> None:
        """Ends the process: closes its input, which makes it stop by itself, then asks, then makes it."""
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        for number, wait_s in ((None, END_TERM_S), (signal.SIGTERM, END_TERM_S), (signal.SIGKILL, END_KILL_S)):
            if number is not None:
                self._signal(number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._ended.wait()
                    break
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def said(self) -> str:
        """The tail of its standard error."""
        return b"".join(self._said).decode("utf-8", "replace")[-CODEX_STDERR_BYTES_MAX:]

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            killpg(self.pid, number)

    def _write(self, message: Record) -> None:
        process = self._process
        if process is None or process.stdin is None or process.stdin.is_closing():
            return
        process.stdin.write(msgspec.json.encode(message) + b"\n")

    async def _listen(self) -> None:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        frames = Frames(CODEX_FRAME_BYTES_MAX)
        dropped = 0
        while chunk := await process.stdout.read(_READ_BYTES):
            for line in frames.feed(chunk):
                self._take(line)
            if frames.dropped > dropped:
                dropped = frames.dropped
                for listener in list(self._listeners.values()):
                    listener.heard("ekiden/tooLarge", {"bytesMax": CODEX_FRAME_BYTES_MAX})
        exit_code = await process.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_KILL_S):  # a child of its may hold the pipe
                await self._tasks[1]
        self._end(exit_code)

    async def _overhear(self) -> None:
        process = self._process
        assert process is not None
        assert process.stderr is not None
        while chunk := await process.stderr.read(_READ_BYTES):
            self._said.append(chunk[-CODEX_STDERR_BYTES_MAX:])
            self._said_bytes += len(self._said[-1])
            while self._said_bytes - len(self._said[0]) >= CODEX_STDERR_BYTES_MAX:
                self._said_bytes -= len(self._said.popleft())

    def _end(self, exit_code: int | None) -> None:
        self.alive = False
        said = self.said()
        for future, _ in list(self._open.values()):
            if not future.done():
                future.set_exception(
                    VendorFailed("Codex's app-server has ended.", vendor="codex", exit_code=exit_code, said=said)
                )
        listeners = list(dict.fromkeys(self._listeners.values()))  # one may listen to several threads
        self._listeners.clear()
        for listener in listeners:
            listener.gone(exit_code, said)
        self._ended.set()

    def _take(self, line: bytes) -> None:
        try:
            message = record(decoded(line))
        except ValueError:
            return
        method = text_of(message.get("method"))
        if not method:
            self._answered(message)
            return
        params = record(message.get("params"))
        thread_id = text_of(params.get("threadId") or params.get("conversationId"))
        listener = self._listeners.get(thread_id)
        request_id = message.get("id")
        if request_id is None:
            if listener is not None:
                listener.heard(method, params)
        elif listener is None or not listener.asked(request_id, method, params):
            error = {"code": _NOT_OFFERED, "message": f"{CLIENT_NAME} does not offer {method}"}
            self._write({"id": request_id, "error": error})

    def _answered(self, message: Record) -> None:
        number = message.get("id")
        waiting = self._open.pop(number, None) if isinstance(number, int) else None
        if waiting is None:
            return
        future, on_answer = waiting
        if future.done():
            return
        error = message.get("error")
        if error is not None:
            said = text_of(record(error).get("message")) or "no reason"
            future.set_exception(Refused(said, vendor="codex", said=said))
            return
        result = record(message.get("result"))
        if on_answer is not None:
            on_answer(result)
        future.set_result(result)
