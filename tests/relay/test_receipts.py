"""Receipts: what was acked is known exactly, wakes nobody, and answers of constant size say who lags."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ekiden.kernel.errors import Conflict, Forbidden, Invalid, NotFound
from ekiden.kernel.ids import Prefix, new_id
from ekiden.kernel.limits import RECEIPT_RANGES_MAX
from ekiden.relay.rules import Acked, acked_with
from ekiden.relay.wire import Receipt
from relay.room import AGENT, Room

pytestmark = pytest.mark.anyio

RANGES = st.lists(
    st.tuples(st.integers(1, 40), st.integers(0, 6)).map(lambda pair: (pair[0], pair[0] + pair[1])), max_size=12
)


@given(RANGES, RANGES)
def test_ranges_are_the_numbers_that_were_acked(first: list[tuple[int, int]], then: list[tuple[int, int]]) -> None:
    """Against plain sets: apart, in order, above the watermark; nothing acked is forgotten, nothing else is."""
    acked = acked_with(acked_with(Acked(), first), then)
    numbers = {number for low, high in (*first, *then) for number in range(low, high + 1)}
    assert {number for number in range(1, 60) if acked.covers(number)} == numbers
    assert acked.to == next(number for number in range(100) if number + 1 not in numbers)
    assert all(low <= high and low > acked.to + 1 for low, high in acked.also)
    assert all(high + 1 < low for (_, high), (low, _) in pairwise(acked.also))
    gaps = {number for low, high in acked.gaps() for number in range(low, high + 1)}
    top = max(numbers, default=0)
    assert gaps == set(range(1, top + 1)) - numbers


async def test_reading_is_not_acking(room: Room) -> None:
    """Four unread stay unread however often and from wherever they are listed."""
    await room.make()
    for index in range(4):
        await room.post("ann", f"{index}, @bob" if index else "@bob")
    room.agent("bob")
    await room.join("bob")
    for _ in range(2):
        page = await room.page("bob", unread=True)
        assert (len(page.messages), page.total_unread) == (4, 4)
        assert (await room.channel(by="bob")).unread == 4
        assert (await room.mentions("bob")).channels[0].unread == 4
    await room.ack("bob", 3)
    page = await room.page("bob", unread=True)
    assert ([message.number for message in page.messages], page.total_unread) == ([4], 1)


async def test_an_ack_of_what_is_not_there_changes_nothing(room: Room) -> None:
    await room.make()
    await room.make("other")
    elsewhere = (await room.post("ann", "x", "other")).message.message_id
    message = (await room.post("ann", "x")).message.message_id
    for kind, upto, named, fields in (
        (Invalid, 2, (), {}),
        (Invalid, 99_999_999_999_999, (), {}),
        (Invalid, -1, (), {}),
        (Invalid, 0, (), {}),
        (NotFound, 0, (new_id(Prefix.MESSAGE),), {}),
        (NotFound, 0, (message, elsewhere), {}),
        (Invalid, 0, (message,), {"declined": True}),
        (Invalid, 1, (), {"declined": True, "reason": "no"}),
        (Invalid, 0, (message,), {"reason": "x" * 501}),
        (Invalid, 0, (message,) * 201, {}),
    ):
        head = await room.head()
        with pytest.raises(kind):
            await room.ack("bob", upto, *named, **fields)
        assert await room.head() == head
    assert (await room.receipt("bob")).acked_to == 0
    assert (await room.page("bob", unread=True)).total_unread == 1


async def test_an_ack_needs_read_and_ack_and_nothing_more(room: Room) -> None:
    """Who can only read and ack can ack; without `ack` reading is all."""
    await room.make()
    await room.post("ann", "x")
    room.agent("reader", {"channel:*": ["read", "ack"]})
    assert (await room.ack("reader", 1)).acked_to == 1
    with pytest.raises(Forbidden):
        await room.post("reader", "no")
    room.agent("onlooker", {"channel:*": ["read"]})
    with pytest.raises(Forbidden):
        await room.ack("onlooker", 1)
    assert (await room.page("onlooker", unread=True)).total_unread == 1


async def test_an_ack_wakes_nobody_and_is_no_message(room: Room) -> None:
    await room.make()
    room.agent("bob")
    posted = await room.post("ann", "@bob", asks="ack")
    head = await room.head()
    await room.ack("bob", 1)
    told = [event for event in await room.events(head) if event.kind != "member.joined"]
    assert {event.kind for event in told} == {"receipt.changed", "delivery.changed"}
    receipt = next(event for event in told if event.kind == "receipt.changed")
    assert receipt.topics == ("channel:build",)
    assert msgspec.json.decode(receipt.body, type=Receipt).acked_to == 1
    assert not await room.wakes("ann")
    assert (await room.channel()).last_number == 1
    head = await room.head()
    await room.ack("bob", 1)
    await room.ack("bob", 0, posted.message.message_id)
    assert await room.head() == head


async def test_one_by_one_and_out_of_order(room: Room) -> None:
    """A gap that holds only one's own messages is none; the rest are exceptions."""
    await room.make()
    ids = [""]
    for index in range(1, 11):
        by = "bob" if index in (2, 5, 6) else "ann"
        ids.append((await room.post(by, f"{index}")).message.message_id)
    receipts = [
        (4, 0, ((4, 4),)),
        (7, 0, ((4, 7),)),
        (9, 0, ((4, 7), (9, 9))),
        (1, 1, ((4, 7), (9, 9))),
        (3, 7, ((9, 9),)),
        (8, 9, ()),
        (10, 10, ()),
    ]
    for number, acked_to, also in receipts:
        receipt = await room.ack("bob", 0, ids[number])
        assert (receipt.acked_to, receipt.also) == (acked_to, also)
        assert await room.receipt("bob") == receipt
    assert (await room.page("bob", unread=True)).total_unread == 0


