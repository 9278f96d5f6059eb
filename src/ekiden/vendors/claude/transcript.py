"""A Claude Code session file as neutral items: `ClaudeFold`.

The fold may be fed a whole file, a growing tail, or a window that begins somewhere inside. It knows which
from the first line's offset. In a window, what belongs to something before it (a result without its call, a
block whose place nobody says) gives no item and is counted in `facts.wants_earlier`: a window that begins
earlier shows it whole. Item ids are the same in all three.

See `docs/vendors/claude.md` for the rules; the parts are in `rows`, `answers`, `tools`,
`speech`, `tree`, `kept` and `account`.
"""

import copy
import hashlib
from array import array
from bisect import bisect
from collections.abc import Mapping

import msgspec

from ekiden.kernel.limits import FOLD_MESSAGES_OPEN_MAX, ITEM_TITLE_CHARS_MAX
from ekiden.transcript.items import Cut, Item, ItemKind, Role, Source, Text, ToolState
from ekiden.transcript.reading import Facts, Line
from ekiden.vendors.claude import answers, ids, speech, tools
from ekiden.vendors.claude.account import SYNTHETIC, Account
from ekiden.vendors.claude.bounds import fitted_blocks
from ekiden.vendors.claude.kept import Kept
from ekiden.vendors.claude.rows import (
    BOOKKEEPING,
    CHAIN,
    TITLES,
    Block,
    Message,
    Row,
    any_value,
    as_map,
    as_text,
    decode,
    head_type,
    read_rows,
    time_of,
)
from ekiden.vendors.claude.tree import NONE, Tree

HELPER_THREADS = ("acompact", "aprompt_suggestion", "aside_question")
"""Sub-agent files that the program writes for itself, by the beginning of their name."""


