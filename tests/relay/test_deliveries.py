"""Mentions on their way: who is called, how far each came, and that nothing is left in silence."""

import msgspec
import pytest

from ekiden.kernel.errors import NotFound
from ekiden.kernel.limits import MENTIONS_PER_MESSAGE_MAX
from ekiden.relay import rules
from ekiden.relay.port import Known
from ekiden.relay.wire import Asks, Delivery, DeliveryState, Posted
from relay.room import AGENT, Room

pytestmark = pytest.mark.anyio


def told(posted: Posted) -> list[tuple[str, str, str]]:
    return [(delivery.name, delivery.way, delivery.why) for delivery in posted.deliveries]


def failed(posted: Posted) -> list[tuple[str, str]]:
    return [(unplaced.name, unplaced.why) for unplaced in posted.unplaced]


async def state_of(room: Room, posted: Posted, name: str = "bob") -> str:
    page = await room.laggards(posted.message.message_id)
    return next(delivery.state for delivery in page.deliveries if delivery.name == name)


# --- who is called


async def test_names_roles_and_all_by_right(room: Room) -> None:
    await room.make()
    for name in ("bob", "carol", "dave"):
        room.agent(name)
        await room.join(name, by="ann", role="reviewer" if name != "bob" else "")
    room.person("Phone 2")
    posted = await room.post("ann", '@BOB and @reviewer, @"Phone 2"')
    assert {mention.name: mention.via for mention in posted.message.mentions} == {
        "bob": "name",
        "carol": "role:reviewer",
        "dave": "role:reviewer",
        "Phone 2": "name",
    }
    assert told(posted) == [
        ("bob", "waiting", ""),
        ("carol", "waiting", ""),
        ("dave", "waiting", ""),
        ("Phone 2", "inbox", ""),
    ]
    every = await room.post("ann", "@all now")
    assert {mention.name for mention in every.message.mentions} == {"bob", "carol", "dave"}
    assert failed(await room.post("bob", "@all now")) == [("all", "may_not_mention")]
    room.agent("mute", {"channel:*": ["read", "post"]})
    assert failed(await room.post("mute", "@bob and @all")) == [
        ("bob", "may_not_mention"),
        ("all", "may_not_mention"),
    ]


async def test_a_name_that_reaches_nobody_is_said_to_be_so(room: Room) -> None:
    await room.make()
    room.agent("bob")
    for principal_id, name in (("pri_twin1", "twin"), ("pri_twin2", "Twin")):
        room.team.known_[principal_id] = Known(principal_id, name, "agent")
    posted = await room.post("ann", "@bbo @twin @role:nobody @everyone @bob")
    assert failed(posted) == [
        ("bbo", "unknown"),
        ("twin", "ambiguous"),
        ("role:nobody", "unknown"),
        ("everyone", "unknown"),
    ]
    assert [mention.name for mention in posted.message.mentions] == ["bob"]
    beside = await room.post("ann", "no name in it", mentions=("@bob", "bob", "nobody"))
    assert [mention.name for mention in beside.message.mentions] == ["bob"]
    assert failed(beside) == [("nobody", "unknown")]


async def test_nobody_is_told_of_what_it_may_not_read_nor_of_itself(room: Room) -> None:
    await room.make("priv", private=True)
    room.agent("outsider")
    posted = await room.post("ann", "@outsider and @ann", "priv")
    assert told(posted) == [("outsider", "none", "may_not_read"), ("ann", "none", "self")]
    for name in ("outsider", "ann"):
        assert (await room.mentions(name)).mentions == ()
    topics = [topic for event in await room.events() for topic in event.topics]
    assert f"inbox:{room.id_of('outsider')}" not in topics
    assert room.noting.notices == []


async def test_everybody_of_a_large_channel_is_too_many_and_that_is_said(room: Room) -> None:
    await room.make()
    for index in range(MENTIONS_PER_MESSAGE_MAX):
        await room.join(f"bot{index}")
    posted = await room.post("ann", "@all and @bot7")
    assert failed(posted) == [("all", "too_many")]
    assert [mention.name for mention in posted.message.mentions] == ["bot7"]


