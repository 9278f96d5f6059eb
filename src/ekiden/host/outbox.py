"""What the host tells the hub: one ordered pipeline, one batch at a time.

What accumulates while a batch is on its way is told together in the next one: a session's newest report, what
was appended to its file, the pieces of a growing item as one piece. So a slow or absent hub costs no memory:
reports and growth are made from the present state when their turn comes, and only the words of our own runtimes
wait in a bounded queue.

A batch keeps its bytes and its Command-Id until the hub has answered, however often it must be sent, so it has
its effect once. Growth carries the mark that the hub must hold; where it does not fit (`stale`) reading goes on
from the hub's mark.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from ekiden.client.client import Client
from ekiden.host.catalogue import Catalogue
from ekiden.host.sessions import Followed, Tracked, digests
from ekiden.host.store import Store, put_told
from ekiden.kernel.errors import (
    EkidenError,
    Forbidden,
    NotFound,
    StoreNewer,
    Unauthenticated,
    Unavailable,
)
from ekiden.kernel.ids import Prefix, new_id
from ekiden.kernel.limits import (
    FEED_BYTES_MAX,
    FEED_ENTRIES_MAX,
    FEED_RETRY_S,
    FEED_RETRY_S_MAX,
    GROWING_TEXT_BYTES_MAX,
    OUTBOX_ENTRIES_MAX,
)
from ekiden.sessions.wire import (
    Feed,
    FeedAnswer,
    FeedEntry,
    FeedGrew,
    FeedGrown,
    FeedItems,
    FeedSession,
    SessionReport,
)
from ekiden.transcript.items import Item, ItemKind, ToolState

_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode
_FINISHED_KEPT_MAX = 4096
_VOLATILE_S = 2.0
_STILL_GROWING = (ToolState.PENDING, ToolState.RUNNING)
"""A tool's call stands in the file before its output has ended."""
_FINAL = (Unauthenticated, Forbidden, NotFound, StoreNewer)

ItemKey = tuple[str, str]
"""(session id, item id)"""


@dataclass(slots=True)
class _Growing:
    turn_id: str
    kind: ItemKind
    count: int = 0
    told: list[str] = field(default_factory=list[str])
    waiting: list[str] = field(default_factory=list[str])
    size: int = 0


def _nothing() -> None:
    """Follows most entries."""


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


