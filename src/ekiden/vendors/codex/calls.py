"""Joins the rows of a tool call: the model's call, what Codex did, and what the model got back.

They come in this order or another, with other rows between them; each time more is known, the same item comes
again, larger. A call whose result never comes ends as `unrecorded`; a result without its call is shown as an
orphan.
"""

from collections import OrderedDict

import msgspec

from ekiden.kernel.limits import CODEX_CALLS_REMEMBERED_MAX
from ekiden.transcript.items import Item, ItemKind, PlanEntry, Text, Tool, ToolState, Usage
from ekiden.transcript.reading import Line
from ekiden.vendors.codex import tools
from ekiden.vendors.codex.contents import Cutter
from ekiden.vendors.codex.making import Maker
from ekiden.vendors.codex.native import Record, listed, record, text_of

_PLAN_TOOL = "update_plan"
_PLAN_STATES = frozenset({"pending", "in_progress", "completed"})


class Calls:
    """The calls of one reading: open ones, and the newest of those that are settled."""

    def __init__(self, maker: Maker) -> None:
        self._maker = maker
        self._open: OrderedDict[str, Item] = OrderedDict()
        self._settled: OrderedDict[str, Item | None] = OrderedDict()

    @property
    def open(self) -> int:
        """How many calls have no result yet."""
        return len(self._open)

    def called(self, line: Line, payload: Record, at: str) -> Item:
        """The model called a tool, or wrote its plan, which it does by a call too."""
        call = text_of(payload.get("call_id") or payload.get("id")) or f"@{line.start}"
        cutter = self._maker.cutter()
        turn = self._maker.turn_of(payload)
        if text_of(payload.get("name")) == _PLAN_TOOL:
            self._settle(call, None)
            return self._plan(line, call, record(tools.arguments_of(payload)), turn, at, cutter)
        tool = tools.called(payload, at, cutter)
        item = self._maker.item(line, call, ItemKind.TOOL, at, turn=turn, tool=tool, cutter=cutter)
        self._open[call] = item
        while len(self._open) > CODEX_CALLS_REMEMBERED_MAX:
            self._open.popitem(last=False)
        return item

    def returned(self, line: Line, payload: Record, at: str, *, begins_inside: bool) -> Item | None:
        """The model got a result. None where it adds nothing, and where the call stands before this reading."""
        call = text_of(payload.get("call_id")) or f"@{line.start}"
        if call in self._settled:
            return None
        item = self._open.get(call)
        if item is None and begins_inside:
            return None
        cutter = self._maker.cutter()
        outcome = tools.outcome_of(payload.get("output", payload.get("tools")))
        if item is None or item.tool is None:
            tool = tools.with_outcome(Tool("", ToolState.COMPLETED), outcome, at, cutter)
            turn = self._maker.turn_of(payload)
            item = self._maker.item(
                line, call, ItemKind.TOOL, at, turn=turn, tool=tool, cutter=cutter, note="orphan_result"
            )
            self._settle(call, item)
            return item
        item = msgspec.structs.replace(
            item,
            tool=tools.with_outcome(item.tool, outcome, at, cutter),
            interrupted=outcome.aborted,
            cut=(*item.cut, *cutter.cuts),
        )
        if outcome.state is ToolState.RUNNING:
            self._open[call] = item
        else:
            self._settle(call, item)
        return item

    def is_known(self, payload: Record) -> bool:
        """Whether the call of a result has been seen."""
        call = text_of(payload.get("call_id"))
        return call in self._open or call in self._settled

    def done(self, line: Line, call: str, tool: Tool, turn: str, at: str, cutter: Cutter) -> Item:
        """Codex tells what it did for a call, or by itself."""
        before = self._open.get(call) or self._settled.get(call)
        if before is not None and before.tool is not None:
            item = msgspec.structs.replace(
                before,
                tool=tools.joined(before.tool, tool),
                interrupted=False,
                note="" if before.note == "orphan_result" else before.note,
                cut=(*before.cut, *cutter.cuts),
            )
        else:
            item = self._maker.item(line, call, ItemKind.TOOL, at, turn=turn, tool=tool, cutter=cutter)
        self._settle(call or f"@{line.start}", item)
        return item

    def used(self, item_id: str, usage: Usage) -> None:
        """The answer that made this call cost so much; told together with the result."""
        for call, item in self._open.items():
            if item.id == item_id:
                self._open[call] = msgspec.structs.replace(item, usage=usage)
                return

    def unrecorded(self) -> list[Item]:
        """Calls without a result, as such. They stay open: the reading may go on."""
        return [
            msgspec.structs.replace(item, tool=msgspec.structs.replace(item.tool, state=ToolState.UNRECORDED))
            for item in self._open.values()
            if item.tool is not None
        ]

    def _plan(self, line: Line, call: str, plan: Record, turn: str, at: str, cutter: Cutter) -> Item:
        entries: list[PlanEntry] = []
        for value in listed(plan.get("plan")):
            step = record(value)
            state = text_of(step.get("status"))
            text = cutter.shown(f"plan.{len(entries)}", text_of(step.get("step")))
            entries.append(PlanEntry(text, state if state in _PLAN_STATES else "pending"))
        why = text_of(plan.get("explanation"))
        content = (Text(cutter.shown("content.0", why)),) if why else ()
        return self._maker.item(
            line, call, ItemKind.PLAN, at, turn=turn, content=content, plan=tuple(entries), cutter=cutter
        )

    def _settle(self, call: str, item: Item | None) -> None:
        self._open.pop(call, None)
        self._settled[call] = item
        while len(self._settled) > CODEX_CALLS_REMEMBERED_MAX:
            self._settled.popitem(last=False)
