"""Names for Claude Code's own things, the same from its stream, its file and a second reading.

What a name is made of, and nothing else: for a block of a model's answer the message id and the block's
index; for a tool call its tool-use id; for every other row its uuid. A copy of a row in a forked session's
file therefore has the same item id as the original.
"""

import uuid

from ekiden.kernel.ids import Prefix, derived_id

_MESSAGES = uuid.UUID("6d1f6c58-5c1e-5a0c-9a53-3d0a5f0c6b7e")
"""Name space for the uuids that stand for Ekiden's message ids."""


def block_id(message_id: str, index: int) -> str:
    """A text or thought of the model: `message_id` as the API gave it, `index` of the content block."""
    return derived_id(Prefix.ITEM, "claude", "block", message_id, str(index))


def call_id(tool_use_id: str) -> str:
    """A tool call, with its result."""
    return derived_id(Prefix.ITEM, "claude", "call", tool_use_id)


def row_id(row_uuid: str, *more: str) -> str:
    """Anything else that has a row of its own. `more` tells apart what one row gives beside its own item."""
    return derived_id(Prefix.ITEM, "claude", "row", row_uuid, *more)


def place_id(start: int, digest: str) -> str:
    """A line that has no readable name: known by where it stands and by the hash of its bytes."""
    return derived_id(Prefix.ITEM, "claude", "line", str(start), digest)


def turn_id(prompt_uuid: str) -> str:
    """The turn that a user's row begins."""
    return derived_id(Prefix.TURN, "claude", prompt_uuid)


def message_uuid(message_id: str) -> str:
    """The uuid under which a message of Ekiden's goes to Claude Code; it drops a second message with the
    same uuid, and the row in the file carries it."""
    return str(uuid.uuid5(_MESSAGES, message_id))
