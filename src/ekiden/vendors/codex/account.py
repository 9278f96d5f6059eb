"""What the rows of a rollout say of the session as a whole.

The first `session_meta` says what the session is. A later one of another thread begins history that was copied
from there; all of that is stamped with the second of the fork, by which its end is known.
"""

import re

from ekiden.transcript.items import Item, ItemKind, Role
from ekiden.transcript.reading import Drift, Facts
from ekiden.vendors.codex import tools
from ekiden.vendors.codex.making import COPIED
from ekiden.vendors.codex.native import Record, number_of, record, sane_time, text_of

_PROMPT_CHARS_MAX = 400
_TITLE_CHARS_MAX = 80
_UNKNOWN_KINDS_MAX = 64
_UNKNOWN_SHARE_NOTICED = 0.05
_OWN_SOURCES = frozenset({None, "user", "subagent", "fork"})
_FOR_PEOPLE = frozenset({"review"})
"""Sub-agents named by one word that a person asked for; the others (titles, memories) Codex runs for itself."""


class Account:
    """Keeps the `facts` of one reading."""

    def __init__(self, native_id: str) -> None:
        self.facts = Facts(native_id=native_id)
        self._meta_seen = False
        self._copied_second = ""

    def session_meta(self, payload: Record, at: str, *, own_id: str, at_head: bool) -> None:
        """A `session_meta` row. `own_id` is the thread that is read; empty if only this row can tell."""
        named = text_of(payload.get("id") or payload.get("session_id"))
        facts = self.facts
        if self._meta_seen or not (at_head or named == own_id):
            if named != own_id:
                self._copied_second = at[:19]
            return
        self._meta_seen = True
        facts.native_id = facts.native_id or named
        facts.cwd = tools.folder(payload.get("cwd")) or facts.cwd
        facts.vendor_version = text_of(payload.get("cli_version"))
        facts.created_at = sane_time(payload.get("timestamp")) or at
        facts.git_branch = text_of(record(payload.get("git")).get("branch"))
        facts.forked_from = text_of(payload.get("forked_from_id"))
        base = record(payload.get("history_base"))
        ordinal = number_of(base.get("end_ordinal_exclusive"))
        if ordinal is not None and base.get("thread_id"):
            facts.history_base = (text_of(base["thread_id"]), ordinal)
        agent = record(payload.get("source")).get("subagent")
        facts.is_subagent = agent is not None
        facts.is_helper = payload.get("thread_source") not in _OWN_SOURCES or (
            isinstance(agent, str) and agent not in _FOR_PEOPLE
        )

    def row(self, at: str) -> bool:
        """One more row of this time. Returns whether it belongs to copied history."""
        facts = self.facts
        facts.rows += 1
        if self._copied_second and at[:19] != self._copied_second:
            self._copied_second = ""
        if at > facts.updated_at:
            facts.updated_at = at
        return bool(self._copied_second)

    def turn_begun(self, turn: str) -> None:
        """A turn of this thread began."""
        self.facts.turn_open, self.facts.turn_id = True, turn

    def turn_over(self, turn: str) -> None:
        """A turn of this thread ended."""
        if turn in (self.facts.turn_id, ""):
            self.facts.turn_open = False

    def message(self, item: Item) -> None:
        """A message was shown."""
        if item.kind is not ItemKind.MESSAGE or item.injected:
            return
        facts = self.facts
        facts.messages += item.note != COPIED
        if item.role is Role.USER and not facts.first_prompt:
            prompt = item.text().strip()
            facts.first_prompt = prompt[:_PROMPT_CHARS_MAX]
            facts.title = facts.title or tools.title_of(prompt)[:_TITLE_CHARS_MAX]

    def unknown(self, kind: str) -> str:
        """A row of a kind that is not known. Returns the kind as a word that is safe to keep."""
        facts = self.facts
        facts.unknown_rows += 1
        kind = re.sub(r"[^\w .-]", "?", kind)[:80]
        if kind not in facts.unknown_kinds and len(facts.unknown_kinds) >= _UNKNOWN_KINDS_MAX:
            kind = "others"
        facts.unknown_kinds[kind] = facts.unknown_kinds.get(kind, 0) + 1
        return kind

    def judge(self) -> None:
        """Whether this reader knows the form: rows without one message are never taken for an empty session.

        Two kinds of file have no message of their own by right: one whose turn has just begun, and a fork by
        reference, whose history is in its parent's file.
        """
        facts = self.facts
        strange = facts.unknown_rows + facts.unreadable_rows
        wordless = facts.rows and not facts.messages
        if wordless and facts.history_base is None and (strange or not facts.turn_open):
            facts.drift = Drift.NOTHING_PARSED
        elif strange > facts.rows * _UNKNOWN_SHARE_NOTICED:
            facts.drift = Drift.UNKNOWN_ROWS
        else:
            facts.drift = Drift.NONE