@dataclass(slots=True)
class Batch:
    """Entries on their way, and what becomes true once they are taken."""

    entries: list[FeedEntry] = field(default_factory=list[FeedEntry])
    then: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    """For each entry, what follows once it is taken."""
    reports: list[tuple[Tracked, str, str]] = field(default_factory=list[tuple[Tracked, str, str]])
    size: int = 0

    def add(self, entry: FeedEntry, then: Callable[[], None] = _nothing) -> None:
        self.entries.append(entry)
        self.then.append(then)
        self.size += len(_encode(entry))

    @property
    def full(self) -> bool:
        return len(self.entries) >= FEED_ENTRIES_MAX or self.size >= FEED_BYTES_MAX // 2


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
        self._growing: dict[ItemKey, _Growing] = {}
        self._finished: OrderedDict[ItemKey, None] = OrderedDict()
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

    def put(self, entry: FeedEntry, then: Callable[[], None] = _nothing) -> None:
        """Adds a word of one of our own runtimes, in order. `then` is called once the hub has taken it: what the
        host forgets only then is told again after a start if it did not come to that."""
        if len(self._queue) >= OUTBOX_ENTRIES_MAX:
            self._queue.popleft()
            self.dropped += 1
        self._queue.append(_Word(entry, then))
        self._wake.set()

    def grow(self, session_id: str, turn_id: str, item_id: str, kind: ItemKind, text: str) -> None:
        """Adds a piece to a growing item."""
        key = (session_id, item_id)
        if key in self._finished or not text:
            return
        growing = self._growing.get(key)
        if growing is None:
            growing = self._growing[key] = _Growing(turn_id, kind)
        growing.size += len(text)
        if growing.size > GROWING_TEXT_BYTES_MAX:
            return
        if not growing.waiting:
            self._queue.append(_Grown(key))
        growing.waiting.append(text)
        self._wake.set()

    def finish(self, session_id: str, item_id: str) -> str:
        """The item is whole now, or will never be: its pieces are forgotten. Returns the text they made."""
        key = (session_id, item_id)
        self._finished[key] = None
        if len(self._finished) > _FINISHED_KEPT_MAX:
            self._finished.popitem(last=False)
        growing = self._growing.pop(key, None)
        return "".join([*growing.told, *growing.waiting]) if growing else ""

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
            word = self._queue.popleft()
            if isinstance(word, _Word):
                batch.add(word.entry, word.then)
            elif (entry := self._grown_entry(word)) is not None:
                batch.add(entry)
        if not batch.entries:
            return None
        return batch

    def _add_report(self, batch: Batch, tracked: Tracked) -> None:
        """Adds the session's report if it differs from what was told. Sizes and counts, which change with every
        line, wait a little."""
        if not tracked.listed:
            self._release(tracked.session_id)
            return
        report = self._report(tracked)
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
            batch.add(FeedItems(tracked.session_id, tuple(growth.items), before, mark, followed.thread))
            followed.hub_mark = mark

    async def _add_idle(self, batch: Batch, tracked: Tracked) -> None:
        items = await self._catalogue.tails.open_line(tracked)
        if items and tracked.listed:
            batch.add(FeedItems(tracked.session_id, tuple(items), "*", tracked.hub_mark))

    def _grown_entry(self, word: _Grown) -> FeedEntry | None:
        session_id, item_id = word.key
        growing = self._growing.get(word.key)
        if growing is None:
            return None
        text = "".join(growing.waiting)
        growing.waiting = []
        if word.anew:
            if text:
                growing.told.append(text)
                growing.count += 1
            growing.told = ["".join(growing.told)]
            return FeedGrown(session_id, growing.turn_id, item_id, growing.kind, growing.count, growing.told[0])
        if not text:
            return None
        index = growing.count
        growing.count += 1
        growing.told.append(text)
        return FeedGrew(session_id, growing.turn_id, item_id, growing.kind, index, text)

    def _command_id(self, body: bytes) -> str:
        self._batches += 1
        return f"{self._run_id}.{self._batches}.{hashlib.sha256(body).hexdigest()[:16]}"

    async def _deliver(self, batch: Batch) -> None:
        """Sends a batch until the hub has answered it."""
        body = _encode(Feed(tuple(batch.entries)))
        try:
            answer = await self._send(body, self._command_id(body))
        except _FINAL:
            raise
        except EkidenError as error:
            await self._one_by_one(batch, error)
            return
        self._taken(batch, answer)

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

    async def _one_by_one(self, batch: Batch, refusal: EkidenError) -> None:
        """One entry that the hub refuses must not hold up the others: it is left out, and counted."""
        if len(batch.entries) == 1:
            self._refused(batch.entries[0], refusal.code, refusal.message)
            batch.then[0]()
            return
        for entry, then in zip(batch.entries, batch.then, strict=True):
            single = Batch(entries=[entry], then=[then])
            if isinstance(entry, FeedSession):
                single.reports = [one for one in batch.reports if one[0].session_id == entry.session.session_id]
            await self._deliver(single)

    def _taken(self, batch: Batch, answer: FeedAnswer) -> None:
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
        for refused in answer.refused:
            if refused.index < len(batch.entries):
                self._refused(batch.entries[refused.index], refused.code, refused.message)
        for stale in answer.stale:
            tracked = self._catalogue.by_id.get(stale.session_id)
            if tracked is not None:
                self._catalogue.tails.set_mark(tracked.followed(stale.thread), stale.mark)
        if answer.boot_id and answer.boot_id != self._boot_id:
            self.met(answer.boot_id)

    def _refused(self, entry: FeedEntry, code: str, message: str) -> None:
        """The hub will not take this entry, however often it is told."""
        self.refused += 1
        _log.warning("The hub refused an entry of the feed (%s): %s", code, message)
        session_id = entry.session.session_id if isinstance(entry, FeedSession) else ""
        self._release(session_id)
        if isinstance(entry, FeedItems) and entry.after != "*":
            tracked = self._catalogue.by_id.get(entry.session_id)
            if tracked is None:
                return
            followed = tracked.followed(entry.thread)
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
