"""What rows say, and who says it: a person, the model, or the program in the user's name.

Claude Code writes much into user rows that no person typed: interrupt marks, command output, reminders,
notifications of finished work. Each is told by the form that the program itself gives it.
"""

import re

import msgspec

from ekiden.transcript.items import Block as Content
from ekiden.transcript.items import ItemKind, Reference, Role, Text
from ekiden.vendors.claude.bounds import media
from ekiden.vendors.claude.rows import (
    Attachment,
    Block,
    Raw,
    Row,
    any_value,
    as_map,
    as_text,
    decode,
)

_COMMAND = re.compile(r"<command-name>(.*?)</command-name>", re.DOTALL)
_COMMAND_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
_OUTPUT = re.compile(r"<(local-command|bash)-(stdout|stderr)>(.*?)</\1-\2>", re.DOTALL)
_SHELL = re.compile(r"<bash-input>(.*?)</bash-input>", re.DOTALL)
_INJECTED = ("<local-command-caveat>", "Caveat: The messages below", "<task-notification>", "<system-reminder>")
_ATTACHMENT = re.compile(rb'"type" ?: ?"([a-z_]{1,60})"')
_PROGRAM_ORIGINS = frozenset(("task_notification", "task-notification"))

_ATTACHMENTS_SAID = frozenset(
    (b"queued_command", b"file", b"hook_blocking_error", b"hook_stopped_continuation", b"hook_non_blocking_error")
)
_SYSTEM_SILENT = frozenset(("turn_duration", "stop_hook_summary", "bridge_status", "file_snapshot"))

_blocks = msgspec.json.Decoder(list[Block])


class Said(msgspec.Struct, frozen=True, gc=False):
    """An utterance outside the model's answers."""

    kind: ItemKind
    role: Role
    content: list[Content]
    note: str = ""
    injected: bool = False
    begins_turn: bool = False
    ends_turn: bool = False
    name: str = ""
    """The uuid that its item is known by, where it is not the row's own."""

    @property
    def plain(self) -> str:
        """Its text."""
        return "\n".join(block.text for block in self.content if isinstance(block, Text))


def blocks_of(content: Raw) -> list[Block] | None:
    """A message's content as blocks: a string, a list, one block or nothing. None for any other form."""
    data = bytes(content)
    if data == b"null":
        return []
    if data[:1] == b'"':
        text = as_text(any_value(data))
        return [Block("text", text)] if text else []
    if data[:1] == b"{":
        block = decode(data, Block)
        return None if block is None else [block]
    if data[:1] != b"[":
        return None
    try:
        return _blocks.decode(content)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        raws = msgspec.json.decode(data, type=list[Raw])
    except (msgspec.DecodeError, RecursionError):
        return None
    blocks: list[Block] = []
    for raw in raws:
        if bytes(raw)[:1] == b'"':
            blocks.append(Block("text", as_text(any_value(raw))))
        elif (block := decode(raw, Block)) is not None:
            blocks.append(block)
    return blocks


def said_by_model(block: Block) -> tuple[ItemKind, list[Content], str]:
    """A block of an answer that is no tool call: its kind, content and note."""
    if block.type == "text":
        return ItemKind.MESSAGE, [Text(block.text or "")], ""
    if block.type == "thinking":
        thought = block.thinking or ""
        return ItemKind.THOUGHT, [Text(thought)] if thought else [], "" if thought else "sealed"
    if block.type == "redacted_thinking":
        return ItemKind.THOUGHT, [], "sealed"
    if block.type in ("image", "document"):
        return ItemKind.MESSAGE, [media(block.source, block.title or block.type)], ""
    text = block.text or ""
    return ItemKind.UNKNOWN, [Text(text)] if text else [], (block.type or "no type")[:60]


