"""Keys after they were made: changed, rotated, distrusted since a time, and why they may not."""

import msgspec
import pytest
from tests.access.test_keys import make

from ekiden.access import routes, routes_keys
from ekiden.access.port import Ports
from ekiden.access.routes_keys import ChangeKey, RevokeKey, RotateKey
from ekiden.access.rules import Kind
from ekiden.kernel import limits
from ekiden.kernel.clock import iso
from ekiden.kernel.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated

pytestmark = pytest.mark.anyio

WORK = {"channel:a": ["read", "post"], "channel:b": ["read", "post"]}


async def change(room, key_id, permissions, by=None):
    return await routes_keys.change_key(room.call(by, parameters={"key_id": key_id}), ChangeKey(permissions))


async def rotate(room, key_id, by=None, **also):
    return await routes_keys.rotate_key(room.call(by, parameters={"key_id": key_id}), RotateKey(**also))


async def revoke_since(room, key_id, since="", taint=None):
    [endpoint] = [one for one in routes_keys.endpoints(Ports(taint=taint)) if one.path.endswith("/revoke")]
    return await endpoint.run(room.call(parameters={"key_id": key_id}), RevokeKey(since))


async def rights_of(room, made):
    return (await room.gate.identify(made.key)).permissions


async def kinds(room):
    return [event.kind for event in await room.told()]


# Changed


async def test_a_key_gets_another_map_and_the_empty_one_allows_nothing(room):
    made = await make(room, permissions=WORK)
    changed = await change(room, made.key_id, {"channel:a": ["read"]})
    assert changed.permissions == await rights_of(room, made) == {"channel:a": ["read"]}
    await change(room, made.key_id, {})
    identity = await room.gate.identify(made.key)
    assert not any(
        room.gate.allows(identity.permissions, "read", resource)
        for resource in ("channel:a", "team", "directory", f"inbox:{made.principal_id}")
    )
    assert (await kinds(room)).count("key.changed") == 2


async def test_the_same_map_again_is_no_change(room):
    made = await make(room, permissions=WORK)
    await change(room, made.key_id, {pattern: verbs[::-1] for pattern, verbs in WORK.items()})
    assert "key.changed" not in await kinds(room)


async def test_what_a_key_loses_is_lost_below_it_too(room):
    lead = await make(room, "Lead", permissions=WORK)
    helper = await make(room, "Helper", by=await room.gate.identify(lead.key))
    deeper = await make(room, "Deeper", by=await room.gate.identify(helper.key))
    await change(room, lead.key_id, {"channel:a": ["read", "post"], "channel:b": ["read"]})
    for made in (lead, helper, deeper):
        assert await rights_of(room, made) == {"channel:a": ["read", "post"], "channel:b": ["read"]}
    await change(room, helper.key_id, {"channel:a": ["read"]})
    assert await rights_of(room, lead) == {"channel:a": ["read", "post"], "channel:b": ["read"]}
    assert await rights_of(room, deeper) == {"channel:a": ["read"]}


async def test_a_key_below_never_gets_more_than_the_one_above(room):
    lead = await make(room, "Lead", permissions=WORK)
    helper = await make(room, "Helper", by=await room.gate.identify(lead.key))
    with pytest.raises(Forbidden, match="more than it has"):
        await change(room, helper.key_id, {"channel:c": ["read"]})


async def test_nobody_gives_more_than_the_own_rights(room):
    narrow = await make(room, "Narrow", Kind.PERSON, permissions={"access": ["admin"], "channel:a": ["read"]})
    made = await make(room, permissions=WORK)
    by = await room.gate.identify(narrow.key)
    with pytest.raises(Forbidden):
        await change(room, made.key_id, {"channel:b": ["read"]}, by)
    await change(room, made.key_id, {"channel:a": ["read"]}, by)