async def test_one_message_is_one_mention_and_message_one_of_the_case_wakes_nobody(room: Room) -> None:
    await room.make()
    room.agent("bob")
    text = "`@bob`\n```\n@bob run it\n```\nnpm i @bob/tool, me@bob.example, \\@bob, https://example.org/@bob"
    quiet = await room.post("ann", text)
    assert (quiet.message.text, quiet.deliveries, quiet.unplaced) == (text, (), ())
    assert not await room.wakes("bob")
    loud = await room.post("ann", '(@bob), "@bob": **@bob**')
    assert told(loud) == [("bob", "waiting", "")]
    assert len(room.noting.notices) == 1


async def test_editing_a_mention_in_delivers_it_and_tells_what_failed(room: Room) -> None:
    await room.make()
    room.agent("bob")
    room.agent("carol")
    message = (await room.post("ann", "Look, @carol")).message.message_id
    edited = await room.edit("ann", message, "Look, @carol and @bob and @nobody")
    assert told(edited) == [("bob", "waiting", "")]
    assert failed(edited) == [("nobody", "unknown")]
    assert await room.wakes("bob")
    again = await room.edit("ann", message, "Look here, @carol and @bob")
    assert again.deliveries == ()
    assert len((await room.mentions("carol")).mentions) == 1


# --- how far it came


@pytest.mark.parametrize("asks", list(Asks))
async def test_each_state_is_told_to_both_in_order(room: Room, asks: Asks) -> None:
    """Stored, offered, surfaced, acked, answered; nothing goes back, and who asked for an answer keeps waiting."""
    await room.make()
    room.agent("bob")
    posted = await room.post("ann", "@bob", asks=asks)
    message = posted.message.message_id
    await room.offer("bob", message)
    await room.offer("bob", message)
    await room.surface("bob", message)
    await room.offer("bob", message)
    await room.ack("bob", 1)
    assert len((await room.mentions("bob")).mentions) == int(asks is Asks.ANSWER)
    assert not await room.wakes("bob")
    await room.surface("bob", message)
    await room.post("bob", "so it is", answers=message)
    await room.ack("bob", 1)
    assert (await room.mentions("bob")).mentions == ()
    changes = [event for event in await room.events() if event.kind == "delivery.changed"]
    assert {event.topics for event in changes} == {(f"inbox:{room.id_of('bob')}", f"inbox:{room.id_of('ann')}")}
    states = [msgspec.json.decode(event.body, type=Delivery).state for event in changes]
    assert states == ["stored", "offered", "surfaced", "acked", "answered"]
    assert await state_of(room, posted) == "answered"


def test_moves_lead_somewhere_and_never_back() -> None:
    assert set(rules.DELIVERY_MOVES) == set(DeliveryState)
    for state, moves in rules.DELIVERY_MOVES.items():
        assert state not in moves
        for to in moves:
            assert state not in rules.DELIVERY_MOVES[to]
    for state in DeliveryState:
        waits = rules.waits_in(state, Asks.NOTHING, quietly=False)
        assert bool(waits) == bool(rules.DELIVERY_MOVES[state] & {DeliveryState.SURFACED, DeliveryState.ACKED})


async def test_declining_gives_the_reason_to_the_sender_without_waking_it(room: Room) -> None:
    await room.make()
    room.agent("bob")
    posted = await room.post("carol", "Take this, @bob?", asks="answer")
    await room.ack("bob", 0, posted.message.message_id, declined=True, reason="No time")
    assert await state_of(room, posted) == "declined"
    assert not await room.wakes("carol")
    notice = (await room.mentions("carol")).deliveries[0]
    assert (notice.why, notice.reason, notice.message_id) == ("declined", "bob", posted.message.message_id)
    declined = (await room.laggards(posted.message.message_id)).deliveries[0]
    assert declined.reason == "No time"


