"""People's messages on their way from the hub into a runtime: in order, each once.

A message waits here until no turn runs. It is recorded before it is handed over; one whose outcome a crash left
open is looked for in the session's file, and fails openly if it is not there: it is never repeated.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Coroutine
from typing import Any, Protocol

from ekiden.host.catalogue import Catalogue
from ekiden.host.outbox import Outbox
from ekiden.host.owned import Owned
from ekiden.host.sessions import Tracked
from ekiden.host.store import Store
from ekiden.kernel.errors import EkidenError
from ekiden.kernel.limits import MESSAGES_REMEMBERED_MAX, PLACINGS_KEPT_MAX
from ekiden.sessions.wire import FeedMessage, Message

_SETTLED = frozenset({"placed", "failed"})


class Owner(Protocol):
    """What placing needs of the supervisor."""

    closing: bool

    def owned(self, session_id: str) -> Owned | None: ...
    async def own(self, tracked: Tracked) -> Owned: ...
    async def survivors_gone(self, session_id: str) -> None: ...
    def texts_of(self, tracked: Tracked) -> list[str]: ...
    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[Any]: ...


class Placing:
    """The queues of all owned sessions."""

    def __init__(self, owner: Owner, *, catalogue: Catalogue, outbox: Outbox, store: Store) -> None:
        self._owner = owner
        self._catalogue = catalogue
        self._outbox = outbox
        self._store = store
        self._queues: dict[str, deque[Message]] = {}
        self._known: OrderedDict[str, None] = OrderedDict()
        self._workers: dict[str, asyncio.Task[None]] = {}

    def waits(self, session_id: str) -> bool:
        """Whether a message waits for this session."""
        return bool(self._queues.get(session_id))

    def take(self, message: Message) -> None:
        """A stored message. Told twice, it is taken once."""
        if message.state != "stored":
            if message.state == "cancelled":
                self._cancel(message)
            return
        if message.message_id in self._known:
            return
        self._known[message.message_id] = None
        while len(self._known) > MESSAGES_REMEMBERED_MAX:
            self._known.popitem(last=False)
        owned = self._owner.owned(message.session_id)
        if message.steer and owned is not None and owned.turn_id:
            self._owner.spawn(self._hand_over(message), "steering a turn")
            return
        self._queues.setdefault(message.session_id, deque()).append(message)
        worker = self._workers.get(message.session_id)
        if worker is None or worker.done():
            self._workers[message.session_id] = self._owner.spawn(
                self._work(message.session_id), "placing messages"
            )

    def _cancel(self, message: Message) -> None:
        queue = self._queues.get(message.session_id)
        if queue is not None:
            waiting = [one for one in queue if one.message_id != message.message_id]
            queue.clear()
            queue.extend(waiting)

    async def _work(self, session_id: str) -> None:
        """Hands over a session's messages, one after the other."""
        queue = self._queues[session_id]
        while queue:
            owned = self._owner.owned(session_id)
            if owned is not None:
                await owned.idle.wait()
            if self._owner.closing:
                return  # what waits is stored at the hub, and placed after the next start
            if queue:
                await self._hand_over(queue.popleft())

    async def _hand_over(self, message: Message) -> None:
        before = await asyncio.to_thread(
            self._store.read, lambda connection: _placing(connection, message.message_id)
        )
        if before is not None:
            await self._tell_outcome(message, *before)
            return
        tracked = self._catalogue.by_id.get(message.session_id)
        if tracked is None or tracked.ownership is None:
            await self._settle(message, "failed", "Ekiden does not own this session; continue it here first.")
            return
        if tracked.ownership.foreign:
            await self._settle(message, "failed", tracked.ownership.foreign)
            return
        try:
            owned = await self._owner.own(tracked)
        except EkidenError as error:
            if not self._owner.closing:
                await self._settle(message, "failed", error.message)
            return
        steer = message.steer and bool(owned.turn_id)
        if not steer:
            await owned.idle.wait()
        await self._note(message, "placing", "")
        try:
            await owned.place(message.message_id, message.text, steer=steer)
        except (EkidenError, TimeoutError) as error:
            said = error.message if isinstance(error, EkidenError) else str(error)
            await self._settle(message, "failed", said or "Its program did not say that it took the message.")
            return
        await self._note(message, "placed", "")

    async def _note(self, message: Message, state: str, reason: str) -> None:
        def work(connection: Any) -> None:
            connection.execute(
                "INSERT OR REPLACE INTO placings (message_id, session_id, state, reason) VALUES (?, ?, ?, ?)",
                (message.message_id, message.session_id, state, reason),
            )
            # The hub tells again only what it has not heard to be placed or failed: the oldest are settled there.
            connection.execute(
                "DELETE FROM placings WHERE state <> 'placing' AND rowid <= (SELECT MAX(rowid) FROM placings) - ?",
                (PLACINGS_KEPT_MAX,),
            )

        await self._store.wrote(work)

    async def _settle(self, message: Message, state: str, reason: str) -> None:
        await self._note(message, state, reason)
        self._outbox.put(FeedMessage(message.message_id, state, reason=reason))

    async def _tell_outcome(self, message: Message, state: str, reason: str) -> None:
        """A message that was recorded before: its outcome is told again, or found out."""
        if state in _SETTLED:
            self._outbox.put(FeedMessage(message.message_id, state, reason=reason))
            return
        await self._owner.survivors_gone(message.session_id)
        tracked = self._catalogue.by_id.get(message.session_id)
        texts = (
            await asyncio.to_thread(self._owner.texts_of, tracked) if tracked is not None and tracked.row else []
        )
        if " ".join(message.text.split()) in {" ".join(text.split()) for text in texts}:
            await self._note(message, "placed", "")
            self._outbox.put(FeedMessage(message.message_id, "seen"))
        else:
            await self._settle(
                message,
                "failed",
                "Ekiden stopped while it handed this over, and the session's file does not have it.",
            )


def _placing(connection: Any, message_id: str) -> tuple[str, str] | None:
    row = connection.execute("SELECT state, reason FROM placings WHERE message_id = ?", (message_id,)).fetchone()
    return (row[0], row[1]) if row else None