async def test_some_keys_are_not_to_be_changed(room):
    host = await make(room, "Desk", Kind.HOST)
    ended = await make(room, "Ended")
    await routes.revoke_key(room.call(parameters={"key_id": ended.key_id}))
    for key_id, refusal in (
        (host.key_id, Forbidden),
        (ended.key_id, Conflict),
        (room.owner.key_id, Conflict),
        ("key_" + "0" * 20, NotFound),
    ):
        with pytest.raises(refusal):
            await change(room, key_id, {"team": ["read"]})


# Rotated


async def test_a_rotated_key_is_the_same_principal_and_the_old_one_ends_after_the_overlap(room):
    made = await make(room, permissions=WORK)
    new = await rotate(room, made.key_id, overlap_s=60)
    before, after = await room.gate.identify(made.key), await room.gate.identify(new.key)
    assert (after.principal_id, after.permissions) == (before.principal_id, before.permissions)
    assert after.key_id != before.key_id
    room.clock.advance(60)
    with pytest.raises(Unauthenticated, match="expired"):
        await room.gate.identify(made.key)
    assert (await room.gate.identify(new.key)).expires_at is None


async def test_without_an_overlap_the_old_key_ends_at_once(room):
    made = await make(room)
    new = await rotate(room, made.key_id, overlap_s=0)
    with pytest.raises(Unauthenticated):
        await room.gate.identify(made.key)
    assert (await room.gate.identify(new.key)).principal_id == made.principal_id


async def test_a_rotated_key_ends_no_later_than_before(room):
    ends_at = iso(room.clock.now() + 30)
    made = await make(room, expires_at=ends_at)
    new = await rotate(room, made.key_id, overlap_s=60)
    assert new.old_ends_at == ends_at
    assert (await room.gate.identify(new.key)).expires_at == pytest.approx(room.clock.now() + 30)


async def test_keys_below_go_over_to_the_new_key(room):
    """They end with it, not with the old one."""
    lead = await make(room, "Lead", permissions=WORK)
    helper = await make(room, "Helper", by=await room.gate.identify(lead.key))
    new = await rotate(room, lead.key_id, overlap_s=0)
    await room.gate.identify(helper.key)
    await routes.revoke_key(room.call(parameters={"key_id": new.key_id}))
    with pytest.raises(Unauthenticated):
        await room.gate.identify(helper.key)


async def test_a_key_rotates_itself_but_no_other(room):
    one, other = await make(room, "One"), await make(room, "Other")
    by = await room.gate.identify(one.key)
    with pytest.raises(NotFound):
        await rotate(room, other.key_id, by)
    new = await rotate(room, one.key_id, by)
    assert (await room.gate.identify(new.key)).principal_id == one.principal_id


async def test_who_has_found_an_old_key_does_not_rotate_it_again(room):
    made = await make(room)
    await rotate(room, made.key_id)
    with pytest.raises(Conflict, match="rotated already"):
        await rotate(room, made.key_id, await room.gate.identify(made.key))


@pytest.mark.parametrize("overlap_s", [-1, limits.KEY_OVERLAP_S_MAX + 1])
async def test_an_overlap_is_bounded(room, overlap_s):
    made = await make(room)
    with pytest.raises(Invalid):
        await rotate(room, made.key_id, overlap_s=overlap_s)


async def test_the_key_of_the_command_line_is_not_rotated(room):
    with pytest.raises(Conflict):
        await rotate(room, room.owner.key_id)


# Distrusted


class Marks:
    """What a relay room would be told."""

    def __init__(self):
        self.told = []

    async def __call__(self, tx, actor, key_id, since):
        self.told.append((key_id, since))
        return {"key_id": key_id, "messages": 3}


