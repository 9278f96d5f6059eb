"""Leases: one holder at a time, a fence that only grows, and time that no clock's step can bend."""

from typing import Any

import msgspec
import pytest

from ekiden.kernel import limits
from ekiden.kernel.errors import EkidenError, Forbidden, Invalid, TooMany
from ekiden.relay.lease_rules import LeaseGone, LeaseHeld
from ekiden.relay.rules import Archived
from ekiden.relay.wire import ChannelState
from ekiden.relay.wire_state import Lease, LeaseEnd
from relay.state_desk import open_desk

pytestmark = pytest.mark.anyio


async def refused(awaitable: Any, kind: type[EkidenError]) -> EkidenError:
    with pytest.raises(kind) as caught:
        await awaitable
    return caught.value


async def test_one_has_it_and_the_others_are_told_who_and_until_when(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada, bob = desk.caller(), desk.caller("Bob")
        lease = await ada.take("deploy", 60, note="release 7")
        assert (lease.fence, lease.held, lease.holder, lease.note) == (1, True, "Ada", "release 7")
        assert (lease.taken_at, lease.expires_at) == ("2026-01-01T00:00:00.000Z", "2026-01-01T00:01:00.000Z")
        held = await refused(bob.take("deploy"), LeaseHeld)
        assert (held.status, held.details["holder"]) == (409, "Ada")
        assert held.details["expires_at"] == lease.expires_at
        assert "fence" not in held.details
        seen = await bob.lease("deploy")
        assert (seen.fence, seen.held, seen.holder_id) == (1, True, ada.actor.principal_id)


async def test_two_programs_with_one_key_are_two(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        lease = await desk.caller().take("deploy")
        held = await refused(desk.caller().take("deploy"), LeaseHeld)
        assert held.details["fence"] == lease.fence, "who lost the answer can still renew"


async def test_the_fence_grows_with_each_holder_and_never_comes_again(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada, bob = desk.caller(), desk.caller("Bob")
        fences = [(await ada.take("x")).fence]
        assert (await ada.take("x", fence=1)).fence == 1, "a renewal keeps it"
        await ada.release("x", 1)
        fences.append((await ada.take("x")).fence)
        desk.clock.advance(61)
        fences.append((await bob.take("x")).fence)
        await desk.caller().release("x")  # broken by somebody with admin
        fences.append((await ada.take("x", 1)).fence)
        desk.clock.advance(2)
        await desk.tidy()
        fences.append((await bob.take("x")).fence)
        assert fences == [1, 2, 3, 4, 5]


async def test_a_renewal_moves_the_end_and_only_its_holder_can(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada, bob = desk.caller(), desk.caller("Bob")
        lease = await ada.take("x", 60, note="first")
        desk.clock.advance(50)
        again = await ada.take("x", 60, fence=lease.fence)
        assert (again.expires_at, again.note) == ("2026-01-01T00:01:50.000Z", "first")
        assert again.taken_at == lease.taken_at
        desk.clock.advance(59)
        assert (await ada.lease("x")).held
        gone = await refused(bob.take("x", fence=lease.fence), LeaseGone)
        assert (gone.status, gone.code, gone.details["holder"]) == (409, "lease_lost", "Ada")
        await refused(ada.take("x", fence=lease.fence + 1), LeaseGone)
        await refused(ada.take("y", fence=1), LeaseGone)


async def test_who_lost_a_lease_is_refused_with_who_has_it_now(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada, bob = desk.caller(), desk.caller("Bob")
        mine = await ada.take("x", 10)
        desk.clock.advance(11)
        gone = await refused(ada.take("x", 10, fence=mine.fence), LeaseGone)
        assert (gone.details["held"], gone.details["ended"]) == (False, "expired")
        await bob.take("x", 10)
        for lost in (ada.take("x", 10, fence=mine.fence), ada.release("x", mine.fence)):
            gone = await refused(lost, LeaseGone)
            assert (gone.details["held"], gone.details["holder"]) == (True, "Bob")


@pytest.mark.parametrize("told", [True, False])
async def test_a_lease_that_is_over_shows_so_and_its_holder_is_told_once(log_place: str, told: bool) -> None:
    async with open_desk(log_place) as desk:
        ada, bob = desk.caller(), desk.caller("Bob")
        await ada.take("x", 10)
        desk.clock.advance(10)
        for seen in (await bob.lease("x"), (await bob.leases()).leases[0]):
            assert (seen.held, seen.ended, seen.holder) == (False, LeaseEnd.EXPIRED, "Ada")
        head = await desk.head()
        if told:
            await desk.tidy()
            await desk.tidy()
        await bob.take("x", 10)
        over, taken = await desk.events(head)
        assert over.topics == ("channel:build", f"inbox:{ada.actor.principal_id}")
        lease = msgspec.json.decode(over.body, type=Lease)
        assert (lease.held, lease.ended, lease.fence, over.actor.principal_id) == (False, "expired", 1, "hub")
        assert msgspec.json.decode(taken.body, type=Lease).holder == "Bob"


async def test_letting_go_needs_the_fence_or_admin(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        agent = desk.caller("agent", {"channel:*": ["read", "lease"]})
        other = desk.caller("other", {"channel:*": ["read", "lease"]})
        lease = await agent.take("x")
        await refused(other.release("x"), Invalid)
        await refused(other.release("x", lease.fence), LeaseGone)
        freed = await agent.release("x", lease.fence)
        assert (freed.held, freed.ended) == (False, LeaseEnd.RELEASED)
        await refused(agent.release("x", lease.fence), LeaseGone)
        await agent.take("x")
        broken = await desk.caller("boss").release("x")
        assert (broken.held, broken.ended, broken.holder) == (False, LeaseEnd.BROKEN, "agent")
        told = (await desk.events())[-1]
        assert told.topics[1] == f"inbox:{agent.actor.principal_id}"


@pytest.mark.parametrize("lease_s", [0, -1, 10**12, limits.LEASE_S_MAX + 1])
async def test_times_out_of_bounds_are_refused(log_place: str, lease_s: int) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        await refused(ada.take("x", lease_s), Invalid)
        lease = await ada.take("y", 5)
        await refused(ada.take("y", lease_s, fence=lease.fence), Invalid)
        await refused(ada.take("y", 5, fence=-1), Invalid)


@pytest.mark.parametrize("name", ["", "a b", "x" * 129, "é", "a/b", "-a"])
async def test_names_of_another_form_are_refused(log_place: str, name: str) -> None:
    async with open_desk(log_place) as desk:
        await refused(desk.caller().take(name), Invalid)


async def test_names_and_notes_are_bounded(log_place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        await refused(ada.take("x", note="n" * 501), Invalid)
        monkeypatch.setattr(limits, "LEASES_PER_CHANNEL_MAX", 1)
        lease = await ada.take("x")
        await refused(ada.take("y"), TooMany)
        await ada.release("x", lease.fence)
        await ada.take("x")


async def test_rights(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        await refused(desk.caller("reader", {"channel:*": ["read"]}).take("x"), Forbidden)
        await desk.channel(state=ChannelState.ARCHIVED)
        await refused(desk.caller().take("x"), Archived)


async def test_leases_are_listed_in_pages(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        for number in range(5):
            await ada.take(f"n{number}")
        names: list[str] = []
        after = ""
        while True:
            page = await ada.leases(after=after, limit=2)
            names += [lease.name for lease in page.leases]
            after = page.next
            if not after:
                break
        assert names == ["n0", "n1", "n2", "n3", "n4"]


# --- clocks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step_s", [3_600, -3_600, 90, -90])
async def test_a_clock_that_steps_takes_no_lease_away_and_makes_none_last(log_place: str, step_s: float) -> None:
    async with open_desk(log_place) as desk:
        ada, bob = desk.caller(), desk.caller("Bob")
        lease = await ada.take("x", 60)
        desk.clock.step(step_s)
        await desk.tidy()
        await refused(bob.take("x"), LeaseHeld)
        await ada.take("x", 60, fence=lease.fence)
        desk.clock.advance(61)
        assert (await bob.take("x")).fence == 2


async def test_a_machine_that_slept_past_the_end_has_lost_it(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada, bob = desk.caller(), desk.caller("Bob")
        lease = await ada.take("x", 3_600)
        desk.clock.sleep(8 * 3_600)
        assert not (await ada.lease("x")).held
        await refused(ada.take("x", 60, fence=lease.fence), LeaseGone)
        assert (await bob.take("x")).fence == 2


async def test_a_clock_put_back_while_the_hub_was_down_makes_no_lease_immortal(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        await desk.caller().take("x", 60)
        clock = desk.clock
    clock.step(-30 * 24 * 3_600)
    async with open_desk(log_place, clock) as desk:
        ada, bob = desk.caller(), desk.caller("Bob")
        assert (await ada.lease("x")).held
        await desk.tidy()
        assert (await ada.lease("x")).expires_at == "2025-12-02T00:01:00.000Z"
        clock.advance(61)
        assert (await bob.take("x")).fence == 2
