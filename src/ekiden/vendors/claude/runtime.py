"""Drives one session through a resident `claude` process that speaks stream-json on its standard pipes.

Promises:
- A message has its effect once: its uuid is made from Ekiden's message id, and Claude Code drops repeats.
- A piece of text comes under the item id that the file's reader will give the whole text.
- No line of the program is too long: one over the bound is left out and told as a notice.
- When the process ends, what was growing is kept, what was asked is withdrawn, and `Ended` says what it said.
"""

import asyncio
import contextlib
import os
import signal
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from ekiden.kernel.errors import VendorFailed
from ekiden.kernel.limits import (
    APPROVALS_OPEN_PER_SESSION_MAX,
    CLAUDE_CLOSE_S,
    CLAUDE_DRAIN_S,
    CLAUDE_EVENTS_MAX,
    CLAUDE_READ_BYTES,
    CLAUDE_SAID_BYTES_MAX,
    GROWING_ITEMS_MAX,
    INTERRUPT_S,
    ITEM_TEXT_BYTES_MAX,
    MESSAGES_REMEMBERED_MAX,
    RUNTIME_START_S,
)
from ekiden.transcript.items import Cut, Item, ItemKind, Role, Source, Text
from ekiden.vendors.claude import ids, processes, questions, wire
from ekiden.vendors.claude.bounds import fitted
from ekiden.vendors.claude.rows import Message, decode
from ekiden.vendors.claude.speech import blocks_of
from ekiden.vendors.port import (
    Begin,
    Dropped,
    Ended,
    Environment,
    Grew,
    Placed,
    Program,
    RuntimeEvent,
    ToolServer,
    TurnEnded,
    TurnStarted,
    Withdrawn,
)

_FLAGS = (
    "-p",
    "--input-format=stream-json",
    "--output-format=stream-json",
    "--verbose",
    "--include-partial-messages",
    "--replay-user-messages",
    "--permission-prompt-tool=stdio",
)
_GROWING_KINDS = {"text_delta": ItemKind.MESSAGE, "thinking_delta": ItemKind.THOUGHT}
_BLOCK_KINDS = {"text": ItemKind.MESSAGE, "thinking": ItemKind.THOUGHT}


@dataclass(slots=True)
class _Growing:
    """A block of the running answer that is not in the file yet."""

    message_id: str
    index: int
    kind: ItemKind
    turn_id: str
    size: int = 0
    parts: list[str] = field(default_factory=list[str])


def _tool_flags(tools: ToolServer) -> list[str]:
    """Adds one MCP server to those that the person has configured; their own settings are left as they are."""
    server = {
        "type": "stdio",
        "command": tools.command,
        "args": tools.arguments,
        "env": dict(tools.environment),
    }
    config = msgspec.json.encode({"mcpServers": {tools.name: server}}).decode()
    return [f"--mcp-config={config}", f"--allowedTools=mcp__{tools.name}"]


