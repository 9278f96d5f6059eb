"""Tool calls and their results in neutral words."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ekiden.kernel.limits import (
    ITEM_OUTPUT_BYTES_MAX,
    ITEM_PLAN_ENTRIES_MAX,
    ITEM_TITLE_CHARS_MAX,
)
from ekiden.transcript.items import Block as Content
from ekiden.transcript.items import (
    Cut,
    Image,
    Item,
    ItemKind,
    PlanEntry,
    Reference,
    Source,
    Text,
    Tool,
    ToolKind,
    ToolState,
)
from ekiden.vendors.claude import diffs, ids
from ekiden.vendors.claude.bounds import fitted, fitted_blocks, fitted_input, media
from ekiden.vendors.claude.rows import (
    NOTHING,
    Block,
    Raw,
    Row,
    any_value,
    as_list,
    as_map,
    as_text,
    decode,
    time_of,
)

KINDS: Mapping[str, ToolKind] = {
    "Read": ToolKind.READ,
    "NotebookRead": ToolKind.READ,
    "Edit": ToolKind.EDIT,
    "MultiEdit": ToolKind.EDIT,
    "Write": ToolKind.EDIT,
    "NotebookEdit": ToolKind.EDIT,
    "Bash": ToolKind.EXECUTE,
    "BashOutput": ToolKind.EXECUTE,
    "KillShell": ToolKind.EXECUTE,
    "KillBash": ToolKind.EXECUTE,
    "Monitor": ToolKind.EXECUTE,
    "Grep": ToolKind.SEARCH,
    "Glob": ToolKind.SEARCH,
    "LS": ToolKind.SEARCH,
    "ToolSearch": ToolKind.SEARCH,
    "WebFetch": ToolKind.FETCH,
    "WebSearch": ToolKind.FETCH,
    "web_search": ToolKind.FETCH,
    "web_fetch": ToolKind.FETCH,
    "Task": ToolKind.AGENT,
    "Agent": ToolKind.AGENT,
    "TodoWrite": ToolKind.THINK,
    "ExitPlanMode": ToolKind.THINK,
    "EnterPlanMode": ToolKind.THINK,
    "TaskCreate": ToolKind.THINK,
    "TaskUpdate": ToolKind.THINK,
    "TaskList": ToolKind.THINK,
    "TaskGet": ToolKind.THINK,
}
AGENT_TOOLS = frozenset(name for name, kind in KINDS.items() if kind is ToolKind.AGENT)
CALLS = frozenset(("tool_use", "server_tool_use", "mcp_tool_use"))

_EXIT_CODE = re.compile(r"(?:Error: )?Exit code (\d{1,3})\b")
_DENIALS = ("The user doesn't want to proceed with this tool use", "The user doesn't want to take this action")
_DENIED_BY_RULE = re.compile(r"Permission to use .{1,200} (?:has been|was) denied")
_SIDE_FILE = re.compile(r"[Ff]ull output saved to: ?([^\n<]{1,4096})")
_TITLE_KEYS = ("description", "file_path", "notebook_path", "command", "pattern", "query", "url", "path", "skill")
_PLAN_STATES = frozenset(("pending", "in_progress", "completed"))


class Outcome(msgspec.Struct, rename="camel"):
    """`toolUseResult`: what the program recorded beside the result that the model sees."""

    interrupted: bool | None = None
    structured_patch: list[Any] | None = None
    file_path: str | None = None
    agent_id: str | None = None
    duration_ms: int | None = None
    total_duration_ms: int | None = None
    background_task_id: str | None = None


class Result(msgspec.Struct, frozen=True, gc=False):
    """A tool result with the row that brings it."""

    block: Block
    row: Row
    source: Source

    @property
    def digest(self) -> int:
        """Tells two results of one call apart."""
        return hash((bytes(self.block.content), self.block.is_error))


def title_of(name: str, fields: Mapping[str, Any]) -> str:
    """One line that says what a call is about; the tool's name where its input does not."""
    for key in _TITLE_KEYS:
        value = fields.get(key)
        if isinstance(value, str) and value.strip():
            return " ".join(value.split())[:ITEM_TITLE_CHARS_MAX]
    return name[:ITEM_TITLE_CHARS_MAX]


def plan_of(name: str, fields: Mapping[str, Any]) -> tuple[PlanEntry, ...]:
    """The entries of a TodoWrite call."""
    if name != "TodoWrite":
        return ()
    entries: list[PlanEntry] = []
    for todo in map(as_map, as_list(fields.get("todos"))[:ITEM_PLAN_ENTRIES_MAX]):
        state = as_text(todo.get("status"))
        text = as_text(todo.get("content"))[: ITEM_TITLE_CHARS_MAX * 5]
        entries.append(PlanEntry(text, state if state in _PLAN_STATES else "pending"))
    return tuple(entries)


