"""What a host tells, taken in order, in one transaction.

- Items are taken exactly once: an entry must begin at the mark that the hub holds, else it is answered `stale`.
- An entry that cannot be taken is answered `refused`, with the reason, and spoils no other entry.
- A host speaks for its own sessions only. A session of another host is to it what does not exist.
- A report that says nothing new makes no event; a session that several entries change is told once, at the end.
- What only passes by (pieces of growing items) is collected for the door to send after the commit, in order. A
  piece of an item that is whole further on in the same feed is left out: it would come after the whole.
"""

import re
from collections.abc import Sequence
from typing import assert_never

import msgspec

from ekiden.kernel.errors import EkidenError, Invalid, NotFound, TooLarge, TooMany
from ekiden.kernel.ids import Prefix, derived_id
from ekiden.kernel.limits import (
    EVENT_BODY_BYTES_MAX,
    FEED_ENTRIES_MAX,
    HOST_WORD_CHARS_MAX,
    KIB,
    REASON_CHARS_MAX,
    THREADS_PER_SESSION_MAX,
)
from ekiden.log.port import Actor, Transaction
from ekiden.sessions.bounds import fit_approval, split_items
from ekiden.sessions.keeping import (
    KeptHost,
    KeptSession,
    end_approvals,
    load_approval,
    load_host,
    load_message,
    load_session,
    load_turn,
    lose_runtime,
    running_turn,
    session_topic,
    tell_approval,
    tell_counts,
    tell_message,
    tell_session,
    tell_turn,
)
from ekiden.sessions.rules import (
    UNSETTLED,
    ApprovalState,
    MarkFits,
    TurnState,
    decide_ask,
    decide_end,
    decide_mark,
    decide_message,
    decide_turn,
    proven_turn,
)
from ekiden.sessions.wire import (
    FeedAnswer,
    FeedApproval,
    FeedApprovalEnd,
    FeedEntry,
    FeedGrew,
    FeedGrown,
    FeedItems,
    FeedMessage,
    FeedSession,
    FeedTurn,
    Refused,
    Rung,
    SessionState,
    Stale,
)
from ekiden.transcript.items import Item

_PLAIN_WORD = re.compile(r"[A-Za-z0-9_.:\-]+\Z")
_REPORT_BYTES_MAX = EVENT_BODY_BYTES_MAX - 16 * KIB
_encode = msgspec.json.Encoder().encode


class ItemsAdded(msgspec.Struct, frozen=True):
    """Body of `items.added`."""

    session_id: str
    items: tuple[Item, ...]


def _plain(word: str, noun: str) -> str:
    """A host's own id, which ends up in URLs: letters, digits and `_.:-`."""
    if len(word) > HOST_WORD_CHARS_MAX or not _PLAIN_WORD.match(word):
        raise Invalid(f"{word[:40]!r} is not a usable {noun} id.")
    return word


async def take_feed(
    tx: Transaction,
    host_id: str,
    entries: Sequence[FeedEntry],
    *,
    actor: Actor,
    boot_id: str,
    passing: list[FeedGrew | FeedGrown],
) -> FeedAnswer:
    """Takes a feed and answers what was not taken.

    Args:
        boot_id: the hub's, for the answer.
        passing: receives the pieces of growing items that are to be sent once this is committed.

    Raises:
        NotFound: the host has never reported itself.
        TooLarge: more than `FEED_ENTRIES_MAX` entries.
    """
    if len(entries) > FEED_ENTRIES_MAX:
        raise TooLarge(f"A feed has at most {FEED_ENTRIES_MAX} entries.", size=len(entries), max=FEED_ENTRIES_MAX)
    host = await load_host(tx, host_id)
    if host is None:
        raise NotFound(hint="A host reports itself first: PUT /v1/hosts/{host_id}.")
    feed = _Feed(tx, host, actor)
    refused: list[Refused] = []
    grown: list[FeedGrew | FeedGrown] = []
    for index, entry in enumerate(entries):
        try:
            await feed.take(entry, grown)
        except EkidenError as error:
            refused.append(Refused(index=index, code=error.code, message=error.message))
    await feed.finish()
    passing.extend(grown)
    return FeedAnswer(seq=tx.seq, boot_id=boot_id, stale=tuple(feed.stale), refused=tuple(refused))


