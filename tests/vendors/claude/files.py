"""Builds session files and reads them through the fold, in each of the three ways."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ekiden.transcript.items import Item
from ekiden.transcript.reading import Facts, Line
from ekiden.vendors.claude.transcript import ClaudeFold

SAMPLES = Path(__file__).parent / "samples"
SESSION = "11111111-2222-4333-8444-555555555555"
AT = "2026-01-01T00:00:00.000Z"


def row(kind: str, uuid: str, parent: str | None, message: Any, **more: Any) -> dict[str, Any]:
    """A row of the conversation."""
    return {
        "parentUuid": parent,
        "isSidechain": False,
        "type": kind,
        "message": message,
        "uuid": uuid,
        "timestamp": AT,
        "cwd": "/home/dev/project",
        "sessionId": SESSION,
        "version": "2.1.332",
        **more,
    }


def user(uuid: str, parent: str | None, content: Any, **more: Any) -> dict[str, Any]:
    """A user's row."""
    return row("user", uuid, parent, {"role": "user", "content": content}, **more)


def assistant(
    uuid: str, parent: str | None, content: Any, message_id: str = "", *, tokens: int = 5, **more: Any
) -> dict[str, Any]:
    """A line of a model's answer. A string stands for one text block."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    message = {
        "id": message_id or f"msg_{uuid}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": blocks,
        "stop_reason": None,
        "usage": {"input_tokens": 10, "output_tokens": tokens},
    }
    return row("assistant", uuid, parent, message, **more)


def call(tool_use_id: str, name: str = "Bash", **fields: Any) -> list[dict[str, Any]]:
    """The content of a tool call."""
    return [{"type": "tool_use", "id": tool_use_id, "name": name, "input": fields}]


def result(tool_use_id: str, content: Any, **more: Any) -> list[dict[str, Any]]:
    """The content of a tool result."""
    return [{"type": "tool_result", "tool_use_id": tool_use_id, "content": content, **more}]


def encode(rows: Iterable[dict[str, Any] | bytes]) -> bytes:
    """Rows as a file, each line ended; bytes are taken as they are."""
    lines = (
        one if isinstance(one, bytes) else json.dumps(one, ensure_ascii=False, separators=(",", ":")).encode()
        for one in rows
    )
    return b"".join(line + b"\n" for line in lines)


def lines_of(data: bytes, start: int = 0, *, numbered: bool = True) -> list[Line]:
    """The lines of `data` from the offset `start`, which must begin a line."""
    lines: list[Line] = []
    position = start
    number = data.count(b"\n", 0, start) + 1
    while position < len(data):
        end = data.find(b"\n", position)
        complete = end >= 0
        end = end if complete else len(data)
        lines.append(Line(data[position:end], position, end, number if numbered else 0, complete))
        position, number = end + 1, number + 1
    return lines


class Reading:
    """Items by id as a reader would hold them, in the order in which each came first."""

    def __init__(self, fold: ClaudeFold | None = None) -> None:
        self.fold = fold or ClaudeFold(SESSION, file="session.jsonl")
        self.items: dict[str, Item] = {}

    def take(self, lines: Sequence[Line], *, finish: bool = True) -> "Reading":
        """Feeds lines."""
        for line in lines:
            self._put(self.fold.feed(line))
        if finish:
            self._put(self.fold.finish())
        return self

    def _put(self, items: Iterable[Item]) -> None:
        for item in items:
            self.items[item.id] = item

    @property
    def facts(self) -> Facts:
        return self.fold.facts

    def all(self, *, kind: str = "", note: str | None = None) -> list[Item]:
        """Items in order, by kind and note."""
        return [
            item
            for item in self.items.values()
            if (not kind or item.kind == kind) and (note is None or item.note == note)
        ]

    def texts(self) -> list[str]:
        """The texts of all messages that are not injected."""
        return [item.text() for item in self.all(kind="message") if not item.injected]


def read(rows: Iterable[dict[str, Any] | bytes], *, session: str = SESSION, thread: str = "") -> Reading:
    """A whole file, read forward."""
    fold = ClaudeFold(session, file="session.jsonl", thread=thread)
    return Reading(fold).take(lines_of(encode(rows)))
