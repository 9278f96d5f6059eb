"""Keys that an agent makes for its sub-agents: narrower, not longer, and gone with it."""

import pytest
from tests.access.test_keys import make

from ekiden.access import routes
from ekiden.access.rules import Kind
from ekiden.kernel import limits
from ekiden.kernel.clock import iso
from ekiden.kernel.errors import Forbidden, Invalid, TooMany, Unauthenticated

pytestmark = pytest.mark.anyio

WORK = {"channel:build": ["read", "post", "status:tests.*"], "team": ["read"]}


@pytest.fixture
async def agent(room):
    made = await make(room, "Lead", permissions=WORK, expires_at=iso(room.clock.now() + 3600))
    return await room.gate.identify(made.key)


async def test_an_agent_makes_a_narrower_key_for_its_sub_agent(room, agent):
    below = await make(room, "Helper", by=agent, permissions={"channel:build": ["read", "status:tests.unit"]})
    identity = await room.gate.identify(below.key)
    assert identity.permissions == {"channel:build": ["read", "status:tests.unit"]}
    assert identity.expires_at == agent.expires_at
    listed = {key.key_id: key for key in (await routes.list_keys(room.call())).keys}
    assert listed[below.key_id].parent_key == agent.key_id


async def test_left_out_rights_are_the_own_ones(room, agent):
    below = await make(room, "Helper", by=agent)
    assert (await room.gate.identify(below.key)).permissions == agent.permissions


@pytest.mark.parametrize(
    "wanted",
    [
        {"channel:*": ["read"]},
        {"channel:build": ["lease"]},
        {"channel:build": ["status:*"]},
        {"channel:build": ["admin"]},
        {"private:build": ["read"]},
        {"access": ["admin"]},
    ],
    ids=str,
)
async def test_a_key_below_is_never_wider(room, agent, wanted):
    with pytest.raises(Forbidden) as refused:
        await make(room, "Helper", by=agent, permissions=wanted)
    [(pattern, [verb])] = wanted.items()
    assert (refused.value.details["pattern"], refused.value.details["verb"]) == (pattern, verb)


async def test_a_key_below_is_never_longer(room, agent):
    with pytest.raises(Invalid):
        await make(room, "Helper", by=agent, expires_at=iso(room.clock.now() + 3601))


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.AGENT])
async def test_who_may_not_change_rights_makes_agents_only(room, agent, kind):
    with pytest.raises(Forbidden):
        await make(room, "Somebody", kind, by=agent)


async def test_a_host_makes_no_keys(room):
    desk = await make(room, "Desk", Kind.HOST)
    with pytest.raises(Forbidden):
        await make(room, "Helper", by=await room.gate.identify(desk.key), permissions={})


async def test_a_key_ends_with_the_one_that_made_it_however_deep(room, agent):
    below = await make(room, "Helper", by=agent)
    deeper = await make(room, "Helper of the helper", by=await room.gate.identify(below.key))
    await routes.revoke_key(room.call(parameters={"key_id": agent.key_id}))
    for made in (below, deeper):
        with pytest.raises(Unauthenticated, match="revoked"):
            await room.gate.identify(made.key)
    ends = [event.body for event in await room.told() if event.kind == "key.revoked"]
    assert [b'"parent_ended"' in body for body in ends] == [False, True, True]


async def test_what_the_owner_makes_stands_for_itself(room):
    """The laptop's key may end without its agents."""
    device = await make(room, "Laptop", Kind.DEVICE)
    made = await make(room, "Agent", by=await room.gate.identify(device.key))
    await routes.revoke_key(room.call(parameters={"key_id": device.key_id}))
    assert (await room.gate.identify(made.key)).key_id == made.key_id


async def test_keys_below_are_bounded_in_depth(room, agent):
    by = agent
    for depth in range(limits.KEY_DEPTH_MAX - 1):
        made = await make(room, f"Depth {depth}", by=by)
        by = await room.gate.identify(made.key)
    with pytest.raises(TooMany):
        await make(room, "Too deep", by=by)


async def test_keys_below_are_bounded_in_number(room, agent):
    made = [await make(room, f"Helper {number}", by=agent) for number in range(limits.KEYS_BELOW_ONE_MAX)]
    with pytest.raises(TooMany):
        await make(room, "One more", by=agent)
    await routes.revoke_key(room.call(parameters={"key_id": made[0].key_id}))
    await make(room, "One more", by=agent)
