"""Talking to a session from a terminal: send a message, watch its turn, answer what it asks, stop it."""

import sys
from dataclasses import dataclass
from typing import Any

from ekiden.cli.exit_codes import BREAK, OK, TURN_FAILED, TURN_INTERRUPTED, VENDOR
from ekiden.cli.live import LivePrinter
from ekiden.cli.names import session_path
from ekiden.cli.screen import Screen, line_of
from ekiden.cli.waiting import Ears
from ekiden.client.frames import Frame
from ekiden.client.plain import PlainClient
from ekiden.client.requests import path_of
from ekiden.kernel.errors import AlreadyAnswered, Conflict, EkidenError, Unavailable
from ekiden.kernel.ids import Prefix, new_id
from ekiden.kernel.limits import PAGE_ROWS_DEFAULT
from ekiden.sessions.wire import (
    AnswerApproval,
    Approval,
    Interrupt,
    ItemPage,
    Message,
    SendMessage,
    SessionView,
)

_ENDED = {"completed": OK, "interrupted": TURN_INTERRUPTED, "failed": TURN_FAILED, "lost": TURN_FAILED}


@dataclass(slots=True)
class _Waiting:
    """The message whose turn is waited for, and the turn once it is known."""

    message_id: str
    turn_id: str = ""
    queued: bool = False
    running: str = ""


class Conversation:
    """One session, followed on a stream of its own from `view` on."""

    def __init__(self, client: PlainClient, screen: Screen, view: SessionView, *, as_json: bool) -> None:
        self._client = client
        self._screen = screen
        self._as_json = as_json
        self._session_id = view.session.report.session_id
        self._printer = LivePrinter(screen, quiet_user=True)
        self._ears = Ears(client, (f"session:{self._session_id}",), view.cursor)
        self._open: dict[str, Approval] = {one.approval_id: one for one in view.approvals if one.state == "open"}
        self._shown: set[str] = set()
        self._turn_id = view.session.report.turn_id if view.session.state in ("running", "waiting") else ""
        self._can_type = sys.stdin.isatty() and not as_json
        # What grows is told only to those who listen: so a message is sent once the stream has begun.
        while isinstance(heard := self._ears.next(typing=False), Frame) and heard.kind != "stream.hello":
            if not as_json:
                self._printer.take(heard)

    def say(self, text: str, *, steer: bool = False) -> int:
        """Sends `text` and shows what comes until its turn has ended; the exit code of that end."""
        message_id = new_id(Prefix.MESSAGE)
        body = SendMessage(text=text, message_id=message_id, steer=steer)
        path = session_path(self._session_id, "/messages")
        message = self._client.post(path, body, type=Message, command_id=message_id)
        return self.watch(_Waiting(message.message_id, message.turn_id))

    def watch(self, waiting: _Waiting) -> int:
        """Shows frames until the awaited turn has ended. Ctrl-C interrupts the turn, a second one leaves."""
        stopping = False
        while True:
            try:
                code = self._step(waiting)
            except KeyboardInterrupt:
                if stopping or not self._stop(waiting.turn_id or self._turn_id):
                    return BREAK
                stopping = True
                continue
            if code is not None:
                return code

    def _print_rest(self, turn_id: str) -> None:
        """A turn's end may be told before its last items: what is not printed yet is read from the session."""
        try:
            path = session_path(self._session_id, "/items")
            page = self._client.get(path, type=ItemPage, limit=PAGE_ROWS_DEFAULT)
        except EkidenError as error:
            self._printer.note(f"its last items could not be read: {line_of(error.message)}")
            return
        for item in page.items:
            if item.turn == turn_id:
                self._printer.item(item)

    def _step(self, waiting: _Waiting) -> int | None:
        asked = next(iter(self._open.values()), None)
        if asked is not None and self._can_type and asked.approval_id not in self._shown:
            self._shown.add(asked.approval_id)
            self._screen.say(f"  your answer, 1 to {len(asked.options)}: ", end="")
        heard = self._ears.next(typing=asked is not None and self._can_type)
        if heard is None:
            raise Unavailable("The hub ended the stream.", hint="`ekiden follow` shows the session again.")
        if isinstance(heard, str):
            assert asked is not None
            self._typed(asked, heard)
            return None
        if self._as_json:
            self._screen.data(heard)
            return self._noted(heard, waiting)
        if heard.kind != "turn.changed":
            self._printer.take(heard)
            return self._noted(heard, waiting)
        code = self._noted(heard, waiting)
        if code is not None:
            self._print_rest(waiting.turn_id)
        self._printer.take(heard)
        return code

    def _noted(self, frame: Frame, waiting: _Waiting) -> int | None:
        """What a frame means for the waiting; the exit code if it ends it."""
        match frame.kind:
            case "approval.asked":
                approval = frame.read(Approval)
                self._open[approval.approval_id] = approval
                if not self._can_type and not self._as_json:
                    self._printer.note(f"waits for an answer: ekiden inbox answer {approval.approval_id} OPTION")
            case "approval.answered" | "approval.ended":
                self._open.pop(frame.read(Approval).approval_id, None)
            case "message.changed":
                message = frame.read(Message)
                if message.message_id == waiting.message_id:
                    waiting.turn_id = message.turn_id or waiting.turn_id
                    waiting.queued = message.how == "queued"
                    if message.state in ("failed", "cancelled"):
                        return VENDOR
            case "turn.changed":
                return self._turn(frame.read(dict[str, Any]), waiting)
            case _:
                pass
        return None

    def _turn(self, turn: dict[str, Any], waiting: _Waiting) -> int | None:
        turn_id, state = str(turn.get("turn_id", "")), str(turn.get("state", ""))
        if state not in _ENDED:
            self._turn_id = turn_id
            # A queued message's turn may be known only when it begins: it is the next one to do so.
            if waiting.queued and not waiting.turn_id:
                waiting.turn_id = turn_id
            return None
        if turn_id == self._turn_id:
            self._turn_id = ""
        return _ENDED[state] if turn_id == waiting.turn_id else None

    def _typed(self, approval: Approval, line: str) -> None:
        if not line:
            self._can_type = False
            self._printer.note("no more input; another device can answer")
            return
        word = line.strip().casefold()
        option = next(
            (
                one
                for number, one in enumerate(approval.options, 1)
                if word and (word in (str(number), one.id.casefold()) or one.label.casefold().startswith(word))
            ),
            None,
        )
        self._shown.discard(approval.approval_id)
        if option is None:
            return
        try:
            answer(self._client, approval, option.id)
        except AlreadyAnswered as error:
            self._printer.note(f"{line_of(str(error.details.get('by', 'somebody')))} was first")
        except Conflict as error:
            self._printer.note(line_of(error.message))
        self._open.pop(approval.approval_id, None)

    def _stop(self, turn_id: str) -> bool:
        """Asks the turn to stop; whether there was one."""
        if not turn_id:
            return False
        try:
            self._client.post(session_path(self._session_id, "/interrupt"), Interrupt(turn_id))
        except EkidenError as error:
            self._printer.note(line_of(error.message))
            return False
        self._printer.note("stopping the turn; Ctrl-C again leaves it running here")
        return True


def answer(client: PlainClient, approval: Approval, option: str, message: str = "") -> Approval:
    """Answers an approval, bound to what was shown of it.

    Raises:
        AlreadyAnswered: if somebody else was first.
    """
    path = path_of("/v1/approvals/{approval_id}/answer", approval_id=approval.approval_id)
    body = AnswerApproval(option=option, digest=approval.digest, message=message)
    return client.post(path, body, type=Approval)
