"""The relay's chores as a node does them: what is due is done, and an idle node writes nothing."""

from typing import Any

import pytest

from ekiden.hub.chores import Chores
from ekiden.hub.relay_chores import RELAY_CHORES
from ekiden.kernel import limits
from ekiden.relay.wire import Retention
from relay.state_desk import TEAM, Desk, open_desk

pytestmark = pytest.mark.anyio


def node(desk: Desk, owner: str = "node-1") -> Chores:
    return Chores(desk.log, TEAM, owner, desk.clock, RELAY_CHORES)


async def taken(desk: Desk, name: str) -> int:
    """How often a chore was taken up, by whichever node."""
    row: Any = await desk.log.ask(TEAM, lambda reading: reading.row("hub.lease", name=name))
    return row["fence"] if row is not None else 0


async def test_times_that_are_over_are_told_within_a_look(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada, chores = desk.caller(), node(desk)
        await ada.set("k", 1, expires_s=30)
        await ada.take("l", 30)
        await chores.look()
        assert await taken(desk, "times") == 0, "nothing is due"
        desk.clock.advance(31)
        head = await desk.head()
        await chores.look()
        assert [event.kind for event in await desk.events(head)] == ["status.changed", "lease.changed"]
        head = await desk.head()
        desk.clock.advance(limits.CHORE_LOOK_S)
        await chores.look()
        assert (await desk.head(), await taken(desk, "times")) == (head, 1)


async def test_of_two_nodes_one_tells(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        await desk.caller().take("l", 30)
        desk.clock.advance(31)
        head = await desk.head()
        await node(desk, "node-1").look()
        await node(desk, "node-2").look()
        assert len(await desk.events(head)) == 1


async def test_the_log_gets_its_checkpoints(log_place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHECKPOINT_EVENTS", 5)
    async with open_desk(log_place) as desk:
        ada, chores = desk.caller(), node(desk)
        for number in range(12):
            await ada.set("k", number)
        await chores.look()
        assert [one.seq for one in (await ada.checkpoints()).checkpoints] == [12, 10, 5]
        count = await taken(desk, "chain")
        desk.clock.advance(limits.CHECKPOINT_S * 2)
        await chores.look()
        assert await taken(desk, "chain") == count, "an idle log needs none"


async def test_what_a_channel_does_not_keep_goes(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        await desk.channel(retention=Retention(count=1))
        ada = desk.caller()
        await desk.people(ada)
        for text in ("one", "two", "three"):
            await ada.post(text)
        await node(desk).look()
        assert [message.text for message in (await ada.read(after="0")).messages] == ["three"]
