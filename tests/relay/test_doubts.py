"""A key that is not trusted since a time: what it wrote after it is marked, and what it set is put back."""

from typing import Any

import msgspec
import pytest

from ekiden.kernel import limits
from ekiden.kernel.errors import NotFound
from ekiden.relay import tainting
from ekiden.relay.lease_rules import LeaseGone
from ekiden.relay.wire_state import LeaseEnd, StatusKind, Suspected, Tainted
from relay.state_desk import TEAM, Caller, Desk, open_desk

pytestmark = pytest.mark.anyio
SINCE = "2026-01-01T00:01:00.000Z"


async def doubt(desk: Desk, caller: Caller, since: str = SINCE) -> Tainted:
    """What the revocation of a caller's key does to what it wrote."""
    boss = desk.caller("Boss")

    async def verb(tx: Any) -> Tainted:
        return await tainting.taint(tx, boss.actor, caller.actor.key_id, since)

    return msgspec.json.decode((await desk.log.write(TEAM, verb)).answer, type=Tainted)


async def two(desk: Desk) -> tuple[Caller, Caller]:
    ada, eve = desk.caller(), desk.caller("Eve")
    await desk.people(ada, eve)
    await desk.keys(ada, eve)
    return ada, eve


async def test_messages_since_then_are_marked_and_stay(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada, eve = await two(desk)
        await eve.post("before")
        desk.clock.advance(60)
        await ada.post("beside")
        after = await eve.post('after, with "suspect":true in it')
        done = await doubt(desk, eve)
        assert (done.messages, done.left) == (1, 0)
        shown = (await ada.read(after="0")).messages
        assert [(message.text[:6], message.suspect) for message in shown] == [
            ("before", False),
            ("beside", False),
            ("after,", True),
        ]
        kinds = {event.kind: event for event in await desk.events()}
        told = msgspec.json.decode(kinds["message.suspected"].body, type=Suspected)
        assert told.messages == (after.message_id,)
        assert kinds["message.suspected"].topics == ("channel:build",)
        assert kinds["key.tainted"].topics == ("access",)
        assert (await doubt(desk, eve)).messages == 0, "what is marked is marked once"


async def test_a_status_goes_back_to_the_last_line_that_is_not_in_doubt(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada, eve = await two(desk)
        await eve.set("tests", "was hers and clean")
        await ada.set("deploy", "ready")
        desk.clock.advance(60)
        await eve.set("tests", "green")
        await eve.set("tests", "very green")
        await eve.set("deploy", "done")
        await ada.set("deploy", "checked since")
        await eve.set("new", "hers")
        done = await doubt(desk, eve)
        assert {line.key: line.kind for line in done.statuses} == {
            "tests": StatusKind.REVERTED,
            "new": StatusKind.CLEARED,
        }
        tests = await ada.get("tests")
        assert (tests.kind, tests.value, tests.version, tests.by_id) == (
            "reverted",
            "was hers and clean",
            4,
            "hub",
        )
        assert (await ada.get("deploy")).value == "checked since"
        assert (await ada.get("new")).kind is StatusKind.CLEARED
        assert [(line.version, line.suspect) for line in (await ada.history("tests")).statuses] == [
            (4, False),
            (3, True),
            (2, True),
            (1, False),
        ]
        assert (await ada.set("tests", "red", if_version=4)).version == 5


async def test_a_value_that_was_cleared_in_doubt_comes_back_with_its_time(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada, eve = await two(desk)
        await ada.set("k", "up", expires_s=300)
        await ada.set("short", "up", expires_s=90)
        desk.clock.advance(60)
        await eve.clear("k")
        await eve.clear("short")
        desk.clock.advance(60)
        await doubt(desk, eve)
        assert (await ada.get("k")).value == "up"
        assert (await ada.get("short")).kind is StatusKind.CLEARED, "its time is over"
        desk.clock.advance(181)
        assert (await ada.get("k")).kind is StatusKind.EXPIRED


async def test_its_leases_end(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada, eve = await two(desk)
        held = await eve.take("deploy", 600)
        [lease] = (await doubt(desk, eve)).leases
        assert (lease.held, lease.ended, lease.name) == (False, LeaseEnd.REVOKED, "deploy")
        assert (await ada.lease("deploy")).ended is LeaseEnd.REVOKED
        with pytest.raises(LeaseGone):
            await eve.take("deploy", 600, fence=held.fence)
        assert (await ada.take("deploy")).fence == 2


async def test_what_is_too_much_for_one_transaction_is_followed_up(
    log_place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TAINTED_AT_ONCE_MAX", 2)
    async with open_desk(log_place) as desk:
        ada, eve = await two(desk)
        await ada.set("k", "clean")
        desk.clock.advance(60)
        for number in range(5):
            await eve.post(f"m{number}")
            await eve.set("k", number)
        done = await doubt(desk, eve)
        assert (done.messages, done.left) == (2, 6)
        while await desk.log.ask(TEAM, tainting.taints_waiting):
            await desk.log.write(TEAM, tainting.taint_more)
        assert all(message.suspect for message in (await ada.read(after="0")).messages)
        now = await ada.get("k")
        assert (now.value, now.kind) == ("clean", StatusKind.REVERTED)
        lines = (await ada.history("k")).statuses
        assert [line.suspect for line in lines if line.by == "Eve"] == [True] * 5


async def test_large_values_in_doubt_fit_into_what_is_told(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada, eve = await two(desk)
        for number in range(50):
            await ada.set(f"k{number}", "x" * 30_000)
        desk.clock.advance(60)
        for number in range(50):
            await eve.set(f"k{number}", "y" * 30_000)
        done = await doubt(desk, eve)
        assert (len(done.statuses), done.left) == (50, 0)
        assert (await ada.get("k49")).value == "x" * 30_000


async def test_a_key_that_wrote_nothing_taints_nothing(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada, eve = await two(desk)
        await ada.post("hello")
        await ada.set("k", 1)
        done = await doubt(desk, eve, "2020-01-01T00:00:00.000Z")
        assert (done.messages, done.left, done.statuses, done.leases) == (0, 0, (), ())
        with pytest.raises(NotFound):
            await ada.lease("none")
