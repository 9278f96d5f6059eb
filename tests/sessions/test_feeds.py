"""What a host tells: taken in order, once, in one transaction, for its own sessions only."""

import msgspec
import pytest

from ekiden.kernel.errors import NotFound, TooLarge
from ekiden.kernel.ids import Prefix, new_id
from ekiden.kernel.limits import EVENT_BODY_BYTES_MAX, FEED_ENTRIES_MAX
from ekiden.sessions import feed
from ekiden.sessions.wire import (
    Approval,
    ApprovalOption,
    FeedApproval,
    FeedApprovalEnd,
    FeedEntry,
    FeedGrew,
    FeedGrown,
    FeedItems,
    FeedMessage,
    FeedSession,
    FeedTurn,
    Rung,
    Session,
    SessionState,
)
from ekiden.transcript.items import Item, ItemKind
from sessions.room import Room, items_entry, message_item

pytestmark = pytest.mark.anyio


async def items_told(room: Room, session_id: str) -> list[Item]:
    """Every item of every `items.added` of a session, in order."""
    return [
        item
        for event in await room.events()
        if event.kind == "items.added" and event.topics == (f"session:{session_id}",)
        for item in msgspec.json.decode(event.body, type=feed.ItemsAdded).items
    ]


async def test_a_report_that_says_nothing_new_makes_no_event(room: Room) -> None:
    """Told again it changes nothing; told changed it is one event with the whole session."""
    report = room.report(title="One")
    await room.tell(FeedSession(report))
    head = await room.head()
    await room.tell(FeedSession(report), FeedSession(report))
    assert await room.head() == head
    changed = msgspec.structs.replace(report, title="Two")
    await room.tell(FeedSession(changed))
    (event,) = await room.events(head)
    assert event.kind == "session.reported"
    assert event.topics == (f"session:{report.session_id}", "team")
    assert msgspec.json.decode(event.body, type=Session).report == changed


async def test_a_whole_feed_is_one_commit_and_one_report_of_each_session(room: Room) -> None:
    """However many entries change a session, its view is told once, after them."""
    session_id = await room.session()
    head = await room.head()
    await room.tell(
        FeedTurn(session_id, "trn_1", "running", proof_at="2026-01-01T00:00:00Z"),
        FeedApproval(room.approval(session_id)),
        FeedApproval(room.approval(session_id)),
        items_entry(session_id, "", "m1", message_item("itm_1", "hello")),
    )
    assert await room.kinds(head) == [
        "turn.changed",
        "approval.asked",
        "approval.asked",
        "items.added",
        "session.reported",
    ]
    view = await room.view(session_id)
    assert (view.session.approvals_open, view.session.state) == (2, SessionState.RUNNING)


async def test_items_are_told_once_however_batches_are_cut_and_repeated(room: Room) -> None:
    """A batch told again after a lost answer is stale and names the mark from which to go on."""
    session_id = await room.session()
    lines = [message_item(f"itm_{number}", str(number)) for number in range(6)]
    first = items_entry(session_id, "", "m3", *lines[:3])
    assert not (await room.tell(first)).stale
    for repeated in (first, items_entry(session_id, "", "m2", *lines[:2]), items_entry(session_id, "m2", "m4")):
        answer = await room.tell(repeated)
        assert [(stale.session_id, stale.mark) for stale in answer.stale] == [(session_id, "m3")]
    assert not (await room.tell(items_entry(session_id, "m3", "m6", *lines[3:]))).stale
    assert await items_told(room, session_id) == lines
    assert (await room.arrive()).marks == {session_id: "m6"}