def call_item(block: Block, row: Row, source: Source, **common: Any) -> Item:
    """The item of a tool call that has no result yet. `block` must have an id."""
    name = block.name or ""
    fields = as_map(any_value(block.input))
    cuts: list[Cut] = []
    kind = KINDS.get(name, ToolKind.OTHER)
    at = time_of(row.timestamp)
    tool = Tool(
        name=name,
        state=ToolState.PENDING,
        kind=kind,
        title=title_of(name, fields),
        command=fitted(as_text(fields.get("command")), ITEM_OUTPUT_BYTES_MAX, "tool.command", cuts)
        if kind is ToolKind.EXECUTE
        else "",
        cwd=row.cwd or "" if kind is ToolKind.EXECUTE else "",
        diffs=diffs.asked(name, fields, cuts) if kind is ToolKind.EDIT else (),
        input=fitted_input(block.input, cuts),
        started_at=at,
    )
    plan = plan_of(name, fields)
    content: list[Content] = []
    if name == "ExitPlanMode" and isinstance(fields.get("plan"), str):
        content.append(Text(fields["plan"]))
    return Item(
        id=ids.call_id(block.id or ""),
        kind=ItemKind.PLAN if plan or content else ItemKind.TOOL,
        source=source,
        at=at,
        content=fitted_blocks(content, cuts),
        tool=tool,
        plan=plan,
        cut=tuple(cuts),
        **common,
    )


def with_result(item: Item, result: Result) -> Item:
    """`item` with all that `result` says of its outcome."""
    assert item.tool is not None
    block, row = result.block, result.row
    cuts = list(item.cut)
    texts, images, references = _parts(block.content)
    output = fitted(texts, ITEM_OUTPUT_BYTES_MAX, "tool.output", cuts)
    outcome = decode(row.tool_use_result, Outcome) or Outcome()
    state = _state(result, texts)
    interrupted = bool(outcome.interrupted) or texts.startswith("[Request interrupted by user")
    tool = item.tool
    exit_code = tool.exit_code
    if tool.name == "Bash" and state is not ToolState.DENIED and not interrupted:
        found = _EXIT_CODE.match(texts) if block.is_error else None
        exit_code = int(found.group(1)) if found else None
        if not block.is_error and not outcome.background_task_id:
            exit_code = 0
    changes = tool.diffs
    if outcome.structured_patch and state is ToolState.COMPLETED:
        path = outcome.file_path or (changes[0].path if changes else "")
        cuts = [cut for cut in cuts if cut.field != "tool.diffs"]
        changes = diffs.recorded(path, outcome.structured_patch, cuts) or changes
    tool = msgspec.structs.replace(
        tool,
        state=state,
        output=output,
        exit_code=exit_code,
        diffs=changes,
        images=tuple(images),
        ended_at=time_of(row.timestamp),
        duration_ms=outcome.total_duration_ms if outcome.duration_ms is None else outcome.duration_ms,
        thread=outcome.agent_id or tool.thread,
    )
    return msgspec.structs.replace(
        item,
        tool=tool,
        content=(*item.content, *references),
        interrupted=interrupted or item.interrupted,
        cut=tuple(cuts),
    )


def orphan_item(result: Result, **common: Any) -> Item:
    """A result whose call is not in the file, under the id that the call would have."""
    tool = Tool(name="", state=ToolState.COMPLETED)
    item = Item(
        id=ids.call_id(result.block.tool_use_id or ""),
        kind=ItemKind.TOOL,
        source=result.source,
        at=time_of(result.row.timestamp),
        tool=tool,
        note="orphan_result",
        **common,
    )
    return with_result(item, result)


def _state(result: Result, text: str) -> ToolState:
    row = result.row
    denied = (
        row.tool_denial_kind
        or bytes(row.tool_use_result) == b'"User rejected tool use"'
        or text.startswith(_DENIALS)
        or (result.block.is_error and _DENIED_BY_RULE.match(text))
    )
    if denied:
        return ToolState.DENIED
    return ToolState.FAILED if result.block.is_error else ToolState.COMPLETED


def _parts(content: Raw) -> tuple[str, list[Image], list[Reference]]:
    """A result's text, images and named files; its content is a string, a list of blocks, one block or null."""
    data = bytes(content)
    if data[:1] == b'"':
        text = as_text(any_value(data))
        return text, [], _side_files(text)
    if data[:1] == b"[":
        raws = _raw_list(data)
    elif data[:1] == b"{":
        raws = [content]
    else:
        return "", [], []
    texts: list[str] = []
    images: list[Image] = []
    references: list[Reference] = []
    for raw in raws:
        if bytes(raw)[:1] == b'"':
            texts.append(as_text(any_value(raw)))
            continue
        block = decode(raw, Block)
        if block is None:
            continue
        if block.text is not None:
            texts.append(block.text)
        elif block.source is not NOTHING and block.type in ("image", "document"):
            found = media(block.source, block.title or block.type)
            if isinstance(found, Image):
                images.append(found)
            else:
                references.append(found)
        elif block.type:
            texts.append(f"[{block.type}]")
    text = "\n".join(texts)
    return text, images, references + _side_files(text)


def _raw_list(data: bytes) -> list[Raw]:
    try:
        return msgspec.json.decode(data, type=list[Raw])
    except (msgspec.DecodeError, RecursionError):
        return []


def _side_files(text: str) -> list[Reference]:
    """Files beside the session that hold the whole of an output: named here, opened where one is read whole."""
    if "saved to" not in text:
        return []
    paths = [match.group(1).strip() for match in _SIDE_FILE.finditer(text)]
    return [Reference(path.rsplit("/", 1)[-1], path, "whole output") for path in paths[:4]]
