"""What was seen of an item that Codex had not finished: kept, where Codex itself throws it away."""

from ekiden.kernel.limits import GROWING_TEXT_BYTES_MAX
from ekiden.transcript.items import Item, ItemKind, Role, Source, Text


class Growing:
    """An item that still grows. Keeps its pieces up to a bound."""

    def __init__(self, kind: ItemKind, at: str) -> None:
        self.kind = kind
        self.parts: list[str] = []
        self._at = at
        self._bytes = 0

    def add(self, text: str) -> None:
        """One more piece."""
        self._bytes += len(text.encode())
        if self._bytes <= GROWING_TEXT_BYTES_MAX:
            self.parts.append(text)

    def kept(self, item: str, turn: str) -> Item:
        """What was seen of it, as an item that is not in Codex's file."""
        return Item(
            id=item,
            kind=self.kind,
            source=Source(""),
            role=Role.ASSISTANT if self.kind is ItemKind.MESSAGE else None,
            at=self._at,
            turn=turn,
            content=(Text("".join(self.parts)),),
            note="kept_here",
            interrupted=True,
            not_in_model_history=True,
        )


def not_sent(item: str, text: str, reason: str) -> Item:
    """A message that waited here and that Codex did not take in the end; nobody but us knows of it."""
    return Item(
        id=item,
        kind=ItemKind.NOTICE,
        source=Source(""),
        content=(Text(text), Text(reason)),
        note="not_sent",
        not_in_model_history=True,
    )
