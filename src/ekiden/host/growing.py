"""The texts of items that grow at this host: what was told of each, and what waits to be told.

What waits of an item becomes one piece, cut so that it fits an entry. A text has a bound; what is over it is
dropped, and its last piece says so. Items that have finished are remembered for a while, so that no late piece
revives one.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from ekiden.kernel import canonical
from ekiden.kernel.limits import FEED_PIECE_BYTES_MAX, GROWING_TEXT_BYTES_MAX
from ekiden.sessions.wire import FeedGrew, FeedGrown
from ekiden.transcript.items import ItemKind

_encode = msgspec.json.Encoder().encode
_FINISHED_KEPT_MAX = 4096

ItemKey = tuple[str, str]
"""(session id, item id)"""


@dataclass(slots=True)
class _Text:
    turn_id: str
    kind: ItemKind
    count: int = 0
    """Of the pieces that were told."""
    told: list[str] = field(default_factory=list[str])
    waiting: list[str] = field(default_factory=list[str])
    size: int = 0
    """Bytes of text so far, told and waiting."""
    truncated: bool = False
    """It has reached its bound: no more is told, and the last piece says so."""


class Growing:
    """All that grows at one host."""

    def __init__(self) -> None:
        self._texts: dict[ItemKey, _Text] = {}
        self._finished: OrderedDict[ItemKey, None] = OrderedDict()

    def __iter__(self) -> Iterator[ItemKey]:
        """The items that grow."""
        return iter(self._texts)

    def add(self, key: ItemKey, turn_id: str, kind: ItemKind, text: str) -> bool:
        """Adds to an item. True if nothing of it waited before: it needs a place among what is told.

        What is over `GROWING_TEXT_BYTES_MAX` is dropped.
        """
        if key in self._finished or not text:
            return False
        growing = self._texts.get(key)
        if growing is None:
            growing = self._texts[key] = _Text(turn_id, kind)
        if growing.truncated:
            return False
        text = canonical.whole_text(text)
        encoded = text.encode()
        room = GROWING_TEXT_BYTES_MAX - growing.size
        if len(encoded) > room:
            growing.truncated = True
            text = encoded[:room].decode(errors="ignore")
        growing.size += min(len(encoded), room)
        growing.waiting.append(text)
        return len(growing.waiting) == 1

    def finish(self, key: ItemKey) -> str:
        """Forgets an item's pieces, for it is whole now or will never be. Returns the text they made."""
        self._finished[key] = None
        if len(self._finished) > _FINISHED_KEPT_MAX:
            self._finished.popitem(last=False)
        growing = self._texts.pop(key, None)
        return "".join([*growing.told, *growing.waiting]) if growing else ""

    def piece(self, key: ItemKey, *, anew: bool) -> tuple[FeedGrew | FeedGrown | None, bool]:
        """(the next piece of what waits of an item, or with `anew` of all of it; whether more than that waits)."""
        growing = self._texts.get(key)
        if growing is None or not (growing.waiting or anew):
            return None, False
        session_id, item_id = key
        counted = not anew or bool(growing.waiting)
        part, rest = _parted("".join([*growing.told, *growing.waiting] if anew else growing.waiting))
        growing.waiting = [rest] if rest else []
        truncated = growing.truncated and not rest
        index = growing.count
        # A text in parts is newer than all that the hub may hold of it, or its pieces would be added twice.
        growing.count += counted or bool(rest)
        if anew:
            growing.told.clear()
        growing.told.append(part)
        if anew:
            grown = FeedGrown(
                session_id, growing.turn_id, item_id, growing.kind, growing.count, part, truncated=truncated
            )
            return grown, bool(rest)
        grew = FeedGrew(session_id, growing.turn_id, item_id, growing.kind, index, part, truncated=truncated)
        return grew, bool(rest)


def _parted(text: str) -> tuple[str, str]:
    """(as much of a text as one piece may hold when it is written as JSON, the rest)."""
    if len(_encode(text)) <= FEED_PIECE_BYTES_MAX:
        return text, ""
    fits, over = 0, min(len(text), FEED_PIECE_BYTES_MAX)
    while over - fits > 1:
        middle = (fits + over) // 2
        fits, over = (middle, over) if len(_encode(text[:middle])) <= FEED_PIECE_BYTES_MAX else (fits, middle)
    return text[:fits], text[fits:]