class ClaudeFold:
    """Reads one file. `thread` is the sub-agent's name for a sub-agent's file; `callers` maps tool-use ids to
    the threads that they started, as far as it is known from beside the file."""

    def __init__(
        self,
        native_id: str = "",
        *,
        file: str = "",
        thread: str = "",
        called_by: str = "",
        callers: Mapping[str, str] | None = None,
    ) -> None:
        self.facts = Facts(native_id=native_id, is_subagent=bool(thread))
        self.facts.is_helper = thread.startswith(HELPER_THREADS)
        self.facts.called_by = ids.call_id(called_by) if called_by else ""
        self._file = file
        self._thread = thread
        self._callers = callers or {}
        self._window: bool | None = None
        self._tree = Tree()
        self._answers = answers.Answers()
        self._calls: dict[str, Item] = {}
        self._done: dict[str, int] = {}
        self._orphans: dict[str, list[tools.Result]] = {}
        self._kept = Kept()
        self._account = Account(self.facts, lambda uuid: self._tree.number(uuid) != NONE)
        self._digests = array("q")
        self._starts = array("q")
        self._lines = array("q")
        self._told: set[str] = set()
        self._lost: list[int] = []
        self._side_threads: dict[str, str] = {}
        self._spoken: set[str] = set()

    # Feeding

    def feed(self, line: Line) -> list[Item]:
        """Items that are new or changed by this line."""
        if not line.complete:
            return self._provisional(line)
        if self._window is None:
            self._window = line.start > 0
        self.facts.rows += 1
        if head_type(line.raw) in BOOKKEEPING:
            return []
        rows, damaged = read_rows(line.raw)
        source = Source(self._file, line.number, line.start, line.end)
        items: list[Item] = []
        if damaged:
            items.append(self._unreadable_item(line, source))
        for row in rows:
            items += self._row(row, source)
        if len(rows) > 1:
            self.facts.rows += len(rows) - 1
        self._account.judge()
        return items

    def finish(self) -> list[Item]:
        """Settles open calls, orphaned results and branches; the fold can be fed further afterwards."""
        items: list[Item] = []
        for key, item in self._calls.items():
            if item.tool and item.tool.state is ToolState.PENDING:
                tool = msgspec.structs.replace(item.tool, state=ToolState.UNRECORDED)
                self._calls[key] = item = msgspec.structs.replace(item, tool=tool)
                items.append(self._kept.put(item))
        if not self._window:
            items += self._settle_orphans()
        if self._tree.dirty:
            items += self._settle_branches()
        self._account.judge()
        return items

    def _provisional(self, line: Line) -> list[Item]:
        """What an unfinished last line says now, without taking it in: it will be fed again when it is whole."""
        scratch = ClaudeFold(self.facts.native_id, file=self._file, thread=self._thread)
        scratch._window = True
        scratch._answers = copy.deepcopy(self._answers)
        scratch._calls = dict(self._calls)
        scratch._callers = self._callers
        scratch.facts.turn_id = self.facts.turn_id
        items = scratch.feed(Line(line.raw, line.start, line.end, line.number))
        readable = (item for item in items if item.kind not in (ItemKind.UNREADABLE, ItemKind.UNKNOWN))
        return [msgspec.structs.replace(item, provisional=True) for item in readable]

    # One row

    def _row(self, row: Row, source: Source) -> list[Item]:
        kind = row.type
        if kind in CHAIN:
            known = self._tree.number(row.uuid) if row.uuid else NONE
            if known != NONE and self._digests[known] == _digest(row):
                return []
            self._account.note(row, whole=not self._window)
            if kind == "assistant":
                return self._assistant(row, source)
            if kind == "user":
                return self._user(row, source)
            self._link(row, source, said=False)
            if kind == "attachment":
                return self._attachment(row, source)
            if kind == "system":
                return self._system(row, source)
            return self._progress(row)
        if kind in TITLES:
            self._account.titled(row)
            return []
        if kind.encode() in BOOKKEEPING:
            return []
        self._link(row, source, said=False)
        return self._unknown(row, source, kind or "(no type)")

    def _link(self, row: Row, source: Source, *, said: bool, group: str = "") -> int:
        """Puts the row into the tree and returns its number."""
        if row.is_sidechain:
            self._thread_of(row)
        if not row.uuid:
            return NONE
        self._digests.append(_digest(row))
        self._starts.append(source.start)
        self._lines.append(source.line)
        return self._tree.add(
            row.uuid, row.parent_uuid or "", row.logical_parent_uuid or "", said=said, group=group
        )

    def _said(self, row: Row) -> bool:
        return not (row.is_meta or row.team_name) and (not row.is_sidechain or bool(self._thread))

    def _thread_of(self, row: Row) -> str:
        """The thread that a row belongs to; older files have sub-agents' rows among the main ones."""
        if self._thread or not row.is_sidechain:
            return self._thread
        thread = row.agent_id or self._side_threads.get(row.parent_uuid or "") or f"side-{(row.uuid or '')[:8]}"
        if row.uuid:
            self._side_threads[row.uuid] = thread
        return thread

    # Kinds of rows

    def _assistant(self, row: Row, source: Source) -> list[Item]:
        message = decode(row.message, Message)
        blocks = speech.blocks_of(message.content) if message else None
        if message is None or blocks is None:
            self._link(row, source, said=False)
            return self._unknown(row, source, "assistant (message)")
        message_id = message.id or row.uuid or hashlib.sha256(bytes(row.message)).hexdigest()
        number = self._link(row, source, said=self._said(row), group=message_id)
        answer = self._answers.get(message_id)
        if answer is None:
            answer = self._answers.begin(message_id)
            parent_known = not row.parent_uuid or self._tree.number(row.parent_uuid) != NONE
            answer.headless = bool(self._window) and row.api_block_index is None and not parent_known
        answer.model = message.model or ""
        usage = answers.usage_of(message)
        start = answers.place_of(answer, row, blocks, usage)
        if start == answers.UNKNOWN_PLACE and any(block.type not in tools.CALLS for block in blocks):
            self.facts.wants_earlier += 1
        more = usage is not None and (answer.usage is None or usage.output_tokens > answer.usage.output_tokens)
        if more:
            answer.usage = usage
        self._account.answered(message, blocks, row, main=self._main(row))
        items: list[Item] = []
        for offset, block in enumerate(blocks):
            place = start + offset if start != answers.UNKNOWN_PLACE else answers.UNKNOWN_PLACE
            items += self._block(answer, block, place, row, source, number)
        if row.uuid and start != answers.UNKNOWN_PLACE:
            answer.places[row.uuid] = start
        if more and answer.first and all(item.id != answer.first for item in items):
            items += self._give_usage(answer)
        return items

    def _give_usage(self, answer: answers.Answer) -> list[Item]:
        """A later line of an answer counts more tokens: they are told on its first item."""
        kept = self._kept.get(answer.first)
        if kept is None:
            return []
        item = msgspec.structs.replace(kept, usage=answer.usage)
        for key, call in self._calls.items():
            if call.id == item.id:
                self._calls[key] = item
        return [self._kept.put(item)]

    def _block(
        self, answer: answers.Answer, block: Block, place: int, row: Row, source: Source, number: int
    ) -> list[Item]:
        """One block of an answer, at its place in it."""
        thread = self._thread_of(row)
        usage = answer.usage if place == 0 else None
        if block.tool_use_id and block.type.endswith("_result"):
            return self._result(tools.Result(block, row, source))
        words = answers.words_of(block)
        seen = answer.blocks.get(place)
        same = seen is not None and seen.kind == block.type and seen.text == words
        if place >= 0:
            answer.blocks[place] = answers.Seen(block.type, words, row.parent_uuid or "")
        if block.type in tools.CALLS and block.id:
            if same or block.id in self._calls or block.id in self._done:
                return []
            item = tools.call_item(
                block, row, source, turn=self._turn_of(), thread=thread, model=answer.model, usage=usage
            )
            if block.id in self._callers and item.tool:
                tool = msgspec.structs.replace(item.tool, thread=self._callers[block.id])
                item = msgspec.structs.replace(item, tool=tool)
            items = [self._kept.put(item, number)]
            self._calls[block.id] = items[0]
            for result in self._orphans.pop(block.id, []):
                items += self._result(result)
        elif place == answers.UNKNOWN_PLACE or same:
            return []
        else:
            synthetic = answer.model == SYNTHETIC
            cuts: list[Cut] = []
            kind, content, note = speech.said_by_model(block)
            item = Item(
                id=ids.block_id(answer.id, place),
                kind=kind,
                source=source,
                role=Role.ASSISTANT,
                at=time_of(row.timestamp),
                turn=self._turn_of(),
                thread=thread,
                content=fitted_blocks(content, cuts),
                model="" if synthetic else answer.model,
                usage=usage,
                note="api_error" if row.is_api_error_message else note,
                injected=synthetic and not row.is_api_error_message,
                interrupted=bool(row.is_aborted_mid_stream),
                cut=tuple(cuts),
            )
            if kind is ItemKind.UNKNOWN:
                self._account.count_unknown(f"assistant block {block.type or '(no type)'}")
            if seen is None:
                self._account.count_message(item, self._thread)
            items = [self._kept.put(item, number)]
        if place == 0:
            answer.first = items[0].id
        return items

    def _user(self, row: Row, source: Source) -> list[Item]:
        message = decode(row.message, Message)
        blocks = speech.blocks_of(message.content) if message else None
        number = self._link(row, source, said=self._said(row) and message is not None)
        if message is None or blocks is None:
            return self._unknown(row, source, "user (message)")
        items: list[Item] = []
        rest: list[Block] = []
        for block in blocks:
            if block.tool_use_id and block.type.endswith("_result"):
                items += self._result(tools.Result(block, row, source))
            else:
                rest.append(block)
        if not rest:
            return items
        said = speech.said_by_user(rest, row)
        if said is None:
            return items
        name = row.uuid or ids.place_id(source.start, hashlib.sha256(bytes(row.message)).hexdigest())
        if said.begins_turn and self._main(row) and not self._thread:
            self._account.prompted(ids.turn_id(name))
        elif said.ends_turn and self._main(row):
            self.facts.turn_open = False
        if row.is_sidechain and not self._thread:
            items += self._claim_side_thread(row, said.plain)
        # A uuid that is used again for another text gets an id that its text has a part in.
        more = (hashlib.sha256(bytes(row.message)).hexdigest(),) if name in self._spoken else ()
        self._spoken.add(name)
        item = self._spoken_item(ids.row_id(name, *more), row, source, said)
        if said.begins_turn and item.thread == self._thread:
            self._account.first_prompt(said.plain)
        if said.note == "interrupted":
            items += self._cut_short(row)
        self._account.count_message(item, self._thread)
        items.append(self._kept.put(item, number))
        return items

    def _cut_short(self, row: Row) -> list[Item]:
        """The text that an interrupt mark hangs below was cut short; older files say it nowhere else."""
        above = self._kept.newest_of(self._tree.number(row.parent_uuid or ""))
        cut = [item for item in above if item.role is Role.ASSISTANT and not item.interrupted]
        return [self._kept.put(msgspec.structs.replace(item, interrupted=True)) for item in cut]

    def _spoken_item(self, item_id: str, row: Row, source: Source, said: speech.Said) -> Item:
        cuts: list[Cut] = []
        return Item(
            id=item_id,
            kind=said.kind,
            source=source,
            role=said.role,
            at=time_of(row.timestamp),
            turn=self._turn_of(),
            thread=self._thread_of(row),
            content=fitted_blocks(said.content, cuts),
            note=said.note,
            injected=said.injected,
            cut=tuple(cuts),
        )

    def _result(self, result: tools.Result) -> list[Item]:
        key = result.block.tool_use_id or ""
        call = self._calls.pop(key, None)
        if call is not None:
            self._done[key] = result.digest
            if self._main(result.row):
                self.facts.turn_open = True
            return [self._kept.put(tools.with_result(call, result))]
        if key in self._done:
            return [] if self._done[key] == result.digest else self._lone_result(result, first=False)
        waiting = self._orphans.setdefault(key, [])
        if all(result.digest != other.digest for other in waiting):
            waiting.append(result)
            if self._window:
                self.facts.wants_earlier += 1
                if len(self._orphans) > FOLD_MESSAGES_OPEN_MAX:
                    # Their calls stand before the window, so nothing here waits for them.
                    del self._orphans[next(iter(self._orphans))]
        return []

    def _lone_result(self, result: tools.Result, *, first: bool) -> list[Item]:
        """A result that stands alone, told once: the first under the id that its call would have, a second,
        different one for the same call beside it."""
        key = result.block.tool_use_id or ""
        item = tools.orphan_item(result, turn=self._turn_of(), thread=self._thread_of(result.row))
        if not first:
            item = msgspec.structs.replace(item, id=ids.row_id(result.row.uuid or key, "result", key))
        if item.id in self._told:
            return []
        self._told.add(item.id)
        return [self._kept.put(item)]

    def _attachment(self, row: Row, source: Source) -> list[Item]:
        said = speech.said_by_attachment(row)
        if said is None:
            return []
        name = (
            said.name or row.uuid or ids.place_id(source.start, hashlib.sha256(bytes(row.attachment)).hexdigest())
        )
        item = self._spoken_item(ids.row_id(name), row, source, said)
        self._account.count_message(item, self._thread)
        return [self._kept.put(item)]

    def _system(self, row: Row, source: Source) -> list[Item]:
        if row.subtype == "turn_duration" and self._main(row):
            self.facts.turn_open = False
        said = speech.said_by_program(row)
        if said is None:
            return []
        name = row.uuid or ids.place_id(source.start, hashlib.sha256(bytes(row.content)).hexdigest())
        return [self._kept.put(self._spoken_item(ids.row_id(name), row, source, said))]

    def _progress(self, row: Row) -> list[Item]:
        """Older files tell here which sub-agent a running call has started."""
        call = self._calls.get(row.parent_tool_use_id or "")
        if call is None or call.tool is None or call.tool.thread or call.tool.name not in tools.AGENT_TOOLS:
            return []
        thread = as_text(as_map(any_value(row.data)).get("agentId"))
        return self._give_thread(row.parent_tool_use_id or "", thread) if thread else []

    def _claim_side_thread(self, row: Row, prompt: str) -> list[Item]:
        """An old sub-agent's first row repeats the prompt of the call that started it."""
        if self._tree.number(row.parent_uuid or "") != NONE:
            return []
        for key, call in self._calls.items():
            if call.tool and call.tool.name in tools.AGENT_TOOLS and not call.tool.thread:
                asked = as_text(as_map(any_value(call.tool.input)).get("prompt"))
                if asked and asked == prompt:
                    return self._give_thread(key, self._thread_of(row))
        return []

    def _give_thread(self, key: str, thread: str) -> list[Item]:
        call = self._calls[key]
        assert call.tool is not None
        tool = msgspec.structs.replace(call.tool, thread=thread)
        self._calls[key] = item = msgspec.structs.replace(call, tool=tool)
        return [self._kept.put(item)]

    # What cannot be read

    def _unreadable_item(self, line: Line, source: Source) -> Item:
        self.facts.unreadable_rows += 1
        self._lost.append(line.start)
        digest = hashlib.sha256(line.raw).hexdigest()
        return Item(
            id=ids.place_id(line.start, digest), kind=ItemKind.UNREADABLE, source=source, thread=self._thread
        )

    def _unknown(self, row: Row, source: Source, kind: str) -> list[Item]:
        """Counts a row that is not understood; one that looks like conversation, or that does not even say
        what it is, is shown too."""
        self._account.count_unknown(kind)
        if row.type and bytes(row.message) == b"null" and bytes(row.content) == b"null":
            return []
        if not row.uuid:
            self._lost.append(source.start)
        name = row.uuid or ids.place_id(source.start, kind)
        return [
            Item(
                id=ids.row_id(name, "unknown"),
                kind=ItemKind.UNKNOWN,
                source=source,
                at=time_of(row.timestamp),
                thread=self._thread,
                note=kind[:ITEM_TITLE_CHARS_MAX],
            )
        ]

    def _main(self, row: Row) -> bool:
        return not row.is_sidechain or bool(self._thread)

    def _turn_of(self) -> str:
        return "" if self._thread else self.facts.turn_id

    # What the end of a reading settles

    def _settle_orphans(self) -> list[Item]:
        items: list[Item] = []
        for results in self._orphans.values():
            for place, result in enumerate(results):
                items += self._lone_result(result, first=place == 0)
        return items

    def _settle_branches(self) -> list[Item]:
        shape = self._tree.shape()
        items, lost = self._kept.abandon(shape.abandoned)
        if lost:
            said = f"{len(lost)} items that were read long before are on an abandoned branch."
            items += self._break(lost[0], "branch", said)
        if not self._window:
            for row in shape.dangling:
                items += self._break(row, "gap")
        for row in shape.cycles:
            items += self._break(row, "cycle")
        return items

    def _break(self, row: int, note: str, said: str = "") -> list[Item]:
        """A notice at a row where the chain is broken or forks; none where an item for
        what cannot be read says so already."""
        start = self._starts[row]
        before = self._starts[row - 1] if row else -1
        item_id = ids.place_id(start, note)
        lost_here = bisect(self._lost, start) > bisect(self._lost, before)
        if item_id in self._told or (note == "gap" and lost_here):
            return []
        self._told.add(item_id)
        source = Source(self._file, self._lines[row], start, start)
        return [
            Item(
                id=item_id,
                kind=ItemKind.NOTICE,
                source=source,
                role=Role.SYSTEM,
                thread=self._thread,
                content=(Text(said),) if said else (),
                note=note,
            )
        ]


def _digest(row: Row) -> int:
    return hash((row.type, bytes(row.message), bytes(row.content), row.parent_uuid))
