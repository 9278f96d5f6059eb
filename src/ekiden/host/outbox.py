"""What the host tells the hub: one ordered pipeline, one batch at a time.

What accumulates while a batch is on its way is told together in the next one: a session's newest report, what
was appended to its file, the pieces of a growing item as one piece. So a slow or absent hub costs no memory:
reports and growth are made from the present state when their turn comes, and only the words of our own runtimes
wait in a bounded queue.

A batch keeps its bytes and its Command-Id until the hub has answered, however often it must be sent, so it has
its effect once. Batches and the pieces of growing items are cut by their encoded size, so that each fits the door.
An entry that the hub takes in no form is found, left out and announced; what is behind it goes on. Growth carries
the mark that the hub must hold; where it does not fit (`stale`) reading goes on from the hub's mark.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from ekiden.client.client import Client
from ekiden.host.batch import Batch, nothing
from ekiden.host.catalogue import Catalogue
from ekiden.host.growing import Growing, ItemKey
from ekiden.host.sessions import Followed, Tracked, digests, with_parent
from ekiden.host.store import Store, put_told
from ekiden.kernel.errors import (
    EkidenError,
    Forbidden,
    Invalid,
    NotFound,
    StoreNewer,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from ekiden.kernel.ids import Prefix, new_id
from ekiden.kernel.limits import (
    FEED_BYTES_MAX,
    FEED_RETRY_S,
    FEED_RETRY_S_MAX,
    OUTBOX_ENTRIES_MAX,
    REQUEST_BODY_BYTES_MAX,
)
from ekiden.sessions.wire import (
    Feed,
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
    SessionReport,
)
from ekiden.transcript.items import Item, ItemKind, ToolState

_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode
_VOLATILE_S = 2.0
_STILL_GROWING = (ToolState.PENDING, ToolState.RUNNING)
"""A tool's call stands in the file before its output has ended."""
_FINAL = (Unauthenticated, Forbidden, NotFound, StoreNewer)

FileKey = tuple[str, str]
"""(session id, thread)"""
REFUSED = "feed_refused"
"""A session's notice: the hub would not take something of it."""


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of one of our own runtimes, and what follows once the hub has it."""

    entry: FeedEntry
    then: Callable[[], None]


@dataclass(frozen=True, slots=True)
class _Grown:
    """A place in the queue for all that waits of a growing item; `anew` tells the whole again."""

    key: ItemKey
    anew: bool = False


def _session_of(entry: FeedEntry) -> str:
    match entry:
        case FeedSession():
            return entry.session.session_id
        case FeedApproval():
            return entry.approval.session_id
        case FeedApprovalEnd() | FeedMessage():
            return ""
        case FeedItems() | FeedTurn() | FeedGrew() | FeedGrown():
            return entry.session_id


def _file_of(entry: FeedEntry) -> FileKey | None:
    """The file that an entry's items are read from, in order."""
    return (entry.session_id, entry.thread) if isinstance(entry, FeedItems) and entry.after != "*" else None


