"""Invites: a code that works once brings somebody into channels, with no more than the inviter has."""

from dataclasses import dataclass, field

import msgspec
import pytest
from tests.access.test_keys import make

from ekiden.access import routes, routes_invites, routes_keys
from ekiden.access.port import Ports
from ekiden.access.routes_invites import ClaimInvite, NewInvite
from ekiden.access.rules import Kind
from ekiden.kernel import limits
from ekiden.kernel.clock import iso
from ekiden.kernel.errors import Conflict, Forbidden, Invalid, NotFound, TooLarge, TooMany, Unauthenticated

pytestmark = pytest.mark.anyio


@dataclass
class Channels:
    """A relay room's channels, as far as invites ask for them."""

    resources: dict[str, str] = field(default_factory=lambda: {"build": "channel:build", "pay": "private:pay"})
    joined: list[tuple[str, str, str]] = field(default_factory=list)

    async def resource_of(self, reading, channel, may):
        resource = self.resources.get(channel)
        return resource if resource is not None and may("read", resource) else None

    async def join(self, tx, actor, kind, resource):
        self.joined.append((actor.principal_id, kind, resource))


class Desk:
    """The places of the door, before these channels."""

    def __init__(self, room):
        self.room = room
        self.channels = Channels()
        self._run = {
            (one.method, one.path): one.run for one in routes_invites.endpoints(Ports(places=self.channels))
        }

    async def invite(self, *channels, by=None, **also):
        run = self._run["POST", "/v1/invites"]
        return await run(self.room.call(by), NewInvite(channels or ("build",), **also))

    async def claim(self, code, name="Guest", *, from_loopback=True, **also):
        run = self._run["POST", "/v1/invites/claim"]
        return await run(self.room.stranger(from_loopback=from_loopback), ClaimInvite(code, name, **also))

    async def list(self, by=None):
        return (await self._run["GET", "/v1/invites"](self.room.call(by))).invites

    async def cancel(self, invite_id, by=None):
        return await self._run["DELETE", "/v1/invites/{invite_id}"](
            self.room.call(by, parameters={"invite_id": invite_id})
        )


@pytest.fixture
def desk(room):
    return Desk(room)


async def agent(room, name="Lead", permissions=None, **also):
    rights = (
        {"channel:build": ["read", "post", "invite", "status:tests.*"]} if permissions is None else permissions
    )
    made = await make(room, name, permissions=rights, **also)
    return await room.gate.identify(made.key)


async def test_an_invite_brings_a_guest_into_its_channels_once(room, desk):
    made = await desk.invite("build", "pay")
    joined = await desk.claim(made.code, "Codex there")
    identity = await room.gate.identify(joined.key)
    assert (identity.name, identity.kind) == ("Codex there", Kind.AGENT)
    assert joined.channels == ("channel:build", "private:pay")
    assert desk.channels.joined == [
        (joined.principal_id, "agent", "channel:build"),
        (joined.principal_id, "agent", "private:pay"),
    ]
    for verb in ("read", "post", "ack", "mention", "lease", "status:tests.unit"):
        assert room.gate.allows(identity.permissions, verb, "private:pay")
    for verb, resource in (("invite", "channel:build"), ("read", "channel:other"), ("read", "team")):
        assert not room.gate.allows(identity.permissions, verb, resource)
    with pytest.raises(NotFound):
        await desk.claim(made.code, "Another")


async def test_the_inviter_is_told_who_came_with_what_the_guest_said(room, desk):
    by = await agent(room)
    made = await desk.invite(by=by)
    joined = await desk.claim(made.code, member_key={"public": "x"}, proof="p")
    [shown] = await desk.list(by)
    assert (shown.state, shown.principal_id) == ("claimed", joined.principal_id)
    assert (shown.member_key, shown.proof) == ({"public": "x"}, "p")
    [event] = [event for event in await room.told() if event.kind == "invite.claimed"]
    assert event.topics == ("access", f"inbox:{by.principal_id}")
    assert msgspec.json.decode(event.body)["proof"] == "p"


