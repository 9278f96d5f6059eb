"""Whole items of a session, in a versioned envelope of our own shaped like the Agent Client Protocol's.

An item is one message, thought, tool call, plan, compaction or notice. It is always whole: a later line of
the native file that adds to it (a tool's result) gives the same item again, larger, under the same id, and
readers put it in the place of the earlier one.

Rules that every translation keeps:
- `id` depends only on the native record (for Claude Code the message id and the block's index, or the
  tool-use id; for Codex the item id or call id), so that the live stream, the file and a second reading
  agree on it.
- Text is data. It is kept as it was written, with broken surrogate halves as U+FFFD; making it safe to show
  is the screen's work.
- What is cut is said in `cut`: the field's name and its full size in bytes.
- What is not understood is an item too (`unknown`, `unreadable`): it is counted and can be seen raw.

Source of the shapes: Agent Client Protocol v1 session updates (content blocks, tool call kinds and states,
plan entries).
"""

from enum import StrEnum

import msgspec

ENVELOPE_VERSION = 1


class ItemKind(StrEnum):
    """What an item is."""

    MESSAGE = "message"
    THOUGHT = "thought"
    TOOL = "tool"
    PLAN = "plan"
    COMPACTION = "compaction"
    NOTICE = "notice"
    UNREADABLE = "unreadable"
    UNKNOWN = "unknown"


class Role(StrEnum):
    """Who speaks in a message."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"


class ToolKind(StrEnum):
    """What sort of tool is called, after the ACP's kinds."""

    READ = "read"
    EDIT = "edit"
    DELETE = "delete"
    MOVE = "move"
    SEARCH = "search"
    EXECUTE = "execute"
    THINK = "think"
    FETCH = "fetch"
    AGENT = "agent"
    OTHER = "other"


class ToolState(StrEnum):
    """Where a tool call stands. `unrecorded`: the file has no result for it and nobody is still running it."""

    PENDING = "pending"
    RUNNING = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    DENIED = "denied"
    UNRECORDED = "unrecorded"


class Struct(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Base of everything that travels: immutable, defaults left out, unknown fields borne when read.

    The collector leaves them alone: what cannot be changed once it is made cannot come to hold itself.
    """


class Source(Struct, frozen=True):
    """Where in the native file an item comes from. Line numbers count from 1; bytes are [start, end)."""

    file: str
    line: int = 0
    start: int = 0
    end: int = 0


class Text(Struct, frozen=True, tag="text", tag_field="type"):
    """Plain text or Markdown, as written."""

    text: str


class Image(Struct, frozen=True, tag="image", tag_field="type"):
    """An image by the hash of its bytes; the bytes themselves are fetched from the item's source."""

    media_type: str
    sha256: str
    size: int


class Reference(Struct, frozen=True, tag="reference", tag_field="type"):
    """A file or link that the native record names and that was not read."""

    name: str
    uri: str
    reason: str = ""


Block = Text | Image | Reference


class Diff(Struct, frozen=True):
    """A change to one file. `unified` is a unified diff; line counts are of added and removed lines."""

    path: str
    unified: str
    added: int = 0
    removed: int = 0


class Tool(Struct, frozen=True):
    """A tool call with all that is known of its outcome."""

    name: str
    state: ToolState
    kind: ToolKind = ToolKind.OTHER
    title: str = ""
    command: str = ""
    cwd: str = ""
    input: msgspec.Raw = msgspec.Raw(b"null")
    output: str = ""
    exit_code: int | None = None
    diffs: tuple[Diff, ...] = ()
    images: tuple[Image, ...] = ()
    started_at: str = ""
    ended_at: str = ""
    duration_ms: int | None = None
    thread: str = ""
    """For a sub-agent's call: the thread (see `Item.thread`) that holds what the sub-agent did."""


class PlanEntry(Struct, frozen=True):
    """One line of a plan; `state` is pending, in_progress or completed."""

    text: str
    state: str = "pending"


class Usage(Struct, frozen=True):
    """Tokens as the vendor counts them, once per model answer."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


class Cut(Struct, frozen=True):
    """A field that is shown in part: its dotted name and the size of the whole in bytes."""

    field: str
    bytes: int


class Item(Struct, frozen=True):
    """One whole item. `at` is RFC 3339 or empty where the native time is missing or absurd."""

    id: str
    kind: ItemKind
    source: Source
    v: int = ENVELOPE_VERSION
    role: Role | None = None
    at: str = ""
    turn: str = ""
    thread: str = ""
    """Empty for the main conversation; else the name of the sub-agent's thread that the item belongs to."""
    content: tuple[Block, ...] = ()
    tool: Tool | None = None
    plan: tuple[PlanEntry, ...] = ()
    model: str = ""
    usage: Usage | None = None
    note: str = ""
    """A stable word for notices: `gap`, `branch`, `interrupted`, `cycle`, `orphan_result`, `kept_here`, …"""
    abandoned: bool = False
    """On a branch that the vendor's own program no longer shows to the model."""
    injected: bool = False
    """Written by the program, not typed by a person (context, reminders); screens fold it."""
    provisional: bool = False
    """From a last line without its newline: it may still change."""
    interrupted: bool = False
    not_in_model_history: bool = False
    """Seen live and kept here, though the vendor dropped it (Codex after an interrupt)."""
    cut: tuple[Cut, ...] = ()

    def text(self) -> str:
        """All text blocks joined by newlines; for search, previews and quotes."""
        return "\n".join(block.text for block in self.content if isinstance(block, Text))


encode_item = msgspec.json.Encoder().encode
decode_item = msgspec.json.Decoder(Item).decode
