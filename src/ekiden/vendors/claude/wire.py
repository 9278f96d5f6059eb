"""The lines that a resident Claude Code writes and reads (`--output-format stream-json`, Claude Code 2.1).

One JSON object a line, in both directions. Only the fields that the runtime uses are named here.
"""

import re
from dataclasses import dataclass
from typing import Any

import msgspec

from ekiden.kernel.limits import CLAUDE_LINE_BYTES_MAX
from ekiden.vendors.claude.rows import NOTHING, Raw, decode, mended


class Event(msgspec.Struct):
    """One line from the program."""

    type: str = ""
    subtype: str | None = None
    uuid: str | None = None
    session_id: str | None = None
    parent_tool_use_id: str | None = None
    message: Raw = NOTHING
    event: Raw = NOTHING
    request_id: str | None = None
    request: Raw = NOTHING
    response: Raw = NOTHING
    is_error: bool | None = None
    result: str | None = None
    errors: list[str] | None = None
    terminal_reason: str | None = None
    command_uuid: str | None = None
    state: str | None = None
    is_replay: bool | None = msgspec.field(default=None, name="isReplay")


class StreamDelta(msgspec.Struct):
    """The API's `delta`."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None


class StreamMessage(msgspec.Struct):
    """The API's message at its start."""

    id: str | None = None


class StreamEvent(msgspec.Struct):
    """The API's event inside a `stream_event`."""

    type: str = ""
    index: int | None = None
    message: StreamMessage | None = None
    delta: StreamDelta | None = None


class Reply(msgspec.Struct):
    """A `control_response` to a request of ours."""

    subtype: str = ""
    request_id: str | None = None
    error: str | None = None


class Permission(msgspec.Struct):
    """A `can_use_tool` request."""

    subtype: str = ""
    tool_name: str | None = None
    input: Raw = NOTHING
    description: str | None = None
    permission_suggestions: Raw = NOTHING
    tool_use_id: str | None = None


@dataclass(frozen=True, slots=True)
class Oversize:
    """A line over the bound, left out. `size` in bytes; `head` is how it begins."""

    size: int
    head: bytes = b""

    @property
    def request_id(self) -> str:
        """The request that the line made of us, if it was one: it must be answered, or the turn waits for ever."""
        found = _REQUEST.search(self.head)
        return found.group(1).decode() if found else ""


_HEAD_BYTES = 4_096
_REQUEST = re.compile(rb'"type" ?: ?"control_request", ?"request_id" ?: ?"([A-Za-z0-9-]{1,128})"')


class Lines:
    """Cuts a byte stream into lines without a trap: a line over the bound is skipped and said, and reading
    goes on behind it."""

    def __init__(self, line_bytes_max: int = CLAUDE_LINE_BYTES_MAX) -> None:
        self._max = line_bytes_max
        self._parts: list[bytes] = []
        self._size = 0
        self._head = b""

    def feed(self, chunk: bytes) -> list[bytes | Oversize]:
        """The lines that `chunk` completes."""
        done: list[bytes | Oversize] = []
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._add(end)
            done.append(self._take())
        self._add(rest)
        return done

    def end(self) -> list[bytes | Oversize]:
        """The last line, if the stream ended without a newline."""
        return [self._take()] if self._size else []

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self._max:
            if part:
                self._parts.append(part)
        else:
            self._head = self._head or (b"".join(self._parts) + part)[:_HEAD_BYTES]
            self._parts.clear()

    def _take(self) -> bytes | Oversize:
        small = self._size <= self._max
        line: bytes | Oversize = b"".join(self._parts) if small else Oversize(self._size, self._head)
        self._parts.clear()
        self._size = 0
        self._head = b""
        return line


def read_event(line: bytes) -> Event | None:
    """A line as an event; None if it is no JSON object. Halves of surrogate pairs become U+FFFD."""
    return decode(line, Event) or decode(mended(line), Event)


def user_line(text: str, uuid: str, session_id: str, *, steer: bool) -> dict[str, Any]:
    """A message of a person. `next` is taken in at the running turn's next tool result; `later` waits for the
    turn's end."""
    return {
        "type": "user",
        "uuid": uuid,
        "session_id": session_id,
        "parent_tool_use_id": None,
        "priority": "next" if steer else "later",
        "message": {"role": "user", "content": [{"type": "text", "text": text}]},
    }


def request_line(request_id: str, subtype: str) -> dict[str, Any]:
    """A control request of ours."""
    return {"type": "control_request", "request_id": request_id, "request": {"subtype": subtype}}


def reply_line(request_id: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Our answer to a control request."""
    response = {"subtype": "success", "request_id": request_id, "response": answer}
    return {"type": "control_response", "response": response}


def refusal_line(request_id: str, error: str) -> dict[str, Any]:
    """Our answer to a control request that is not understood."""
    return {"type": "control_response", "response": {"subtype": "error", "request_id": request_id, "error": error}}
