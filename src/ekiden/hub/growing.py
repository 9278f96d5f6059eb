"""Items that still grow: kept whole, so that a late joiner gets every byte already streamed.

Pieces are applied by their index: a piece that was told before changes nothing, one after a hole is not taken
(the host tells such an item anew). What is kept is bounded per item, in number and in all, and `truncated` says
where a text is not kept whole any more. A text that reaches its own bound ends there for everybody: it is told
once more as truncated, and no further piece is passed on. Where a text had to go for others, only whoever joins
late misses it, while those who follow go on getting pieces.

An item ends when its whole form is added, a while after its turn has ended, or when its host has been lost for
long.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from ekiden.hub.frames import Frame, passing
from ekiden.kernel.clock import Clock
from ekiden.kernel.limits import (
    GROWING_AFTER_TURN_S,
    GROWING_BYTES_MAX,
    GROWING_ENDED_KEPT_MAX,
    GROWING_HOST_LOST_S,
    GROWING_ITEMS_MAX,
    GROWING_TEXT_BYTES_MAX,
)
from ekiden.log.port import Event
from ekiden.sessions.wire import FeedGrew, FeedGrown, Growing
from ekiden.transcript.items import ItemKind

_PIECES_JOINED_AT = 512


class _ToolState(msgspec.Struct, gc=False):
    state: str = ""


class _Whole(msgspec.Struct, gc=False):
    id: str
    tool: _ToolState | None = None
    provisional: bool = False

    @property
    def ended(self) -> bool:
        """Whether nothing more will grow under this id: a tool call stands in the file before its output."""
        return not self.provisional and (self.tool is None or self.tool.state not in ("pending", "in_progress"))


class _ItemsAdded(msgspec.Struct):
    session_id: str
    items: tuple[_Whole, ...]


class _TurnChanged(msgspec.Struct):
    session_id: str
    turn_id: str
    state: str


_items_added = msgspec.json.Decoder(_ItemsAdded).decode
_turn_changed = msgspec.json.Decoder(_TurnChanged).decode


@dataclass(slots=True)
class _Entry:
    session_id: str
    turn_id: str
    item_id: str
    kind: ItemKind
    host_id: str
    count: int = 0
    size: int = 0
    """Bytes of text that are kept."""
    truncated: bool = False
    full: bool = False
    """The text has reached its bound: nothing more of it is kept or passed on."""
    ends_at: float | None = None
    joined: list[str] = field(default_factory=list[str])
    pieces: list[str] = field(default_factory=list[str])

    def keep(self, text: str) -> tuple[str, int]:
        """Adds to the kept text as far as the bound allows; returns (what may be passed on, how many bytes were
        added)."""
        if self.truncated:
            return text, 0
        size = len(text) if text.isascii() else len(text.encode())
        room = GROWING_TEXT_BYTES_MAX - self.size
        if size > room:
            self.truncated = self.full = True
            text = text.encode()[:room].decode(errors="ignore")
            size = len(text.encode())
        self.pieces.append(text)
        if len(self.pieces) >= _PIECES_JOINED_AT:
            self.joined.append("".join(self.pieces))
            self.pieces.clear()
        self.size += size
        return text, size

    def clear(self) -> int:
        """Lets the text go and returns how many bytes that were."""
        size, self.size = self.size, 0
        self.joined.clear()
        self.pieces.clear()
        return size

    def whole(self) -> Growing:
        text = "".join((*self.joined, *self.pieces))
        return Growing(
            self.session_id, self.turn_id, self.item_id, self.kind, self.count, text, truncated=self.truncated
        )


def _topic(session_id: str) -> str:
    return f"session:{session_id}"


class GrowingItems:
    """The growing items of one team."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[str, _Entry] = {}  # the one that was silent longest comes first
        self._ended: dict[str, None] = {}  # a piece may arrive after the whole item; oldest first
        self._bytes = 0
        self.missed_pieces = 0
        """Pieces that came after a hole and were not taken."""

    def grow(self, told: FeedGrew | FeedGrown, host_id: str) -> list[Frame]:
        """Takes what a host tells and returns what those who follow must hear, in order."""
        if told.item_id in self._ended:
            return []
        match told:
            case FeedGrew():
                return self._grew(told, host_id)
            case FeedGrown():
                return self._grown(told, host_id)

    def _grew(self, told: FeedGrew, host_id: str) -> list[Frame]:
        entry = self._entries.get(told.item_id)
        frames: list[Frame] = []
        if entry is None:
            if told.index:
                self.missed_pieces += 1
                return []
            entry, frames = self._new(told, host_id)
        elif told.index != entry.count:
            self.missed_pieces += told.index > entry.count
            return []
        entry.count += 1
        if entry.full:
            return frames
        text, size = entry.keep(told.text)
        self._bytes += size
        if told.truncated:
            entry.truncated = entry.full = True
        self._touch(entry)
        body = {
            "session_id": told.session_id,
            "turn_id": told.turn_id,
            "item_id": told.item_id,
            "kind": told.kind,
            "index": told.index,
            "text": text,
        }
        frames.append(passing("item.grew", body, (_topic(told.session_id),)))
        if entry.full:
            frames.append(_grown_frame(entry))
        return frames

    def _grown(self, told: FeedGrown, host_id: str) -> list[Frame]:
        entry = self._entries.get(told.item_id)
        frames: list[Frame] = []
        if entry is None:
            entry, frames = self._new(told, host_id)
        elif told.count <= entry.count and not (entry.truncated and entry.size < len(told.text)):
            return []
        self._bytes -= entry.clear()
        entry.count = told.count
        entry.truncated = entry.full = False
        self._bytes += entry.keep(told.text)[1]
        if told.truncated:
            entry.truncated = entry.full = True
        self._touch(entry)
        frames.append(_grown_frame(entry))
        return frames

    def _new(self, told: FeedGrew | FeedGrown, host_id: str) -> tuple[_Entry, list[Frame]]:
        """Room for one more item, and the announcement of the one that had to go for it."""
        frames: list[Frame] = []
        if len(self._entries) >= GROWING_ITEMS_MAX:
            oldest = next(iter(self._entries.values()))
            self._remove(oldest)
            oldest.truncated = True
            frames.append(_grown_frame(oldest))
        entry = _Entry(told.session_id, told.turn_id, told.item_id, told.kind, host_id)
        self._entries[told.item_id] = entry
        return entry, frames

    def _touch(self, entry: _Entry) -> None:
        """Moves `entry` to the end, and keeps the sum within its bound by letting the oldest texts go."""
        del self._entries[entry.item_id]
        self._entries[entry.item_id] = entry
        if self._bytes <= GROWING_BYTES_MAX:
            return
        for other in self._entries.values():
            if other.size and other is not entry:
                self._bytes -= other.clear()
                other.truncated = True
                if self._bytes <= GROWING_BYTES_MAX:
                    return

    def _remove(self, entry: _Entry) -> None:
        self._bytes -= entry.clear()
        del self._entries[entry.item_id]

    def note(self, event: Event) -> None:
        """Ends what a stored event ends."""
        if event.kind == "items.added":
            for item in _items_added(event.body).items:
                if item.ended:
                    self._note_ended(item.id)
        elif event.kind == "turn.changed":
            turn = _turn_changed(event.body)
            if turn.state in ("completed", "interrupted", "failed"):
                self._end_later(turn.turn_id, GROWING_AFTER_TURN_S)

    def _note_ended(self, item_id: str) -> None:
        entry = self._entries.get(item_id)
        if entry is not None:
            self._remove(entry)
        self._ended[item_id] = None
        if len(self._ended) > GROWING_ENDED_KEPT_MAX:
            del self._ended[next(iter(self._ended))]

    def _end_later(self, turn_id: str, after_s: float) -> None:
        ends_at = self._clock.monotonic() + after_s
        for entry in self._entries.values():
            if entry.turn_id == turn_id:
                entry.ends_at = ends_at

    def host_lost(self, host_id: str) -> None:
        """From now on the host's items are kept only for so long."""
        ends_at = self._clock.monotonic() + GROWING_HOST_LOST_S
        for entry in self._entries.values():
            if entry.host_id == host_id and entry.ends_at is None:
                entry.ends_at = ends_at

    def host_here(self, host_id: str) -> None:
        """The host is back: its items stay, but for those whose turn has ended."""
        soon = self._clock.monotonic() + GROWING_AFTER_TURN_S
        for entry in self._entries.values():
            if entry.host_id == host_id and entry.ends_at is not None and entry.ends_at > soon:
                entry.ends_at = None

    def sweep(self) -> None:
        """Ends what is due."""
        now = self._clock.monotonic()
        for entry in [entry for entry in self._entries.values() if entry.ends_at and entry.ends_at <= now]:
            self._remove(entry)

    def counts(self) -> dict[str, int]:
        """How many pieces are known of each growing item."""
        return {entry.item_id: entry.count for entry in self._entries.values()}

    def next_index(self, item_id: str) -> int | None:
        """The index of the piece that comes next for an item; None for an item that has ended."""
        if item_id in self._ended:
            return None
        entry = self._entries.get(item_id)
        return entry.count if entry is not None else 0

    def beyond(self, have: Mapping[str, int], only: Sequence[str] = ()) -> list[tuple[str, Growing]]:
        """Those (in `only`, if given) of which more pieces are known than `have` says, with the host of each."""
        return [
            (entry.host_id, entry.whole())
            for entry in self._entries.values()
            if entry.count > have.get(entry.item_id, 0) and (not only or entry.item_id in only)
        ]

    def adopt(self, whole: Growing, host_id: str) -> list[Frame]:
        """Takes an item as another node knows it."""
        told = FeedGrown(
            whole.session_id, whole.turn_id, whole.item_id, whole.kind, count=whole.count, text=whole.text
        )
        frames = self.grow(told, host_id)
        entry = self._entries.get(whole.item_id)
        if frames and whole.truncated and entry is not None:
            entry.truncated = True
            frames[-1] = _grown_frame(entry)
        return frames

    def of(self, session_id: str) -> tuple[Growing, ...]:
        """The growing items of one session, each whole so far."""
        return tuple(entry.whole() for entry in self._entries.values() if entry.session_id == session_id)

    def frames(self, topics: Sequence[str]) -> list[Frame]:
        """`item.grown` for each growing item of these topics: how a stream begins."""
        wanted = frozenset(topics)
        return [_grown_frame(entry) for entry in self._entries.values() if _topic(entry.session_id) in wanted]


def _grown_frame(entry: _Entry) -> Frame:
    return passing("item.grown", entry.whole(), (_topic(entry.session_id),))
