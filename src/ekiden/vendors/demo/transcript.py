"""From the demo agent's records to neutral items. Pure; never raises on content."""

import msgspec

from ekiden.kernel.canonical import whole_text
from ekiden.kernel.ids import Prefix, derived_id
from ekiden.transcript.items import (
    Diff,
    Item,
    ItemKind,
    PlanEntry,
    Role,
    Source,
    Text,
    Tool,
    ToolKind,
    ToolState,
)
from ekiden.transcript.reading import Drift, Facts, Line
from ekiden.vendors.demo.native import FORMAT_VERSION, Record, decode_record, item_id, turn_id

MODEL = "demo"
_ENDED = frozenset({"completed", "interrupted", "failed"})
_BOOKKEEPING = frozenset({"session", "title", "queued", "turn"})
_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT}
_TOOL_KINDS = {str(kind): kind for kind in ToolKind}
_TOOL_STATES = {str(state): state for state in ToolState}


class DemoFold:
    """Folds one session file. `native_id` and `file` come from where it was found."""

    def __init__(self, native_id: str, file: str) -> None:
        self.facts = Facts(native_id=native_id, model=MODEL, vendor_version=str(FORMAT_VERSION))
        self._native_id = native_id
        self._file = file
        self._open_tools: dict[str, Item] = {}

    def feed(self, line: Line) -> list[Item]:
        """Items that this line adds or enlarges."""
        if not line.raw.strip():
            return []
        facts = self.facts
        facts.rows += 1
        source = Source(self._file, line.number, line.start, line.end)
        try:
            record = decode_record(line.raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            facts.unreadable_rows += 1
            return [self._stray(ItemKind.UNREADABLE, line, source)]
        if record.at:
            facts.created_at = facts.created_at or record.at
            facts.updated_at = record.at
        if record.type in _BOOKKEEPING:
            return self._note(record, source)
        item = self._item(record, source, provisional=not line.complete)
        if item is None:
            facts.unknown_rows += 1
            facts.unknown_kinds[record.type] = facts.unknown_kinds.get(record.type, 0) + 1
            self._judge()
            return [self._stray(ItemKind.UNKNOWN, line, source)]
        if item.kind is ItemKind.MESSAGE:
            facts.messages += 1
            if item.role is Role.USER and not facts.first_prompt:
                facts.first_prompt = record.text
                facts.title = facts.title or record.text.strip().split("\n")[0][:80]
        if item.tool is not None and item.tool.state in (ToolState.PENDING, ToolState.RUNNING):
            self._open_tools[item.id] = item
        else:
            self._open_tools.pop(item.id, None)
        self._judge()
        return [item]

    def finish(self) -> list[Item]:
        """Tool calls that never got a result."""
        items = [
            msgspec.structs.replace(item, tool=msgspec.structs.replace(item.tool, state=ToolState.UNRECORDED))
            for item in self._open_tools.values()
            if item.tool is not None
        ]
        self._judge()
        return items

    def _judge(self) -> None:
        facts = self.facts
        if facts.rows and facts.unknown_rows + facts.unreadable_rows >= facts.rows:
            facts.drift = Drift.NOTHING_PARSED
        elif facts.unknown_rows * 10 > facts.rows:
            facts.drift = Drift.UNKNOWN_ROWS
        else:
            facts.drift = Drift.NONE

    def _note(self, record: Record, source: Source) -> list[Item]:
        facts = self.facts
        match record.type:
            case "session":
                facts.cwd = record.cwd
                facts.forked_from = record.forked_from
            case "title":
                facts.title = whole_text(record.text)
            case "turn":
                facts.turn_id = turn_id(self._native_id, record.turn)
                facts.turn_open = record.state not in _ENDED
                if not facts.turn_open and record.state != "completed":
                    return [
                        Item(
                            id=item_id(self._native_id, f"{record.turn}.{record.state}"),
                            kind=ItemKind.NOTICE,
                            source=source,
                            at=record.at,
                            turn=facts.turn_id,
                            content=(Text(whole_text(record.text)),) if record.text else (),
                            note=record.state,
                        )
                    ]
            case _:
                pass
        return []

    def _item(self, record: Record, source: Source, *, provisional: bool) -> Item | None:
        kinds = {
            "message": ItemKind.MESSAGE,
            "thought": ItemKind.THOUGHT,
            "plan": ItemKind.PLAN,
            "tool": ItemKind.TOOL,
        }
        kind = kinds.get(record.type)
        if kind is None or not record.id:
            return None
        text = whole_text(record.text)
        is_tool = kind is ItemKind.TOOL
        return Item(
            id=item_id(self._native_id, record.id),
            kind=kind,
            source=source,
            role=_ROLES.get(record.role),
            at=record.at,
            turn=turn_id(self._native_id, record.turn) if record.turn else "",
            thread=record.thread,
            content=() if is_tool or kind is ItemKind.PLAN else (Text(text),),
            tool=self._tool(record, text) if is_tool else None,
            plan=tuple(PlanEntry(whole_text(line.text), line.state) for line in record.plan),
            model=MODEL if record.role == "assistant" else "",
            interrupted=record.interrupted,
            provisional=provisional,
        )

    def _tool(self, record: Record, output: str) -> Tool:
        lines = record.diff.split("\n")
        diff = Diff(
            path=record.path,
            unified=record.diff,
            added=sum(line.startswith("+") and not line.startswith("+++") for line in lines),
            removed=sum(line.startswith("-") and not line.startswith("---") for line in lines),
        )
        begun = self._open_tools.get(item_id(self._native_id, record.id))
        started_at = begun.tool.started_at if begun is not None and begun.tool is not None else record.at
        state = _TOOL_STATES.get(record.state, ToolState.UNRECORDED)
        return Tool(
            name=record.name,
            state=state,
            kind=_TOOL_KINDS.get(record.kind, ToolKind.OTHER),
            title=record.title,
            command=record.command,
            cwd=record.cwd,
            input=msgspec.Raw(
                msgspec.json.encode({"command": record.command} if record.command else {"path": record.path})
            ),
            output=output,
            exit_code=record.exit_code,
            diffs=(diff,) if record.diff else (),
            started_at=started_at,
            ended_at="" if state is ToolState.RUNNING else record.at,
            thread=record.child,
        )

    def _stray(self, kind: ItemKind, line: Line, source: Source) -> Item:
        shown = line.raw[:2000].decode("utf-8", "replace")
        return Item(
            id=derived_id(Prefix.ITEM, "demo", self._native_id, "at", str(line.start)),
            kind=kind,
            source=source,
            content=(Text(shown),),
            provisional=not line.complete,
        )
