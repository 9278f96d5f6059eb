"""Makes items of one rollout: what all of them share is held here, so that each row says only what is its own."""

from ekiden.transcript.items import Block, Item, ItemKind, PlanEntry, Role, Source, Text, Tool
from ekiden.transcript.reading import Line
from ekiden.vendors.codex.contents import Cutter
from ekiden.vendors.codex.native import Record, item_id, record, text_of, turn_id

COPIED = "copied"


class Maker:
    """`own_id` is the thread whose items these are; `turn`, `model` and `copied` follow the rows."""

    def __init__(self, own_id: str, file: str, thread: str, text_bytes_max: int) -> None:
        self.own_id = own_id
        self.turn = ""
        self.model = ""
        self.copied = False
        """The rows come from another thread: its history was copied into this file."""
        self._file = file
        self._thread = thread
        self._text_bytes_max = text_bytes_max
        self._named_turn = ("", "")

    def cutter(self) -> Cutter:
        """For the texts of one item."""
        return Cutter(self._text_bytes_max)

    def turn_of(self, payload: Record) -> str:
        """The neutral id of the turn that a row names, else of the turn that runs."""
        native = text_of(payload.get("turn_id"))
        if not native:
            native = text_of(record(payload.get("internal_chat_message_metadata_passthrough")).get("turn_id"))
        if not native:
            return self.turn
        if native != self._named_turn[0]:
            self._named_turn = (native, turn_id(self.own_id, native))
        return self._named_turn[1]

    def item(
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
        """An item of the row `line`. `native` is Codex's id for it; empty where it has none, then the place of
        the row names it."""
        return Item(
            id=item_id(self.own_id, native or f"@{line.start}"),
            kind=kind,
            source=self.source(line),
            role=role,
            at=at,
            turn=self.turn if turn is None else turn,
            thread=self._thread,
            content=content,
            tool=tool,
            plan=plan,
            model=self.model if role is Role.ASSISTANT else "",
            note=note or (COPIED if self.copied else ""),
            injected=injected,
            cut=tuple(cutter.cuts),
        )

    def source(self, line: Line) -> Source:
        """Where a row stands."""
        return Source(self._file, line.number, line.start, line.end)

    def notice(self, line: Line, note: str, text: str, at: str, *, turn: str | None = None) -> Item:
        """Something that happened, with a stable word and a text for people."""
        return self._texts(line, "", ItemKind.NOTICE, [text], at, turn=turn, note=note)

    def thought(self, line: Line, native: str, texts: list[str], at: str, *, turn: str | None = None) -> Item:
        """The parts of a thought."""
        return self._texts(line, native, ItemKind.THOUGHT, texts, at, turn=turn)

    def plan_text(self, line: Line, native: str, text: str, at: str, *, turn: str) -> Item:
        """A plan that is written as one text."""
        return self._texts(line, native, ItemKind.PLAN, [text], at, turn=turn)

    def compaction(self, line: Line, native: str, summary: str, at: str) -> Item:
        """The point from which the model knows the past only by a summary; `sealed` if only the vendor has it."""
        return self._texts(line, native, ItemKind.COMPACTION, [summary], at, note="" if summary else "sealed")

    def bare(self, line: Line, kind: ItemKind, note: str) -> Item:
        """A row of which nothing else is known."""
        return self.item(line, "", kind, "", cutter=self.cutter(), note=note)

    def _texts(
        self,
        line: Line,
        native: str,
        kind: ItemKind,
        texts: list[str],
        at: str,
        *,
        turn: str | None = None,
        note: str = "",
    ) -> Item:
        cutter = self.cutter()
        parts = enumerate(text for text in texts if text)
        content = tuple(Text(cutter.shown(f"content.{index}", text)) for index, text in parts)
        return self.item(line, native, kind, at, turn=turn, content=content, note=note, cutter=cutter)
