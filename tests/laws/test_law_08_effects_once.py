"""Law 8: an effect is never silently repeated; *unknown* is a state, not a guess. For messages and approvals."""

from pathlib import Path

import pytest

from ekiden.kernel.errors import Conflict
from ekiden.kernel.ids import Prefix, new_id
from ekiden.log.port import Command
from ekiden.sessions import verbs
from ekiden.sessions.wire import FeedApproval, FeedMessage, FeedTurn, SendMessage
from sessions.room import DESK, PHONE, TEAM, Room, open_room

pytestmark = pytest.mark.anyio


async def test_a_message_sent_again_and_again_is_one_message(room: Room) -> None:
    """By command id, by its own id, or both; before and after it was placed."""
    session_id = await room.session()
    message_id = new_id(Prefix.MESSAGE)
    command = Command("send-1", PHONE.principal_id, "digest")
    for _ in range(3):
        await room.log.write(
            TEAM,
            lambda tx: verbs.send_message(tx, session_id, SendMessage("pay"), message_id=message_id, actor=PHONE),
            command=command,
        )
        await room.send(session_id, "pay", message_id=message_id)
        await room.tell(FeedMessage(message_id, "placed", turn_id="trn_1", how="new_turn"))
    assert (await room.kinds(0)).count("message.stored") == 1
    assert (await room.work()).messages == ()


async def test_messages_sent_during_a_turn_each_have_one_place_in_the_servers_order(room: Room) -> None:
    """Three from two devices, an interrupt, and a fourth while it settles: each is the host's work once."""
    session_id = await room.session()
    await room.tell(FeedTurn(session_id, "trn_1", "running"))
    first = await room.send(session_id, "m1", PHONE)
    second = await room.send(session_id, "m2", DESK)
    third = await room.send(session_id, "m3", PHONE)
    await room.interrupt(session_id, "trn_1")
    fourth = await room.send(session_id, "m4", DESK)
    assert [message.text for message in (await room.work()).messages] == ["m1", "m2", "m3", "m4"]
    await room.tell(FeedTurn(session_id, "trn_1", "interrupted"))
    await room.cancel(third.message_id)
    for message in (first, second, fourth):
        await room.tell(FeedMessage(message.message_id, "placed", how="new_turn"))
        await room.tell(FeedMessage(message.message_id, "seen"))
    assert (await room.work()).messages == ()
    assert (await room.kinds(0)).count("message.stored") == 4


async def test_what_waits_survives_a_restart_once(tmp_path: Path) -> None:
    """The queue, open and answered approvals and a wish to interrupt are there after the hub starts anew."""
    async with open_room(tmp_path) as room:
        host_id = room.host_id
        session_id = await room.session()
        await room.tell(FeedTurn(session_id, "trn_1", "running"))
        await room.tell(*[FeedApproval(room.approval(session_id)) for _ in range(2)])
        given, left = (await room.view(session_id)).approvals
        await room.answer(given, "yes")
        await room.send(session_id, "m1")
        await room.send(session_id, "m2", DESK)
        await room.interrupt(session_id, "trn_1")
        before = (await room.work(), await room.view(session_id))
    async with open_room(tmp_path) as room:
        work = await room.work(host_id)
        assert work.messages == before[0].messages
        assert work.approvals == before[0].approvals
        assert work.interrupts == before[0].interrupts
        view = await room.view(session_id)
        assert view.approvals == before[1].approvals
        assert {approval.state for approval in view.approvals} == {"open", "answered"}
        assert (await room.answer(left, "no")).state == "answered"


@pytest.mark.parametrize("answered", [True, False])
async def test_losing_the_host_decides_nothing(room: Room, answered: bool) -> None:
    """What a person allowed stays allowed and theirs; what nobody answered becomes unknown, never allowed."""
    session_id = await room.session()
    await room.tell(FeedTurn(session_id, "trn_1", "running"), FeedApproval(room.approval(session_id)))
    (asked,) = (await room.view(session_id)).approvals
    if answered:
        await room.answer(asked, "yes")
    await room.lose()
    await room.back()
    (now,) = (await room.view(session_id)).approvals
    assert (now.state, now.answer) == (("answered", "yes") if answered else ("unknown", ""))
    assert len((await room.work()).approvals) == int(answered)
    with pytest.raises(Conflict):
        await room.answer(asked, "yes", DESK)


async def test_a_message_is_never_silently_placed_again(room: Room) -> None:
    """What failed or was cancelled is no work of the host, whoever comes back."""
    session_id = await room.session()
    failed, cancelled = await room.send(session_id, "1"), await room.send(session_id, "2")
    await room.tell(FeedMessage(failed.message_id, "failed", reason="The program ended."))
    await room.cancel(cancelled.message_id)
    await room.lose()
    await room.back()
    assert (await room.work()).messages == ()
    refused = (await room.tell(FeedMessage(failed.message_id, "placed"))).refused
    assert [one.code for one in refused] == ["conflict"]
