"""One session that Ekiden owns, while its process is up: its turn, its questions, and how it is stopped.

What the runtime says is told to the hub in order. `interrupted` is told only after everything that the turn had
started was ended, or is named as left over.
"""

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from ekiden.host import copies, processes
from ekiden.host.outbox import Outbox
from ekiden.host.processes import Process
from ekiden.host.sessions import Ownership, Tracked
from ekiden.host.store import Store
from ekiden.kernel import canonical
from ekiden.kernel.clock import iso
from ekiden.kernel.errors import EkidenError
from ekiden.kernel.ids import Prefix, derived_id
from ekiden.kernel.limits import FOREIGN_GRACE_S, INTERRUPT_S, MESSAGES_REMEMBERED_MAX, RUNTIME_START_S
from ekiden.sessions.wire import (
    Approval,
    ApprovalOption,
    FeedApproval,
    FeedApprovalEnd,
    FeedItems,
    FeedMessage,
    FeedTurn,
)
from ekiden.transcript.items import Item, ItemKind, Role
from ekiden.vendors.port import (
    Asked,
    Dropped,
    Ended,
    Grew,
    Placed,
    Runtime,
    RuntimeEvent,
    TurnEnded,
    TurnStarted,
    Withdrawn,
)

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Question:
    """What was asked, under the approval id that people answer."""

    asked: Asked
    approval: Approval
    times: int = 1


