"""Messages that a legacy rollout tells twice, shown once.

Codex wrote each message as a `response_item` (what the model gets) and as an event (what people get): the
person's as response item then event, the assistant's as event then response item, always close together. The
response item is the one to show, for it has Codex's own id where there is one; the event stands in where
nothing was written beside it. A told message therefore waits for its written twin until something else that
people see comes along.
"""

from collections import deque

import msgspec

from ekiden.transcript.items import Item, Role
from ekiden.vendors.codex.contents import text_parts

_UNPAIRED_MAX = 8


class Twins:
    """What waits for a twin. Keeps at most one message, the thoughts told before it and the newest keys."""

    def __init__(self) -> None:
        self._told: tuple[Item, str] | None = None
        self._thoughts: list[Item] = []
        self._written: deque[tuple[Role | None, frozenset[str]]] = deque(maxlen=_UNPAIRED_MAX)
        self._first: tuple[Role, str] | None = None
        self._shown: deque[tuple[Role | None, str]] = deque(maxlen=_UNPAIRED_MAX)

    def told(self, item: Item, text: str, *, whole_id: bool = False) -> list[Item]:
        """An event told this message. With `whole_id` the event has Codex's own id and does not wait."""
        key = text.strip()
        for index, (role, texts) in enumerate(self._written):
            if role is item.role and key in texts:
                del self._written[index]
                return self.release()
        released = self.release()
        if whole_id:
            self._shown.append((item.role, key))
            return [*released, item]
        self._told = (item, key)
        return released

    def told_first(self, role: Role, text: str) -> None:
        """The first row of a reading that begins inside the file told this message. It is shown only if its
        twin follows: else that stands before the reading, which knows the message by another id."""
        self._first = (role, text.strip())

    def written(self, item: Item, content: object) -> list[Item]:
        """A response item holds this message."""
        parts = text_parts(content)
        texts = frozenset({*(part.strip() for part in parts), "\n".join(parts).strip()})
        if self._told is not None:
            told, key = self._told
            if told.role is item.role and key in texts:
                self._told = None
                span = msgspec.structs.replace(told.source, end=item.source.end)
                return [*self.release(), msgspec.structs.replace(item, source=span)]
        first, self._first = self._first, None
        if first is not None and first[0] is item.role and first[1] in texts:
            return [*self.release(), item]
        for index, (role, key) in enumerate(self._shown):
            if role is item.role and key in texts:
                del self._shown[index]
                return self.release()
        released = self.release()
        self._written.append((item.role, texts))
        return [*released, item]

    def told_thought(self, thought: Item) -> list[Item]:
        """An event told a thought; the response item after it tells it again, with all its parts."""
        if len(self._thoughts) >= _UNPAIRED_MAX:
            return self.take_thoughts()
        self._thoughts.append(thought)
        return []

    def take_thoughts(self) -> list[Item]:
        """The thoughts that were told and not written yet; they wait no longer."""
        thoughts, self._thoughts = self._thoughts, []
        return thoughts

    def release(self) -> list[Item]:
        """All that waits, in the order in which it was told."""
        items = self.take_thoughts() if self._thoughts else []
        if self._told is not None:
            told, key = self._told
            items.append(told)
            self._shown.append((told.role, key))  # its twin may yet come, and is not shown then
            self._told = None
        return items
