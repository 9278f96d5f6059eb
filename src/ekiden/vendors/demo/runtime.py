"""Drives one demo agent process for the host."""

import asyncio
import contextlib
import os
import secrets
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from ekiden.kernel.errors import HeldElsewhere, VendorFailed
from ekiden.transcript.items import ItemKind
from ekiden.vendors.demo.native import item_id, turn_id
from ekiden.vendors.demo.protocol import Notice, Order, decode_notice, encode_line
from ekiden.vendors.port import (
    Asked,
    Begin,
    Ended,
    Environment,
    Grew,
    Placed,
    RuntimeEvent,
    TurnEnded,
    TurnStarted,
    Withdrawn,
)

LINE_BYTES_MAX = 4 * 1024 * 1024
START_S = 20.0
CLOSE_S = 5.0
SAID_BYTES_MAX = 4000


class DemoRuntime:
    """One owned session of the demo agent."""

    def __init__(self, home: Path, begin: Begin, environment: Environment, *, delay_s: float) -> None:
        self.native_id = begin.resume or secrets.token_hex(8)
        self.pid = 0
        self._home = home
        self._begin = begin
        self._environment = dict(environment)
        self._delay_s = delay_s
        self._process: asyncio.subprocess.Process | None = None
        self._decisions: deque[asyncio.Future[bool]] = deque()
        self._said = bytearray()
        self._errors: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Starts the process and waits until it is ready.

        Raises:
            HeldElsewhere: if another agent process has the session.
            VendorFailed: if it cannot start.
        """
        begin = self._begin
        arguments = ["--home", str(self._home), "--session", self.native_id, "--cwd", str(begin.cwd)]
        arguments += ["--delay-s", str(self._delay_s)]
        arguments += ["--resume"] if begin.resume else []
        arguments += ["--fork-of", begin.fork_of] if begin.fork_of else []
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # a module of the same name in the session's folder must not be run instead
                "-m",
                "ekiden.vendors.demo",
                *arguments,
                cwd=begin.cwd,
                env=self._environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=LINE_BYTES_MAX,
                start_new_session=True,
            )
        except OSError as error:
            raise VendorFailed(f"The demo agent did not start: {error}", vendor="demo") from error
        self.pid = self._process.pid
        self._errors = asyncio.create_task(self._read_errors(self._process))
        try:
            async with asyncio.timeout(START_S):
                first = await self._next(self._process)
        except BaseException as error:
            await self._kill()
            if isinstance(error, TimeoutError):
                raise VendorFailed("The demo agent did not get ready in time.", vendor="demo") from error
            raise
        if first is not None and first.event == "ready":
            return
        await self._kill()
        if first is not None and first.pid:
            raise HeldElsewhere(first.text, who="Demo agent", pid=first.pid, instead=["fork", "quote"])
        said = first.text if first is not None else self._said.decode("utf-8", "replace")
        raise VendorFailed("The demo agent did not start.", vendor="demo", said=said)

    async def events(self) -> AsyncIterator[RuntimeEvent]:
        """Everything that happens, until the process has ended."""
        process = self._running()
        while (notice := await self._next(process)) is not None:
            event = self._event(notice)
            if event is not None:
                yield event
        exit_code = await process.wait()
        if self._errors is not None:
            await self._errors
        while self._decisions:
            self._settle(False)
        yield Ended(exit_code, self._said.decode("utf-8", "replace"))

    async def send(self, message_id: str, text: str, *, steer: bool = False) -> None:
        """Gives the agent a message. The agent itself knows the ids of all that it has taken."""
        await self._order(Order("say", message_id=message_id, text=text, steer=steer))

    async def interrupt(self) -> None:
        """Stops the running turn, if there is one."""
        await self._order(Order("interrupt"))

    async def decide(
        self,
        native_id: str,
        option_id: str,
        *,
        message: str = "",
        answers: msgspec.Raw | None = None,  # noqa: ARG002 (the demo agent asks for no fields)
    ) -> bool:
        """Answers what was asked. False if the agent no longer waits for it, or is gone."""
        taken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._decisions.append(taken)
        try:
            await self._order(Order("decide", ask=native_id, option=option_id, text=message))
        except VendorFailed:
            return False
        return await taken

    async def close(self) -> None:
        """Ends the process: it is asked to, then killed. `events` then ends too."""
        process = self._process
        if process is None:
            return
        with contextlib.suppress(VendorFailed):
            await self._order(Order("close"))
        try:
            async with asyncio.timeout(CLOSE_S):
                await process.wait()
        except TimeoutError:
            await self._kill()
        if self._errors is not None:
            await self._errors
        if process.stdin is not None:
            process.stdin.close()

    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise VendorFailed("The demo agent has not started.", vendor="demo")
        return self._process

    async def _order(self, order: Order) -> None:
        process = self._running()
        assert process.stdin is not None
        if process.returncode is not None:
            raise VendorFailed("The demo agent has ended.", vendor="demo", exit_code=process.returncode)
        try:
            process.stdin.write(encode_line(order) + b"\n")
            await process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError) as error:
            raise VendorFailed("The demo agent has ended.", vendor="demo") from error

    async def _next(self, process: asyncio.subprocess.Process) -> Notice | None:
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line:
            return None
        try:
            return decode_notice(line)
        except msgspec.DecodeError:
            # A process that is killed can leave half a line; nothing comes after it.
            return None

    def _event(self, notice: Notice) -> RuntimeEvent | None:
        turn = turn_id(self.native_id, notice.turn) if notice.turn else ""
        match notice.event:
            case "placed":
                return Placed(notice.message_id, turn, notice.how)
            case "turn_started":
                return TurnStarted(turn)
            case "turn_ended":
                return TurnEnded(turn, notice.outcome, notice.text if notice.outcome == "failed" else "")
            case "grew":
                return Grew(turn, item_id(self.native_id, notice.record), ItemKind(notice.kind), notice.text)
            case "asked":
                return self._asked(notice, turn)
            case "withdrawn":
                return Withdrawn(notice.ask, notice.text)
            case "decided":
                self._settle(notice.taken)
                return None
            case _:
                return None

    def _asked(self, notice: Notice, turn: str) -> Asked:
        detail = {"question": notice.text, "command": notice.command, "cwd": notice.cwd, "diff": notice.diff}
        return Asked(
            native_id=notice.ask,
            turn_id=turn,
            question=notice.question,
            title=notice.text,
            tool=notice.name,
            detail=msgspec.Raw(msgspec.json.encode({name: value for name, value in detail.items() if value})),
            command=notice.command,
            cwd=notice.cwd,
            diff=notice.diff,
            options=notice.options,
            item_id=item_id(self.native_id, notice.record) if notice.record else "",
        )

    def _settle(self, taken: bool) -> None:
        if self._decisions:
            waiting = self._decisions.popleft()
            if not waiting.done():
                waiting.set_result(taken)

    async def _read_errors(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while piece := await process.stderr.read(SAID_BYTES_MAX):
            self._said += piece
            del self._said[:-SAID_BYTES_MAX]

    async def _kill(self) -> None:
        process = self._process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        if self._errors is not None:
            await self._errors
        if process.stdin is not None:
            process.stdin.close()
