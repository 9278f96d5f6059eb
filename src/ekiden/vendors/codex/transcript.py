"""Codex rollouts of all generations to neutral items: one pure fold, fed with the lines of one file.

What it promises:
- Both generations read alike. In the paginated one (rows have an `ordinal`) what people see is in
  `item_completed` events; in the legacy one it is told twice, as an event and as a `response_item`, and shown
  once; the first versions wrote bare response items, or one document. A file that mixes them is read row by row.
- Item ids are those of Codex's own items (`native.item_id`), so a growing item and the file's item agree.
- Context that Codex writes in the person's name is `injected`; its `<turn_aborted>` rows are not shown.
- A compaction is one item. The history that it carries is never read, however large the line.
- History that was copied from another thread is shown, marked `copied`, and not counted again.
- Rows that are not understood are items too, and are counted.

What a reader gives it: the lines in file order, from the head or from the start of any line. A reading that
begins inside the file knows its thread from where the file was found; results of calls before it are counted in
`Facts.wants_earlier`. A fork by reference says in `Facts.history_base` whose rows come before its own: feed
those of that file, up to the ordinal (`native.ordinal_of`), through the parent's own fold.
"""

import copy

import msgspec

from ekiden.kernel.limits import CODEX_DOCUMENT_BYTES_MAX, ITEM_TEXT_BYTES_MAX
from ekiden.transcript.items import Block, Item, ItemKind, Role, Usage
from ekiden.transcript.reading import Line
from ekiden.vendors.codex import tools
from ekiden.vendors.codex.account import Account
from ekiden.vendors.codex.calls import Calls
from ekiden.vendors.codex.contents import blocks_of, image_of, plain_text
from ekiden.vendors.codex.glued import rows_on
from ekiden.vendors.codex.making import Maker
from ekiden.vendors.codex.native import (
    Head,
    Record,
    decoded,
    head_of,
    listed,
    number_of,
    record,
    sane_time,
    text_of,
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

_TURN_ABORTED = "turn_aborted"
_TURN_BEGINS = frozenset({"task_started", "turn_started"})
_TURN_ENDS = frozenset({"task_complete", "turn_complete", _TURN_ABORTED})
_REVIEW_NOTES = {"EnteredReviewMode": "entered_review_mode", "ExitedReviewMode": "exited_review_mode"}
_TOO_LARGE = "too_large"


class CodexFold:
    """Folds one rollout. `native_id` and `file` come from where it was found; `thread` is not empty for a
    sub-agent's rollout and is then that thread's own id. Texts over `text_bytes_max` are cut."""

    def __init__(
        self, native_id: str, file: str, *, thread: str = "", text_bytes_max: int = ITEM_TEXT_BYTES_MAX
    ) -> None:
        self.sealed_thoughts = 0
        """Thoughts that only the vendor can read, and of which there is no summary."""
        self._account = Account(native_id)
        self.facts = self._account.facts
        self._maker = Maker(thread or native_id, file, thread, text_bytes_max)
        self._calls = Calls(self._maker)
        self._twins = Twins()
        self._next_start = 0
        self._begins_inside = False
        self._answer: Item | None = None
        self._compacted: bool | None = False
        """Whether this turn's compaction has been shown; None where it may stand before this reading."""
        self._inside_rows = 0
        self._said_error = ""
        self._document: list[bytes] = []
        self._document_bytes = 0

    @property
    def open_calls(self) -> int:
        """Calls of which no result has been fed yet."""
        return self._calls.open

    def feed(self, line: Line) -> list[Item]:
        """Items that are new or changed by this line, each whole."""
        if not line.complete:
            return self._foreseen(line)
        items: list[Item] = []
        if line.start != self._next_start:
            items += self._released()
            self._begins_inside, self._compacted, self._inside_rows = True, None, 0
        self._next_start = line.end + 1
        for row in rows_on(line):
            self._inside_rows += 1
            items += self._row(row)
        self._account.judge()
        return items

    def finish(self) -> list[Item]:
        """What only the end settles: a message whose twin never came, and calls without a result."""
        items = self._released()
        if self._document:
            items.append(self._unreadable(self._document_line(), "half a document"))
            self._document = []
        self._account.judge()
        return items + self._calls.unrecorded()

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
        if self._document:
            return self._document_part(line)
        head = head_of(line.raw)
        if head is None:
            return self._odd_row(line)
        at = sane_time(head.timestamp)
        self._maker.copied = self._account.row(at)
        if head.kind == "compacted":
            return self._compacted_row(line, head, at)
        passed_over = (
            head.kind in ROWS_PASSED_OVER
            or (head.kind == "event_msg" and head.sub in EVENTS_PASSED_OVER)
            or (head.kind == "response_item" and head.sub in RESPONSES_PASSED_OVER)
        )
        if len(line.raw) < line.end - line.start:  # only the beginning of a line that was too long to be held
            return [] if passed_over else [self._unreadable(line, _TOO_LARGE)]
        if passed_over and line.raw.endswith(b"}"):
            return self._passed_over(line, head)
        try:
            row = record(decoded(line.raw))
        except ValueError:
            return [self._unreadable(line)]
        return self._known_row(line, head.kind, record(row.get("payload")), at, paged=head.ordinal is not None)

    def _odd_row(self, line: Line) -> list[Item]:
        """A row that is not spelled as usual: keys in another order, a bare form, or no row at all."""
        try:
            row = record(decoded(line.raw))
        except ValueError:
            row = {}
        at = sane_time(row.get("timestamp"))
        self._maker.copied = self._account.row(at)
        if not row:
            if line.start == 0 and line.raw.strip() == b"{":
                self._document = [line.raw]
                return []
            return [self._unreadable(line, _TOO_LARGE if len(line.raw) < line.end - line.start else "")]
        kind = text_of(row.get("type"))
        if "payload" in row:
            return self._known_row(line, kind, record(row["payload"]), at, paged="ordinal" in row)
        if "session" in row and "items" in row:
            return self._whole_document(line, row)
        if kind:
            return self._known_row(line, "response_item", row, at, paged=False)
        if "record_type" in row:
            word = text_of(row["record_type"])
            return [] if word == BARE_STATE else [self._unknown(line, word)]
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
        if kind == "compacted":
            return self._compaction(line, text_of(payload.get("message")), at)
        return [] if kind in ROWS_PASSED_OVER else [self._unknown(line, kind or "no type")]

    def _passed_over(self, line: Line, head: Head) -> list[Item]:
        """Bookkeeping; two kinds of it say something about the session."""
        if head.kind == "turn_context":
            try:
                context = msgspec.json.decode(line.raw, type=TurnContext).payload
            except (msgspec.DecodeError, UnicodeDecodeError):
                return []
            self.facts.model = self._maker.model = context.model or self._maker.model
            self.facts.cwd = self.facts.cwd or context.cwd
        elif head.kind == "token_usage_record" or (head.sub == "token_count" and head.ordinal is None):
            return [*self._released(), *self._usage(line.raw)]
        return []

    def _session_meta(self, line: Line, payload: Record, at: str) -> None:
        maker = self._maker
        self._account.session_meta(payload, at, own_id=maker.own_id, at_head=line.start == 0)
        maker.own_id = maker.own_id or self.facts.native_id

    # Events

    def _event(self, line: Line, payload: Record, at: str) -> list[Item]:
        sub = text_of(payload.get("type"))
        turn = self._maker.turn_of(payload)
        if sub == "item_completed":
            return self._typed(line, record(payload.get("item")), turn, at)
        if sub in ("user_message", "agent_message"):
            return self._told_message(line, payload, sub, at)
        if sub in _TURN_BEGINS:
            return self._turn_begins(turn)
        if sub in _TURN_ENDS:
            return self._turn_ends(line, payload, sub, turn, at)
        if sub == "agent_reasoning":
            return self._twins.told_thought(self._maker.thought(line, "", [text_of(payload.get("text"))], at))
        if sub in tools.ENDS:
            cutter = self._maker.cutter()
            tool = tools.ENDS[sub](payload, at, cutter)
            return self._seen(self._calls.done(line, text_of(payload.get("call_id")), tool, turn, at, cutter))
        if sub in ("error", "warning", "stream_error"):
            self._said_error = text_of(payload.get("message"))
            note = "error" if sub == "error" else "warning"
            return self._seen(self._maker.notice(line, note, self._said_error, at))
        if sub == "context_compacted":
            return self._compaction(line, "", at)
        if sub == "thread_rolled_back":
            said = f"{number_of(payload.get('num_turns')) or 0} turns were taken back."
            return self._seen(self._maker.notice(line, "rolled_back", said, at))
        if sub in _REVIEW_NOTES.values():
            review = record(payload.get("review_output")) or payload
            said = review.get("overall_explanation") or review.get("user_facing_hint") or review.get("prompt")
            return self._seen(self._maker.notice(line, sub, text_of(said), at))
        if sub == "thread_name_updated":
            self.facts.title = text_of(payload.get("thread_name")) or self.facts.title
            return []
        return [] if sub in EVENTS_PASSED_OVER else [self._unknown(line, f"event_msg {sub}")]

    def _turn_begins(self, turn: str) -> list[Item]:
        self._maker.turn, self._said_error, self._compacted = turn, "", False
        if not self._maker.copied:
            self._account.turn_begun(turn)
        return self._released()

    def _turn_ends(self, line: Line, payload: Record, sub: str, turn: str, at: str) -> list[Item]:
        items = self._released()
        if not self._maker.copied:
            self._account.turn_over(turn)
        if sub == _TURN_ABORTED:
            items.append(self._maker.notice(line, "interrupted", text_of(payload.get("reason")), at, turn=turn))
        error = text_of(record(payload.get("error")).get("message"))
        if error and error != self._said_error:
            items.append(self._maker.notice(line, "error", error, at, turn=turn))
        return items

    def _told_message(self, line: Line, payload: Record, sub: str, at: str) -> list[Item]:
        """A legacy event that tells a message; its response item stands beside it in the file."""
        if text_of(payload.get("kind")) not in ("", "plain"):
            return []
        role = Role.USER if sub == "user_message" else Role.ASSISTANT
        whole = text_of(payload.get("message"))
        if self._begins_inside and self._inside_rows == 1:
            # Its twin follows, or is the row before this reading: then it is not told here.
            self._twins.told_first(role, whole)
            self.facts.wants_earlier += 1
            return []
        cutter = self._maker.cutter()
        content: list[Block] = list(blocks_of(whole, cutter)) if whole else []
        content += [image_of(text_of(url)) for url in listed(payload.get("images"))]
        item = self._maker.item(line, "", ItemKind.MESSAGE, at, role=role, content=tuple(content), cutter=cutter)
        return self._counted(self._twins.told(item, whole))

    def _typed(self, line: Line, fields: Record, turn: str, at: str) -> list[Item]:
        """A whole item of the paginated form."""
        kind, native = text_of(fields.get("type")), text_of(fields.get("id"))
        maker = self._maker
        cutter = maker.cutter()
        if kind in ("UserMessage", "AgentMessage", "HookPrompt"):
            content = fields.get("fragments") if kind == "HookPrompt" else fields.get("content")
            role = {"UserMessage": Role.USER, "AgentMessage": Role.ASSISTANT}.get(kind, Role.SYSTEM)
            blocks = blocks_of(content, cutter)
            item = maker.item(
                line, native, ItemKind.MESSAGE, at, turn=turn, role=role, content=blocks, cutter=cutter,
                injected=role is Role.SYSTEM,
            )  # fmt: skip
            return self._counted(self._twins.told(item, plain_text(content), whole_id=True))
        if kind == "Reasoning":
            texts = listed(fields.get("summary_text")) or listed(fields.get("raw_content"))
            return self._thought(line, native, [text_of(each) for each in texts], turn, at, sealed=False)
        if kind == "Plan":
            return self._seen(maker.plan_text(line, native, text_of(fields.get("text")), at, turn=turn))
        if kind == "ContextCompaction":
            return self._compaction(line, "", at, native=native)
        if kind in _REVIEW_NOTES:
            said = text_of(fields.get("review"))
            return self._seen(maker.notice(line, _REVIEW_NOTES[kind], said, at, turn=turn))
        read = tools.TYPED.get(kind)
        if read is None:
            return [self._unknown(line, f"item {kind}")]
        return self._seen(self._calls.done(line, native, read(fields, at, cutter), turn, at, cutter))

    # Response items

    def _response(self, line: Line, payload: Record, at: str, *, paged: bool) -> list[Item]:
        sub = text_of(payload.get("type"))
        if sub == "message":
            return self._response_message(line, payload, at, paged=paged)
        if sub == "reasoning":
            return self._response_reasoning(line, payload, at, paged=paged)
        if sub in CALL_TYPES:
            self._answer = self._calls.called(line, payload, at)
            return self._seen(self._answer)
        if sub in OUTPUT_TYPES:
            if self._begins_inside and not self._calls.is_known(payload):
                self.facts.wants_earlier += 1
            item = self._calls.returned(line, payload, at, begins_inside=self._begins_inside)
            return [] if item is None else self._seen(item)
        if sub in ("web_search_call", "image_generation_call"):
            if paged:  # told by its typed item
                return []
            read = tools.searched_web if sub == "web_search_call" else tools.made_image
            cutter = self._maker.cutter()
            tool = read(payload, at, cutter)
            turn = self._maker.turn_of(payload)
            return self._seen(self._calls.done(line, text_of(payload.get("id")), tool, turn, at, cutter))
        return [] if sub in RESPONSES_PASSED_OVER else [self._unknown(line, f"response_item {sub}")]

    def _response_message(self, line: Line, payload: Record, at: str, *, paged: bool) -> list[Item]:
        role, content = text_of(payload.get("role")), payload.get("content")
        word = context_word(payload)
        if word == _TURN_ABORTED:
            return []
        injected = bool(word) or role not in ("user", "assistant")
        if paged and not injected:
            return []  # told by its typed item; what has none (the text of a compaction) no person was told
        cutter = self._maker.cutter()
        item = self._maker.item(
            line,
            text_of(payload.get("id")),
            ItemKind.MESSAGE,
            at,
            turn=self._maker.turn_of(payload),
            role=Role.SYSTEM if injected else Role(role),
            content=blocks_of(content, cutter),
            injected=injected,
            note=word,
            cutter=cutter,
        )
        return self._seen(item) if injected else self._counted(self._twins.written(item, content))

    def _response_reasoning(self, line: Line, payload: Record, at: str, *, paged: bool) -> list[Item]:
        texts = [text_of(record(each).get("text")) for each in listed(payload.get("summary"))]
        if not any(texts):
            texts = [text_of(record(each).get("text")) for each in listed(payload.get("content"))]
        sealed = bool(payload.get("encrypted_content"))
        if paged and any(texts):  # told by its typed item
            return []
        return self._thought(
            line, text_of(payload.get("id")), texts, self._maker.turn_of(payload), at, sealed=sealed
        )

    def _thought(
        self, line: Line, native: str, texts: list[str], turn: str, at: str, *, sealed: bool
    ) -> list[Item]:
        told = self._twins.take_thoughts()
        if not any(texts):
            self.sealed_thoughts += sealed and not told
            return told
        return self._seen(self._maker.thought(line, native, texts, at, turn=turn))

    # Compactions and documents

    def _compacted_row(self, line: Line, head: Head, at: str) -> list[Item]:
        """Reads the summary off the beginning; the history behind it may be megabytes, or not be here at all."""
        if len(line.raw) == line.end - line.start and not line.raw.endswith(b"}"):
            return [self._unreadable(line)]
        self._compacted = False
        return self._compaction(line, summary_in(line.raw, head.payload_at), at)

    def _compaction(self, line: Line, summary: str, at: str, *, native: str = "") -> list[Item]:
        """Each is told twice, by a row with the summary and then by an event: the row is shown."""
        if not summary and self._compacted is not False:
            self.facts.wants_earlier += self._compacted is None
            return []
        self._compacted = True
        return self._seen(self._maker.compaction(line, native, summary, at))

    def _document_line(self) -> Line:
        whole = b"\n".join(self._document)
        return Line(whole, 0, len(whole), 1)

    def _document_part(self, line: Line) -> list[Item]:
        """The first versions wrote one document over many lines."""
        self._account.row("")
        self._document.append(line.raw)
        if line.end > CODEX_DOCUMENT_BYTES_MAX:
            self._document = self._document[:1]
            whole, self._document = self._document_line(), []
            return [self._unreadable(whole, _TOO_LARGE)]
        if line.raw.rstrip() != b"}":
            return []
        whole = self._document_line()
        try:
            row = record(decoded(whole.raw))
        except ValueError:
            return []
        self._document = []
        return self._whole_document(whole, row)

    def _whole_document(self, line: Line, row: Record) -> list[Item]:
        session = record(row.get("session"))
        self._session_meta(line, session, sane_time(session.get("timestamp")))
        items: list[Item] = []
        for index, value in enumerate(listed(row.get("items"))):
            fields = record(value)
            place = Line(b"", line.start + index, line.end, line.number)  # names an item that has no id
            items += self._response(place, fields, sane_time(fields.get("timestamp")), paged=False)
        items += self._released()
        source = self._maker.source(line)
        return [msgspec.structs.replace(item, source=source) for item in items]

    # Items

    def _seen(self, item: Item) -> list[Item]:
        """`item`, after the messages that waited for a twin: people see the order of the file."""
        return [*self._released(), item]

    def _released(self) -> list[Item]:
        waited = self._twins.release()
        return self._counted(waited) if waited else waited

    def _counted(self, items: list[Item]) -> list[Item]:
        for item in items:
            self._account.message(item)
            if item.role is Role.ASSISTANT:
                self._answer = item
        return items

    def _unreadable(self, line: Line, note: str = "") -> Item:
        self.facts.unreadable_rows += 1
        return self._maker.bare(line, ItemKind.UNREADABLE, note)

    def _unknown(self, line: Line, kind: str) -> Item:
        return self._maker.bare(line, ItemKind.UNKNOWN, self._account.unknown(kind))

    def _usage(self, raw: bytes) -> list[Item]:
        """The tokens of the model's newest answer, told after it."""
        answer, self._answer = self._answer, None
        if answer is None:
            return []
        try:
            payload = record(record(decoded(raw)).get("payload"))
        except ValueError:
            return []
        counts = record(payload.get("usage")) or record(record(payload.get("info")).get("last_token_usage"))
        if not counts:
            return []
        usage = Usage(
            input_tokens=number_of(counts.get("input_tokens")) or 0,
            output_tokens=number_of(counts.get("output_tokens")) or 0,
            cached_tokens=number_of(counts.get("cached_input_tokens")) or 0,
        )
        if answer.kind is ItemKind.TOOL:
            self._calls.used(answer.id, usage)
            return []
        return [msgspec.structs.replace(answer, usage=usage)]