class _Feed:
    """One feed while it is taken. Each `_take_…` decides before it changes anything."""

    def __init__(self, tx: Transaction, host: KeptHost, actor: Actor) -> None:
        self.stale: list[Stale] = []
        self._tx = tx
        self._host = host
        self._actor = actor
        self._sessions: dict[str, KeptSession] = {}

    async def take(self, entry: FeedEntry, grown: list[FeedGrew | FeedGrown]) -> None:
        match entry:
            case FeedSession():
                await self._take_session(entry)
            case FeedItems():
                await self._take_items(entry)
                whole = {item.id for item in entry.items}
                grown[:] = [
                    piece for piece in grown if piece.session_id != entry.session_id or piece.item_id not in whole
                ]
            case FeedTurn():
                await self._take_turn(entry)
                if entry.state != TurnState.RUNNING:
                    grown[:] = [piece for piece in grown if piece.turn_id != entry.turn_id]
            case FeedGrew() | FeedGrown():
                await self._hear(await self._session(entry.session_id), entry.turn_id)
                grown.append(entry)
            case FeedApproval():
                await self._take_approval(entry)
            case FeedApprovalEnd():
                await self._take_approval_end(entry)
            case FeedMessage():
                await self._take_message(entry)
            case _:
                assert_never(entry)

    async def finish(self) -> None:
        """Tells the sessions that changed and were not told since."""
        for kept in self._sessions.values():
            if kept.changed:
                tell = tell_counts if kept.report is kept.kept_report else tell_session
                await tell(self._tx, kept, self._actor)

    async def _session(self, session_id: str) -> KeptSession:
        kept = self._sessions.get(session_id)
        if kept is None:
            kept = await load_session(self._tx, session_id)
            if kept is None or kept.host_id != self._host.host_id:
                raise NotFound
            self._sessions[session_id] = kept
        return kept

    async def _hear(self, kept: KeptSession, turn_id: str) -> None:
        """A runtime's own word of a turn that counts as lost with its host is the proof that it runs."""
        if kept.report.state is not SessionState.LOST or kept.report.turn_id != turn_id:
            return
        turn = await load_turn(self._tx, kept.session_id, turn_id)
        if turn is not None and turn.state is TurnState.LOST:
            await tell_turn(self._tx, kept, proven_turn(turn), self._actor)

    async def _take_session(self, entry: FeedSession) -> None:
        report = entry.session
        own_id = derived_id(Prefix.SESSION, self._host.host_id, report.vendor, report.native_id)
        if report.session_id != own_id:
            raise NotFound
        if len(_encode(report)) > _REPORT_BYTES_MAX:
            raise TooLarge("The report of a session is too large.", max=_REPORT_BYTES_MAX)
        try:
            kept = await self._session(report.session_id)
        except NotFound:
            host = self._host
            kept = KeptSession(report, host.host_id, host.report.name, host.here, host.seen_at)
            self._sessions[report.session_id] = kept
            await tell_session(self._tx, kept, self._actor)
            return
        if kept.report == report:
            return
        owned_before = kept.report.rung is Rung.OWNED
        kept.report = report
        if owned_before and report.rung is not Rung.OWNED:
            # A host that has started anew, or has let the session go, can answer for no turn of before.
            await lose_runtime(self._tx, kept, "Ekiden no longer drives this session.", self._actor)
            kept.report = report
        await self._refresh_turn(kept)
        await tell_session(self._tx, kept, self._actor)

    async def _refresh_turn(self, kept: KeptSession) -> None:
        """A report of a running turn with newer proof brings back a turn that was lost with its host."""
        report = kept.report
        if report.state not in (SessionState.RUNNING, SessionState.WAITING) or not report.turn_id:
            return
        turn = await load_turn(self._tx, kept.session_id, report.turn_id)
        if turn is None or turn.state is not TurnState.LOST or report.proof_at <= turn.proof_at:
            return
        await self._turn(kept, report.turn_id, TurnState.RUNNING.value, "", report.proof_at)

    async def _take_items(self, entry: FeedItems) -> None:
        kept = await self._session(entry.session_id)
        if len(entry.mark) > HOST_WORD_CHARS_MAX or not entry.mark.isprintable():
            raise Invalid(f"A mark is up to {HOST_WORD_CHARS_MAX} printable characters.")
        if len(entry.thread) > HOST_WORD_CHARS_MAX or not entry.thread.isprintable():
            raise Invalid(f"A thread is named by up to {HOST_WORD_CHARS_MAX} printable characters.")
        held = await self._thread_mark(kept, entry.thread) if entry.thread else kept.mark
        fits = decide_mark(held, entry.after)
        if fits is MarkFits.STALE:
            self.stale.append(Stale(session_id=kept.session_id, mark=held, thread=entry.thread))
            return
        for items in split_items(entry.items):
            self._tx.append(
                "items.added",
                ItemsAdded(kept.session_id, items),
                topics=(session_topic(kept.session_id),),
                actor=self._actor,
            )
        if fits is not MarkFits.TAKE:
            return
        if entry.thread:
            await self._tx.run(
                "sessions.set_thread_mark",
                team_id=self._tx.team_id,
                session_id=kept.session_id,
                thread=entry.thread,
                mark=entry.mark,
            )
        else:
            kept.mark = entry.mark
            await self._tx.run(
                "sessions.set_mark", team_id=self._tx.team_id, session_id=kept.session_id, mark=entry.mark
            )

    async def _thread_mark(self, kept: KeptSession, thread: str) -> str:
        """How far a sub-agent's thread was told; empty for one that is new."""
        tx, session_id = self._tx, kept.session_id
        row = await tx.row("sessions.thread_mark", team_id=tx.team_id, session_id=session_id, thread=thread)
        if row is not None:
            return row["mark"]
        known = await tx.row("sessions.count_threads", team_id=tx.team_id, session_id=session_id)
        if known is not None and known["threads"] >= THREADS_PER_SESSION_MAX:
            raise TooMany("Too many sub-agents of this session are told live.", max=THREADS_PER_SESSION_MAX)
        return ""

    async def _take_turn(self, entry: FeedTurn) -> None:
        kept = await self._session(entry.session_id)
        _plain(entry.turn_id, "turn")
        reason = entry.reason[:REASON_CHARS_MAX]
        await self._turn(kept, entry.turn_id, entry.state, reason, entry.proof_at[:HOST_WORD_CHARS_MAX])

    async def _turn(self, kept: KeptSession, turn_id: str, state: str, reason: str, proof_at: str) -> None:
        known = await load_turn(self._tx, kept.session_id, turn_id)
        running = await running_turn(self._tx, kept.session_id)
        changes = decide_turn(known, running, turn_id, state, reason=reason, proof_at=proof_at)
        for turn in changes:
            await tell_turn(self._tx, kept, turn, self._actor)
        if known is None and changes and state == TurnState.RUNNING:
            # Nothing of an earlier turn, lost or not, waits for an answer any more.
            await end_approvals(
                self._tx,
                kept,
                UNSETTLED,
                ApprovalState.WITHDRAWN,
                "Another turn has begun since.",
                self._actor,
                other_than=turn_id,
            )

    async def _take_approval(self, entry: FeedApproval) -> None:
        asked = entry.approval
        kept = await self._session(asked.session_id)
        _plain(asked.approval_id, "approval")
        if asked.turn_id:
            _plain(asked.turn_id, "turn")
        known = await load_approval(self._tx, asked.approval_id)
        if known is not None and known[1] != self._host.host_id:
            raise NotFound
        whole = decide_ask(
            known[0] if known is not None else None, asked, open_now=kept.approvals_open, at=self._tx.now
        )
        if whole is None:
            return
        fitting = fit_approval(whole)
        await self._hear(kept, asked.turn_id)
        await tell_approval(self._tx, kept, fitting, self._actor)
        kept.approvals_open += 1
        kept.changed = True

    async def _take_approval_end(self, entry: FeedApprovalEnd) -> None:
        known = await load_approval(self._tx, entry.approval_id)
        if known is None or known[1] != self._host.host_id:
            raise NotFound
        kept = await self._session(known[0].session_id)
        ended = decide_end(known[0], entry.state, entry.reason[:REASON_CHARS_MAX])
        if ended is None:
            return
        await tell_approval(self._tx, kept, ended, self._actor)
        if known[0].state == ApprovalState.OPEN:
            kept.approvals_open -= 1
            kept.changed = True

    async def _take_message(self, entry: FeedMessage) -> None:
        known = await load_message(self._tx, entry.message_id)
        if known is None or known[1] != self._host.host_id:
            raise NotFound
        kept = await self._session(known[0].session_id)
        became = decide_message(
            known[0],
            entry.state,
            turn_id=entry.turn_id[:HOST_WORD_CHARS_MAX],
            how=entry.how[:HOST_WORD_CHARS_MAX],
            reason=entry.reason[:REASON_CHARS_MAX],
        )
        if became is not None:
            await tell_message(self._tx, kept, became, known[0], self._actor)