class ClaudeRuntime:
    """One owned session. `program` is the `claude` to run."""

    def __init__(self, begin: Begin, environment: Environment, program: Program | None) -> None:
        self.native_id = begin.resume or str(uuid.uuid4())
        self.pid = 0
        self._begin = begin
        self._environment = dict(environment)
        self._program = program
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._events: asyncio.Queue[RuntimeEvent] = asyncio.Queue(CLAUDE_EVENTS_MAX)
        self._ready: asyncio.Future[None] | None = None
        self._said = bytearray()
        self._sent: OrderedDict[str, str] = OrderedDict()
        self._placed: set[str] = set()
        self._repeated = ""
        self._turn = ""
        self._idle = asyncio.Event()
        self._idle.set()
        self._interrupting = False
        self._message = ""
        self._growing: dict[tuple[str, int], _Growing] = {}
        self._questions: OrderedDict[str, questions.Question] = OrderedDict()
        self._requests = 0
        self._closing = False

    # The port

    async def start(self) -> None:
        """Starts the process and waits until it answers.

        Raises:
            VendorFailed: if there is no program, or with what it said before it ended.
        """
        if self._program is None:
            raise VendorFailed(
                "Claude Code is not installed on this computer.",
                hint="Install it, then try again.",
                vendor="claude",
            )
        if not self._begin.cwd.is_dir():
            raise VendorFailed(f"The folder {self._begin.cwd} does not exist.", vendor="claude")
        self._ready = asyncio.get_running_loop().create_future()
        try:
            self._process = await asyncio.create_subprocess_exec(
                str(self._program.path),
                *_FLAGS,
                *self._session_flags(),
                cwd=self._begin.cwd,
                env=self._environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise VendorFailed(f"Claude Code did not start: {error.strerror}", vendor="claude") from error
        self.pid = self._process.pid
        self._tasks = [asyncio.create_task(self._watch(self._process))]
        try:
            await self._write(wire.request_line(self._request_id(), "initialize"))
            async with asyncio.timeout(RUNTIME_START_S):
                await self._ready
        except BaseException as error:
            self._ready.cancel()
            await self.close()
            if isinstance(error, VendorFailed):
                failure = self._failure()
                last_words = str(failure["said"]).rpartition("\n")[2][:200]
                message = f"Claude Code ended before it was ready: {last_words or 'it said nothing'}"
                raise VendorFailed(message, **failure) from error
            if isinstance(error, TimeoutError):
                raise VendorFailed("Claude Code did not get ready in time.", **self._failure()) from error
            raise

    async def events(self) -> AsyncIterator[RuntimeEvent]:
        """All events in order; ends after `Ended`."""
        while True:
            event = await self._events.get()
            yield event
            if isinstance(event, Ended):
                return

    async def send(self, message_id: str, text: str, *, steer: bool = False) -> None:
        """Gives the program a message; a second one with this id has no effect.

        Raises:
            VendorFailed: if the process has ended.
        """
        name = ids.message_uuid(message_id)
        if name in self._sent:
            return
        self._sent[name] = message_id
        while len(self._sent) > MESSAGES_REMEMBERED_MAX:
            old, _ = self._sent.popitem(last=False)
            self._placed.discard(old)
        try:
            await self._write(wire.user_line(text, name, self.native_id, steer=steer))
        except VendorFailed:
            del self._sent[name]
            raise

    async def interrupt(self) -> None:
        """Asks the running turn to stop; does nothing between turns."""
        if self._turn:
            self._interrupting = True
            await self._write(wire.request_line(self._request_id(), "interrupt"))

    async def decide(
        self, native_id: str, option_id: str, *, message: str = "", answers: msgspec.Raw | None = None
    ) -> bool:
        """Answers what was asked. False if the program no longer waits for it, or is gone."""
        question = self._questions.pop(native_id, None)
        if question is None:
            return False
        reply = questions.answer(question, option_id, message, answers)
        try:
            await self._write(wire.reply_line(native_id, reply))
        except VendorFailed:
            return False
        return True

    async def close(self) -> None:
        """Ends the process and what it started: a running turn is stopped first, then the program is let go,
        asked and killed, each within a bound. `events` ends too."""
        process = self._process
        if process is None or self._closing:
            return
        self._closing = True
        if process.returncode is None:
            if self._turn:
                with contextlib.suppress(VendorFailed, TimeoutError):
                    await self.interrupt()
                    async with asyncio.timeout(min(INTERRUPT_S, CLAUDE_CLOSE_S)):
                        await self._idle.wait()
            started = await asyncio.to_thread(processes.below, process.pid)
            if process.stdin is not None:
                process.stdin.close()
            for number in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(CLAUDE_CLOSE_S):
                        await process.wait()
                    break
                self._signal(number)
            self._signal(signal.SIGKILL)
            await asyncio.to_thread(processes.kill, started)
        while self._tasks and (waiting := (await asyncio.wait(self._tasks, timeout=CLAUDE_CLOSE_S))[1]):
            # Nobody takes the events any more: the oldest make room for the end.
            while waiting and not self._events.empty():
                self._events.get_nowait()

    # The process

    def _session_flags(self) -> list[str]:
        begin = self._begin
        flags: list[str] = [f"--model={begin.model}"] if begin.model else []
        if begin.tools is not None:
            flags += _tool_flags(begin.tools)
        if begin.resume:
            return [*flags, f"--resume={begin.resume}"]
        if begin.fork_of:
            return [*flags, f"--resume={begin.fork_of}", "--fork-session", f"--session-id={self.native_id}"]
        return [*flags, f"--session-id={self.native_id}"]

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _failure(self) -> dict[str, Any]:
        code = self._process.returncode if self._process else None
        said = self._said.decode("utf-8", "replace").strip()
        return {"vendor": "claude", "exit_code": code, "said": said}

    def _request_id(self) -> str:
        self._requests += 1
        return f"ekiden-{self._requests}"

    async def _write(self, line: dict[str, Any]) -> None:
        process = self._process
        if process is None or process.stdin is None or process.returncode is not None:
            raise VendorFailed("Claude Code is not running.", **self._failure())
        try:
            process.stdin.write(msgspec.json.encode(line) + b"\n")
            await process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError) as error:
            raise VendorFailed("Claude Code has ended.", **self._failure()) from error

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        """Reads until the process has ended; says the end last."""
        assert process.stdout is not None
        assert process.stderr is not None
        readers = [
            asyncio.create_task(self._read(process.stdout)),
            asyncio.create_task(self._read_said(process.stderr)),
        ]
        try:
            code = await process.wait()
            # Something that the program started may hold its pipes open: what is in them is read, no more.
            await asyncio.wait(readers, timeout=CLAUDE_DRAIN_S)
        finally:
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
            # The pipes have no other way to be closed while a stranger holds their other ends.
            cast("Any", process)._transport.close()
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(VendorFailed("Claude Code has ended.", **self._failure()))
        for event in self._last_events(code):
            await self._tell(event)

    async def _tell(self, event: RuntimeEvent) -> None:
        """Hands an event over; waits while the reader is behind, and so lets the program wait."""
        await self._events.put(event)

    async def _read(self, stream: asyncio.StreamReader) -> None:
        lines = wire.Lines()
        while chunk := await stream.read(CLAUDE_READ_BYTES):
            for line in lines.feed(chunk):
                await self._line(line)
        for line in lines.end():
            await self._line(line)

    async def _read_said(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(CLAUDE_READ_BYTES):
            self._said += chunk
            del self._said[:-CLAUDE_SAID_BYTES_MAX]

    async def _line(self, line: bytes | wire.Oversize) -> None:
        if isinstance(line, wire.Oversize):
            if line.request_id:
                await self._write(wire.refusal_line(line.request_id, "The request is too large."))
            await self._tell(Dropped(self._oversize_item(line)))
            return
        event = wire.read_event(line)
        if event is not None:
            for told in await self._event(event):
                await self._tell(told)

    # What the program says

    async def _event(self, event: wire.Event) -> list[RuntimeEvent]:
        match event.type:
            case "stream_event":
                return self._stream(event)
            case "command_lifecycle":
                return self._lifecycle(event.command_uuid or "", event.state or "")
            case "user" if event.is_replay and event.uuid in self._sent and event.uuid not in self._placed:
                # Versions that do not tell a message's life still repeat it when they take it; newer ones
                # repeat also what they have had before. Which it is shows when an answer begins.
                self._repeated = event.uuid or ""
            case "assistant" if event.parent_tool_use_id is None:
                self._whole(event)
            case "control_request":
                return await self._asked(event)
            case "control_cancel_request":
                return self._withdraw(event.request_id or "", "Claude Code took it back.")
            case "control_response":
                reply = decode(event.response, wire.Reply)
                if self._ready is not None and not self._ready.done() and reply and reply.request_id == "ekiden-1":
                    self._ready.set_result(None)
            case "result":
                return self._result(event)
            case _:
                pass
        return []

    def _begin_turn(self, name: str) -> list[RuntimeEvent]:
        self._turn = ids.turn_id(name)
        self._idle.clear()
        return [TurnStarted(self._turn)]

    def _lifecycle(self, name: str, state: str) -> list[RuntimeEvent]:
        message_id = self._sent.get(name)
        if message_id is None:
            return []
        if state == "queued" and self._turn:
            return [Placed(message_id, "", "queued")]
        if state == "completed" and name not in self._placed:
            # The program has had this message before, in an earlier process.
            self._placed.add(name)
            self._repeated = ""
            turn = ids.turn_id(name)
            placed = Placed(message_id, turn, "new_turn")
            return [placed] if self._turn else [placed, TurnEnded(turn, "completed")]
        if state != "started" or name in self._placed:
            return []
        self._placed.add(name)
        if self._turn:
            return [Placed(message_id, self._turn, "steered")]
        return [*self._begin_turn(name), Placed(message_id, self._turn, "new_turn")]

    def _stream(self, event: wire.Event) -> list[RuntimeEvent]:
        if event.parent_tool_use_id is not None:
            return []  # A sub-agent's text is read from its own file.
        inner = decode(event.event, wire.StreamEvent)
        if inner is None:
            return []
        if inner.type == "message_start" and inner.message is not None:
            self._message = inner.message.id or ""
            if self._repeated and self._repeated not in self._placed:
                return self._lifecycle(self._repeated, "started")
            # A turn that nobody's message began: work in the background has ended, for example.
            return [] if self._turn else self._begin_turn(event.uuid or self._message)
        delta = inner.delta
        if inner.type != "content_block_delta" or delta is None or inner.index is None:
            return []
        kind = _GROWING_KINDS.get(delta.type)
        text = delta.text or delta.thinking
        if kind is None or not text or not self._message:
            return []
        key = (self._message, inner.index)
        growing = self._growing.get(key)
        if growing is None:
            if len(self._growing) >= GROWING_ITEMS_MAX:
                return []
            growing = self._growing[key] = _Growing(self._message, inner.index, kind, self._turn)
        if growing.size <= ITEM_TEXT_BYTES_MAX:
            growing.parts.append(text)
            growing.size += len(text)
        return [Grew(self._turn, ids.block_id(*key), kind, text)]

    def _whole(self, event: wire.Event) -> None:
        """A block is whole and on its way into the file."""
        message = decode(event.message, Message)
        if message is None:
            return
        for block in blocks_of(message.content) or []:
            kind = _BLOCK_KINDS.get(block.type)
            grown = [
                key for key, one in self._growing.items() if one.message_id == message.id and one.kind is kind
            ]
            if grown:
                del self._growing[min(grown)]

    async def _asked(self, event: wire.Event) -> list[RuntimeEvent]:
        request_id = event.request_id or ""
        wanted = decode(event.request, wire.Permission)
        if wanted is None or wanted.subtype != "can_use_tool":
            await self._write(wire.refusal_line(request_id, "Ekiden does not answer this request."))
            return []
        if len(self._questions) >= APPROVALS_OPEN_PER_SESSION_MAX:
            deny = {"behavior": "deny", "message": "Too many questions are open at once."}
            await self._write(wire.reply_line(request_id, deny))
            return []
        question = questions.question(request_id, wanted, self._turn, str(self._begin.cwd))
        self._questions[request_id] = question
        return [question.asked]

    def _withdraw(self, request_id: str, reason: str) -> list[RuntimeEvent]:
        return [Withdrawn(request_id, reason)] if self._questions.pop(request_id, None) else []

    def _result(self, event: wire.Event) -> list[RuntimeEvent]:
        turn, self._turn = self._turn, ""
        interrupted = self._interrupting or (event.terminal_reason or "").startswith("aborted")
        self._interrupting = False
        told = self._settle("The turn has ended.")
        self._idle.set()
        if not turn:
            return told
        if event.subtype == "success" and not event.is_error:
            return [*told, TurnEnded(turn, "completed")]
        if interrupted:
            return [*told, TurnEnded(turn, "interrupted")]
        reason = event.result or "; ".join(event.errors or []) or event.subtype or "It ended with an error."
        return [*told, TurnEnded(turn, "failed", reason[:CLAUDE_SAID_BYTES_MAX])]

    def _settle(self, reason: str) -> list[RuntimeEvent]:
        """What a turn leaves open when it ends: questions, and text that will never be in the file."""
        told: list[RuntimeEvent] = []
        for request_id in list(self._questions):
            told += self._withdraw(request_id, reason)
        for growing in self._growing.values():
            told.append(Dropped(self._kept_item(growing)))
        self._growing.clear()
        return told

    def _last_events(self, code: int) -> list[RuntimeEvent]:
        told = self._settle("Claude Code has ended.")
        if self._turn:
            outcome = "interrupted" if self._closing else "failed"
            told.append(TurnEnded(self._turn, outcome, f"Claude Code has ended (exit code {code})."))
            self._turn = ""
        self._idle.set()
        said = self._said.decode("utf-8", "replace").strip()
        return [*told, Ended(code, said)]

    def _kept_item(self, growing: _Growing) -> Item:
        cuts: list[Cut] = []
        text = fitted("".join(growing.parts), ITEM_TEXT_BYTES_MAX, "content", cuts)
        return Item(
            id=ids.block_id(growing.message_id, growing.index),
            kind=growing.kind,
            source=Source(""),
            role=Role.ASSISTANT,
            turn=growing.turn_id,
            content=(Text(text),),
            note="kept_here",
            interrupted=True,
            not_in_model_history=True,
            cut=tuple(cuts),
        )

    def _oversize_item(self, line: wire.Oversize) -> Item:
        said = f"A line of {line.size} bytes from Claude Code was too large to be shown here."
        return Item(
            id=ids.row_id(str(uuid.uuid4())),
            kind=ItemKind.NOTICE,
            source=Source(""),
            role=Role.SYSTEM,
            turn=self._turn,
            content=(Text(said),),
            note="oversize",
        )