def _content(blocks: list[Block]) -> list[Content]:
    content: list[Content] = []
    for block in blocks:
        if block.type in ("image", "document"):
            content.append(media(block.source, block.title or block.type))
        elif block.text:
            content.append(Text(block.text))
        elif block.type not in ("text", ""):
            content.append(Reference(block.type[:60], "", "not understood"))
    return content


def said_by_user(blocks: list[Block], row: Row) -> Said | None:
    """What a user's row says beside tool results; None if that is nothing."""
    content = _content(blocks)
    if not content:
        return None
    first = content[0].text if isinstance(content[0], Text) else ""
    head = first.lstrip()[:60]
    if row.is_compact_summary:
        return Said(ItemKind.MESSAGE, Role.USER, content, "compact_summary", injected=True)
    if head.startswith("[Request interrupted by user"):
        return Said(ItemKind.NOTICE, Role.SYSTEM, content, "interrupted", ends_turn=True)
    if head.startswith(("<command-name>", "<command-message>")) and (command := _COMMAND.search(first)):
        arguments = _COMMAND_ARGUMENTS.search(first)
        typed = f"{command.group(1).strip()} {arguments.group(1).strip() if arguments else ''}".strip()
        return Said(ItemKind.MESSAGE, Role.USER, [Text(typed)], "command", begins_turn=not row.is_meta)
    if head.startswith(("<local-command-", "<bash-std")) and (outputs := _OUTPUT.findall(first)):
        text = "\n".join(part for _, _, part in outputs if part)
        note = "command_output" if outputs[0][0] == "local-command" else "shell_output"
        return Said(ItemKind.NOTICE, Role.SYSTEM, [Text(text)], note, ends_turn=True)
    if head.startswith("<bash-input>") and (shell := _SHELL.search(first)):
        return Said(ItemKind.MESSAGE, Role.USER, [Text(shell.group(1))], "shell")
    by_program = head.startswith(_INJECTED) or row.turn_origin in _PROGRAM_ORIGINS
    injected = bool(row.is_meta) or by_program
    return Said(ItemKind.MESSAGE, Role.USER, content, injected=injected, begins_turn=not row.is_meta)


def said_by_attachment(row: Row) -> Said | None:
    """The few attachments that a person would want to see: what was typed while a turn ran, files that were
    named, hooks that stopped something."""
    found = _ATTACHMENT.search(bytes(row.attachment)[:200])
    if found is None or found.group(1) not in _ATTACHMENTS_SAID:
        return None
    attachment = decode(row.attachment, Attachment)
    if attachment is None:
        return None
    if attachment.type == "queued_command":
        content = _content(blocks_of(attachment.prompt) or [])
        if not content:
            return None
        by_program = attachment.command_mode in _PROGRAM_ORIGINS
        return Said(
            ItemKind.MESSAGE,
            Role.USER,
            content,
            "queued",
            injected=by_program,
            name=attachment.source_uuid or "",
        )
    if attachment.type == "file":
        name = attachment.display_path or attachment.filename or ""
        if not name:
            return None
        reference = Reference(name, attachment.filename or "")
        return Said(ItemKind.NOTICE, Role.SYSTEM, [reference], "attached_file", injected=True)
    error = as_map(any_value(attachment.blocking_error))
    text = as_text(error.get("blockingError")) or attachment.message or attachment.stderr or ""
    return Said(ItemKind.NOTICE, Role.SYSTEM, [Text(text)] if text else [], "hook", injected=True)


def said_by_program(row: Row) -> Said | None:
    """A `system` row."""
    subtype = row.subtype or ""
    text = as_text(any_value(row.content))
    if subtype in ("compact_boundary", "microcompact_boundary"):
        return Said(ItemKind.COMPACTION, Role.SYSTEM, [Text(text)] if text else [], subtype)
    if subtype in _SYSTEM_SILENT or not text:
        return None
    if subtype == "local_command":
        return said_by_user([Block("text", text)], row)
    return Said(ItemKind.NOTICE, Role.SYSTEM, [Text(text)], subtype[:60] or "system", injected=bool(row.is_meta))