async def test_a_key_is_ended_and_what_it_wrote_since_a_time_is_marked(room):
    lead = await make(room, "Lead", permissions=WORK)
    helper = await make(room, "Helper", by=await room.gate.identify(lead.key))
    since = iso(room.clock.now())
    room.clock.advance(60)
    marks = Marks()
    answer = await revoke_since(room, lead.key_id, since, marks)
    assert marks.told == [(lead.key_id, since), (helper.key_id, since)]
    assert answer.keys == (lead.key_id, helper.key_id)
    assert [msgspec.json.decode(one)["key_id"] for one in answer.tainted] == list(answer.keys)
    for made in (lead, helper):
        with pytest.raises(Unauthenticated):
            await room.gate.identify(made.key)
    listed = {key.key_id: key.suspect_since for key in (await routes.list_keys(room.call())).keys}
    assert listed[lead.key_id] == listed[helper.key_id] == since
    assert (await kinds(room)).count("key.suspected") == 2


async def test_a_key_that_ended_is_distrusted_later_and_only_ever_earlier(room):
    made = await make(room)
    await routes.revoke_key(room.call(parameters={"key_id": made.key_id}))
    early = iso(room.clock.now() - 60)
    marks = Marks()
    await revoke_since(room, made.key_id, early, marks)
    await revoke_since(room, made.key_id, iso(room.clock.now()), marks)
    [key] = [key for key in (await routes.list_keys(room.call())).keys if key.key_id == made.key_id]
    assert key.suspect_since == early
    assert len(marks.told) == 2


async def test_keys_below_that_ended_before_are_not_in_doubt(room):
    lead = await make(room, "Lead", permissions=WORK)
    by = await room.gate.identify(lead.key)
    before, after = await make(room, "Before", by=by), await make(room, "After", by=by)
    await routes.revoke_key(room.call(parameters={"key_id": before.key_id}))
    room.clock.advance(60)
    since = iso(room.clock.now())
    room.clock.advance(60)
    await routes.revoke_key(room.call(parameters={"key_id": after.key_id}))
    assert (await revoke_since(room, lead.key_id, since, Marks())).keys == (lead.key_id, after.key_id)


async def test_without_a_time_nothing_is_in_doubt(room):
    made = await make(room)
    marks = Marks()
    answer = await revoke_since(room, made.key_id, "", marks)
    assert (answer.tainted, marks.told) == ((), [])
    with pytest.raises(Unauthenticated):
        await room.gate.identify(made.key)


async def test_other_keys_of_the_principal_are_named(room):
    made = await make(room)
    new = await rotate(room, made.key_id)
    assert (await revoke_since(room, made.key_id)).still_valid == (new.key_id,)


async def test_if_marking_fails_nothing_is_revoked(room):
    made = await make(room)

    async def fails(tx, actor, key_id, since):
        raise Conflict("no")

    with pytest.raises(Conflict):
        await revoke_since(room, made.key_id, iso(room.clock.now()), fails)
    await room.gate.identify(made.key)


@pytest.mark.parametrize("since", ["yesterday", "2999-01-01T00:00:00Z", "2020-01-01T00:00:00"])
async def test_a_time_in_doubt_is_a_time_that_has_come(room, since):
    made = await make(room)
    with pytest.raises(Invalid):
        await revoke_since(room, made.key_id, since)


# Why not


async def explain(room, **query):
    return await routes_keys.explain(room.call(query=query))


async def test_a_refusal_is_explained_to_the_owner(room):
    made = await make(room, permissions={"channel:*": ["read"], "channel:build": ["post"]})
    why = await explain(room, key=made.key_id, verb="lease", resource="channel:build")
    assert (why.allowed, why.near, why.pattern, why.verbs) == (False, "other_verbs", "channel:build", ("post",))
    assert (why.would_allow.pattern, why.would_allow.verb) == ("channel:build", "lease")
    assert (await explain(room, key=made.key_id, verb="post", resource="channel:build")).allowed
    assert (await explain(room, key=made.key_id, verb="read", resource=f"inbox:{made.principal_id}")).allowed


async def test_only_keys_of_the_team_are_explained(room):
    with pytest.raises(NotFound):
        await explain(room, key="key_" + "0" * 20, verb="read", resource="team")
    with pytest.raises(Invalid):
        await explain(room, verb="read", resource="team")
