"""Replies that keep their budget to the character, and count what they leave out. Pure.

A budget is in tokens, and a token is four characters, whatever a model's own counting says. A reply is a head,
then blocks in order of importance, then a tail that says what is missing and how to get it. Blocks go in whole as
long as they fit; the first that does not is cut if it can be; the rest is left out. The tail is made from what
really happened, so its counts are exact.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ekiden.kernel.errors import Invalid
from ekiden.kernel.limits import (
    MCP_BUDGET_TOKENS_DEFAULT,
    MCP_BUDGET_TOKENS_MAX,
    MCP_BUDGET_TOKENS_MIN,
    MCP_CHARS_PER_TOKEN,
)
from ekiden.mcp.envelope import quoted_piece

_SLIVER_CHARS = 24
"""Less of a text than this is not worth showing."""


@dataclass(frozen=True, slots=True)
class Block:
    """One thing in a reply: a line (or more) of ours, then perhaps somebody's text from the character `start` on.
    `more` makes the words that end a cut text, from the index where it was cut. A text over `most` characters is
    cut to them even where there is room, so that one does not crowd out the others (0: it may fill the reply)."""

    head: str
    text: str = ""
    start: int = 0
    more: Callable[[int], str] | None = None
    most: int = 0


@dataclass(frozen=True, slots=True)
class Shown:
    """What became of the blocks: how many are there, and whether the last of them was cut, and where (else -1)."""

    blocks: int
    cut_at: int = -1


def room_of(budget_tokens: int | None, default_tokens: int = MCP_BUDGET_TOKENS_DEFAULT) -> int:
    """A budget in characters; None for the usual one.

    Raises:
        Invalid: if nothing sensible fits into it, or it is over what a reply may have.
    """
    tokens = default_tokens if budget_tokens is None else budget_tokens
    if not MCP_BUDGET_TOKENS_MIN <= tokens <= MCP_BUDGET_TOKENS_MAX:
        raise Invalid(
            f"A budget is {MCP_BUDGET_TOKENS_MIN} to {MCP_BUDGET_TOKENS_MAX} tokens, not {tokens}.",
            hint="Leave it out for the usual one.",
        )
    return tokens * MCP_CHARS_PER_TOKEN


def fitted(
    head: str, blocks: Sequence[Block], tail: Callable[[Shown], str], room: int, *, upwards: bool = False
) -> str:
    """The reply: `head` and `tail` always, and as many of `blocks` as fit in between, the first ones first.

    `tail` is asked with what is shown ("" for nothing to say). Head and tail are ours and short: they fit by
    themselves. With `upwards` the first block stands last, as the newest of messages does. The result has at most
    `room` characters.
    """
    shown, lines = _filled(head, blocks, tail, room)
    if upwards:
        lines.reverse()
    return "\n".join(part for part in (head, *lines, tail(shown)) if part)


def shown_of(head: str, blocks: Sequence[Block], tail: Callable[[Shown], str], room: int) -> Shown:
    """What `fitted` would show."""
    return _filled(head, blocks, tail, room)[0]


def _filled(
    head: str, blocks: Sequence[Block], tail: Callable[[Shown], str], room: int
) -> tuple[Shown, list[str]]:
    lines: list[str] = []
    used = [len(head) if head else -1]
    for block in blocks:
        line = _whole(block, room - used[-1])
        if line is None or used[-1] + 1 + len(line) > room:
            break
        lines.append(line)
        used.append(used[-1] + 1 + len(line))
    # The tail takes room of its own, and says more the more is left out: blocks are given up until it fits.
    while True:
        count = len(lines)
        if count < len(blocks):
            cut = _cut(blocks[count], count, used[-1], tail, room)
            if cut is not None:
                shown, line = cut
                return shown, [*lines, line]
        said = tail(Shown(count))
        if used[-1] + (1 + len(said) if said else 0) <= room or not lines:
            return Shown(count), lines
        lines.pop()
        used.pop()


def _whole(block: Block, room: int) -> str | None:
    """The whole block, or None if it is over `room`; a long text is not looked at to its end for that."""
    if not block.text:
        return block.head
    left = room - len(block.head) - 1
    if block.most and block.more is not None and len(block.text) - block.start > block.most:
        piece, end = quoted_piece(block.text, block.start, block.most)
        line = f"{block.head}\n{piece}\n{block.more(end)}"
        return line if len(line) <= room else None
    if left <= 0 or len(block.text) - block.start > left:
        return None
    piece, end = quoted_piece(block.text, block.start, left)
    return f"{block.head}\n{piece}" if end == len(block.text) else None


def _cut(
    block: Block, before: int, used: int, tail: Callable[[Shown], str], room: int
) -> tuple[Shown, str] | None:
    """The block cut so that it and the tail fit; None if too little of it would be left, or it cannot be cut."""
    if block.more is None or not block.text:
        return None
    # What stands behind the text holds numbers that depend on where it is cut: it is cut shorter until all fits.
    left = room - used - len(block.head) - 2
    while left >= _SLIVER_CHARS:
        piece, end = quoted_piece(block.text, block.start, left)
        if end == block.start or end == len(block.text):
            return None
        shown = Shown(before + 1, end)
        said = tail(shown)
        line = f"{block.head}\n{piece}\n{block.more(end)}"
        over = used + 1 + len(line) + (1 + len(said) if said else 0) - room
        if over <= 0:
            return shown, line
        left = min(left, len(piece)) - over
    return None