async def test_no_code_is_kept_or_told(room, desk):
    made = await desk.invite()
    bare = made.code.replace("-", "")
    told = b"".join(event.body for event in await room.told())
    assert made.code.encode() not in told
    assert bare.encode() not in told
    shown = msgspec.json.encode(await desk.list())
    assert made.code.encode() not in shown
    assert bare.encode() not in shown


async def test_an_agent_invites_where_it_may_and_gives_no_more_than_it_has(room, desk):
    by = await agent(room)
    made = await desk.invite(by=by)
    assert made.permissions == {"channel:build": ["read", "post", "status:tests.*"]}
    for channels, wanted, refusal in (
        (("pay",), None, NotFound),
        (("nowhere",), None, NotFound),
        (("build",), {"channel:build": ["lease"]}, Forbidden),
        (("build",), {"channel:*": ["read"]}, Forbidden),
    ):
        with pytest.raises(refusal):
            await desk.invite(*channels, by=by, permissions=wanted)
    with pytest.raises(Forbidden):
        await desk.invite(by=await agent(room, "Reader", {"channel:build": ["read", "post"]}))


async def test_a_channel_that_may_not_be_known_is_like_none(room, desk):
    by = await agent(room)
    said = []
    for channel in ("pay", "nowhere"):
        with pytest.raises(NotFound) as refused:
            await desk.invite(channel, by=by)
        said.append((refused.value.message, refused.value.hint, refused.value.details))
    assert said[0] == said[1]


@pytest.mark.parametrize("kind", [Kind.PERSON, Kind.DEVICE, Kind.SERVICE])
async def test_an_agent_invites_agents_only(room, desk, kind):
    with pytest.raises(Forbidden):
        await desk.invite(by=await agent(room), kind=kind)


async def test_a_guest_of_an_agent_goes_with_it_and_a_guest_of_the_owner_stays(room, desk):
    by = await agent(room)
    below = await desk.claim((await desk.invite(by=by)).code, "Below")
    stays = await desk.claim((await desk.invite()).code, "Stays")
    await routes.revoke_key(room.call(parameters={"key_id": by.key_id}))
    with pytest.raises(Unauthenticated):
        await room.gate.identify(below.key)
    await room.gate.identify(stays.key)


async def test_an_invite_ends_with_the_key_that_made_it(room, desk):
    by = await agent(room)
    made = await desk.invite(by=by)
    await routes.revoke_key(room.call(parameters={"key_id": by.key_id}))
    with pytest.raises(NotFound):
        await desk.claim(made.code)
    assert [invite.state for invite in await desk.list()] == ["cancelled"]


async def test_an_invite_outlives_the_rotation_of_the_key_that_made_it(room, desk):
    by = await agent(room)
    made = await desk.invite(by=by)
    await routes_keys.rotate_key(
        room.call(by, parameters={"key_id": by.key_id}), routes_keys.RotateKey(overlap_s=0)
    )
    joined = await desk.claim(made.code)
    await room.gate.identify(joined.key)


async def test_what_the_inviter_has_lost_meanwhile_the_guest_does_not_get(room, desk):
    by = await agent(room)
    made = await desk.invite(by=by)
    await routes_keys.change_key(
        room.call(parameters={"key_id": by.key_id}), routes_keys.ChangeKey({"channel:build": ["read"]})
    )
    assert (await desk.claim(made.code)).permissions == {"channel:build": ["read"]}


async def test_an_invite_runs_out(room, desk):
    made = await desk.invite(expires_s=60)
    room.clock.advance(60)
    with pytest.raises(NotFound):
        await desk.claim(made.code)
    assert [invite.state for invite in await desk.list()] == ["expired"]


