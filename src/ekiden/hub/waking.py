"""The ways in which a mention reaches an agent, best first.

Who waits in a call at this moment gets it as the answer. An agent that is a session which Ekiden owns gets a
message queued in that session, in the transaction of the post: it is queued exactly once, or the post did not
happen. What it is told stands in an envelope: that names who speaks with which authority, and nothing in it can be
taken for a word of the session's own user. When the host has placed the message into a turn, the mention has
surfaced.

Whom none of these reaches finds the mention where it looks next: at its next call, or in a person's inbox.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence

import msgspec

from ekiden.hub.bells import Bells
from ekiden.kernel.errors import Conflict, EkidenError, NotFound, TooMany
from ekiden.kernel.ids import Prefix, derived_id
from ekiden.kernel.limits import (
    HANDED_OVER_S,
    HANDED_OVER_WATCHED_MAX,
    WAKE_TEXT_CHARS_MAX,
    WAKINGS_LOOKED_AT_MAX,
)
from ekiden.log.port import Event, Log, Transaction
from ekiden.mcp.envelope import RULE, Envelope, enveloped
from ekiden.relay.calling import not_handed_over, reach_again
from ekiden.relay.keeping import inbox_topic
from ekiden.relay.port import Notice, Waker
from ekiden.relay.receiving import surface
from ekiden.relay.wire import Asks, Delivery, DeliveryState, Way
from ekiden.sessions import verbs as sessions_verbs
from ekiden.sessions.keeping import load_session
from ekiden.sessions.rules import MessageState, refuse_unable
from ekiden.sessions.wire import Message, SendMessage, SessionState

_log = logging.getLogger("ekiden.hub")
_delivery = msgspec.json.Decoder(Delivery).decode
_message = msgspec.json.Decoder(Message).decode
_ASKS = {Asks.ACK: "asks for an ack", Asks.ANSWER: "asks for an answer"}
_WAITING = msgspec.json.encode({"way": Way.WAITING})[1:-1]
_PLACED = (MessageState.PLACED, MessageState.SEEN)


class SessionWaker:
    """Reaches an agent that is a session which Ekiden owns and that can take a message."""

    async def reach(self, tx: Transaction, principal_id: str, kind: str, notice: Notice) -> Way | None:
        """Queues the notice in the agent's session; None if it has none that takes messages now."""
        if kind != "agent":
            return None
        seat = await tx.row("access.seat_of_principal", team_id=tx.team_id, principal_id=principal_id)
        if seat is None or seat["released"]:
            return None
        session = await load_session(tx, seat["session_id"])
        if session is None or session.report.state is SessionState.GONE:
            return None
        message_id = waking_id(notice.message_id, principal_id, notice.why)
        try:
            refuse_unable(session.report, "queue")
            await sessions_verbs.send_message(
                tx,
                session.session_id,
                SendMessage(told(notice), message_id),
                message_id=message_id,
                actor=sessions_verbs.HUB,
            )
        except (Conflict, TooMany, NotFound):
            return None
        return Way.SESSION


class WaitingWaker:
    """Reaches whoever waits at this moment, at this node or another, for what comes to its inbox. It comes first:
    an agent that waits within a turn would not see what is queued for after it."""

    def __init__(self, bells: Bells) -> None:
        self._bells = bells

    async def reach(
        self,
        tx: Transaction,
        principal_id: str,
        kind: str,  # noqa: ARG002 (the port's own shape)
        notice: Notice,  # noqa: ARG002 (the port's own shape)
    ) -> Way | None:
        """Whether somebody waits; the event of the delivery then ends the waiting."""
        return Way.WAITING if self._bells.waits(tx.team_id, inbox_topic(principal_id)) else None


def waking_id(message_id: str, principal_id: str, why: str) -> str:
    """The id of the message in a session that tells of a mention. Derived, so that it is queued once."""
    return derived_id(Prefix.MESSAGE, "waking", message_id, principal_id, why)


