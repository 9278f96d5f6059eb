"""Rollouts for tests: written row by row, and read in each of the ways in which the host reads."""

import json
from pathlib import Path
from typing import Any

import msgspec

from ekiden.transcript.items import Item
from ekiden.transcript.reading import Line
from ekiden.vendors.codex.transcript import CodexFold

HERE = Path(__file__).parent
SAMPLES = HERE / "samples"
THREAD = "01a00000-0000-7000-8000-00000000c0de"
OTHER = "01a00000-0000-7000-8000-0000000000d1"


def row(kind: str, payload: dict[str, Any], *, second: int = 1, ordinal: int | None = None) -> bytes:
    """One row, in the compact spelling of the real program."""
    fields: dict[str, Any] = {"timestamp": f"2026-01-01T00:00:{second:02d}.000Z"}
    if ordinal is not None:
        fields["ordinal"] = ordinal
    return json.dumps(fields | {"type": kind, "payload": payload}, separators=(",", ":")).encode()


def meta(thread: str = THREAD, *, second: int = 1, **fields: Any) -> bytes:
    """A `session_meta` row."""
    payload = {"id": thread, "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/p", "cli_version": "0.147.0"}
    return row("session_meta", payload | fields, second=second)


def event(kind: str, *, second: int = 1, **fields: Any) -> bytes:
    """An `event_msg` row."""
    return row("event_msg", {"type": kind} | fields, second=second)


def typed(kind: str, native: str, *, ordinal: int | None = None, **fields: Any) -> bytes:
    """An `item_completed` event of the paginated form."""
    payload = {
        "type": "item_completed",
        "thread_id": THREAD,
        "turn_id": "t1",
        "item": {"type": kind, "id": native},
    }
    payload["item"] |= fields
    return row("event_msg", payload, ordinal=ordinal)


def response(kind: str, *, second: int = 1, **fields: Any) -> bytes:
    """A `response_item` row."""
    return row("response_item", {"type": kind} | fields, second=second)


def written(role: str, text: str, **fields: Any) -> bytes:
    """A message as a response item."""
    part = "output_text" if role == "assistant" else "input_text"
    return response("message", role=role, content=[{"type": part, "text": text}], **fields)


def lines_of(raw: bytes, *, start: int = 0, number: int = 1) -> list[Line]:
    """The complete lines of `raw`, as the host hands them out."""
    lines: list[Line] = []
    for line in raw.split(b"\n")[:-1]:
        lines.append(Line(line, start, start + len(line), number))
        start += len(line) + 1
        number += 1 if number else 0
    return lines


def joined(rows: list[bytes]) -> bytes:
    """Rows as the bytes of a file."""
    return b"".join(each + b"\n" for each in rows)


def merged(items: list[Item]) -> list[Item]:
    """Items as a screen holds them: each in the place of the earlier one with its id."""
    places: dict[str, Item] = {}
    for item in items:
        places[item.id] = item
    return list(places.values())


def read(rows: list[bytes] | bytes, *, thread: str = THREAD, **options: Any) -> tuple[list[Item], CodexFold]:
    """A whole reading from the head."""
    fold = CodexFold(thread, "rollout.jsonl", **options)
    items: list[Item] = []
    for line in lines_of(rows if isinstance(rows, bytes) else joined(rows)):
        items += fold.feed(line)
    return merged(items + fold.finish()), fold


def said(items: list[Item]) -> list[tuple[str, str]]:
    """Who said what, without what the program wrote by itself."""
    return [(str(item.role), item.text()) for item in items if item.kind == "message" and not item.injected]


def plain(item: Item) -> dict[str, Any]:
    """An item as JSON values, for snapshots."""
    return msgspec.json.decode(msgspec.json.encode(item))
