"""What the lines say of the session as a whole: identity, title, counts, whether a turn is open, drift."""

from collections.abc import Callable

from ekiden.kernel.limits import FOLD_UNKNOWN_KINDS_MAX, ITEM_TITLE_CHARS_MAX
from ekiden.transcript.items import Item, ItemKind
from ekiden.transcript.reading import Drift, Facts
from ekiden.vendors.claude import tools
from ekiden.vendors.claude.rows import Block, Message, Row, time_of

SYNTHETIC = "<synthetic>"
"""The model's name on answers that the program made itself."""

UNKNOWN_SHARE = 0.05
"""From this share of unknown rows on, and this number of them, the file's form counts as drifted."""
UNKNOWN_ROWS_MIN = 3

_ENDS_TURN = frozenset(("end_turn", "stop_sequence", "max_tokens", "refusal", "model_context_window_exceeded"))


class Account:
    """Fills `facts`. `has_row` says whether a uuid is in the file."""

    def __init__(self, facts: Facts, has_row: Callable[[str], bool]) -> None:
        self.facts = facts
        self._has_row = has_row
        self._first_session = ""
        self._titles: dict[str, str] = {}
        self._summary: tuple[str, str] = ("", "")

    def note(self, row: Row, *, whole: bool) -> None:
        """Takes what any row of the chain says. `whole`: the reading began at the file's beginning."""
        facts = self.facts
        if row.session_id and not self._first_session:
            self._first_session = row.session_id
            if not facts.native_id:
                facts.native_id = row.session_id
            elif whole and row.session_id != facts.native_id and not facts.is_subagent:
                facts.forked_from = row.session_id
        if row.cwd and not facts.cwd:
            facts.cwd = row.cwd
        if row.git_branch:
            facts.git_branch = row.git_branch
        if row.version:
            facts.vendor_version = row.version
        at = time_of(row.timestamp)
        if at:
            if not facts.created_at:
                facts.created_at = at
            facts.updated_at = max(facts.updated_at, at)

    def answered(self, message: Message, blocks: list[Block], row: Row, *, main: bool) -> None:
        """Takes what an answer says: the model, and whether it ends the turn. Older files never say why an
        answer stopped: there a text ends the turn until something follows."""
        facts = self.facts
        if message.model and message.model != SYNTHETIC:
            facts.model = message.model
        if not main:
            return
        if any(block.type in tools.CALLS for block in blocks) or message.stop_reason == "tool_use":
            facts.turn_open = True
        elif message.stop_reason in _ENDS_TURN:
            facts.turn_open = False
        elif message.stop_reason is None and any(block.type == "text" for block in blocks):
            facts.turn_open = bool(row.api_block_index is not None and not row.is_aborted_mid_stream)

    def prompted(self, turn_id: str) -> None:
        """A turn begins."""
        self.facts.turn_id = turn_id
        self.facts.turn_open = True

    def first_prompt(self, text: str) -> None:
        """Takes the first prompt; later ones change nothing."""
        if not self.facts.first_prompt:
            self.facts.first_prompt = _one_line(text)
            self._retitle()

    def titled(self, row: Row) -> None:
        """Takes a title row. A summary counts only if the row that it sums up is in this file."""
        if row.type == "summary":
            self._summary = (row.leaf_uuid or "", row.summary or "")
        else:
            text = row.custom_title or row.ai_title or row.last_prompt
            if text:
                self._titles[row.type] = _one_line(text)
        self._retitle()

    def _retitle(self) -> None:
        """Custom before generated before last prompt before summary before first prompt."""
        leaf, summary = self._summary
        titles = self._titles
        self.facts.title = (
            titles.get("custom-title")
            or titles.get("ai-title")
            or titles.get("last-prompt")
            or (_one_line(summary) if self._has_row(leaf) else "")
            or self.facts.first_prompt
        )

    def count_message(self, item: Item, thread: str) -> None:
        """Counts what a person or the model said in the thread that the file is of."""
        if item.kind is ItemKind.MESSAGE and not item.injected and item.thread == thread:
            self.facts.messages += 1

    def count_unknown(self, kind: str) -> None:
        """Counts a row or block that is not understood."""
        facts = self.facts
        facts.unknown_rows += 1
        kind = kind[:ITEM_TITLE_CHARS_MAX]
        if kind not in facts.unknown_kinds and len(facts.unknown_kinds) >= FOLD_UNKNOWN_KINDS_MAX:
            kind = "(further kinds)"
        facts.unknown_kinds[kind] = facts.unknown_kinds.get(kind, 0) + 1

    def judge(self) -> None:
        """Says whether the file's form is one that this reader knows."""
        facts = self.facts
        if not facts.messages and facts.unknown_rows + facts.unreadable_rows:
            facts.drift = Drift.NOTHING_PARSED
        elif facts.unknown_rows >= UNKNOWN_ROWS_MIN and facts.unknown_rows >= facts.rows * UNKNOWN_SHARE:
            facts.drift = Drift.UNKNOWN_ROWS
        else:
            facts.drift = Drift.NONE


def _one_line(text: str) -> str:
    return " ".join(text[: ITEM_TITLE_CHARS_MAX * 4].split())[:ITEM_TITLE_CHARS_MAX]
