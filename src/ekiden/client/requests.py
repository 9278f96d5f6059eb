"""What every client of the door puts into a request, whatever carries it."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from ekiden.client.transport import Request
from ekiden.kernel.ids import Prefix, new_id

_encode = msgspec.json.Encoder().encode

QueryValue = str | int | bool | None


def target_of(path: str, query: Mapping[str, QueryValue]) -> str:
    """`path` with its query; values that are None or empty are left out."""
    pairs = [
        (name, str(value).lower() if isinstance(value, bool) else str(value))
        for name, value in query.items()
        if value is not None and value != ""
    ]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def path_of(template: str, **parts: str) -> str:
    """`template` with each `{name}` replaced by its percent-encoded part."""
    return template.format(**{name: quote(part, safe="") for name, part in parts.items()})


def read_request(key: str, path: str, query: Mapping[str, QueryValue]) -> Request:
    """A GET."""
    return Request("GET", target_of(path, query), _head(key))


def write_request(method: str, key: str, path: str, body: Any, command_id: str) -> Request:
    """A write with a JSON body (`{}` where there is none). No `Command-Id` if `command_id` is empty."""
    head = _head(key)
    head["content-type"] = "application/json"
    if command_id:
        head["command-id"] = command_id
    payload = bytes(body) if isinstance(body, bytes | msgspec.Raw) else _encode({} if body is None else body)
    return Request(method, path, head, payload)


def stream_request(key: str, topics: tuple[str, ...], after: str) -> Request:
    """The stream of `topics`, after the cursor `after` (from now on if empty)."""
    head = _head(key)
    head["accept"] = "text/event-stream"
    if after:
        head["last-event-id"] = after
    return Request("GET", target_of("/v1/stream", {"topics": ",".join(topics)}), head, streaming=True)


def new_command_id() -> str:
    """A fresh name for one write."""
    return new_id(Prefix.COMMAND)


def _head(key: str) -> dict[str, str]:
    head = {"accept": "application/json", "user-agent": "ekiden"}
    if key:
        head["authorization"] = f"Bearer {key}"
    return head
