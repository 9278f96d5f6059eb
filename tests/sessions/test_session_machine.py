"""Approvals, messages, turns and a host that comes and goes, in any order, against a model of what must be shown.

After each step a client that has followed since the beginning shows what a fresh snapshot shows (law 3).
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ekiden.kernel.errors import AlreadyAnswered, Conflict, EkidenError
from ekiden.kernel.ids import Prefix, new_id
from ekiden.kernel.limits import MESSAGES_SEEN_MAX
from ekiden.sessions.wire import (
    Approval,
    FeedApproval,
    FeedApprovalEnd,
    FeedMessage,
    FeedSession,
    FeedTurn,
    SessionState,
)
from postgres_server import fresh_database
from sessions.room import DESK, PHONE, Follower, Room, open_room, open_twin_rooms, shown_of
from twins import Twins, seeded

_which = st.integers(0, 3)
_ENDS = ("settled", "withdrawn")


class SessionMachine(RuleBasedStateMachine):
    """One session. The model holds the state of each approval, message and turn by its own simple rules."""

    engine = "sqlite"

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = TemporaryDirectory()
        folder = Path(self.folder.name)
        match self.engine:
            case "sqlite":
                self.context = open_room(folder)
            case "postgres":
                self.context = open_room(fresh_database())
            case _:
                self.context = open_twin_rooms(folder, fresh_database())
        self.room: Room = self.runner.run(self.context.__aenter__())
        self.approvals: dict[str, str] = {}
        self.winners: dict[str, tuple[str, str]] = {}
        self.of_turn: dict[str, str] = {}
        self.messages: dict[str, str] = {}
        self.turns: list[str] = []
        self.turn_states: dict[str, str] = {}
        self.here = True
        self.gone = False
        self.proof = 0

    @initialize()
    def begin(self) -> None:
        self.session_id = self.runner.run(self.room.session())
        view = self.runner.run(self.room.view(self.session_id))
        self.follower = Follower(view)
        self.seen = self.runner.run(self.room.head())

    def teardown(self) -> None:
        self.runner.run(self.context.__aexit__(None, None, None))
        self.runner.close()
        self.folder.cleanup()

    def _proof(self) -> str:
        self.proof += 1
        return f"2026-01-01T{self.proof // 3600:02}:{self.proof // 60 % 60:02}:{self.proof % 60:02}Z"

    def _tell(self, *entries: object) -> int:
        """How many entries were refused."""
        return len(self.runner.run(self.room.tell(*entries)).refused)  # type: ignore[arg-type]

    def _shown(self, approval_id: str) -> Approval:
        (found,) = [
            approval
            for approval in self.runner.run(self.room.view(self.session_id)).approvals
            if approval.approval_id == approval_id
        ]
        return found

    def _lose_approvals(self, turn_id: str = "") -> None:
        for approval_id, state in self.approvals.items():
            if state == "open" and (not turn_id or self.of_turn[approval_id] == turn_id):
                self.approvals[approval_id] = "unknown"

    def _withdraw(self, of: "set[str]") -> None:
        for approval_id, state in self.approvals.items():
            if state in ("open", "answered", "unknown") and self.of_turn[approval_id] in of:
                self.approvals[approval_id] = "withdrawn"

    @rule(new=st.booleans(), which=_which)
    def turn_runs(self, new: bool, which: int) -> None:
        if new or not self.turns:
            self.turns.append(f"trn_{len(self.turns)}")
            turn_id = self.turns[-1]
        else:
            turn_id = self.turns[which % len(self.turns)]
        known = self.turn_states.get(turn_id)
        refused = self._tell(FeedTurn(self.session_id, turn_id, "running", proof_at=self._proof()))
        assert refused == (known in ("completed", "interrupted", "failed"))
        if refused:
            return
        for other, state in self.turn_states.items():
            if state == "running" and other != turn_id:
                self.turn_states[other] = "lost"
                self._lose_approvals(other)
        self.turn_states[turn_id] = "running"
        self.gone = False
        if known is None:
            self._withdraw({self.of_turn[approval] for approval in self.approvals} - {turn_id})

    @precondition(lambda self: self.turns)
    @rule(which=_which, state=st.sampled_from(["completed", "interrupted", "failed", "lost"]))
    def turn_ends(self, which: int, state: str) -> None:
        turn_id = self.turns[which % len(self.turns)]
        known = self.turn_states[turn_id]
        refused = self._tell(FeedTurn(self.session_id, turn_id, state))
        assert refused == (known in ("completed", "interrupted", "failed") and known != state)
        if refused or known == state:
            return
        self.turn_states[turn_id] = state
        if state == "lost":
            self._lose_approvals(turn_id)
        else:
            self._withdraw({turn_id})

    @precondition(lambda self: self.turns)
    @rule(which=_which)
    def turn_asks(self, which: int) -> None:
        approval_id = new_id(Prefix.APPROVAL)
        turn_id = self.turns[which % len(self.turns)]
        assert not self._tell(FeedApproval(self.room.approval(self.session_id, approval_id, turn_id)))
        self.approvals[approval_id] = "open"
        self.of_turn[approval_id] = turn_id

    @precondition(lambda self: self.approvals)
    @rule(which=_which, option=st.sampled_from(["yes", "no"]), by=st.sampled_from([PHONE, DESK]))
    def person_answers(self, which: int, option: str, by: object) -> None:
        approval_id = list(self.approvals)[which % len(self.approvals)]
        state = self.approvals[approval_id]
        asked = msgspec.structs.replace(self.room.approval(self.session_id, approval_id), digest="")
        if state in ("open", "answered", "unknown"):
            asked = self._shown(approval_id)
        try:
            answered = self.runner.run(self.room.answer(asked, option, by))  # type: ignore[arg-type]
        except Conflict as error:
            refused: Conflict = error
        else:
            assert state == "open"
            self.approvals[approval_id] = "answered"
            self.winners[approval_id] = (option, answered.answered_by)
            return
        assert state != "open"
        winner = (refused.details["option"], refused.details["by"]) if "option" in refused.details else None
        assert winner == self.winners.get(approval_id)
        assert isinstance(refused, AlreadyAnswered) == (winner is not None)

    @precondition(lambda self: self.approvals)
    @rule(which=_which, end=st.sampled_from(["settled", "withdrawn", "unknown", "open", "answered"]))
    def approval_ends(self, which: int, end: str) -> None:
        approval_id = list(self.approvals)[which % len(self.approvals)]
        state = self.approvals[approval_id]
        refused = self._tell(FeedApprovalEnd(approval_id, end))
        if end == state:
            assert not refused
        elif state in _ENDS or end in ("open", "answered"):
            assert refused
        else:
            assert not refused
            self.approvals[approval_id] = end

    @precondition(lambda self: self.approvals)
    @rule(which=_which)
    def host_asks_again(self, which: int) -> None:
        approval_id = list(self.approvals)[which % len(self.approvals)]
        assert not self._tell(FeedApproval(self.room.approval(self.session_id, approval_id)))

    @rule(by=st.sampled_from([PHONE, DESK]))
    def person_sends(self, by: object) -> None:
        try:
            message_id = new_id(Prefix.MESSAGE)
            sent = self.runner.run(self.room.send(self.session_id, "hello", by, message_id))  # type: ignore[arg-type]
        except Conflict:
            assert self.gone
            return
        assert not self.gone
        self.messages[sent.message_id] = "stored"

    @precondition(lambda self: self.messages)
    @rule(which=_which)
    def person_cancels(self, which: int) -> None:
        message_id = list(self.messages)[which % len(self.messages)]
        state = self.messages[message_id]
        try:
            self.runner.run(self.room.cancel(message_id))
        except Conflict:
            assert state in ("placed", "seen", "failed")
        else:
            assert state in ("stored", "cancelled")
            self.messages[message_id] = "cancelled"

    @precondition(lambda self: self.messages)
    @rule(which=_which, state=st.sampled_from(["placed", "seen", "failed"]))
    def host_tells_of_a_message(self, which: int, state: str) -> None:
        message_id = list(self.messages)[which % len(self.messages)]
        before = self.messages[message_id]
        refused = self._tell(FeedMessage(message_id, state, turn_id="trn_0", how="queued"))
        taken = {
            "stored": ("placed", "seen", "failed"),
            "placed": ("placed", "seen", "failed"),
            "cancelled": ("placed", "seen"),
            "failed": ("seen", "failed"),
            "seen": ("seen",),
        }[before]
        assert refused == (state not in taken)
        if not refused:
            self.messages[message_id] = state

    @rule()
    def host_goes(self) -> None:
        self.runner.run(self.room.lose())
        self.here = False
        for turn_id, state in self.turn_states.items():
            if state == "running":
                self.turn_states[turn_id] = "lost"
        self._lose_approvals()

    @rule()
    def host_comes(self) -> None:
        self.runner.run(self.room.back())
        self.here = True

    @rule(state=st.sampled_from(list(SessionState)))
    def host_reports(self, state: SessionState) -> None:
        report = self.room.report(state=state, title=str(state), updated_at=self._proof())
        assert not self._tell(FeedSession(report))
        self.gone = state is SessionState.GONE

    @precondition(lambda self: self.turns)
    @rule(which=_which)
    def person_interrupts(self, which: int) -> None:
        turn_id = self.turns[which % len(self.turns)]
        running = [turn for turn, state in self.turn_states.items() if state == "running"]
        try:
            self.runner.run(self.room.interrupt(self.session_id, turn_id))
        except EkidenError:
            assert running != [turn_id]
        else:
            assert running in ([turn_id], [])

    @invariant()
    def what_is_shown_is_what_happened(self) -> None:
        if not hasattr(self, "follower"):
            return
        view = self.runner.run(self.room.view(self.session_id))
        unsettled = {name: state for name, state in self.approvals.items() if state not in _ENDS}
        assert {approval.approval_id: approval.state for approval in view.approvals} == unsettled
        waiting = {name: state for name, state in self.messages.items() if state not in ("seen", "cancelled")}
        assert {message.message_id: message.state for message in view.messages} == waiting
        assert [message.message_id for message in view.messages] == list(waiting)
        seen = [name for name, state in self.messages.items() if state == "seen"]
        assert [message.message_id for message in view.seen] == seen[-MESSAGES_SEEN_MAX:]
        assert view.session.approvals_open == list(unsettled.values()).count("open")
        assert view.session.messages_waiting == list(waiting.values()).count("stored")
        assert list(self.turn_states.values()).count("running") <= 1
        if not self.here:
            assert view.session.state not in (SessionState.RUNNING, SessionState.WAITING)
        events = self.runner.run(self.room.events(self.seen))
        if events:
            self.seen = events[-1].seq
        self.follower.apply(events)
        assert self.follower.shown() == shown_of(view)


TestSessionMachine = SessionMachine.TestCase
TestSessionMachine.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


_words = st.text(st.sampled_from("aAbBzZ019 %_\\/-.'\"\0\u00e9\u00c9\u00df\u0130\u4e16\U0001f600"), max_size=12)
_projects = st.sampled_from(["", "/home/a", "/home/A", "/home/a b", "/home/\u00e9"])


class BothEnginesMachine(SessionMachine):
    """The same on SQLite and Postgres side by side: besides the model, the two are compared with each other in
    every answer, refusal, event and page."""

    engine = "both"
    room: Twins  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.others: dict[str, tuple[str, str]] = {}

    @rule(
        number=st.integers(0, 9),
        title=_words,
        project=_projects,
        vendor=st.sampled_from(["demo", "claude"]),
        state=st.sampled_from(list(SessionState)),
        minute=st.integers(0, 3),
    )
    def host_reports_another(
        self, number: int, title: str, project: str, vendor: str, state: SessionState, minute: int
    ) -> None:
        report = self.room.report(
            f"other {number}",
            vendor=vendor,
            title=title,
            project=project,
            state=state,
            updated_at=f"2026-01-01T00:0{minute}:00Z",
        )
        assert not self._tell(FeedSession(report))
        self.others[report.session_id] = (vendor, project)

    @rule(
        limit=st.integers(1, 4),
        vendor=st.sampled_from(["", "demo", "claude"]),
        project=_projects,
        text=_words,
        state=st.sampled_from(["", *SessionState]),
    )
    def device_pages(self, limit: int, vendor: str, project: str, text: str, state: str) -> None:
        filters = {"vendor": vendor, "project": project, "state": state, "text": text}
        found, after = [], ""
        while True:
            page = self.runner.run(self.room.page(after, limit, **filters))
            found += [session.report.session_id for session in page.sessions]
            after = page.next
            if not after:
                break
        assert len(set(found)) == len(found) == page.total
        if not (state or text):
            known = {self.session_id: ("demo", ""), **self.others}
            expected = {
                session_id
                for session_id, (of_vendor, of_project) in known.items()
                if vendor in ("", of_vendor) and project in ("", of_project)
            }
            assert set(found) == expected

    @rule(name=st.sampled_from(["b", "B", "a", "\u00e9", "\u4e16"]), number=st.integers(0, 2))
    def another_host_comes(self, name: str, number: int) -> None:
        self.runner.run(self.room.arrive(f"hst_{number:020}", name))

    @rule()
    def device_looks_around(self) -> None:
        self.runner.run(self.room.inbox())
        self.runner.run(self.room.work())
        self.runner.run(self.room.hosts())

    def teardown(self) -> None:
        """All events once more, from the beginning."""
        try:
            self.runner.run(self.room.events())
            assert self.room.compared
        finally:
            super().teardown()


BothEnginesMachine.TestCase.settings = settings(max_examples=12, stateful_step_count=40, deadline=None)
TestBothEnginesMachine = seeded(BothEnginesMachine.TestCase)
