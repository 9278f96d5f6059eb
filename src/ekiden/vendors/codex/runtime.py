"""Drives one Codex thread through an app-server that Ekiden owns.

What it promises:
- Messages have their effect once, in order. Codex would merge a message that comes during a turn into that
  turn without a word, so it waits here and starts a turn of its own afterwards, unless it is to steer.
  `Placed` is told when Codex has taken a message, not before. Each message carries its id into the rollout
  (`client_id`), so that after a crash it is known which ones arrived.
- Text that Codex throws away (a running message when the turn is interrupted or steered) comes as `Dropped`.
- The person's own configuration decides about approvals and the sandbox. Only a thread that `codex exec` made
  without a person (policy `never`) is asked about again as that configuration says.
- An interrupted turn is told as ended after its commands were told to end.
- When the process ends, for whatever reason, every runtime on it gets `Ended`.
"""

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from typing import Protocol

import msgspec

from ekiden.kernel.clock import iso
from ekiden.kernel.errors import EkidenError, HeldElsewhere, TooMany, VendorFailed
from ekiden.kernel.limits import (
    CODEX_AGENTS_MAX,
    CODEX_EVENTS_WAITING_MAX,
    CODEX_QUEUE_MESSAGES_MAX,
    INTERRUPT_S,
    MESSAGES_REMEMBERED_MAX,
    RUNTIME_START_S,
)
from ekiden.transcript.items import ItemKind
from ekiden.vendors.codex.approvals import Question, question_of, result_for
from ekiden.vendors.codex.appserver import AppServer, Refused
from ekiden.vendors.codex.arrived import arrived_messages
from ekiden.vendors.codex.growing import Growing, not_sent
from ekiden.vendors.codex.native import Record, item_id, listed, record, sane_time, text_of, turn_id
from ekiden.vendors.port import (
    Begin,
    Dropped,
    Ended,
    Environment,
    Grew,
    Owner,
    Placed,
    RuntimeEvent,
    ToolServer,
    TurnEnded,
    TurnStarted,
    Withdrawn,
)

_HELD = "already has an active writer"
_DELTAS = {
    "item/agentMessage/delta": ItemKind.MESSAGE,
    "item/reasoning/summaryTextDelta": ItemKind.THOUGHT,
    "item/reasoning/textDelta": ItemKind.THOUGHT,
    "item/plan/delta": ItemKind.PLAN,
}
_GROWING_TYPES = {"agentMessage": ItemKind.MESSAGE, "reasoning": ItemKind.THOUGHT, "plan": ItemKind.PLAN}
_OUTCOMES = {"completed": "completed", "interrupted": "interrupted", "failed": "failed"}


class Servers(Protocol):
    """Where a runtime gets its app-server from."""

    async def join(self, environment: Environment) -> AppServer:
        """A running app-server for this environment.

        Raises:
            VendorFailed: if there is none to be had.
        """
        ...

    async def leave(self, server: AppServer) -> None:
        """The opposite of `join`; the last one out ends the process."""
        ...

    def holder(self, thread_id: str) -> Owner | None:
        """The process outside Ekiden that holds a thread, where that can be seen."""
        ...


def _tool_server(tools: ToolServer) -> Record:
    """One MCP server of a thread's own, beside those that the person has configured."""
    return {
        "command": tools.command,
        "args": list(tools.arguments),
        "env": dict(tools.environment),
        "default_tools_approval_mode": "approve",
    }