async def test_a_guest_has_its_key_no_longer_than_the_inviter(room, desk):
    ends_at = iso(room.clock.now() + 3600)
    by = await agent(room, expires_at=ends_at)
    assert (await desk.claim((await desk.invite(by=by)).code)).expires_at == ends_at


async def test_an_invite_is_cancelled_by_its_maker_or_an_owner_and_is_nothing_to_others(room, desk):
    by, other = await agent(room), await agent(room, "Other")
    made = await desk.invite(by=by)
    with pytest.raises(NotFound):
        await desk.cancel(made.invite_id, other)
    assert await desk.list(other) == ()
    assert (await desk.cancel(made.invite_id, by)).state == "cancelled"
    with pytest.raises(Conflict):
        await desk.cancel(made.invite_id)
    with pytest.raises(NotFound):
        await desk.claim(made.code)


async def test_a_taken_name_leaves_the_code_good_for_another(room, desk):
    await make(room, "Reviewer")
    made = await desk.invite()
    for name, refusal in (("r\u0435viewer", Conflict), ("all", Invalid), ("", Invalid)):
        with pytest.raises(refusal):
            await desk.claim(made.code, name)
    await desk.claim(made.code, "Somebody else")


async def test_the_inviter_may_give_the_name(room, desk):
    joined = await desk.claim((await desk.invite(name="Codex")).code, "Boss")
    assert joined.name == "Codex"


async def test_wrong_codes_are_bounded_apart_for_the_network_and_this_computer(room, desk):
    made = await desk.invite()
    for _ in range(limits.PAIRING_TRIES_MAX):
        with pytest.raises(NotFound):
            await desk.claim("0000-0000-0000-0000", from_loopback=False)
    with pytest.raises(TooMany):
        await desk.claim(made.code, from_loopback=False)
    assert (await desk.claim(made.code)).key


async def test_codes_used_unknown_ended_and_misspelled_are_told_alike(room, desk):
    used, ended = await desk.invite(), await desk.invite()
    await desk.claim(used.code)
    await desk.cancel(ended.invite_id)
    said = set()
    for code in (used.code, ended.code, "0000-0000-0000-0000", "x"):
        with pytest.raises(NotFound) as refused:
            await desk.claim(code, "Late")
        said.add((refused.value.message, refused.value.hint, str(refused.value.details)))
    assert len(said) == 1


@pytest.mark.parametrize(
    "invite",
    [
        NewInvite(()),
        NewInvite(tuple(str(number) for number in range(limits.INVITE_CHANNELS_MAX + 1))),
        NewInvite(("build",), expires_s=limits.INVITE_S_MIN - 1),
        NewInvite(("build",), expires_s=limits.INVITE_S_MAX + 1),
        NewInvite(("build",), kind=Kind.HOST),
        NewInvite(("build",), name="system"),
        NewInvite(("build",), permissions={"channel:build": ["fly"]}),
        NewInvite(("build",), key_expires_at="soon"),
    ],
    ids=lambda invite: str(invite)[:60],
)
async def test_an_invite_of_another_form_is_refused(room, desk, invite):
    with pytest.raises(Invalid):
        await desk._run["POST", "/v1/invites"](room.call(), invite)
    assert await desk.list() == ()


async def test_what_a_guest_says_is_bounded(room, desk):
    made = await desk.invite()
    with pytest.raises(TooLarge):
        await desk.claim(made.code, member_key="x" * limits.INVITE_MEMBER_KEY_BYTES_MAX)
    with pytest.raises(Invalid):
        await desk.claim(made.code, proof="x" * (limits.INVITE_PROOF_CHARS_MAX + 1))


async def test_open_invites_are_bounded(room, desk, monkeypatch):
    monkeypatch.setattr(limits, "INVITES_OPEN_MAX", 2)
    made = [await desk.invite(), await desk.invite()]
    with pytest.raises(TooMany):
        await desk.invite()
    await desk.cancel(made[0].invite_id)
    await desk.invite()