async def test_each_sub_agents_items_are_told_once_by_a_mark_of_their_own(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the session's mark and each other's: none moves another, a repeated batch names the right one, and a
    host that comes back is told them all. How many threads a session may have is bounded."""
    monkeypatch.setattr("ekiden.sessions.feed.THREADS_PER_SESSION_MAX", 2)
    session_id = await room.session()

    def entry(after: str, mark: str, number: int, thread: str) -> FeedItems:
        item = message_item(f"itm_{number}", str(number))
        return msgspec.structs.replace(items_entry(session_id, after, mark, item), thread=thread)

    first = entry("", "m1", 1, "one")
    answer = await room.tell(entry("", "m1", 0, ""), first, entry("", "m7", 2, "two"))
    assert not answer.stale
    answer = await room.tell(first, entry("m7", "m8", 3, "two"), entry("m1", "m2", 4, ""))
    assert [(stale.thread, stale.mark) for stale in answer.stale] == [("one", "m1")]
    answer = await room.tell(entry("", "m1", 5, "three"))
    assert [refused.code for refused in answer.refused] == ["too_many"]
    assert [item.id for item in await items_told(room, session_id)] == [f"itm_{n}" for n in range(5)]
    welcome = await room.arrive()
    assert welcome.marks == {session_id: "m2"}
    assert welcome.threads == {session_id: {"one": "m1", "two": "m8"}}


async def test_two_entries_of_one_feed_follow_each_other(room: Room) -> None:
    """The second begins at the mark that the first has set; a stale one between them spoils neither."""
    session_id = await room.session()
    answer = await room.tell(
        items_entry(session_id, "", "m1", message_item("itm_1", "1")),
        items_entry(session_id, "", "m1", message_item("itm_1", "1")),
        items_entry(session_id, "m1", "m2", message_item("itm_2", "2")),
    )
    assert [stale.mark for stale in answer.stale] == ["m1"]
    assert [item.id for item in await items_told(room, session_id)] == ["itm_1", "itm_2"]


async def test_items_without_a_native_line_leave_the_mark(room: Room) -> None:
    """What is kept only here is told at any time, and the file's own place stays."""
    session_id = await room.session()
    await room.tell(items_entry(session_id, "", "m1", message_item("itm_1", "1")))
    kept = FeedItems(session_id, (message_item("itm_kept", "partial"),), after="*", mark="")
    await room.tell(kept)
    assert (await room.arrive()).marks == {session_id: "m1"}
    assert [item.id for item in await items_told(room, session_id)] == ["itm_1", "itm_kept"]


@pytest.mark.parametrize("size", [65_535, 65_537, 1_048_577, 3_000_000])
async def test_items_of_every_size_arrive_whole_or_with_their_cut_said(room: Room, size: int) -> None:
    """No size of an item loses it or its neighbours, and no event is over its bound."""
    session_id = await room.session()
    items = (message_item("itm_a", "a"), message_item("itm_b", "\u00e9" * size), message_item("itm_c", "c"))
    answer = await room.tell(FeedItems(session_id, items, after="", mark="m"))
    assert not answer.refused
    told = await items_told(room, session_id)
    assert [item.id for item in told] == ["itm_a", "itm_b", "itm_c"]
    big = told[1]
    assert items[1].text().startswith(big.text())
    cuts = {cut.field: cut.bytes for cut in big.cut}
    assert cuts == ({} if big.text() == items[1].text() else {"content.0.text": 2 * size})
    assert (await room.events(0))[-1].kind == "items.added"
    assert all(len(event.body) <= EVENT_BODY_BYTES_MAX for event in await room.events())


async def test_many_items_are_split_over_events_and_none_is_lost(room: Room) -> None:
    """A list over an event's bound becomes several events, in order."""
    session_id = await room.session()
    items = tuple(message_item(f"itm_{number}", "x" * 40_000) for number in range(60))
    await room.tell(FeedItems(session_id, items, after="", mark="m"))
    assert tuple(await items_told(room, session_id)) == items
    assert (await room.kinds(0)).count("items.added") > 1


async def other_hosts_session(room: Room) -> tuple[str, str]:
    """Another host with a session; their ids."""
    other = new_id(Prefix.HOST)
    await room.arrive(other, "Laptop")
    report = room.report("theirs", host_id=other)
    await room.tell(FeedSession(report), host_id=other)
    return other, report.session_id


async def test_a_host_speaks_for_its_own_sessions_only(room: Room) -> None:
    """Entries on another host's session and on none at all are refused alike, and change nothing."""
    other, theirs = await other_hosts_session(room)
    asked = room.approval(theirs)
    await room.tell(FeedApproval(asked), host_id=other)
    message = await room.send(theirs, "hello")
    before, head = await room.view(theirs), await room.head()
    nothing = room.report("nothing").session_id

    def entries(session_id: str, approval_id: str, message_id: str) -> list[FeedEntry]:
        return [
            FeedItems(session_id, (message_item("itm_1", "forged"),), after="", mark="m"),
            FeedItems(session_id, (message_item("itm_1", "forged"),), after="*", mark=""),
            FeedTurn(session_id, "trn_9", "running"),
            FeedGrew(session_id, "trn_1", "itm_1", ItemKind.MESSAGE, 0, "forged"),
            FeedGrown(session_id, "trn_1", "itm_1", ItemKind.MESSAGE, 1, "forged"),
            FeedApproval(room.approval(session_id)),
            FeedApproval(msgspec.structs.replace(asked, approval_id=approval_id, session_id=session_id)),
            FeedApprovalEnd(approval_id, "withdrawn"),
            FeedMessage(message_id, "placed"),
        ]

    forged = await room.tell(*entries(theirs, asked.approval_id, message.message_id))
    assert not room.passed
    missing = await room.tell(*entries(nothing, new_id(Prefix.APPROVAL), new_id(Prefix.MESSAGE)))
    assert len(forged.refused) == 9
    assert forged.refused == missing.refused
    assert {refused.code for refused in forged.refused} == {"not_found"}
    assert (await room.view(theirs)).session == before.session
    assert await room.head() == head


async def test_a_session_id_must_be_the_hosts_own(room: Room) -> None:
    """A report under an id that is not derived from the host, vendor and native id makes no session."""
    _, theirs = await other_hosts_session(room)
    for forged in (theirs, new_id(Prefix.SESSION), "", "ses_x"):
        answer = await room.tell(FeedSession(msgspec.structs.replace(room.report("mine"), session_id=forged)))
        assert [refused.code for refused in answer.refused] == ["not_found"]
    assert (await room.page()).total == 1


async def test_an_approval_id_of_another_host_is_not_taken_over(room: Room) -> None:
    """Asking under an id that another host uses is refused like any unknown thing."""
    other, theirs = await other_hosts_session(room)
    asked = room.approval(theirs)
    await room.tell(FeedApproval(asked), host_id=other)
    mine = await room.session()
    answer = await room.tell(FeedApproval(room.approval(mine, asked.approval_id)))
    assert [refused.code for refused in answer.refused] == ["not_found"]
    assert (await room.view(mine)).approvals == ()


async def test_what_cannot_be_taken_is_named_and_spoils_nothing_else(room: Room) -> None:
    """Each refused entry has its place and reason; those around it are taken."""
    session_id = await room.session()
    answer = await room.tell(
        FeedTurn(session_id, "trn_1", "running"),
        FeedTurn(session_id, "trn_1", "sleeping"),
        FeedTurn(session_id, "trn 2", "running"),
        FeedMessage(new_id(Prefix.MESSAGE), "placed"),
        FeedApproval(room.approval(session_id, "../x")),
        FeedTurn(session_id, "trn_1", "completed"),
    )
    assert [(refused.index, refused.code) for refused in answer.refused] == [
        (1, "invalid"),
        (2, "invalid"),
        (3, "not_found"),
        (4, "invalid"),
    ]
    assert (await room.view(session_id)).session.state is SessionState.IDLE
    assert (await room.kinds(0)).count("turn.changed") == 2


async def test_a_feed_is_bounded_and_needs_a_known_host(room: Room) -> None:
    """Too many entries are refused whole; so is a host that never reported itself."""
    session_id = await room.session()
    entry = FeedTurn(session_id, "trn_1", "running")
    with pytest.raises(TooLarge):
        await room.tell(*[entry] * (FEED_ENTRIES_MAX + 1))
    with pytest.raises(NotFound):
        await room.tell(entry, host_id=new_id(Prefix.HOST))


async def test_pieces_pass_by_in_order_and_never_after_the_whole(room: Room) -> None:
    """Pieces are handed on as told; those of an item that the same feed makes whole, or of a turn that it ends,
    are left out."""
    session_id = await room.session()

    def piece(item_id: str, index: int, turn_id: str = "trn_1") -> FeedGrew:
        return FeedGrew(session_id, turn_id, item_id, ItemKind.MESSAGE, index, "x")

    answer = await room.tell(
        FeedTurn(session_id, "trn_1", "running"),
        piece("itm_a", 0),
        piece("itm_b", 0),
        FeedGrown(session_id, "trn_1", "itm_a", ItemKind.MESSAGE, 1, "x"),
        items_entry(session_id, "", "m1", message_item("itm_a", "xx")),
        piece("itm_b", 1),
        piece("itm_c", 0, "trn_2"),
    )
    assert not answer.refused
    assert room.passed == [piece("itm_b", 0), piece("itm_b", 1), piece("itm_c", 0, "trn_2")]
    await room.tell(piece("itm_b", 2), FeedTurn(session_id, "trn_1", "completed"), piece("itm_c", 1, "trn_2"))
    assert room.passed == [piece("itm_c", 1, "trn_2")]
    assert not [kind for kind in await room.kinds(0) if kind.startswith("item.")]


async def test_an_approval_too_large_for_an_event_is_shown_in_part_and_bound_whole(room: Room) -> None:
    """What is cut is said, and the digest is of the whole, so that the host can tell what was answered."""
    session_id = await room.session()
    huge = room.approval(session_id, diff="+line\n" * 400_000)
    huge = msgspec.structs.replace(huge, detail=msgspec.Raw(msgspec.json.encode({"content": "y" * 2_000_000})))
    small = msgspec.structs.replace(huge, diff="+line\n")
    assert not (await room.tell(FeedApproval(huge))).refused
    (shown,) = (await room.view(session_id)).approvals
    assert {cut.field for cut in shown.cut} == {"detail", "diff"}
    assert huge.diff.startswith(shown.diff)
    await room.tell(FeedApproval(msgspec.structs.replace(small, approval_id=new_id(Prefix.APPROVAL))))
    other = (await room.view(session_id)).approvals[1]
    assert other.digest != shown.digest
    answered = await room.answer(shown, "yes", message="m" * 100_000)
    assert answered.state == "answered"


async def test_an_approval_that_fits_in_no_way_is_refused_and_said(room: Room) -> None:
    """Options are never cut: one whose options alone are too large is not asked in part."""
    session_id = await room.session()
    huge = room.approval(session_id)
    huge = msgspec.structs.replace(
        huge, options=tuple(ApprovalOption(str(n), "x" * 200_000, "deny") for n in range(10))
    )
    answer = await room.tell(FeedApproval(huge), FeedTurn(session_id, "trn_1", "running"))
    assert [(refused.index, refused.code) for refused in answer.refused] == [(0, "too_large")]
    view = await room.view(session_id)
    assert (view.approvals, view.session.approvals_open) == ((), 0)
    assert view.session.state is SessionState.RUNNING


async def test_a_turns_end_ends_what_it_asked(room: Room) -> None:
    """Open and answered requests of the turn are withdrawn with it; those of another turn stay."""
    session_id = await room.session()
    first, second = room.approval(session_id), room.approval(session_id)
    other = room.approval(session_id, turn_id="trn_2")
    await room.tell(
        FeedTurn(session_id, "trn_1", "running"), *[FeedApproval(asked) for asked in (first, second, other)]
    )
    shown = {approval.approval_id: approval for approval in (await room.view(session_id)).approvals}
    await room.answer(shown[second.approval_id], "yes")
    await room.tell(FeedTurn(session_id, "trn_1", "interrupted"))
    view = await room.view(session_id)
    assert [approval.approval_id for approval in view.approvals] == [other.approval_id]
    assert view.session.approvals_open == 1


async def test_a_new_turn_leaves_no_question_of_an_older_one(room: Room) -> None:
    """What a lost turn asked is moot when the session runs another."""
    session_id = await room.session()
    await room.tell(FeedTurn(session_id, "trn_1", "running"), FeedApproval(room.approval(session_id)))
    await room.tell(FeedTurn(session_id, "trn_1", "lost"))
    assert [approval.state for approval in (await room.view(session_id)).approvals] == ["unknown"]
    await room.tell(FeedTurn(session_id, "trn_2", "running"))
    assert (await room.view(session_id)).approvals == ()


async def test_a_session_that_is_let_go_leaves_no_running_turn_and_no_open_question(room: Room) -> None:
    """A host that comes back without the runtime reports the session as a file: what ran is lost, what was asked
    unknown, and the session is as it reports it."""
    session_id = await room.session()
    await room.tell(FeedTurn(session_id, "trn_1", "running"), FeedApproval(room.approval(session_id)))
    head = await room.head()
    await room.session(rung=Rung.FILE, state=SessionState.IDLE)
    assert await room.kinds(head) == ["turn.changed", "approval.ended", "session.reported"]
    view = await room.view(session_id)
    assert (view.session.state, view.session.approvals_open) == (SessionState.IDLE, 0)
    assert [approval.state for approval in view.approvals] == ["unknown"]


async def test_a_held_session_that_runs_elsewhere_is_running_after_it_was_ours(room: Room) -> None:
    """Losing the runtime does not make a session lost that a program outside runs by its own proof."""
    session_id = await room.session(state=SessionState.RUNNING, turn_id="trn_1")
    await room.session(rung=Rung.HELD, state=SessionState.RUNNING, turn_id="trn_2")
    assert (await room.view(session_id)).session.state is SessionState.RUNNING


async def test_an_approval_keeps_its_first_words(room: Room) -> None:
    """Told again with other words under the same id, what was shown stays."""
    session_id = await room.session()
    asked = room.approval(session_id)
    await room.tell(FeedApproval(asked))
    before = (await room.view(session_id)).approvals
    await room.tell(FeedApproval(msgspec.structs.replace(asked, command="rm -rf /")))
    assert (await room.view(session_id)).approvals == before
    assert isinstance(before[0], Approval)
    assert before[0].command == "ls"
