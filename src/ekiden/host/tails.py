"""Reading what was appended to the files of all sessions, from the marks that the hub holds.

Each file is told from its own mark: a session's main file, and each sub-agent's. What lay in a file when this host
first saw it is not told live; a file that came while it watched is told from its first line. Readers of the files
that grew last keep their fold; the others make it anew.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace

from ekiden.host.follow import Growth, Tail, parse_mark
from ekiden.host.lines import head_of, last_line_end
from ekiden.host.sessions import UNREADABLE_NOW, Followed, Tracked
from ekiden.host.store import FileRow, Store, put_revision
from ekiden.host.unpacked import Opener
from ekiden.kernel.errors import EkidenError, NotFound
from ekiden.kernel.limits import (
    PROVISIONAL_AFTER_S,
    TAIL_CATCH_UP_BYTES_MAX,
    TAIL_FOLD_IDLE_S,
    TAIL_FOLDS_MAX,
    TAIL_READ_BYTES_MAX,
)
from ekiden.transcript.items import Item
from ekiden.transcript.reading import Facts

_log = logging.getLogger(__name__)
_READ_HERE_BYTES_MAX = 256 * 1024


class Tails:
    """The readers of one host's growing files. Lives on one event loop; long readings run in threads."""

    def __init__(
        self,
        by_id: Mapping[str, Tracked],
        store: Store,
        opener: Opener,
        *,
        changed: Callable[[Tracked], None],
        grew: Callable[[Followed], None],
        wanted: Callable[[], None],
        idle_line: Callable[[Tracked], None],
        missing: Callable[[], None],
    ) -> None:
        """`missing`: a file that should be there could not be read. The others are the catalogue's."""
        self._by_id = by_id
        self._store = store
        self._opener = opener
        self._changed = changed
        self._grew = grew
        self._wanted = wanted
        self._idle_line = idle_line
        self._missing = missing
        self._hot: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._active: set[str] = set()
        self._faults: dict[tuple[str, str, bool], str] = {}
        """(session id, thread, whether in a look at the file's ends) -> how the last reading failed."""
        self._marks: Mapping[str, str] = {}
        self.met = False
        """Whether the hub has said what it holds."""
        self._thread_marks: Mapping[str, Mapping[str, str]] = {}

    # Marks

    def know(self, followed: Followed) -> None:
        """Takes what the hub holds of a file that is new here."""
        followed.hub_mark = self._mark_of(followed)

    def known_to_hub(self, session_id: str) -> bool:
        """Whether the hub had the session when it was met last."""
        return session_id in self._marks

    def _mark_of(self, followed: Followed) -> str:
        if followed.thread:
            return self._thread_marks.get(followed.session_id, {}).get(followed.thread, "")
        return self._marks.get(followed.session_id, "")

    def set_marks(self, marks: Mapping[str, str], thread_marks: Mapping[str, Mapping[str, str]]) -> None:
        """What the hub holds, after connecting. Files that go further are said to have grown."""
        self._marks, self._thread_marks, self.met = marks, thread_marks, True
        for session_id, tracked in self._by_id.items():
            tracked.known_to_hub = session_id in marks
            for followed in (tracked, *tracked.threads.values()):
                self.set_mark(followed, self._mark_of(followed))
            if not tracked.known_to_hub:
                tracked.told_core = tracked.told_whole = ""
                self._changed(tracked)

    def set_mark(self, followed: Followed, mark: str) -> None:
        """The hub holds `mark` for this file: reading goes on there."""
        followed.hub_mark = mark
        if followed.tail is not None and followed.tail.mark != mark:
            followed.tail = None
        row = followed.row
        if row is None or row.gone_at or row.compressed:
            return
        held = parse_mark(mark)
        if held is None:
            goes_on = row.size > row.told_from
        else:
            goes_on = row.size > held.offset or bool(row.head and held.head != row.head)
        if goes_on:
            self._grew(followed)

    # Reading

    def seen_growing(self, tracked: Tracked) -> None:
        """Bytes came while we watched: from now on growth is a proof that somebody writes."""
        self._active.add(tracked.session_id)

    async def growth(self, followed: Followed) -> tuple[Growth, str] | None:
        """(what was appended since the last call, the mark behind it), or None if there is nothing to read."""
        row = followed.row
        if row is None or row.gone_at or row.deleted_at:
            self.readable(followed)
            return None
        try:
            tail = followed.tail
            if tail is None:
                tail = await asyncio.to_thread(self._make_tail, followed, row)
                followed.tail = tail
            large = tail.file.size - tail.offset > _READ_HERE_BYTES_MAX or row.compressed or tail.resting
            growth = await asyncio.to_thread(tail.read) if large else tail.read()
        except NotFound:
            self._missing()
            return None
        except Exception as error:
            self.failed(followed, error)
            return None
        self.readable(followed)
        self._hot[followed.key] = time.monotonic()
        self._hot.move_to_end(followed.key)
        tracked = self._by_id[followed.session_id]
        if growth.rewritten:
            tracked.notices.add("rewritten")
            self._store.write(lambda connection: put_revision(connection, row.id, tail.revision, tail.head))
            followed.row = replace(row, revision=tail.revision, head=tail.head, indexed_to=0, told_from=0)
            self._wanted()
        if growth.lines and not followed.thread:
            if tracked.session_id in self._active:
                tracked.grew_at = time.time()
            if tail.facts is not None:
                tracked.facts = _with(tracked.facts, tail.facts)
            self._changed(tracked)
        return growth, tail.mark

    def _make_tail(self, followed: Followed, row: FileRow) -> Tail:
        with self._opener.open(followed.vendor, row.found()) as opened:
            source = opened.source
            head = head_of(source)
            end = last_line_end(source, source.size())
            revision = row.revision + (1 if row.head and head and head != row.head else 0)
            held = parse_mark(followed.hub_mark)
            if held is not None and held.head == head and held.revision == revision and held.offset <= end:
                offset = held.offset
            elif held is not None or revision != row.revision:
                offset = 0
            else:
                offset = last_line_end(source, min(row.told_from, source.size())) if head else 0
            if end - offset > TAIL_CATCH_UP_BYTES_MAX:
                self._by_id[followed.session_id].notices.add("skipped_live")
                offset = last_line_end(source, end - TAIL_READ_BYTES_MAX)
        tail = Tail(followed.vendor, row.found(), self._opener, head=head, revision=revision, offset=offset)
        if row.facts is not None and row.facts_whole and row.indexed_to == offset:
            tail.set_base(row.facts)
        return tail

    # Files that cannot be read

    def failed(self, followed: Followed, error: Exception, *, looking: bool = False) -> None:
        """A file could not be read, or (`looking`) its ends could not: its session says so, the reason is logged
        once, and the other files go on."""
        what = f"{type(error).__name__}: {error}"
        key = (*followed.key, looking)
        if self._faults.get(key) != what:
            self._faults[key] = what
            path = followed.row.path if followed.row is not None else ""
            unforeseen = None if isinstance(error, EkidenError | OSError) else error
            _log.warning("%r cannot be read now: %s", path, what, exc_info=unforeseen)
        tracked = self._by_id[followed.session_id]
        if UNREADABLE_NOW not in tracked.notices:
            tracked.notices.add(UNREADABLE_NOW)
            self._changed(tracked)

    def readable(self, followed: Followed, *, looking: bool = False) -> None:
        """A file was read, or is gone: what was said of it before is over."""
        if self._faults.pop((*followed.key, looking), None) is None:
            return
        if any(session_id == followed.session_id for session_id, _, _ in self._faults):
            return
        tracked = self._by_id[followed.session_id]
        tracked.notices.discard(UNREADABLE_NOW)
        self._changed(tracked)

    def retry(self) -> list[Tracked]:
        """Has what could not be read tried again. Returns the sessions whose ends are to be looked at again."""
        again: list[Tracked] = []
        for session_id, thread, looking in self._faults:
            if looking:
                again.append(self._by_id[session_id])
            else:
                self._grew(self._by_id[session_id].followed(thread))
        return again

    # Resting

    async def run(self) -> None:
        """Shows idle open lines as provisional, and gives up folds that are not needed now, until cancelled."""
        while True:
            await asyncio.sleep(min(5.0, PROVISIONAL_AFTER_S / 3))
            now = time.monotonic()
            for key, at in list(self._hot.items()):
                session_id, thread = key
                tracked = self._by_id.get(session_id)
                followed = tracked.threads.get(thread) if tracked is not None and thread else tracked
                if tracked is None or followed is None or followed.tail is None:
                    del self._hot[key]
                    continue
                tail = followed.tail
                if not thread and now - at > PROVISIONAL_AFTER_S and tail.size > tail.offset:
                    self._idle_line(tracked)
                if now - at > TAIL_FOLD_IDLE_S or len(self._hot) > TAIL_FOLDS_MAX:
                    tail.rest()
                    del self._hot[key]

    async def open_line(self, tracked: Tracked) -> list[Item]:
        """Provisional items of a last line that nobody has ended, once for each form of it."""
        tail = tracked.tail
        if tail is None or tracked.provisional_of == (tail.offset, tail.size):
            return []
        tracked.provisional_of = (tail.offset, tail.size)
        try:
            return await asyncio.to_thread(tail.open_line)
        except NotFound:
            return []
        except Exception as error:
            self.failed(tracked, error)
            return []

    def adopt(self, tracked: Tracked, row: FileRow) -> None:
        """Takes what the import has learnt of a file."""
        followed = tracked.followed(row.thread)
        followed.row = row
        if row.thread or row.facts is None or not row.facts_whole:
            return
        tail = tracked.tail
        if tail is None or tail.facts is None or row.indexed_to >= tail.offset:
            tracked.facts = row.facts
            if tail is not None and row.revision == tail.revision and row.indexed_to == tail.offset:
                tail.rebase(row.facts)


def _with(known: Facts, followed: Facts) -> Facts:
    """Facts from following a file's end, completed by what is known of its beginning."""
    if followed.rows >= known.rows:
        merged = replace(followed)
    else:
        merged = replace(followed, rows=known.rows, messages=max(known.messages, followed.messages))
    for name in ("title", "first_prompt", "cwd", "git_branch", "model", "vendor_version", "native_id"):
        if not getattr(merged, name):
            setattr(merged, name, getattr(known, name))
    merged.created_at = known.created_at or merged.created_at
    merged.first_prompt = known.first_prompt or merged.first_prompt
    merged.forked_from = known.forked_from or merged.forked_from
    merged.history_base = known.history_base or merged.history_base
    merged.is_helper = known.is_helper or merged.is_helper
    merged.is_subagent = known.is_subagent or merged.is_subagent
    if known.messages and merged.drift.value == "nothing_parsed":
        merged.drift = known.drift
    return merged