class CodexRuntime:
    """One owned thread. See `ekiden.vendors.port.Runtime`."""

    def __init__(self, begin: Begin, environment: Environment, servers: Servers) -> None:
        self.native_id = begin.resume
        self.pid = 0
        self._begin = begin
        self._environment = environment
        self._servers = servers
        self._server: AppServer | None = None
        self._turn = ""
        self._turn_before = ""
        """The newest turn that has ended: what is still told of it does not begin it again."""
        self._starting = False
        self._stop_at_start = False
        self._queue: deque[tuple[str, str]] = deque()
        self._sent: OrderedDict[str, None] = OrderedDict()
        self._growing: OrderedDict[str, Growing] = OrderedDict()
        self._running_commands: dict[str, str] = {}
        self._file_diffs: dict[str, str] = {}
        self._agents: set[str] = set()
        self._questions: dict[str, Question] = {}
        self._failure = ""
        self._approval_policy: object = None
        self._events: deque[RuntimeEvent] = deque()
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = False
        self._closing: asyncio.Task[None] | None = None

    # The port

    async def start(self) -> None:
        """Joins an app-server and starts, resumes or forks the thread."""
        server = self._server = await self._servers.join(self._environment)
        self.pid = server.pid
        begin = self._begin
        params: Record = {"cwd": str(begin.cwd)} if begin.cwd.is_dir() else {}
        if begin.model:
            params["model"] = begin.model
        if begin.tools is not None:
            params["config"] = {f"mcp_servers.{begin.tools.name}": _tool_server(begin.tools)}
        method = "thread/start"
        if begin.resume:
            method, params = "thread/resume", params | {"threadId": begin.resume, "excludeTurns": True}
        elif begin.fork_of:
            method, params = "thread/fork", params | {"threadId": begin.fork_of, "excludeTurns": True}
        try:
            answer = await server.request(method, params, within_s=RUNTIME_START_S, on_answer=self._joined)
            if begin.resume or begin.fork_of:
                self._approval_policy = await self._policy_with_a_person(server, answer)
        except Refused as refusal:
            await self._abandon(server)
            if _HELD in refusal.message:
                raise self._held() from None
            raise VendorFailed(f"Codex refused: {refusal.message}", vendor="codex", said=refusal.message) from None
        except BaseException:
            await self._abandon(server)
            raise

    async def _policy_with_a_person(self, server: AppServer, answer: Record) -> object:
        """The approval policy to give the turns of a thread that `codex exec` made, None to leave it alone.

        Such a thread keeps `never`, since nobody was there to ask. Here somebody is: what the person's
        configuration says holds again, or Codex's own `on-request` where it says nothing. Whoever configured
        `never` keeps it.
        """
        if answer.get("approvalPolicy") != "never":
            return None
        configured = record((await server.request("config/read", {})).get("config")).get("approval_policy")
        return configured or "on-request"

    async def _abandon(self, server: AppServer) -> None:
        self._server = None
        await self._servers.leave(server)

    def _held(self) -> HeldElsewhere:
        owner = self._servers.holder(self._begin.resume)
        return HeldElsewhere(
            "Another Codex process holds this session.",
            hint="Close it there, or fork the session.",
            who=owner.program if owner else "Codex",
            pid=owner.pid if owner else None,
            since=iso(owner.started_at) if owner else None,
            instead=["fork", "quote"],
        )

    async def events(self) -> AsyncIterator[RuntimeEvent]:
        """All events in order; ends after `Ended`."""
        while True:
            while self._events:
                event = self._events.popleft()
                yield event
                if isinstance(event, Ended):
                    return
            self._news.clear()
            await self._news.wait()

    async def send(self, message_id: str, text: str, *, steer: bool = False) -> None:
        """Starts a turn with this message, steers the running one with it, or keeps it for the next.

        Raises:
            TooMany: if too many messages wait already.
            VendorFailed: if Codex did not take it; it can be sent again.
        """
        if message_id in self._sent:
            return
        if self._over:
            raise VendorFailed("This session's Codex has ended.", vendor="codex")
        if len(self._queue) >= CODEX_QUEUE_MESSAGES_MAX:
            raise TooMany("Too many messages wait in this session.", max=CODEX_QUEUE_MESSAGES_MAX)
        self._remember(message_id)
        busy = bool(self._turn) or self._starting or bool(self._queue)
        if not busy:
            try:
                await self._begin_turn(message_id, text, how="new_turn")
            except EkidenError:
                self._sent.pop(message_id, None)
                raise
        elif not (steer and self._turn and await self._steer(message_id, text)):
            self._queue.append((message_id, text))
            self._go_on()

    async def interrupt(self) -> None:
        """Asks the running turn to stop."""
        if self._turn:
            await self._stop(self._turn)
        elif self._starting:
            self._stop_at_start = True

    async def decide(
        self, native_id: str, option_id: str, *, message: str = "", answers: msgspec.Raw | None = None
    ) -> bool:
        """Answers a question. Codex takes no words with a denial, so a `message` steers the turn that goes on.

        Raises:
            Invalid: if the option was not offered.
        """
        question = self._questions.get(native_id)
        if question is None or self._server is None:
            return False
        result = result_for(question, option_id, answers)
        del self._questions[native_id]
        self._server.answer(question.request_id, result)
        if message and option_id == "decline" and self._turn:
            with contextlib.suppress(EkidenError):
                await self._server.request("turn/steer", self._input("", message) | {"expectedTurnId": self._turn})
        return True

    async def close(self) -> None:
        """Stops the running turn, lets the thread go, and ends the app-server if no other thread is on it. Once
        begun it goes through, whether or not the caller still waits; a second call waits for the first."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        server = self._server
        if server is None:
            self._end(None, "")
            return
        if self._over:  # the process has ended by itself
            await self._servers.leave(server)
            return
        self._queue.clear()
        try:
            if server.alive and (self._turn or self._starting):
                with contextlib.suppress(EkidenError, TimeoutError):
                    await self.interrupt()
                    async with asyncio.timeout(INTERRUPT_S):
                        await self._idle.wait()
            for thread in (self.native_id, *self._agents):
                server.leave(thread, self)
            if server.alive:
                with contextlib.suppress(EkidenError):
                    await server.request("thread/unsubscribe", {"threadId": self.native_id}, within_s=INTERRUPT_S)
            for task in list(self._tasks):
                task.cancel()
            await self._servers.leave(server)
        finally:
            self._end(0, "")

    # What the app-server says

    def heard(self, method: str, params: Record) -> None:
        """A notification about this thread, or about a sub-agent's, of which only questions concern a person."""
        if method == "serverRequest/resolved":
            self._resolved(params.get("requestId"))
        if method in ("item/started", "item/completed"):
            self._agents_of(record(params.get("item")))
        if text_of(params.get("threadId")) not in ("", self.native_id):
            return
        if method in _DELTAS:
            self._grew(method, params)
        elif method == "item/reasoning/summaryPartAdded":
            if params.get("summaryIndex") not in (0, None):
                self._grow(text_of(params.get("itemId")), ItemKind.THOUGHT, "\n", params)
        elif method == "item/started":
            self._item_started(record(params.get("item")), params)
        elif method == "item/completed":
            item = text_of(record(params.get("item")).get("id"))
            self._growing.pop(item, None)
            self._running_commands.pop(item, None)
        elif method == "turn/started":
            self._turn_begun(text_of(record(params.get("turn")).get("id")))
        elif method == "turn/completed":
            self._turn_over(record(params.get("turn")))
        elif method == "error" and not params.get("willRetry"):
            self._failure = text_of(record(params.get("error")).get("message"))

    def asked(self, request_id: int | str, method: str, params: Record) -> bool:
        """A question of this thread's turn, or of a sub-agent that works for it."""
        thread = text_of(params.get("threadId")) or self.native_id
        own = thread == self.native_id
        item = text_of(params.get("itemId"))
        question = question_of(
            request_id,
            method,
            params,
            turn=self._neutral_turn((text_of(params.get("turnId")) if own else "") or self._turn),
            item=item_id(thread, item) if item else "",
            diff=self._file_diffs.get(item, ""),
        )
        if question is None:
            return False
        self._questions[question.asked.native_id] = question
        self._emit(question.asked)
        return True

    def _agents_of(self, item: Record) -> None:
        """Sub-agents that this thread or one of them has started ask through this runtime."""
        agents = [text_of(agent) for agent in listed(item.get("receiverThreadIds"))]
        for agent in (*agents, text_of(item.get("agentThreadId"))):
            if agent and self._server is not None and len(self._agents) < CODEX_AGENTS_MAX:
                self._agents.add(agent)
                self._server.join(agent, self)

    def gone(self, exit_code: int | None, said: str) -> None:
        """The process has ended. What was growing will never be whole."""
        self._drop_growing()
        self._end(exit_code, said)

    # Turns

    def _joined(self, answer: Record) -> None:
        thread = record(answer.get("thread"))
        self.native_id = text_of(thread.get("id"))
        assert self._server is not None
        self._server.join(self.native_id, self)
        for message_id in arrived_messages(text_of(thread.get("path"))):
            self._remember(message_id)

    def _remember(self, message_id: str) -> None:
        self._sent[message_id] = None
        while len(self._sent) > MESSAGES_REMEMBERED_MAX:
            self._sent.popitem(last=False)

    async def _begin_turn(self, message_id: str, text: str, *, how: str) -> None:
        assert self._server is not None
        self._starting = True
        self._idle.clear()

        def begun(answer: Record) -> None:
            native = text_of(record(answer.get("turn")).get("id"))
            self._emit(Placed(message_id, self._neutral_turn(native), how))
            self._turn_begun(native)

        try:
            policy: Record = {"approvalPolicy": self._approval_policy} if self._approval_policy else {}
            await self._server.request("turn/start", self._input(message_id, text) | policy, on_answer=begun)
        finally:
            self._starting = False
            stop, self._stop_at_start = self._stop_at_start, False
            if not self._turn:
                self._idle.set()
                self._go_on()
        if stop and self._turn:
            await self._stop(self._turn)

    async def _steer(self, message_id: str, text: str) -> bool:
        assert self._server is not None
        turn = self._turn

        def taken(_answer: Record) -> None:
            self._emit(Placed(message_id, self._neutral_turn(turn), "steered"))

        try:
            await self._server.request(
                "turn/steer", self._input(message_id, text) | {"expectedTurnId": turn}, on_answer=taken
            )
        except Refused:
            return False  # the turn ended meanwhile, or is of a kind that cannot be steered
        return True

    def _input(self, message_id: str, text: str) -> Record:
        fields: Record = {"threadId": self.native_id, "input": [{"type": "text", "text": text}]}
        return fields | ({"clientUserMessageId": message_id} if message_id else {})

    async def _stop(self, turn: str) -> None:
        assert self._server is not None
        with contextlib.suppress(Refused):  # it ended by itself meanwhile
            await self._server.request(
                "turn/interrupt", {"threadId": self.native_id, "turnId": turn}, within_s=INTERRUPT_S
            )

    def _turn_begun(self, native: str) -> None:
        if not native or native in (self._turn, self._turn_before):
            return
        self._turn = native
        self._failure = ""
        self._idle.clear()
        self._emit(TurnStarted(self._neutral_turn(native)))

    def _turn_over(self, turn: Record) -> None:
        native = text_of(turn.get("id"))
        outcome = _OUTCOMES.get(text_of(turn.get("status")), "failed")
        reason = text_of(record(turn.get("error")).get("message")) or (
            self._failure if outcome == "failed" else ""
        )
        self._drop_growing()
        for native_id in list(self._questions):
            self._withdraw(native_id, "the turn ended")
        commands = list(self._running_commands.values())
        self._running_commands.clear()
        self._file_diffs.clear()
        ended = TurnEnded(self._neutral_turn(native), outcome, reason)
        if outcome == "interrupted" and commands:
            self._later(self._end_commands(commands, ended))
        else:
            self._turn_told(ended)

    async def _end_commands(self, commands: list[str], ended: TurnEnded) -> None:
        """Codex leaves the commands of an interrupted turn running; they are ended before the turn is told so."""
        assert self._server is not None
        with contextlib.suppress(EkidenError):
            for process_id in commands:
                await self._server.request(
                    "thread/backgroundTerminals/terminate",
                    {"threadId": self.native_id, "processId": process_id},
                    within_s=INTERRUPT_S,
                )
        self._turn_told(ended)

    def _turn_told(self, ended: TurnEnded) -> None:
        self._turn, self._turn_before = "", self._turn
        self._emit(ended)
        self._idle.set()
        self._go_on()

    def _go_on(self) -> None:
        """Starts the next waiting message, if nothing runs."""
        if self._queue and not self._turn and not self._starting and not self._over:
            self._starting = True
            self._later(self._next_turn())

    async def _next_turn(self) -> None:
        message_id, text = self._queue.popleft()
        try:
            await self._begin_turn(message_id, text, how="queued")
        except EkidenError as error:
            self._sent.pop(message_id, None)
            unsent = item_id(self.native_id, f"not_sent {message_id}")
            self._emit(Dropped(not_sent(unsent, text, error.message)))

    # Items

    def _item_started(self, item: Record, params: Record) -> None:
        kind = text_of(item.get("type"))
        native = text_of(item.get("id"))
        if kind in _GROWING_TYPES:
            self._drop_growing()  # a new answer of the model: what was still growing was cut by steering
            self._growing[native] = Growing(_GROWING_TYPES[kind], sane_time(params.get("startedAtMs")))
        elif kind == "commandExecution":
            process_id = text_of(item.get("processId"))
            if process_id:
                self._running_commands[native] = process_id
        elif kind == "fileChange":
            changes = [record(change) for change in listed(item.get("changes"))]
            self._file_diffs[native] = "\n".join(
                f"--- {text_of(change.get('path'))}\n{text_of(change.get('diff'))}" for change in changes
            )

    def _grew(self, method: str, params: Record) -> None:
        self._grow(text_of(params.get("itemId")), _DELTAS[method], text_of(params.get("delta")), params)

    def _grow(self, native: str, kind: ItemKind, text: str, params: Record) -> None:
        if not text:
            return
        growing = self._growing.setdefault(native, Growing(kind, ""))
        growing.add(text)
        turn = self._neutral_turn(text_of(params.get("turnId")) or self._turn)
        last = self._events[-1] if len(self._events) >= CODEX_EVENTS_WAITING_MAX else None
        neutral = item_id(self.native_id, native)
        if isinstance(last, Grew) and last.item_id == neutral:  # nobody reads at the moment: fewer, larger pieces
            self._events[-1] = replace(last, text=last.text + text)
        else:
            self._emit(Grew(turn, neutral, kind, text))

    def _drop_growing(self) -> None:
        """Tells what was seen of items that will never be whole."""
        growing, self._growing = self._growing, OrderedDict()
        for native, seen in growing.items():
            if seen.parts:
                kept = seen.kept(item_id(self.native_id, native), self._neutral_turn(self._turn))
                self._emit(Dropped(kept))

    # Questions

    def _resolved(self, request_id: object) -> None:
        """Codex has its answer; where it was not ours, the question is withdrawn."""
        for native_id, question in list(self._questions.items()):
            if question.request_id == request_id:
                self._withdraw(native_id, "Codex no longer waits for it")

    def _withdraw(self, native_id: str, reason: str) -> None:
        if self._questions.pop(native_id, None) is not None:
            self._emit(Withdrawn(native_id, reason))

    # Events

    def _neutral_turn(self, native: str) -> str:
        return turn_id(self.native_id, native) if native else ""

    def _emit(self, event: RuntimeEvent) -> None:
        if not self._over:
            self._events.append(event)
            self._news.set()

    def _end(self, exit_code: int | None, said: str) -> None:
        if self._over:
            return
        for native_id in list(self._questions):
            self._withdraw(native_id, "Codex has ended")
        self._emit(Ended(exit_code, said))
        self._over = True
        self._turn = ""
        self._idle.set()

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
