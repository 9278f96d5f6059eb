"""Making what a host tells fit into events, and saying what was cut.

An event's body has at most `EVENT_BODY_BYTES_MAX` bytes. Lists of items are split, so that no item is lost; an
item or an approval that is too large by itself is cut, and each cut names the field and the size of the whole.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec

from ekiden.kernel.errors import TooLarge
from ekiden.kernel.limits import EVENT_BODY_BYTES_MAX, KIB
from ekiden.sessions.wire import Approval
from ekiden.transcript.items import Cut, Item, Text, Tool, encode_item

_ENVELOPE_BYTES = 1 * KIB
"""Room for what stands around the items in an event's body."""
_SHARES_BYTES = (256 * KIB, 64 * KIB, 8 * KIB, 1 * KIB)
"""How much of each text is left, tried from the largest."""
_PARTS_MAX = (4_096, 512, 64, 8)
"""How many blocks, diffs and lines of a plan are left, for the same tries."""

Part = TypeVar("Part")
_encode = msgspec.json.Encoder().encode


class _Cuts:
    """Cuts texts and lists to a share and keeps account; what was cut before keeps its older, larger size."""

    def __init__(self, share_bytes: int, parts_max: int, before: Sequence[Cut]) -> None:
        self._share_bytes = share_bytes
        self._parts_max = parts_max
        self._sizes = {cut.field: cut.bytes for cut in before}

    def text(self, field: str, text: str) -> str:
        if len(text) * 4 <= self._share_bytes:
            return text
        encoded = text.encode("utf-8", "replace")
        if len(encoded) <= self._share_bytes:
            return text
        self._sizes.setdefault(field, len(encoded))
        return encoded[: self._share_bytes].decode("utf-8", "ignore")

    def raw(self, field: str, raw: msgspec.Raw) -> msgspec.Raw:
        size = len(bytes(raw))
        if size <= self._share_bytes:
            return raw
        self._sizes.setdefault(field, size)
        return msgspec.Raw(b"null")

    def parts(self, field: str, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        if len(parts) <= self._parts_max:
            return parts
        self._sizes.setdefault(field, len(_encode(parts)))
        return parts[: self._parts_max]

    def account(self) -> tuple[Cut, ...]:
        return tuple(Cut(field, size) for field, size in self._sizes.items())


def fit_item(item: Item, max_bytes: int = EVENT_BODY_BYTES_MAX - _ENVELOPE_BYTES) -> Item:
    """`item` itself if its JSON has at most `max_bytes`, else what can be shown of it, with `cut` said."""
    size = len(encode_item(item))
    if size <= max_bytes:
        return item
    for share_bytes, parts_max in zip(_SHARES_BYTES, _PARTS_MAX, strict=True):
        cuts = _Cuts(share_bytes, parts_max, item.cut)
        content = tuple(
            Text(cuts.text(f"content.{index}.text", block.text)) if isinstance(block, Text) else block
            for index, block in enumerate(cuts.parts("content", item.content))
        )
        plan = tuple(
            msgspec.structs.replace(entry, text=cuts.text(f"plan.{index}.text", entry.text))
            for index, entry in enumerate(cuts.parts("plan", item.plan))
        )
        tool = _fit_tool(item.tool, cuts) if item.tool is not None else None
        smaller = msgspec.structs.replace(item, content=content, plan=plan, tool=tool, cut=cuts.account())
        if len(encode_item(smaller)) <= max_bytes:
            return smaller
    return Item(
        id=item.id[:KIB],
        kind=item.kind,
        source=msgspec.structs.replace(item.source, file=item.source.file[:KIB]),
        role=item.role,
        at=item.at[:KIB],
        turn=item.turn[:KIB],
        thread=item.thread[:KIB],
        abandoned=item.abandoned,
        injected=item.injected,
        provisional=item.provisional,
        interrupted=item.interrupted,
        not_in_model_history=item.not_in_model_history,
        cut=(Cut("item", size),),
    )


def _fit_tool(tool: Tool, cuts: _Cuts) -> Tool:
    return msgspec.structs.replace(
        tool,
        title=cuts.text("tool.title", tool.title),
        command=cuts.text("tool.command", tool.command),
        input=cuts.raw("tool.input", tool.input),
        output=cuts.text("tool.output", tool.output),
        images=cuts.parts("tool.images", tool.images),
        diffs=tuple(
            msgspec.structs.replace(diff, unified=cuts.text(f"tool.diffs.{index}.unified", diff.unified))
            for index, diff in enumerate(cuts.parts("tool.diffs", tool.diffs))
        ),
    )


def split_items(
    items: Sequence[Item], max_bytes: int = EVENT_BODY_BYTES_MAX - _ENVELOPE_BYTES
) -> Iterator[tuple[Item, ...]]:
    """`items` in order, in as few lists as fit into one event each; every item is in exactly one of them."""
    batch: list[Item] = []
    size = 0
    for item in items:
        fitting = fit_item(item, max_bytes)
        more = len(encode_item(fitting)) + 1
        if batch and size + more > max_bytes:
            yield tuple(batch)
            batch, size = [], 0
        batch.append(fitting)
        size += more
    if batch:
        yield tuple(batch)


def fit_approval(approval: Approval, max_bytes: int = EVENT_BODY_BYTES_MAX // 2) -> Approval:
    """`approval` itself if its JSON has at most `max_bytes`, else with its largest parts cut and `cut` said.
    Half of an event is left for a person's answer. The digest is not touched: it is of the whole.

    Raises:
        TooLarge: if what must not be cut, as the options, is too large by itself.
    """
    if len(_encode(approval)) <= max_bytes:
        return approval
    for share_bytes, parts_max in zip(_SHARES_BYTES, _PARTS_MAX, strict=True):
        cuts = _Cuts(share_bytes, parts_max, approval.cut)
        smaller = msgspec.structs.replace(
            approval,
            title=cuts.text("title", approval.title),
            detail=cuts.raw("detail", approval.detail),
            command=cuts.text("command", approval.command),
            diff=cuts.text("diff", approval.diff),
            cut=cuts.account(),
        )
        if len(_encode(smaller)) <= max_bytes:
            return smaller
    raise TooLarge("This request is too large to be shown to a person.", max=max_bytes)
