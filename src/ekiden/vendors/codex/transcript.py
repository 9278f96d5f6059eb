"""Codex rollouts of all generations to neutral items: one pure fold, fed with the lines of one file.

What it promises:
- Both generations read alike. In the paginated one (rows have an `ordinal`) what people see is in
  `item_completed` events; in the legacy one it is told twice, as an event and as a `response_item`, and shown
  once; the first versions wrote bare response items, or one document. A file that mixes them is read row by row.
- Item ids are those of Codex's own items (`native.item_id`), so a growing item and the file's item agree.
- Context that Codex writes in the person's name is `injected`; its `<turn_aborted>` rows are not shown.
- A compaction is one item. The history that it carries is never read, however large the line.
- The first `session_meta` says what the session is. A later, foreign one starts history that was copied from
  another thread: it is shown, marked `copied`, and not counted again.
- Rows that are not understood are items too, and are counted.

What a reader must give it: the lines in file order. For a window that does not begin at the head, feed the
first line of the file first, then jump: it tells the thread, and whether the history stands in another file
(`Facts.history_base`; read that file's rows up to the ordinal with `native.ordinal_of`, through this same
fold, before this file's own). Where a window ends inside the file, feed on until `open_calls` is 0 if results
of calls at its end are wanted.
"""

import copy
import re
from collections import OrderedDict

import msgspec

from ekiden.kernel.limits import CODEX_CALLS_REMEMBERED_MAX, ITEM_TEXT_BYTES_MAX
from ekiden.transcript.items import (
    Block,
    Item,
    ItemKind,
    PlanEntry,
    Role,
    Source,
    Text,
    Tool,
    ToolState,
    Usage,
)
from ekiden.transcript.reading import Drift, Facts, Line
from ekiden.vendors.codex import tools
from ekiden.vendors.codex.contents import Cutter, blocks_of, image_of, plain_text
from ekiden.vendors.codex.native import (
    Head,
    Record,
    decoded,
    head_of,
    item_id,
    listed,
    number_of,
    record,
    sane_time,
    text_of,
    turn_id,
)
from ekiden.vendors.codex.rows import (
    BARE_STATE,
    CALL_TYPES,
    EVENTS_PASSED_OVER,
    OUTPUT_TYPES,
    RESPONSES_PASSED_OVER,
    ROWS_PASSED_OVER,
    TurnContext,
    context_word,
    summary_in,
)
from ekiden.vendors.codex.twins import Twins

_PROMPT_CHARS_MAX = 400
_TITLE_CHARS_MAX = 80
_UNKNOWN_KINDS_MAX = 64
_DOCUMENT_BYTES_MAX = ITEM_TEXT_BYTES_MAX * 256
_UNKNOWN_SHARE_NOTICED = 0.05
_TURN_ABORTED = "turn_aborted"
_PLAN_STATES = frozenset({"pending", "in_progress", "completed"})