class Owned:
    """Drives one runtime that has started. `run` reads its events until it has ended."""

    def __init__(
        self,
        tracked: Tracked,
        runtime: Runtime,
        run_id: str,
        *,
        outbox: Outbox,
        store: Store,
        beside: Callable[["Owned"], list["Owned"]],
        residents: Mapping[int, Process],
        find: Callable[[Tracked], Awaitable[None]],
    ) -> None:
        """`find` looks for the session's file. `beside`: other sessions that the same process drives, so that what
        it has started cannot be told apart by session. `residents`: what its program started with it (servers)."""
        self.tracked = tracked
        self.runtime = runtime
        self.run_id = run_id
        self.turn_id = ""
        self.used_at = time.monotonic()
        self.idle = asyncio.Event()
        """Set while no turn runs and none is being stopped."""
        self.idle.set()
        self.ended = asyncio.Event()
        self._outbox = outbox
        self._store = store
        self._beside = beside
        self._find = find
        self.residents = residents
        self._questions: dict[str, _Question] = {}
        self._placed: dict[str, asyncio.Future[None]] = {}
        self._unseen: list[str] = []
        self._untold: set[str] = set()
        self._texts: OrderedDict[str, None] = OrderedDict()
        self._turn_ticks = 0
        """The moment before which nothing of the turn can have begun."""
        self._interrupting = ""
        self._turn_over = asyncio.Event()
        self._idle_since = time.monotonic()
        self.idle_ticks = 0
        """When its last turn ended, on the clock of processes."""
        self._closing = False
        tracked.ownership = Ownership(pid=runtime.pid)

    @property
    def session_id(self) -> str:
        return self.tracked.session_id

    @property
    def busy(self) -> bool:
        return not self.idle.is_set()

    # Messages

    async def place(self, message_id: str, text: str, *, steer: bool, told: bool = True) -> None:
        """Gives the runtime a message and waits until it says that it has it. `told` is False for one that the
        hub knows nothing of: the text that a session begins with.

        Raises:
            EkidenError, TimeoutError: if that cannot be known.
        """
        self.used_at = time.monotonic()
        if not steer:
            self._turn_ticks = processes.ticks_now()
            self.idle.clear()
        self._texts[_plain(text)] = None
        while len(self._texts) > MESSAGES_REMEMBERED_MAX:
            self._texts.popitem(last=False)
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._placed[message_id] = taken
        if not told:
            self._untold.add(message_id)
        try:
            await self.runtime.send(message_id, text, steer=steer)
            await asyncio.wait_for(taken, RUNTIME_START_S)
        except BaseException:
            if not self.turn_id:
                self._now_idle()
            raise
        finally:
            self._placed.pop(message_id, None)

    # Questions

    async def decide(self, answer: Approval) -> None:
        """Takes a person's answer to the runtime, if it is for what was asked."""
        question = next(
            (one for one in self._questions.values() if one.approval.approval_id == answer.approval_id), None
        )
        if question is None:
            self._outbox.put(
                FeedApprovalEnd(answer.approval_id, "withdrawn", "The session no longer waits for this answer.")
            )
            return
        if answer.digest != question.approval.digest:
            self._outbox.put(
                FeedApprovalEnd(
                    answer.approval_id, "withdrawn", "The answer was for something else than was asked."
                )
            )
            return
        self._take_back(question)
        answers = None if bytes(answer.answers) == b"null" else answer.answers
        try:
            taken = await self.runtime.decide(
                question.asked.native_id, answer.answer, message=answer.message, answers=answers
            )
        except EkidenError as error:
            self._tell_end(answer.approval_id, "withdrawn", error.message)
            return
        state, reason = ("settled", "") if taken else ("withdrawn", "The session no longer waited for the answer.")
        self._tell_end(answer.approval_id, state, reason)

    def _ask(self, asked: Asked, times: int = 1) -> None:
        approval_id = derived_id(Prefix.APPROVAL, self.session_id, self.run_id, asked.native_id, str(times))
        options = tuple(ApprovalOption(option.id, option.label, option.kind.value) for option in asked.options)
        approval = Approval(
            approval_id=approval_id,
            session_id=self.session_id,
            turn_id=asked.turn_id,
            question=asked.question,
            title=asked.title,
            tool=asked.tool,
            detail=asked.detail,
            command=asked.command,
            cwd=asked.cwd,
            diff=asked.diff,
            options=options,
            item_id=asked.item_id,
            digest=canonical.digest(
                [
                    asked.question,
                    asked.title,
                    asked.tool,
                    asked.detail,
                    asked.command,
                    asked.cwd,
                    asked.diff,
                    options,
                ]
            ),
            asked_at=iso(time.time()),
        )
        self._questions[asked.native_id] = _Question(asked, approval, times)
        session_id = self.session_id
        self._store.write(
            lambda connection: connection.execute(
                "INSERT OR IGNORE INTO asked (approval_id, session_id) VALUES (?, ?)", (approval_id, session_id)
            )
        )
        self._outbox.put(FeedApproval(approval))
        self._show()

    def _take_back(self, question: _Question) -> None:
        self._questions.pop(question.asked.native_id, None)
        self._show()

    def _withdraw(self, question: _Question, reason: str) -> None:
        self._take_back(question)
        self._tell_end(question.approval.approval_id, "withdrawn", reason)

    def _tell_end(self, approval_id: str, state: str, reason: str) -> None:
        self._outbox.put(
            FeedApprovalEnd(approval_id, state, reason), lambda: forget_asked(self._store, approval_id)
        )

    def ask_again(self, approval_id: str = "") -> None:
        """The hub no longer knows whether this waits (it had lost this computer), or, with no id, may not know of
        anything: what still waits is asked under a new id."""
        for question in list(self._questions.values()):
            if not approval_id or question.approval.approval_id == approval_id:
                self._withdraw(question, "It is asked again.")
                self._ask(question.asked, question.times + 1)

    def prove(self) -> None:
        """Tells the hub that the turn still runs."""
        if self.turn_id:
            self._outbox.put(FeedTurn(self.session_id, self.turn_id, "running", "", iso(time.time())))

    # Stopping

    async def interrupt(self, turn_id: str) -> None:
        """Stops the turn that the person saw, with everything that it has started. Nothing if it has ended."""
        if self.turn_id != turn_id or self._interrupting == turn_id:
            return
        self._interrupting = turn_id
        self._turn_over.clear()
        try:
            await self.runtime.interrupt()
            await asyncio.wait_for(self._turn_over.wait(), INTERRUPT_S)
        except (EkidenError, TimeoutError) as error:
            if self.turn_id == turn_id:
                _log.warning("A turn did not stop when asked (%s); its program is ended.", error)
                await self.close()

    async def _end_started(self) -> str:
        """Ends what the turn has started; returns a sentence about what is left over."""
        ticks, beside = self._turn_ticks, self._beside(self)
        kept = {pid: process for owned in (self, *beside) for pid, process in owned.residents.items()}
        busy_beside = any(other.busy or other.idle_ticks > ticks for other in beside)

        def started() -> dict[int, Process]:
            found = processes.of_run(self.run_id, self.runtime.pid)
            # The tools are the session's, also where its program starts them only within the first turn.
            tools = {pid: process for pid, process in found.items() if processes.serves_tools(pid)}
            return processes.begun_since(ticks, found, {**kept, **tools})

        if busy_beside:
            left = list((await asyncio.to_thread(started)).values())
        else:
            left = await asyncio.to_thread(processes.end_all, started)
        if self.tracked.cwd or self.tracked.facts.cwd:
            folder = Path(self.tracked.cwd or self.tracked.facts.cwd)
            left += await asyncio.to_thread(processes.strays, ticks, folder)
        if not left:
            return ""
        return f"Left over: {', '.join(process.name for process in left[:10])}."

    async def close(self) -> None:
        """Ends the process and everything of its run."""
        self._closing = True
        with contextlib.suppress(EkidenError, TimeoutError):
            await asyncio.wait_for(self.runtime.close(), RUNTIME_START_S)
        if not self._beside(self):
            await asyncio.to_thread(processes.end_all, lambda: processes.of_run(self.run_id))
        await self.ended.wait()

    # What the runtime says

    async def run(self) -> None:
        """Reads events until the runtime has ended."""
        ended = Ended(None)
        try:
            async for event in self.runtime.events():
                if isinstance(event, Ended):
                    ended = event
                    break
                await self._take(event)
        except EkidenError as error:
            ended = Ended(None, error.message)
        except Exception:
            _log.exception("Reading what the program of a session says has failed.")
            ended = Ended(None, "What it said could not be read.")
        finally:
            await self._over(ended)

    async def _take(self, event: RuntimeEvent) -> None:
        self.used_at = time.monotonic()
        if self.tracked.row is None and isinstance(event, TurnStarted | Placed | TurnEnded):
            # A new session's file is told from its first line, also where nobody tells that it was made.
            await self._find(self.tracked)
        match event:
            case TurnStarted():
                self._turn_started(event.turn_id)
            case TurnEnded():
                await self._turn_ended(event)
            case Grew():
                self._seen()
                self._outbox.grow(self.session_id, event.turn_id, event.item_id, event.kind, event.text)
            case Dropped():
                await self._dropped(event.item)
            case Asked():
                self._seen()
                self._ask(event)
            case Withdrawn():
                question = self._questions.get(event.native_id)
                if question is not None:
                    self._withdraw(question, event.reason)
            case Placed():
                self._was_placed(event)
            case Ended():
                pass
            case _:
                assert_never(event)

    def _turn_started(self, turn_id: str) -> None:
        if self.turn_id == turn_id:
            return
        self.turn_id = turn_id
        self.idle.clear()
        self._remember_turn(turn_id)
        self._outbox.put(FeedTurn(self.session_id, turn_id, "running", "", iso(time.time())))
        self._show()

    async def _turn_ended(self, event: TurnEnded) -> None:
        reason = event.reason
        if event.outcome == "completed":
            self._seen()
        elif event.outcome == "interrupted" or self._interrupting:
            left = await self._end_started()
            reason = " ".join(part for part in (reason, left) if part)
        self._end_turn(event.turn_id, event.outcome, reason)

    def _end_turn(self, turn_id: str, outcome: str, reason: str) -> None:
        for question in list(self._questions.values()):
            if question.asked.turn_id == turn_id:
                self._withdraw(question, "The turn has ended.")
        self._outbox.grew_file(self.tracked)
        self._outbox.put(
            FeedTurn(self.session_id, turn_id, outcome, reason, iso(time.time())),
            lambda: forget_turn(self._store, self.tracked, turn_id),
        )
        self._interrupting = ""
        self._turn_over.set()
        self.turn_id = ""
        self._now_idle()
        self._show()

    def _now_idle(self) -> None:
        self._idle_since = time.monotonic()
        self.idle_ticks = processes.ticks_now()
        self.idle.set()

    def _remember_turn(self, turn_id: str) -> None:
        vendor, native_id = self.tracked.vendor.name, self.tracked.native_id
        self._store.write(
            lambda connection: connection.execute(
                "UPDATE owned SET turn_id = ? WHERE vendor = ? AND native_id = ?", (turn_id, vendor, native_id)
            )
        )

    async def _dropped(self, item: Item) -> None:
        self._outbox.finish(self.session_id, item.id)
        tracked = self.tracked
        position = tracked.tail.size if tracked.tail is not None else (tracked.row.size if tracked.row else 0)
        vendor, native_id = tracked.vendor.name, tracked.native_id
        await self._store.wrote(
            lambda connection: copies.keep_dropped(connection, vendor, native_id, item, position)
        )
        self._outbox.put(FeedItems(self.session_id, (item,), "*", tracked.hub_mark))

    def _was_placed(self, event: Placed) -> None:
        if event.message_id not in self._untold:
            self._outbox.put(FeedMessage(event.message_id, "placed", event.turn_id, event.how))
            self._unseen.append(event.message_id)
        taken = self._placed.get(event.message_id)
        if taken is not None and not taken.done():
            taken.set_result(None)

    def _seen(self) -> None:
        """The model answers: it has what was placed."""
        for message_id in self._unseen:
            self._outbox.put(FeedMessage(message_id, "seen"))
        self._unseen.clear()

    async def _over(self, ended: Ended) -> None:
        reason = "Its program was ended." if self._closing else f"Its program ended (exit code {ended.exit_code})."
        if ended.said and not self._closing:
            reason = f"{reason} It said: {ended.said[-500:]}"
        if not self._beside(self):
            left = await asyncio.to_thread(processes.end_all, lambda: processes.of_run(self.run_id))
            if left:
                reason = f"{reason} Left over: {', '.join(process.name for process in left[:10])}."
        for taken in self._placed.values():
            if not taken.done():
                taken.set_exception(TimeoutError(reason))
        if self.turn_id:
            self._end_turn(self.turn_id, "interrupted" if self._interrupting else "failed", reason)
        for question in list(self._questions.values()):
            self._withdraw(question, reason)
        run_id = self.run_id
        self._store.write(
            lambda connection: connection.execute("UPDATE runs SET ended = 1 WHERE run_id = ?", (run_id,))
        )
        self.tracked.over_at = time.time()
        if self.tracked.ownership is not None:
            self.tracked.ownership.pid = 0
        self._now_idle()
        self.ended.set()
        self._show()

    def _show(self) -> None:
        ownership = self.tracked.ownership
        if ownership is not None:
            ownership.turn_id = self.turn_id
            ownership.asks = bool(self._questions)
        self._outbox.changed(self.tracked)

    # Other writers

    def not_ours(self, items: list[Item]) -> str:
        """Why items that came into the file are not from us; empty if they may be.

        A person's message that we have not sent, while no turn of ours runs, was written by somebody else. What a
        program writes of itself at such a time (titles, accounts) is no sign.
        """
        if self.busy or time.monotonic() - self._idle_since < FOREIGN_GRACE_S:
            return ""
        for item in items:
            if item.kind is ItemKind.MESSAGE and item.role is Role.USER and not (item.injected or item.thread):
                text = _plain(item.text())
                if text and text not in self._texts:
                    return "Another program has written to this session's file."
        return ""

    def know_texts(self, texts: list[str]) -> None:
        """Texts that are in the file from before."""
        for text in texts:
            self._texts[_plain(text)] = None


def forget_turn(store: Store, tracked: Tracked, turn_id: str) -> None:
    """The hub knows how the turn ended."""
    vendor, native_id = tracked.vendor.name, tracked.native_id
    store.write(
        lambda connection: connection.execute(
            "UPDATE owned SET turn_id = '' WHERE vendor = ? AND native_id = ? AND turn_id = ?",
            (vendor, native_id, turn_id),
        )
    )


def forget_asked(store: Store, approval_id: str) -> None:
    """The hub knows that a question no longer waits."""
    store.write(lambda connection: connection.execute("DELETE FROM asked WHERE approval_id = ?", (approval_id,)))


def _plain(text: str) -> str:
    return " ".join(text.split())