async def test_what_nobody_answers_in_time_comes_back_to_the_sender(room: Room) -> None:
    """One notice for a message, which wakes; a late answer still counts."""
    await room.make()
    for name in ("bob", "dave", "erin"):
        room.agent(name)
    posted = await room.post("carol", "@bob @dave @erin?", asks="answer", expires_s=60)
    assert all(delivery.expires_at for delivery in posted.deliveries)
    await room.post("erin", "yes", answers=posted.message.message_id)
    await room.ack("dave", 1)
    room.clock.advance(59)
    await room.expire()
    assert await state_of(room, posted) == "stored"
    room.clock.advance(2)
    head = await room.head()
    await room.expire()
    await room.expire()
    states = {
        delivery.name: delivery.state for delivery in (await room.laggards(posted.message.message_id)).deliveries
    }
    assert states == {"bob": "expired", "dave": "expired", "erin": "answered"}
    assert await room.wakes("carol", head)
    waiting = await room.mentions("carol")
    assert [(entry.why, entry.reason) for entry in waiting.deliveries] == [("expired", "bob, dave")]
    assert waiting.mentions[0].message.message_id == posted.message.message_id
    assert [notice.why for notice in room.noting.notices][-1] == "expired"
    assert not (await room.mentions("bob")).mentions
    await room.offer("carol", posted.message.message_id)
    await room.ack("carol", 0, posted.message.message_id)
    assert (await room.mentions("carol")).mentions == ()
    await room.post("bob", "late, but here", answers=posted.message.message_id)
    assert await state_of(room, posted) == "answered"


async def test_the_most_important_first_however_many_wait(room: Room) -> None:
    await room.make()
    room.agent("bob")
    order = [("", 1), ("ack", 2), ("answer", 3), ("", 4), ("answer", 5), ("ack", 6)]
    for asks, number in order:
        await room.post("ann", f"@bob {number}", asks=asks)
    seen: list[int] = []
    after = ""
    left = 6
    while True:
        page = await room.mentions("bob", after=after, limit=2)
        seen += [hit.message.number for hit in page.mentions]
        left -= len(page.mentions)
        assert page.more == left
        assert [delivery.message_id for delivery in page.deliveries] == [
            hit.message.message_id for hit in page.mentions
        ]
        after = page.next
        if not after:
            break
    assert seen == [3, 5, 2, 6, 1, 4]
    newer = (await room.events())[-1].seq - 1
    assert len((await room.mentions("bob", newer_than=newer)).mentions) <= 1


async def test_an_ack_up_to_a_number_settles_all_that_waits_below(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest are told one by one, the rest by the receipt: none is left waiting."""
    from ekiden.relay import receiving

    monkeypatch.setattr(receiving, "DELIVERIES_TOLD_PER_ACK_MAX", 3)
    await room.make()
    room.agent("bob")
    for index in range(8):
        await room.post("ann", f"@bob {index}", asks="answer" if index == 0 else "")
    head = await room.head()
    await room.ack("bob", 7)
    told = [event for event in await room.events(head) if event.kind == "delivery.changed"]
    assert len(told) == 3
    waiting = await room.mentions("bob")
    assert [
        (hit.message.number, entry.state) for hit, entry in zip(waiting.mentions, waiting.deliveries, strict=True)
    ] == [
        (1, "acked"),
        (8, "stored"),
    ]


async def test_a_deleted_message_waits_for_nobody(room: Room) -> None:
    await room.make()
    room.agent("bob")
    posted = await room.post("ann", "@bob", asks="answer")
    await room.delete("ann", posted.message.message_id)
    assert (await room.mentions("bob")).mentions == ()
    assert not await room.wakes("bob")
    with pytest.raises(NotFound):
        await room.post("bob", "x", answers="msg_00000000000000000000")


async def test_who_lost_the_right_to_read_hears_nothing_more(room: Room) -> None:
    await room.make()
    room.agent("bob")
    await room.post("ann", "@bob one")
    room.agent("bob", {"session:*": ["read"]})
    assert (await room.mentions("bob")).mentions == ()
    assert not await room.wakes("bob")
    assert told(await room.post("ann", "@bob two")) == [("bob", "none", "may_not_read")]
    room.agent("bob", AGENT)
    assert [hit.message.text for hit in (await room.mentions("bob")).mentions] == ["@bob one"]