def told(notice: Notice) -> str:
    """What the session's agent is told of a mention, or of what nobody answered."""
    notes = [_ASKS[notice.asks]] if notice.asks in _ASKS else []
    text = notice.text
    if notice.encrypted:
        notes.append("encrypted: read it with your ekiden tools")
    elif len(text) > WAKE_TEXT_CHARS_MAX:
        notes.append(f"cut at {WAKE_TEXT_CHARS_MAX} of {len(text)} characters: read it with your ekiden tools")
        text = text[:WAKE_TEXT_CHARS_MAX]
    envelope = Envelope(
        channel=notice.channel,
        number=notice.number,
        message_id=notice.message_id,
        sender=notice.sender,
        authority=notice.authority,
        proof="signature not checked",
        thread_id=notice.thread_id,
        notes=tuple(notes),
    )
    begin = (
        "[Ekiden: nobody answered this in time. It is not a message of your user.]"
        if notice.why == "expired"
        else "[Ekiden: you are mentioned in a channel. This is not a message of your user.]"
    )
    return (
        f"{begin}\n{enveloped(envelope, text)}\n[Ekiden: {RULE} Answer with your ekiden tools, if it needs one.]"
    )


class Surfacing:
    """Follows the log: when a session's host has placed what tells of a mention, the mention has surfaced."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop = log.follow(self.note)

    def note(self, team_id: str, events: Sequence[Event]) -> None:
        """Newly committed events."""
        for event in events:
            if event.kind == "message.changed" and event.topics[0].startswith("session:"):
                message = _message(event.body)
                if message.state in _PLACED and message.sent_by_id == sessions_verbs.HUB.principal_id:
                    task = asyncio.ensure_future(self._surfaced(team_id, message))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)

    async def _surfaced(self, team_id: str, message: Message) -> None:
        async def verb(tx: Transaction) -> None:
            seat = await tx.row("access.seat_of_session", team_id=team_id, session_id=message.session_id)
            if seat is None:
                return
            principal_id = seat["principal_id"]
            rows = await tx.rows(
                "hub.deliveries_by_session",
                team_id=team_id,
                principal_id=principal_id,
                most=WAKINGS_LOOKED_AT_MAX,
            )
            for row in rows:
                if waking_id(row["message_id"], principal_id, "mention") == message.message_id:
                    await surface(tx, principal_id, [row["message_id"]])

        try:
            await self._log.write(team_id, verb)
        except EkidenError as error:
            _log.warning("That a mention reached a session was not noted: %s", error.code)

    async def close(self) -> None:
        """Follows no longer; finishes what was begun."""
        self._stop()
        await asyncio.gather(*self._tasks)


class HandedOver:
    """Follows the log: a mention that was to be handed over to an agent that waits, and was in no answer
    `HANDED_OVER_S` later, is queued in the agent's session. Its waiting was over, or was known here only by a hint
    that had grown old. Every node looks after it, and the first one does it."""

    def __init__(self, log: Log, waker: Waker) -> None:
        self._log = log
        self._waker = waker
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()
        self._stop = log.follow(self.note)

    def note(self, team_id: str, events: Sequence[Event]) -> None:
        """Newly committed events."""
        for event in events:
            if event.kind != "delivery.changed" or _WAITING not in event.body:
                continue
            delivery = _delivery(event.body)
            if (delivery.way, delivery.state, delivery.why) != (Way.WAITING, DeliveryState.STORED, ""):
                continue
            if len(self._tasks) >= HANDED_OVER_WATCHED_MAX:
                _log.warning("Too many mentions are handed over at once to look after each.")
                return
            task = asyncio.ensure_future(self._look_after(team_id, delivery))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _look_after(self, team_id: str, delivery: Delivery) -> None:
        async def verb(tx: Transaction) -> None:
            await reach_again(tx, delivery.principal_id, "agent", delivery.message_id, self._waker)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HANDED_OVER_S):
                await self._closing.wait()
        try:
            if await self._log.ask(team_id, lambda reading: not_handed_over(reading, delivery)):
                await self._log.write(team_id, verb)
        except EkidenError as error:
            _log.warning("A mention was not brought another way: %s", error.code)

    async def close(self) -> None:
        """Follows no longer; looks at once after what it was to look after."""
        self._stop()
        self._closing.set()
        await asyncio.gather(*self._tasks)
