"""Lines of a session file as typed rows: told apart by their first bytes, decoded only as far as needed.

Nine tenths of a file's bytes are bookkeeping (request bodies, prompt snapshots, file histories). Such a line
is known by its first bytes and never parsed. All other rows are decoded with everything big left raw.

What a strict JSON reader refuses is mended where the meaning is plain: halves of surrogate pairs become
U+FFFD, records glued together on one line are taken apart, fields of a wrong type are dropped. `read_rows`
never raises.
"""

import functools
import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import msgspec

from ekiden.kernel.canonical import whole_text

Raw = msgspec.Raw
T = TypeVar("T", bound=msgspec.Struct)
NOTHING = Raw(b"null")
GLUED_RECORDS_MAX = 64
FIRST_YEAR, LAST_YEAR = 2015, 2099

_HEAD = re.compile(rb'\{ ?"type" ?: ?"([a-z-]{1,40})"')
_TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_RECORD = re.compile(rb'\{ ?"(?:type|parentUuid|uuid|isSidechain|sessionId)"')

BOOKKEEPING = frozenset(
    b"agent-name agent-color agent-setting api-request api-request-blob api-request-shape atis-latch "
    b"attribution-snapshot bridge-session content-replacement cost-state file-history-delta "
    b"file-history-snapshot last-effort marble-origami-commit marble-origami-snapshot mode permission-mode "
    b"pr-link queue-operation remote-session speculation-accept tag task-summary tools-used worktree-state".split()
)
"""Rows that say nothing of the conversation, by their `type`."""

CHAIN = frozenset(("user", "assistant", "attachment", "system", "progress"))
"""Rows that are linked by `parentUuid`."""

TITLES = frozenset(("custom-title", "ai-title", "last-prompt", "summary"))


class Row(msgspec.Struct, rename="camel"):
    """The fields of a row that this reader uses; what is big stays raw."""

    type: str = ""
    uuid: str | None = None
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    session_id: str | None = None
    timestamp: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    is_aborted_mid_stream: bool | None = None
    agent_id: str | None = None
    team_name: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    subtype: str | None = None
    turn_origin: str | None = None
    tool_denial_kind: str | None = None
    api_block_index: int | None = None
    summary: str | None = None
    leaf_uuid: str | None = None
    last_prompt: str | None = None
    ai_title: str | None = None
    custom_title: str | None = None
    message: Raw = NOTHING
    content: Raw = NOTHING
    attachment: Raw = NOTHING
    tool_use_result: Raw = NOTHING
    permission_decision: Raw = NOTHING
    compact_metadata: Raw = NOTHING
    data: Raw = NOTHING
    parent_tool_use_id: str | None = msgspec.field(default=None, name="parentToolUseID")


class Message(msgspec.Struct):
    """The API's message inside a user's or assistant's row."""

    id: str | None = None
    role: str | None = None
    model: str | None = None
    content: Raw = NOTHING
    stop_reason: str | None = None
    usage: Raw = NOTHING


class Block(msgspec.Struct):
    """One content block."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = NOTHING
    tool_use_id: str | None = None
    content: Raw = NOTHING
    is_error: bool | None = None
    source: Raw = NOTHING
    title: str | None = None


class Counts(msgspec.Struct):
    """The API's token counts."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class Attachment(msgspec.Struct, rename="camel"):
    """What the program added beside a prompt."""

    type: str = ""
    prompt: Raw = NOTHING
    source_uuid: str | None = msgspec.field(default=None, name="source_uuid")
    command_mode: str | None = None
    filename: str | None = None
    display_path: str | None = None
    blocking_error: Raw = NOTHING
    hook_name: str | None = None
    stderr: str | None = None
    message: str | None = None


_rows = msgspec.json.Decoder(Row)
_loose = json.JSONDecoder(
    parse_constant=lambda _: None,
    parse_float=lambda digits: value if math.isfinite(value := float(digits)) else None,
)


@functools.cache
def _decoder(shape: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(shape)


def head_type(raw: bytes) -> bytes:
    """The row's `type` where it is the line's first key, else empty."""
    match = _HEAD.match(raw)
    return match.group(1) if match else b""


def decode(raw: Raw | bytes, shape: type[T]) -> T | None:
    """`raw` as `shape`, with fields of a wrong type left out; None if it is no object."""
    try:
        return _decoder(shape).decode(raw)
    except msgspec.ValidationError:
        pass
    except (msgspec.DecodeError, RecursionError):
        return None
    data = bytes(raw)
    try:
        fields = msgspec.json.decode(data, type=dict[str, Raw])
    except (msgspec.DecodeError, RecursionError):
        return None
    kept: dict[str, Any] = {}
    for field in msgspec.structs.fields(shape):
        value = fields.get(field.encode_name)
        if value is not None:
            try:
                kept[field.name] = value if field.type is Raw else msgspec.json.decode(value, type=field.type)
            except (msgspec.DecodeError, RecursionError):
                continue
    return shape(**kept)


def any_value(raw: Raw | bytes) -> Any:
    """`raw` as plain JSON values; None where it is not JSON."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None


def as_map(value: Any) -> Mapping[str, Any]:
    """`value` if it is an object, else an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """`value` if it is a list, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """`value` if it is a string, else empty."""
    return value if isinstance(value, str) else ""


def read_rows(raw: bytes) -> tuple[list[Row], bool]:
    """The rows on a line, and whether something on it could not be read.

    Nearly always one row. More where records were glued together; none where nothing could be read.
    """
    try:
        if not raw.isascii():
            raw.decode()  # what the decoder skips it does not check
        return [_rows.decode(raw)], False
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return _mend(raw)


def _mend(raw: bytes) -> tuple[list[Row], bool]:
    try:
        text = raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        text = raw.decode("utf-8", "replace")
    rows, rest = _records(text)
    if not rest.strip():
        return rows, not rows
    if not rows:
        # A torn record with a whole one stuck to it: take the whole one from the first place that parses.
        for count, match in enumerate(_RECORD.finditer(raw, 1)):
            if count >= GLUED_RECORDS_MAX:
                break
            rows, rest = _records(raw[match.start() :].decode("utf-8", "replace"))
            if rows and not rest.strip():
                break
            rows = []
    return rows, True


def mended(raw: bytes) -> bytes:
    """The first object of `raw` as strict JSON; empty if there is none."""
    return _first_record(raw.decode("utf-8", "replace").lstrip())[0]


def _first_record(text: str) -> tuple[bytes, int]:
    """The object that `text` begins with as strict JSON, and where it ends; empty if there is none."""
    try:
        value, end = _loose.raw_decode(text)
        return whole_text(json.dumps(value, ensure_ascii=False)).encode(), end
    except (ValueError, RecursionError):
        return b"", 0


def _records(text: str) -> tuple[list[Row], str]:
    """As many whole objects as the text begins with, and what is left."""
    rows: list[Row] = []
    while len(rows) < GLUED_RECORDS_MAX:
        text = text.lstrip()
        if not text.startswith("{"):
            break
        clean, end = _first_record(text)
        row = decode(clean, Row)
        if row is None:
            break
        rows.append(row)
        text = text[end:]
    return rows, text


def time_of(text: str | None) -> str:
    """A native time as RFC 3339 in UTC with milliseconds; empty where it is missing, malformed or absurd."""
    if not text:
        return ""
    if _TIME.fullmatch(text):
        return text
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        moment = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return ""
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        return ""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