async def test_an_agent_that_answers_each_message_needs_no_exceptions(room: Room) -> None:
    await room.make()
    for _ in range(30):
        message = (await room.post("ann", "ping")).message.message_id
        await room.post("bob", "pong")
        assert (await room.ack("bob", 0, message)).also == ()
    assert (await room.receipt("bob")).acked_to >= 59


async def test_too_many_exceptions_are_refused_and_nothing_is_lost(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ekiden.relay import rules

    monkeypatch.setattr(rules.limits, "RECEIPT_RANGES_MAX", 4)
    assert RECEIPT_RANGES_MAX >= 64
    await room.make()
    ids = [(await room.post("ann", f"{index}")).message.message_id for index in range(12)]
    for index in (1, 3, 5, 7):
        await room.ack("bob", 0, ids[index])
    before = await room.receipt("bob")
    with pytest.raises(Conflict) as refused:
        await room.ack("bob", 0, ids[9])
    assert "upto" in refused.value.hint
    assert await room.receipt("bob") == before
    await room.ack("bob", 4)
    assert (await room.ack("bob", 0, ids[9])).also == ((6, 6), (8, 8), (10, 10))


async def test_laggards_are_counted_and_paged(room: Room) -> None:
    await room.make()
    names = [f"bot{index:02}" for index in range(12)]
    for name in names:
        await room.join(name)
    message = (await room.post("bot00", "read this")).message
    await room.post("bot01", "and this")
    await room.ack("bot02", 2)
    await room.ack("bot03", 0, message.message_id)
    await room.ack("bot04", 0, (await room.page()).messages[1].message_id)
    told = await room.laggards(message.message_id, limit=4)
    assert (told.members, told.acked, told.number) == (13, 3, 1)
    seen = [receipt.name for receipt in told.lagging]
    while told.next:
        told = await room.laggards(message.message_id, limit=4, after=told.next)
        assert told.acked == 3
        seen += [receipt.name for receipt in told.lagging]
    assert sorted(seen) == sorted(["ann", "bot01", "bot04", *names[5:]])
    with pytest.raises(Invalid):
        await room.laggards(message.message_id, after="x")
    await room.leave("bot05")
    assert ((await room.laggards(message.message_id)).members, len(seen) - 1) == (12, 9)


async def test_who_leaves_and_comes_back_finds_what_it_had_acked(room: Room) -> None:
    await room.make()
    for _ in range(3):
        await room.post("ann", "x")
    await room.ack("bob", 2)
    assert (await room.leave("bob")).name == "bob"
    assert (await room.channel(by="bob")).unread is None
    assert (await room.channel()).members == 1
    await room.post("bob", "a visitor's word")
    assert (await room.channel()).members == 1
    await room.join("bob")
    assert ((await room.channel(by="bob")).unread, (await room.channel()).members) == (1, 2)


# --- channels and members


async def test_posting_makes_no_channel_and_names_are_not_given_out_again(room: Room) -> None:
    for index in range(3):
        with pytest.raises(NotFound):
            await room.post("ann", "x", f"new{index}")
    assert (await room.listed()).channels == ()
    await room.make("Build")
    for name in ("build", "BUILD"):
        with pytest.raises(Conflict):
            await room.make(name)
    await room.drop("build")
    with pytest.raises(NotFound):
        await room.channel("build")
    with pytest.raises(Conflict) as refused:
        await room.make("build")
    assert refused.value.details["state"] == "deleted"
    for name in ("", "a b", "-x", "a" * 81, "ч", "cha_x", "a/b", "a\nid: 9"):
        with pytest.raises(Invalid):
            await room.make(name)
    with pytest.raises(Forbidden):
        await room.make("mine", by="bob")


async def test_a_private_name_does_not_tell_that_it_is_taken(room: Room) -> None:
    await room.make("plans", private=True)
    room.agent("maker", {"channel:*": ["admin"]})
    made = await room.make("plans", by="maker")
    assert (await room.channel("plans", "maker")).channel_id == made.channel_id
    room.agent("insider", {"private:*": ["read", "post"]})
    assert (await room.channel("plans", "insider")).private
    assert {(channel.name, channel.private) for channel in (await room.listed()).channels} == {
        ("plans", False),
        ("plans", True),
    }
    first = await room.listed(limit=1)
    assert [channel.private for channel in first.channels] == [False]
    assert [channel.private for channel in (await room.listed(after=first.next)).channels] == [True]


async def test_members_are_invited_by_who_may_and_can_read(room: Room) -> None:
    await room.make("club", private=True)
    room.agent("guest")
    with pytest.raises(Conflict):
        await room.join("guest", "club", by="ann")
    room.agent("guest", {**AGENT, "private:club": ["read"]})
    assert (await room.join("guest", "club", by="ann", role="Reviewer")).role == "reviewer"
    with pytest.raises(Forbidden):
        await room.join("guest", "club", role="owner")
    room.agent("other", {**AGENT, "private:club": ["read"]})
    with pytest.raises(Forbidden):
        await room.join("other", "club", by="guest")
    with pytest.raises(Forbidden):
        await room.leave("ann", "club", by="guest")
    await room.join("other", "club")
    page = await room.members("club", limit=2)
    rest = await room.members("club", after=page.next)
    assert page.total == 3
    assert sorted(member.name for member in (*page.members, *rest.members)) == ["ann", "guest", "other"]
    head = await room.head()
    await room.join("other", "club")
    assert await room.head() == head
    await room.leave("guest", "club", by="ann")
    with pytest.raises(NotFound):
        await room.leave("guest", "club", by="ann")


async def test_who_leaves_an_encrypted_channel_makes_its_epoch_stale(room: Room) -> None:
    from ekiden.relay.keeping import put_channel
    from relay.room import TEAM

    channel = await room.make(encrypted=True)
    await room.log.write(TEAM, lambda tx: put_channel(tx, msgspec.structs.replace(channel, epoch=3)))
    await room.join("bob")
    assert not (await room.channel()).epoch_stale
    await room.leave("bob")
    assert (await room.channel()).epoch_stale
