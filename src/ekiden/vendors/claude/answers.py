"""The model's answers: which lines are blocks of one message, which are snapshots of a growing one.

Claude Code writes an answer as several lines with one message id. A block's place in its message is what its
item id is made of, so the rule that gives the place is the heart of this reader:

1. Where the line says its place (`apiBlockIndex`), that is the place.
2. A line that repeats a uuid takes the place that the uuid has.
3. A line whose blocks are equal to blocks already there takes their place: the text is there already.
4. A line whose text goes on where a block of the same kind stopped is a *snapshot* of that block if it hangs
   beside the block's line (same parent) or counts more output tokens; it takes the block's place.
5. Every other line is the next block.

So two true blocks of which one begins with the other stay two: the second hangs below the first and counts
the same tokens. A snapshot that is replaced is contained in what replaces it. No text is lost either way.
"""

from collections import OrderedDict

import msgspec

from ekiden.kernel.limits import FOLD_MESSAGES_OPEN_MAX
from ekiden.transcript.items import Usage
from ekiden.vendors.claude.rows import Block, Counts, Message, Row, decode

UNKNOWN_PLACE = -1


class Seen(msgspec.Struct, frozen=True, gc=False):
    """A block of an answer as last seen."""

    kind: str
    text: str
    parent: str


class Answer(msgspec.Struct):
    """What is known of one message of the model."""

    id: str
    model: str = ""
    blocks: dict[int, Seen] = {}  # each answer gets its own: msgspec copies an empty default
    places: dict[str, int] = {}
    """Row uuid -> place of its first block."""
    usage: Usage | None = None
    first: str = ""
    """Id of the item at place 0, which carries the usage."""
    headless: bool = False
    """Its beginning lies before the window, and its lines do not say their place."""


def words_of(block: Block) -> str:
    """What identifies a block's content: its text, or its id for a tool call."""
    return block.text or block.thinking or block.id or ""


def usage_of(message: Message) -> Usage | None:
    """Tokens of one answer. Input includes what was written to the cache; what was read from it is apart."""
    counts = decode(message.usage, Counts)
    if counts is None or not (counts.input_tokens or counts.output_tokens):
        return None
    return Usage(
        (counts.input_tokens or 0) + (counts.cache_creation_input_tokens or 0),
        counts.output_tokens or 0,
        counts.cache_read_input_tokens or 0,
    )


class Answers:
    """The newest answers, by message id; bounded, since the lines of one message stand close together."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, Answer] = OrderedDict()

    def get(self, message_id: str) -> Answer | None:
        """The answer, if it was seen lately."""
        return self._open.get(message_id)

    def begin(self, message_id: str) -> Answer:
        """The answer, made anew if it was not seen lately."""
        answer = self._open.get(message_id)
        if answer is None:
            answer = self._open[message_id] = Answer(message_id)
            if len(self._open) > FOLD_MESSAGES_OPEN_MAX:
                self._open.popitem(last=False)
        return answer


def place_of(answer: Answer, row: Row, blocks: list[Block], usage: Usage | None) -> int:
    """The place of the first of `blocks` in its message, or UNKNOWN_PLACE."""
    if row.api_block_index is not None and row.api_block_index >= 0:
        return row.api_block_index
    if answer.headless:
        return UNKNOWN_PLACE
    if row.uuid and row.uuid in answer.places:
        return answer.places[row.uuid]
    if not answer.blocks:
        return 0
    count = max(answer.blocks) + 1
    for start in (0, count - 1) if count > 1 else (0,):
        covered = [(answer.blocks.get(start + place), block) for place, block in enumerate(blocks)]
        known = [(seen, block) for seen, block in covered if seen is not None]
        if len(known) < count - start:
            continue
        if all(seen.kind == block.type and seen.text == words_of(block) for seen, block in known):
            return start
        if all(_goes_on(seen, block) for seen, block in known):
            grew = (
                usage is not None and answer.usage is not None and usage.output_tokens > answer.usage.output_tokens
            )
            beside = any(seen.parent == (row.parent_uuid or "") for seen, _ in known)
            if grew or beside:
                return start
    return count


def _goes_on(seen: Seen, block: Block) -> bool:
    return seen.kind == block.type and words_of(block).startswith(seen.text)