class CodexFold:
    """Folds one rollout. `native_id` and `file` come from where it was found; `thread` is not empty for a
    sub-agent's rollout and is then that thread's own id."""

    def __init__(
        self, native_id: str, file: str, *, thread: str = "", text_bytes_max: int = ITEM_TEXT_BYTES_MAX
    ) -> None:
        self.facts = Facts(native_id=native_id)
        self.sealed_thoughts = 0
        """Thoughts that only the vendor can read, and of which there is no summary."""
        self._thread = thread
        self._own_id = thread or native_id
        self._file = file
        self._text_bytes_max = text_bytes_max
        self._meta_seen = False
        self._next_start = 0
        self._begins_inside = False
        self._copied_second = ""
        self._turn = ""
        self._twins = Twins()
        self._calls: OrderedDict[str, Item] = OrderedDict()
        self._settled: OrderedDict[str, Item | None] = OrderedDict()
        self._answer: Item | None = None
        self._compacted_turn: str | None = None
        self._said_error = ""
        self._document: list[bytes] | None = None
        self._document_start = 0

    @property
    def open_calls(self) -> int:
        """Calls of which no result has been fed yet."""
        return sum(1 for item in self._calls.values() if item.tool and item.tool.state not in tools.ENDED)

    def feed(self, line: Line) -> list[Item]:
        """Items that are new or changed by this line, each whole."""
        if not line.complete:
            return self._foreseen(line)
        items: list[Item] = []
        if line.start != self._next_start:
            self._begins_inside = True
            items += self._released()
        self._next_start = line.end + 1
        self.facts.rows += 1
        items += self._row(line)
        self._judge()
        return items

    def finish(self) -> list[Item]:
        """What only the end settles: a message whose twin never came, and calls without a result."""
        items = self._released()
        if self._document is not None:
            items.append(self._unreadable(self._document_line(), "half a document"))
            self._document = None
        for item in self._calls.values():
            if item.tool is not None and item.tool.state not in tools.ENDED:
                tool = msgspec.structs.replace(item.tool, state=ToolState.UNRECORDED)
                items.append(msgspec.structs.replace(item, tool=tool))
        self._judge()
        return items

    # Rows

    def _foreseen(self, line: Line) -> list[Item]:
        """Items of a last line that has no newline yet, without remembering it."""
        try:
            decoded(line.raw)
        except ValueError:
            return []
        ahead = copy.deepcopy(self)
        whole = Line(line.raw, line.start, line.end, line.number)
        return [msgspec.structs.replace(item, provisional=True) for item in ahead.feed(whole)]

    def _row(self, line: Line) -> list[Item]:
        if self._document is not None:
            return self._document_part(line)
        raw = line.raw
        if len(raw) < line.end - line.start:
            return self._oversize(line)
        head = head_of(raw)
        if head is None:
            return self._odd_row(line)
        at = sane_time(head.timestamp)
        self._note_time(head.timestamp, at)
        kind, sub = head.kind, head.sub
        if kind == "compacted":
            return self._compacted(line, head, at)
        if (
            kind in ROWS_PASSED_OVER
            or (kind == "event_msg" and sub in EVENTS_PASSED_OVER)
            or (kind == "response_item" and sub in RESPONSES_PASSED_OVER)
        ) and raw.endswith(b"}"):
            return self._passed_over(line, head)
        try:
            row = record(decoded(raw))
        except ValueError:
            return [self._unreadable(line)]
        return self._known_row(line, kind, record(row.get("payload")), at, paged=head.ordinal is not None)

    def _odd_row(self, line: Line) -> list[Item]:
        """A row that is not spelled as usual: keys in another order, a bare form, or no row at all."""
        if line.start == 0 and line.raw.strip() == b"{":
            self._document, self._document_start = [line.raw], line.start
            return []
        try:
            value = decoded(line.raw)
        except ValueError:
            return [self._unreadable(line)]
        row = record(value)
        if not row:
            return [self._unreadable(line)]
        at = sane_time(row.get("timestamp"))
        self._note_time(text_of(row.get("timestamp")), at)
        kind = text_of(row.get("type"))
        if "payload" in row:
            return self._known_row(line, kind, record(row["payload"]), at, paged="ordinal" in row)
        if "session" in row and "items" in row:
            return self._whole_document(line, row)
        if kind:
            return self._known_row(line, "response_item", row, at, paged=False)
        if "record_type" in row:
            return [] if row["record_type"] == BARE_STATE else [self._unknown(line, text_of(row["record_type"]))]
        if "id" in row and "timestamp" in row:
            return self._known_row(line, "session_meta", row, at, paged=False)
        return [self._unknown(line, "no type")]

    def _known_row(self, line: Line, kind: str, payload: Record, at: str, *, paged: bool) -> list[Item]:
        if kind == "event_msg":
            return self._event(line, payload, at)
        if kind == "response_item":
            return self._response(line, payload, at, paged=paged)
        if kind == "session_meta":
            self._session_meta(line, payload, at)
            return []
        if kind in ROWS_PASSED_OVER:
            return []
        if kind == "compacted":
            return [self._compaction(line, text_of(payload.get("message")), at)]
        return [self._unknown(line, kind or "no type")]

    def _passed_over(self, line: Line, head: Head) -> list[Item]:
        """Bookkeeping; two kinds of it say something about the session."""
        if head.kind == "turn_context":
            try:
                context = msgspec.json.decode(line.raw, type=TurnContext).payload
            except (msgspec.DecodeError, UnicodeDecodeError):
                return []
            self.facts.model = context.model or self.facts.model
            self.facts.cwd = self.facts.cwd or context.cwd
        elif self._answer is not None and (
            head.kind == "token_usage_record" or (head.sub == "token_count" and head.ordinal is None)
        ):
            return self._usage(line.raw)
        return []

    def _session_meta(self, line: Line, payload: Record, at: str) -> None:
        own = text_of(payload.get("id") or payload.get("session_id"))
        facts = self.facts
        if self._meta_seen or (line.start > 0 and own != self._own_id):
            if own != self._own_id:
                self._copied_second = at[:19]
            return
        self._meta_seen = True
        self._own_id = self._own_id or own
        facts.native_id = facts.native_id or own
        facts.cwd = tools.folder(payload.get("cwd")) or facts.cwd
        facts.vendor_version = text_of(payload.get("cli_version"))
        facts.created_at = sane_time(payload.get("timestamp")) or at
        facts.git_branch = text_of(record(payload.get("git")).get("branch"))
        facts.forked_from = text_of(payload.get("forked_from_id"))
        base = record(payload.get("history_base"))
        ordinal = number_of(base.get("end_ordinal_exclusive"))
        if ordinal is not None and base.get("thread_id"):
            facts.history_base = (text_of(base["thread_id"]), ordinal)
        source = payload.get("source")
        agent = record(source).get("subagent", record(source).get("sub_agent"))
        if agent is not None:
            facts.is_subagent = True
            facts.is_helper = isinstance(agent, str) and agent not in ("review",)
        if payload.get("thread_source") not in (None, "user", "subagent", "fork"):
            facts.is_helper = True

    # Events

    def _event(self, line: Line, payload: Record, at: str) -> list[Item]:
        sub = text_of(payload.get("type"))
        turn = self._turn_of(payload)
        if sub == "item_completed":
            return self._typed(line, record(payload.get("item")), turn, at)
        if sub in ("user_message", "agent_message"):
            return self._told_message(line, payload, sub, at)
        if sub in ("task_started", "turn_started"):
            self._turn, self._said_error, self._compacted_turn = turn, "", None
            if not self._copied(at):
                self.facts.turn_open, self.facts.turn_id = True, turn
            return self._released()
        if sub in ("task_complete", "turn_complete", _TURN_ABORTED):
            return self._turn_end(line, payload, sub, turn, at)
        if sub == "agent_reasoning":
            cutter = self._cutter()
            text = cutter.shown("content.0", text_of(payload.get("text")))
            thought = self._item(
                line, f"@{line.start}", ItemKind.THOUGHT, at, content=(Text(text),), cutter=cutter
            )
            return self._twins.told_thought(thought)
        if sub in tools.ENDS:
            call = text_of(payload.get("call_id"))
            cutter = self._cutter()
            return self._done(line, call, tools.ENDS[sub](payload, at, cutter), turn, at, cutter)
        if sub in ("error", "warning", "stream_error"):
            self._said_error = text_of(payload.get("message"))
            return [
                *self._released(),
                self._notice(line, "error" if sub == "error" else "warning", self._said_error, at),
            ]
        if sub == "context_compacted":
            return [] if self._compacted_turn is not None else [self._compaction(line, "", at)]
        if sub == "thread_rolled_back":
            turns = number_of(payload.get("num_turns")) or 0
            return [*self._released(), self._notice(line, "rolled_back", f"{turns} turns were taken back.", at)]
        if sub in ("entered_review_mode", "exited_review_mode"):
            review = record(payload.get("review_output")) or payload
            said = review.get("overall_explanation") or review.get("user_facing_hint") or review.get("prompt")
            return [*self._released(), self._notice(line, sub, text_of(said), at)]
        if sub == "thread_name_updated":
            self.facts.title = text_of(payload.get("thread_name")) or self.facts.title
            return []
        if sub in EVENTS_PASSED_OVER:
            return []
        return [self._unknown(line, f"event_msg {sub}")]

    def _turn_end(self, line: Line, payload: Record, sub: str, turn: str, at: str) -> list[Item]:
        items = self._released()
        if not self._copied(at) and turn in (self.facts.turn_id, "", self._turn):
            self.facts.turn_open = False
        if sub == _TURN_ABORTED:
            items.append(self._notice(line, "interrupted", text_of(payload.get("reason")), at, turn=turn))
        error = text_of(record(payload.get("error")).get("message"))
        if error and error != self._said_error:
            items.append(self._notice(line, "error", error, at, turn=turn))
        return items

    def _told_message(self, line: Line, payload: Record, sub: str, at: str) -> list[Item]:
        """A legacy event that tells a message; its response item stands beside it in the file."""
        if text_of(payload.get("kind")) not in ("", "plain"):
            return []
        role = Role.USER if sub == "user_message" else Role.ASSISTANT
        if role is Role.USER and self._begins_inside and self.facts.rows == 1:
            self.facts.wants_earlier += 1  # its response item is the row before
            return []
        cutter = self._cutter()
        whole = text_of(payload.get("message"))
        content: list[Block] = list(blocks_of(whole, cutter)) if whole else []
        content += [image_of(text_of(url)) for url in listed(payload.get("images"))]
        item = self._item(
            line, f"@{line.start}", ItemKind.MESSAGE, at, role=role, content=tuple(content), cutter=cutter
        )
        return [self._counted(each) for each in self._twins.told(item, whole)]

    def _typed(self, line: Line, item: Record, turn: str, at: str) -> list[Item]:
        """A whole item of the paginated form."""
        kind = text_of(item.get("type"))
        native = text_of(item.get("id")) or f"@{line.start}"
        cutter = self._cutter()
        if kind in ("UserMessage", "AgentMessage"):
            role = Role.USER if kind == "UserMessage" else Role.ASSISTANT
            content = blocks_of(item.get("content"), cutter)
            message = self._item(
                line, native, ItemKind.MESSAGE, at, turn=turn, role=role, content=content, cutter=cutter
            )
            whole = plain_text(item.get("content"))
            return [self._counted(each) for each in self._twins.told(message, whole, whole_id=True)]
        if kind == "Reasoning":
            texts = listed(item.get("summary_text")) or listed(item.get("raw_content"))
            return self._thought(line, native, [text_of(each) for each in texts], turn, at)
        if kind == "Plan":
            text = Text(cutter.shown("content.0", text_of(item.get("text"))))
            return [self._item(line, native, ItemKind.PLAN, at, turn=turn, content=(text,), cutter=cutter)]
        if kind == "ContextCompaction":
            return [] if self._compacted_turn is not None else [self._compaction(line, "", at, native=native)]
        if kind in ("EnteredReviewMode", "ExitedReviewMode"):
            note = "entered_review_mode" if kind == "EnteredReviewMode" else "exited_review_mode"
            return [self._notice(line, note, text_of(item.get("review")), at, turn=turn)]
        if kind == "HookPrompt":
            content = blocks_of(listed(item.get("fragments")), cutter)
            return [
                self._item(
                    line,
                    native,
                    ItemKind.MESSAGE,
                    at,
                    turn=turn,
                    role=Role.SYSTEM,
                    content=content,
                    cutter=cutter,
                    injected=True,
                )
            ]
        read = tools.TYPED.get(kind)
        if read is None:
            return [self._unknown(line, f"item {kind}")]
        return self._done(line, native, read(item, at, cutter), turn, at, cutter)

    # Response items

    def _response(self, line: Line, payload: Record, at: str, *, paged: bool) -> list[Item]:
        sub = text_of(payload.get("type"))
        if sub == "message":
            return self._response_message(line, payload, at, paged=paged)
        if sub == "reasoning":
            summary = [text_of(record(each).get("text")) for each in listed(payload.get("summary"))]
            if not any(summary):
                summary = [text_of(record(each).get("text")) for each in listed(payload.get("content"))]
            sealed = bool(payload.get("encrypted_content"))
            if paged:  # told by its typed item, except where there is nothing to tell
                self.sealed_thoughts += sealed and not any(summary)
                return []
            native = text_of(payload.get("id")) or f"@{line.start}"
            return self._thought(line, native, summary, self._turn_of(payload), at, sealed=sealed)
        if sub in CALL_TYPES:
            return self._called(line, payload, at)
        if sub in OUTPUT_TYPES:
            return self._returned(line, payload, at)
        if sub in ("web_search_call", "image_generation_call"):
            if paged:
                return []
            read = tools.searched_web if sub == "web_search_call" else tools.made_image
            cutter = self._cutter()
            native = text_of(payload.get("id")) or f"@{line.start}"
            return self._done(line, native, read(payload, at, cutter), self._turn_of(payload), at, cutter)
        if sub in RESPONSES_PASSED_OVER:
            return []
        return [self._unknown(line, f"response_item {sub}")]

    def _response_message(self, line: Line, payload: Record, at: str, *, paged: bool) -> list[Item]:
        role = text_of(payload.get("role"))
        content = payload.get("content")
        word = context_word(payload)
        if word == _TURN_ABORTED:
            return []
        native = text_of(payload.get("id")) or f"@{line.start}"
        cutter = self._cutter()
        blocks = blocks_of(content, cutter)
        if role not in ("user", "assistant") or word:
            return [
                *self._released(),
                self._item(
                    line,
                    native,
                    ItemKind.MESSAGE,
                    at,
                    turn=self._turn_of(payload),
                    role=Role.SYSTEM,
                    content=blocks,
                    cutter=cutter,
                    injected=True,
                    note=word,
                ),
            ]
        if paged:  # told by its typed item; what has none (the text of a compaction) was never said to a person
            return []
        item = self._item(
            line,
            native,
            ItemKind.MESSAGE,
            at,
            turn=self._turn_of(payload),
            role=Role.USER if role == "user" else Role.ASSISTANT,
            content=blocks,
            cutter=cutter,
        )
        return [self._counted(each) for each in self._twins.written(item, content)]

    def _thought(
        self, line: Line, native: str, texts: list[str], turn: str, at: str, *, sealed: bool = False
    ) -> list[Item]:
        told = self._twins.take_thoughts()
        texts = [text for text in texts if text]
        if not texts:
            self.sealed_thoughts += sealed and not told
            return told
        cutter = self._cutter()
        content = tuple(Text(cutter.shown(f"content.{index}", text)) for index, text in enumerate(texts))
        thought = self._item(line, native, ItemKind.THOUGHT, at, turn=turn, content=content, cutter=cutter)
        return [*self._twins.release(), thought]

    def _called(self, line: Line, payload: Record, at: str) -> list[Item]:
        items = self._released()
        call = text_of(payload.get("call_id") or payload.get("id")) or f"@{line.start}"
        cutter = self._cutter()
        turn = self._turn_of(payload)
        if text_of(payload.get("name")) == "update_plan":
            plan = record(tools.arguments_of(payload))
            steps = [record(step) for step in listed(plan.get("plan"))]
            entries = tuple(
                PlanEntry(
                    cutter.shown("plan", text_of(step.get("step"))),
                    state if (state := text_of(step.get("status"))) in _PLAN_STATES else "pending",
                )
                for step in steps
            )
            why = text_of(plan.get("explanation"))
            content = (Text(cutter.shown("content.0", why)),) if why else ()
            self._settle(call, None)
            return [
                *items,
                self._item(line, call, ItemKind.PLAN, at, turn=turn, content=content, plan=entries, cutter=cutter),
            ]
        tool = tools.called(payload, at, cutter)
        item = self._item(line, call, ItemKind.TOOL, at, turn=turn, tool=tool, cutter=cutter)
        self._calls[call] = item
        while len(self._calls) > CODEX_CALLS_REMEMBERED_MAX:
            self._calls.popitem(last=False)
        self._answer = item
        return [*items, item]

    def _returned(self, line: Line, payload: Record, at: str) -> list[Item]:
        call = text_of(payload.get("call_id"))
        if call in self._settled:
            return []
        cutter = self._cutter()
        outcome = tools.outcome_of(payload.get("output", payload.get("tools")))
        item = self._calls.get(call)
        if item is None and self._begins_inside:
            self.facts.wants_earlier += 1
            return []
        if item is None or item.tool is None:
            tool = tools.with_outcome(Tool("", ToolState.COMPLETED), outcome, at, cutter)
            native = call or f"@{line.start}"
            orphan = self._item(
                line,
                native,
                ItemKind.TOOL,
                at,
                turn=self._turn_of(payload),
                tool=tool,
                cutter=cutter,
                note="orphan_result",
            )
            self._settle(native, orphan)
            return [*self._released(), orphan]
        item = msgspec.structs.replace(
            item,
            tool=tools.with_outcome(item.tool, outcome, at, cutter),
            interrupted=outcome.aborted,
            cut=(*item.cut, *cutter.cuts),
        )
        if outcome.state is ToolState.RUNNING:
            self._calls[call] = item
        else:
            del self._calls[call]
            self._settle(call, item)
        return [item]

    def _done(self, line: Line, call: str, tool: Tool, turn: str, at: str, cutter: Cutter) -> list[Item]:
        """What Codex did for a call, joined with the call where it was seen."""
        before = self._calls.pop(call, None) or self._settled.get(call)
        if before is not None and before.tool is not None:
            item = msgspec.structs.replace(
                before,
                tool=tools.joined(before.tool, tool),
                interrupted=False,
                note="",
                cut=(*before.cut, *cutter.cuts),
            )
            items: list[Item] = []
        else:
            item = self._item(line, call, ItemKind.TOOL, at, turn=turn, tool=tool, cutter=cutter)
            items = self._released()
        self._settle(call, item)
        return [*items, item]

    def _settle(self, call: str, item: Item | None) -> None:
        self._settled[call] = item
        while len(self._settled) > CODEX_CALLS_REMEMBERED_MAX:
            self._settled.popitem(last=False)

    # Compaction and documents

    def _compacted(self, line: Line, head: Head, at: str) -> list[Item]:
        if not line.raw.endswith(b"}"):
            return [self._unreadable(line)]
        return [*self._released(), self._compaction(line, summary_in(line.raw, head.payload_at), at)]

    def _compaction(self, line: Line, summary: str, at: str, *, native: str = "") -> Item:
        self._compacted_turn = self._turn
        cutter = self._cutter()
        content = (Text(cutter.shown("content.0", summary)),) if summary else ()
        note = "" if summary else "sealed"
        return self._item(
            line, native or f"@{line.start}", ItemKind.COMPACTION, at, content=content, cutter=cutter, note=note
        )

    def _oversize(self, line: Line) -> list[Item]:
        """A line that was too long to be held; only its beginning is here."""
        head = head_of(line.raw)
        if head is None:
            return [self._unreadable(line, "too_large")]
        at = sane_time(head.timestamp)
        self._note_time(head.timestamp, at)
        if head.kind == "compacted":
            return [*self._released(), self._compaction(line, summary_in(line.raw, head.payload_at), at)]
        if head.kind in ROWS_PASSED_OVER or head.sub in EVENTS_PASSED_OVER:
            return []
        return [self._unreadable(line, "too_large")]

    def _document_line(self) -> Line:
        whole = b"\n".join(self._document or [])
        return Line(whole, self._document_start, self._document_start + len(whole), 1)

    def _document_part(self, line: Line) -> list[Item]:
        """The first versions wrote one document over many lines."""
        document = self._document
        assert document is not None
        document.append(line.raw)
        whole = self._document_line()
        if len(whole.raw) > _DOCUMENT_BYTES_MAX:
            self._document = None
            return [self._unreadable(whole, "too_large")]
        if line.raw.rstrip() != b"}":
            return []
        try:
            row = record(decoded(whole.raw))
        except ValueError:
            return []
        self._document = None
        return self._whole_document(whole, row)

    def _whole_document(self, line: Line, row: Record) -> list[Item]:
        session = record(row.get("session"))
        at = sane_time(session.get("timestamp"))
        self._session_meta(line, session, at)
        items: list[Item] = []
        for index, value in enumerate(listed(row.get("items"))):
            fields = record(value)
            place = Line(b"", line.start + index, line.end, line.number)
            items += self._response(place, fields, sane_time(fields.get("timestamp")), paged=False)
        items += self._released()
        source = Source(self._file, line.number, line.start, line.end)
        return [msgspec.structs.replace(item, source=source) for item in items]

    # Items

    def _cutter(self) -> Cutter:
        return Cutter(self._text_bytes_max)

    def _item(
        self,
        line: Line,
        native: str,
        kind: ItemKind,
        at: str,
        *,
        cutter: Cutter,
        turn: str | None = None,
        role: Role | None = None,
        content: tuple[Block, ...] = (),
        tool: Tool | None = None,
        plan: tuple[PlanEntry, ...] = (),
        injected: bool = False,
        note: str = "",
    ) -> Item:
        return Item(
            id=item_id(self._own_id, native),
            kind=kind,
            source=Source(self._file, line.number, line.start, line.end),
            role=role,
            at=at,
            turn=self._turn if turn is None else turn,
            thread=self._thread,
            content=content,
            tool=tool,
            plan=plan,
            model=self.facts.model if role is Role.ASSISTANT else "",
            note=note or ("copied" if self._copied(at) else ""),
            injected=injected,
            cut=tuple(cutter.cuts),
        )

    def _notice(self, line: Line, note: str, text: str, at: str, *, turn: str | None = None) -> Item:
        cutter = self._cutter()
        content = (Text(cutter.shown("content.0", text)),) if text else ()
        return self._item(
            line, f"@{line.start}", ItemKind.NOTICE, at, turn=turn, content=content, cutter=cutter, note=note
        )

    def _unreadable(self, line: Line, note: str = "") -> Item:
        self.facts.unreadable_rows += 1
        return self._item(line, f"@{line.start}", ItemKind.UNREADABLE, "", cutter=self._cutter(), note=note)

    def _unknown(self, line: Line, kind: str) -> Item:
        facts = self.facts
        facts.unknown_rows += 1
        kind = re.sub(r"[^\w .-]", "?", kind)[:80]
        if kind not in facts.unknown_kinds and len(facts.unknown_kinds) >= _UNKNOWN_KINDS_MAX:
            kind = "others"
        facts.unknown_kinds[kind] = facts.unknown_kinds.get(kind, 0) + 1
        return self._item(line, f"@{line.start}", ItemKind.UNKNOWN, "", cutter=self._cutter(), note=kind)

    def _released(self) -> list[Item]:
        """Messages and thoughts that waited for a twin which does not come."""
        return [self._counted(item) for item in self._twins.release()]

    def _counted(self, item: Item) -> Item:
        """`item`, after what it says of the session is noted."""
        if item.kind is not ItemKind.MESSAGE or item.injected:
            return item
        facts = self.facts
        if item.note != "copied":
            facts.messages += 1
        if item.role is Role.ASSISTANT:
            self._answer = item
        elif not facts.first_prompt:
            prompt = item.text().strip()
            facts.first_prompt = prompt[:_PROMPT_CHARS_MAX]
            facts.title = facts.title or tools.title_of(prompt)[:_TITLE_CHARS_MAX]
        return item

    def _usage(self, raw: bytes) -> list[Item]:
        """The tokens of the model's newest answer, told after it."""
        answer, self._answer = self._answer, None
        try:
            payload = record(record(decoded(raw)).get("payload"))
        except ValueError:
            return []
        counts = record(payload.get("usage")) or record(record(payload.get("info")).get("last_token_usage"))
        if answer is None or not counts:
            return []
        usage = Usage(
            input_tokens=number_of(counts.get("input_tokens")) or 0,
            output_tokens=number_of(counts.get("output_tokens")) or 0,
            cached_tokens=number_of(counts.get("cached_input_tokens")) or 0,
        )
        for call, item in self._calls.items():
            if item.id == answer.id:  # told with the call's result
                self._calls[call] = msgspec.structs.replace(item, usage=usage)
                return []
        if answer.kind is ItemKind.TOOL:
            return []
        return [msgspec.structs.replace(answer, usage=usage)]

    def _turn_of(self, payload: Record) -> str:
        native = text_of(payload.get("turn_id"))
        if not native:
            native = text_of(record(payload.get("internal_chat_message_metadata_passthrough")).get("turn_id"))
        return turn_id(self._own_id, native) if native else self._turn

    def _copied(self, at: str) -> bool:
        """Whether a row of this time belongs to history that was copied from another thread: all of that is
        stamped with the second of the fork."""
        if self._copied_second and at[:19] != self._copied_second:
            self._copied_second = ""
        return bool(self._copied_second)

    def _note_time(self, written: str, at: str) -> None:
        if at and at > self.facts.updated_at:
            self.facts.updated_at = at
        elif written and not at:
            self._copied_second = ""

    def _judge(self) -> None:
        facts = self.facts
        strange = facts.unknown_rows + facts.unreadable_rows
        if facts.rows and not facts.messages and facts.history_base is None and (strange or not facts.turn_open):
            facts.drift = Drift.NOTHING_PARSED
        elif strange > facts.rows * _UNKNOWN_SHARE_NOTICED:
            facts.drift = Drift.UNKNOWN_ROWS
        else:
            facts.drift = Drift.NONE