class Outbox:
    """The pipeline of one host. All methods are called on its event loop; `run` does the telling."""

    def __init__(
        self,
        client: Client,
        host_id: str,
        catalogue: Catalogue,
        store: Store,
        report: Callable[[Tracked], SessionReport],
    ) -> None:
        self._client = client
        self._host_id = host_id
        self._catalogue = catalogue
        self._store = store
        self._report = report
        self._reports: OrderedDict[str, Tracked] = OrderedDict()
        self._volatile: OrderedDict[str, Tracked] = OrderedDict()
        self._due: set[str] = set()
        self._grown: OrderedDict[tuple[str, str], Followed] = OrderedDict()
        self._idle: OrderedDict[str, Tracked] = OrderedDict()
        self._queue: deque[_Word | _Grown] = deque()
        self._growing = Growing()
        self._left_out: dict[FileKey, dict[str, str]] = {}
        """Of each file of which the batch on its way has lost items: the mark behind them -> the one before."""
        self._wake = asyncio.Event()
        self._run_id = new_id(Prefix.COMMAND)
        self._batches = 0
        self._busy = False
        self._boot_id = ""
        self._waiters: dict[str, list[asyncio.Future[None]]] = {}
        self._volatile_timer: asyncio.TimerHandle | None = None
        self.connected = asyncio.Event()
        """Set while the hub has said who it is; nothing is told before."""
        self.dropped = 0
        """Words of our own runtimes that did not fit the queue while the hub was away."""
        self.refused = 0
        """Entries that the hub would not take in any form."""
        self.items_told: Callable[[Tracked, list[Item]], None] = lambda _tracked, _items: None
        """Called with items read from a file, before they are told."""

    # What there is to tell

    def changed(self, tracked: Tracked) -> None:
        """The session's report may differ from what was told last."""
        self._reports[tracked.session_id] = tracked
        self._wake.set()

    def grew_file(self, followed: Followed) -> None:
        """A file of a session has new bytes."""
        self._grown[followed.key] = followed
        self._wake.set()

    def idle_line(self, tracked: Tracked) -> None:
        """The session's file ends in an open line that nobody adds to."""
        self._idle[tracked.session_id] = tracked
        self._wake.set()

    def put(self, entry: FeedEntry, then: Callable[[], None] = nothing) -> None:
        """Adds a word of one of our own runtimes, in order. `then` is called once the hub has taken it: what the
        host forgets only then is told again after a start if it did not come to that."""
        if len(self._queue) >= OUTBOX_ENTRIES_MAX:
            self._drop_oldest()
        self._queue.append(_Word(entry, then))
        self._wake.set()

    def _drop_oldest(self) -> None:
        """Makes room in the queue. The places of growing items stay: what waits there has a bound of its own."""
        for position, word in enumerate(self._queue):
            if isinstance(word, _Word):
                del self._queue[position]
                self.dropped += 1
                return

    def grow(self, session_id: str, turn_id: str, item_id: str, kind: ItemKind, text: str) -> None:
        """Adds a piece to a growing item. What is over `GROWING_TEXT_BYTES_MAX` is dropped, and that is told."""
        key = (session_id, item_id)
        if self._growing.add(key, turn_id, kind, text):
            self._queue.append(_Grown(key))
            self._wake.set()

    def finish(self, session_id: str, item_id: str) -> str:
        """The item is whole now, or will never be: its pieces are forgotten. Returns the text they made."""
        return self._growing.finish((session_id, item_id))

    async def told(self, tracked: Tracked) -> None:
        """Returns once the hub has taken the session's report as it is now."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(tracked.session_id, []).append(future)
        self.changed(tracked)
        await future

    # Telling

    def met(self, boot_id: str) -> None:
        """The hub has said which start of it this is."""
        if self._boot_id and boot_id and boot_id != self._boot_id:
            for key in self._growing:
                self._queue.append(_Grown(key, anew=True))
        self._boot_id = boot_id or self._boot_id
        self.connected.set()
        self._wake.set()

    async def run(self) -> None:
        """Tells until cancelled.

        Raises:
            Unauthenticated, Forbidden, NotFound: if the hub no longer knows this host's key.
        """
        while True:
            await self.connected.wait()
            await self._wake.wait()
            self._wake.clear()
            self._busy = True
            try:
                while batch := await self._batch():
                    await self._deliver(batch)
            finally:
                self._busy = False

    async def _batch(self) -> Batch | None:
        batch = Batch()
        while self._reports and not batch.full:
            _, tracked = self._reports.popitem(last=False)
            self._add_report(batch, tracked)
        while self._grown and not batch.full:
            _, followed = self._grown.popitem(last=False)
            await self._add_growth(batch, followed)
        while self._idle and not batch.full:
            _, tracked = self._idle.popitem(last=False)
            await self._add_idle(batch, tracked)
        while self._queue and not batch.full:
            word = self._queue[0]
            if isinstance(word, _Word) and isinstance(word.entry, FeedTurn) and batch.grows:
                break  # the hub sends pieces on once a feed is stored, so they would come behind their turn's end
            self._queue.popleft()
            if isinstance(word, _Word):
                self._add(batch, word.entry, word.then)
            elif (entry := self._grown_entry(word)) is not None:
                self._add(batch, entry)
        if not batch.entries:
            return None
        return batch

    def _add(self, batch: Batch, entry: FeedEntry, then: Callable[[], None] = nothing) -> None:
        """Adds an entry, or leaves it out if it cannot be written at all."""
        try:
            batch.add(entry, then)
        except (ValueError, TypeError, OverflowError) as error:
            self._refused(entry, Invalid.code, f"It cannot be written ({type(error).__name__}).")
            then()

    def _add_report(self, batch: Batch, tracked: Tracked) -> None:
        """Adds the session's report if it differs from what was told. Sizes and counts, which change with every
        line, wait a little."""
        if not tracked.listed:
            self._release(tracked.session_id)
            return
        report = with_parent(self._report(tracked), tracked, self._catalogue.sessions)
        core, whole = digests(report)
        if (
            not tracked.told_core
            and tracked.known_to_hub
            and tracked.row is not None
            and tracked.row.told == whole
        ):
            tracked.told_core, tracked.told_whole = core, whole
        if whole == tracked.told_whole:
            self._release(tracked.session_id)
            return
        waited = tracked.session_id in self._waiters or tracked.session_id in self._due
        if core == tracked.told_core and not waited:
            self._later(tracked)
            return
        self._due.discard(tracked.session_id)
        batch.add(FeedSession(report))
        batch.reports.append((tracked, core, whole))

    def _later(self, tracked: Tracked) -> None:
        self._volatile[tracked.session_id] = tracked
        if self._volatile_timer is None:
            self._volatile_timer = asyncio.get_running_loop().call_later(_VOLATILE_S, self._volatile_due)

    def _volatile_due(self) -> None:
        self._volatile_timer = None
        self._due.update(self._volatile)
        self._reports.update(self._volatile)
        self._volatile.clear()
        self._wake.set()

    async def _add_growth(self, batch: Batch, followed: Followed) -> None:
        tracked = self._catalogue.by_id[followed.session_id]
        before = followed.hub_mark
        read = await self._catalogue.tails.growth(followed)
        if read is None:
            return
        growth, mark = read
        if not tracked.listed:
            followed.tail = None
            return
        if growth.more:
            self._grown[followed.key] = followed
        if growth.items:
            if not followed.thread:
                self.items_told(tracked, growth.items)
            for item in growth.items:
                if item.tool is None or item.tool.state not in _STILL_GROWING:
                    self.finish(tracked.session_id, item.id)
            self._add_report(batch, tracked)
            followed.hub_mark = mark
            self._add(batch, FeedItems(tracked.session_id, tuple(growth.items), before, mark, followed.thread))

    async def _add_idle(self, batch: Batch, tracked: Tracked) -> None:
        items = await self._catalogue.tails.open_line(tracked)
        if items and tracked.listed:
            self._add(batch, FeedItems(tracked.session_id, tuple(items), "*", tracked.hub_mark))

    def _grown_entry(self, word: _Grown) -> FeedEntry | None:
        """What fits one piece of all that waits; the rest has the next place."""
        entry, more = self._growing.piece(word.key, anew=word.anew)
        if more:
            self._queue.appendleft(_Grown(word.key))
        return entry

    def _command_id(self, body: bytes) -> str:
        self._batches += 1
        return f"{self._run_id}.{self._batches}.{hashlib.sha256(body).hexdigest()[:16]}"

    async def _deliver(self, batch: Batch) -> None:
        """Sends a batch until the hub has answered all of it, in as many parts as that takes."""
        parts = deque([batch])
        while parts:
            parts.extendleft(reversed(await self._deliver_part(parts.popleft())))
        self._left_out.clear()

    async def _deliver_part(self, part: Batch) -> list[Batch]:
        """Sends entries, and returns those that are to be sent again. Entries that are refused together are sent
        in halves until the one at fault is alone: it is left out, and the others are not held up."""
        part.entries = [self._rebased(entry) for entry in part.entries]
        body = _encode(Feed(tuple(part.entries)))
        count = len(part.entries)
        refusal: EkidenError
        if len(body) > REQUEST_BODY_BYTES_MAX or (len(body) > FEED_BYTES_MAX and count > 1):
            refusal = TooLarge("It is larger than a request may be.", size=len(body), max=REQUEST_BODY_BYTES_MAX)
        else:
            try:
                return self._taken(part, await self._send(body, self._command_id(body)))
            except _FINAL:
                raise
            except EkidenError as error:
                refusal = error
        if count > 1:
            return [part.part(0, count // 2), part.part(count // 2, count)]
        self._refused(part.entries[0], refusal.code, refusal.message)
        part.then[0]()
        return []

    def _rebased(self, entry: FeedEntry) -> FeedEntry:
        """Items that were read behind refused ones follow what was taken before those."""
        if isinstance(entry, FeedItems):
            lost, after = self._left_out.get((entry.session_id, entry.thread), {}), entry.after
            while after in lost:
                after = lost[after]
            return msgspec.structs.replace(entry, after=after)
        return entry

    async def _send(self, body: bytes, command_id: str) -> FeedAnswer:
        wait_s = FEED_RETRY_S
        while True:
            try:
                return await self._client.post(
                    f"/v1/hosts/{self._host_id}/feed", body, type=FeedAnswer, command_id=command_id
                )
            except EkidenError as error:
                if not (error.retry_helps or error.status >= 500):
                    raise
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, FEED_RETRY_S_MAX)

    def _taken(self, batch: Batch, answer: FeedAnswer) -> list[Batch]:
        """Notes what the hub has taken, and returns what is to be sent again: items behind refused ones."""
        told: list[tuple[str, int]] = []
        for tracked, core, whole in batch.reports:
            tracked.told_core, tracked.told_whole = core, whole
            tracked.known_to_hub = True
            if tracked.row is not None:
                told.append((whole, tracked.row.id))
            self._release(tracked.session_id)
        for then in batch.then:
            then()
        if told:
            self._store.write(lambda connection: put_told(connection, told))
        again: dict[FileKey, Batch] = {}
        for refused in sorted(answer.refused, key=lambda one: one.index):
            if refused.index >= len(batch.entries):
                continue
            entry = batch.entries[refused.index]
            key = _file_of(entry)
            if key in again:
                continue
            self._refused(entry, refused.code, refused.message)
            if key is not None and key in self._left_out:
                rest = batch.part(refused.index + 1, len(batch.entries))
                behind = [entry for entry in rest.entries if _file_of(entry) == key]
                if behind:
                    again[key] = Batch(behind, [nothing] * len(behind))
        for stale in answer.stale:
            if (stale.session_id, stale.thread) in again:
                continue
            tracked = self._catalogue.by_id.get(stale.session_id)
            if tracked is not None:
                self._catalogue.tails.set_mark(tracked.followed(stale.thread), stale.mark)
        if answer.boot_id and answer.boot_id != self._boot_id:
            self.met(answer.boot_id)
        return list(again.values())

    def _refused(self, entry: FeedEntry, code: str, message: str) -> None:
        """The hub will not take this entry, however often it is told: it is left out, counted for the host's
        report, and named in the session's."""
        self.refused += 1
        _log.warning("The hub refused an entry of the feed (%s, %s): %s", type(entry).__name__, code, message)
        session_id = _session_of(entry)
        tracked = self._catalogue.by_id.get(session_id)
        if isinstance(entry, FeedSession):
            self._release(session_id)
        elif tracked is not None and code != NotFound.code and REFUSED not in tracked.notices:
            tracked.notices.add(REFUSED)
            self.changed(tracked)
        if isinstance(entry, FeedGrew | FeedGrown):
            self.finish(session_id, entry.item_id)  # nothing behind the missing piece would be taken
        if isinstance(entry, FeedItems) and entry.after != "*":
            if tracked is None:
                return
            followed = tracked.followed(entry.thread)
            if code != NotFound.code:
                self._left_out.setdefault(followed.key, {})[entry.mark] = entry.after
            if followed.hub_mark == entry.mark or code == NotFound.code:
                followed.hub_mark = entry.after
            if code == NotFound.code and tracked.known_to_hub:
                tracked.known_to_hub = False
                tracked.told_core = tracked.told_whole = ""
                for file in (tracked, *tracked.threads.values()):
                    self._catalogue.tails.set_mark(file, "")
                self.changed(tracked)
                self.grew_file(followed)
            # else: what was refused is left out, and reading goes on behind it

    def _release(self, session_id: str) -> None:
        for future in self._waiters.pop(session_id, ()):
            if not future.done():
                future.set_result(None)

    async def drained(self, within_s: float) -> bool:
        """Waits until nothing is left to tell; False if that took too long."""
        deadline = asyncio.get_running_loop().time() + within_s
        while self._queue or self._reports or self._grown or self._busy:
            if asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(0.01)
        return True

    def close(self) -> None:
        """Lets everyone who waits go."""
        if self._volatile_timer is not None:
            self._volatile_timer.cancel()
            self._volatile_timer = None
        for futures in self._waiters.values():
            for future in futures:
                if not future.done():
                    future.set_exception(Unavailable("The host is shutting down."))
        self._waiters.clear()
