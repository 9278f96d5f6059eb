"""Shows a session as it happens: text as it grows, then whole items, approvals and the ends of turns."""

from typing import Any

import msgspec

from ekiden.cli.items_text import heading_of, print_diff, print_item
from ekiden.cli.screen import Screen, line_of, visible
from ekiden.client.frames import Frame, Lost
from ekiden.sessions.wire import Approval, FeedGrew, Growing, Message
from ekiden.transcript.items import Item, ItemKind, Role

_REMEMBERED_ITEMS_MAX = 10_000


class LivePrinter:
    """Takes frames of one session's topic. One item is printed while it grows; others wait."""

    def __init__(self, screen: Screen, *, quiet_user: bool = False) -> None:
        self._screen = screen
        self._quiet_user = quiet_user
        self._current = ""
        """The item whose text stands unfinished at the cursor."""
        self._printed: dict[str, str] = {}
        """Item id -> the text of it that was printed while it grew."""
        self._pieces: dict[str, int] = {}
        self._done: dict[str, None] = {}

    def take(self, frame: Frame) -> None:
        """Prints what this frame adds. Frames of other kinds are passed over."""
        match frame.kind:
            case "item.grown":
                self._grown(frame.read(Growing))
            case "item.grew":
                grew = frame.read(_Grew)
                if grew.index == self._pieces.get(grew.item_id, 0):
                    self._pieces[grew.item_id] = grew.index + 1
                    self._grow(grew.item_id, grew.kind, grew.text)
            case "items.added":
                for item in frame.read(_Added).items:
                    self.item(item)
            case "turn.changed":
                self._turn(frame.read(dict[str, Any]))
            case "approval.asked":
                self._asked(frame.read(Approval))
            case "approval.answered":
                approval = frame.read(Approval)
                self.note(f"{_label(approval)} by {line_of(approval.answered_by) or 'somebody'}")
            case "approval.ended":
                approval = frame.read(Approval)
                if approval.state in ("withdrawn", "unknown"):
                    self.note(f"the approval is {approval.state}: {line_of(approval.reason)}")
            case "message.changed":
                message = frame.read(Message)
                if message.state in ("failed", "cancelled"):
                    self.note(f"message {message.state}: {line_of(message.reason)}", "red")
            case "stream.gap" | "stream.reset":
                self.note("some events are missing here; `ekiden show` has the whole", "yellow")
            case "client.lost":
                lost = frame.read(Lost)
                self.note(f"connection lost ({line_of(lost.reason)}); trying again", "yellow")
            case _:
                pass

    def item(self, item: Item) -> None:
        """Prints a whole item, or what is still missing of one that grew."""
        if item.injected:
            return
        if item.id in self._printed:
            text = item.text()
            shown = self._printed.pop(item.id)
            self._pieces.pop(item.id, None)
            self._remember(item.id)
            if self._current == item.id and text.startswith(shown):
                self._screen.say(visible(text[len(shown) :]))
                self._current = ""
                if item.interrupted:
                    self.note("interrupted here", "yellow")
                self._screen.say()
            elif text != shown:
                self._break()
                print_item(self._screen, item)
            return
        again = item.id in self._done
        if again and item.kind is not ItemKind.TOOL and item.kind is not ItemKind.PLAN:
            return
        self._remember(item.id)
        if self._quiet_user and item.role is Role.USER:
            return
        self._break()
        print_item(self._screen, item)

    def note(self, text: str, *styles: str) -> None:
        """Prints one line of the program's own."""
        self._break()
        self._screen.say(self._screen.style(f"— {text}", *(styles or ("dim",))))

    def _grown(self, growing: Growing) -> None:
        self._pieces[growing.item_id] = growing.count
        shown = self._printed.get(growing.item_id, "")
        if growing.text.startswith(shown):
            self._grow(growing.item_id, growing.kind, growing.text[len(shown) :])

    def _grow(self, item_id: str, kind: ItemKind, text: str) -> None:
        if item_id in self._done or not text:
            return
        if self._current not in ("", item_id) and item_id not in self._printed:
            self._break()
        if self._current == "" and item_id not in self._printed:
            self._current = item_id
            self._printed[item_id] = ""
            self._screen.say(heading_of(self._screen, kind, Role.ASSISTANT))
        if self._current == item_id:
            self._printed[item_id] += text
            shown = visible(text)
            self._screen.say(self._screen.style(shown, "dim") if kind is ItemKind.THOUGHT else shown, end="")

    def _break(self) -> None:
        """Ends the line at which text stands unfinished; its item is printed whole later."""
        if self._current:
            self._screen.say("\n")
            self._current = ""

    def _remember(self, item_id: str) -> None:
        self._done[item_id] = None
        while len(self._done) > _REMEMBERED_ITEMS_MAX:
            del self._done[next(iter(self._done))]

    def _turn(self, turn: dict[str, Any]) -> None:
        state = str(turn.get("state", ""))
        reason = line_of(str(turn.get("reason", "")))
        if state == "running":
            return
        colour = {"completed": "green", "interrupted": "yellow"}.get(state, "red")
        self.note(f"turn {line_of(state)}{': ' + reason if reason else ''}", colour)

    def _asked(self, approval: Approval) -> None:
        self._break()
        print_approval(self._screen, approval)


def print_approval(screen: Screen, approval: Approval) -> None:
    """Prints what waits for an answer: exactly what the answer is bound to."""
    screen.say(screen.style(f"? {line_of(approval.title)}", "bold", "yellow"))
    if approval.command:
        screen.say(f"  $ {visible(approval.command)}")
    if approval.cwd:
        screen.say(f"  in {line_of(approval.cwd)}")
    if approval.diff:
        print_diff(screen, approval.diff)
    if not approval.command and not approval.diff:
        screen.say(f"  {line_of(bytes(approval.detail).decode('utf-8', 'replace'))}")
    for number, option in enumerate(approval.options, 1):
        screen.say(f"  {number}  {line_of(option.label)}")


def _label(approval: Approval) -> str:
    return next((line_of(one.label) for one in approval.options if one.id == approval.answer), approval.answer)


class _Grew(FeedGrew, frozen=True, tag=None, tag_field=None):
    """The delta as it travels on the stream."""


class _Added(msgspec.Struct, frozen=True):
    items: tuple[Item, ...]
