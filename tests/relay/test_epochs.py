"""Epochs of encrypted channels: no member is forgotten, nobody else let in, and no old key is used again."""

from typing import Any

import msgspec
import pytest

from ekiden.crypto.directory import end_entry
from ekiden.crypto.epochs import NewEpoch, Share, new_key, open_epoch, unwrap, wrap_all
from ekiden.crypto.keys import MemberKeys, PublicKeys, spell
from ekiden.kernel.errors import EkidenError, Forbidden, Invalid, NotFound, StaleEpoch
from ekiden.relay.epochs import EpochIncomplete
from ekiden.relay.wire import Channel, Sealed
from relay.state_desk import TEAM, Caller, Desk, open_desk

pytestmark = pytest.mark.anyio
AGENT = {"channel:*": ["read", "post", "status:*"]}
replace = msgspec.structs.replace


async def refused(awaitable: Any, kind: type[EkidenError]) -> EkidenError:
    with pytest.raises(kind) as caught:
        await awaitable
    return caught.value


class Vault:
    """An encrypted channel and who is in it."""

    def __init__(self, desk: Desk, channel: Channel) -> None:
        self.desk = desk
        self.channel = channel
        self.members: dict[str, tuple[Caller, MemberKeys]] = {}

    async def join(self, name: str) -> Caller:
        """Somebody joins, with a member key."""
        caller = self.desk.caller(name, AGENT, "vault")
        await self.desk.people(caller)
        self.members[name] = (caller, await caller.enrol())
        await caller.join()
        return caller

    def public(self) -> list[tuple[str, PublicKeys]]:
        """Everybody's keys."""
        return [(caller.actor.principal_id, keys.public) for caller, keys in self.members.values()]

    def epoch(self, by: str, number: int = 1, previous: str = "", key: bytes = b"k" * 32, **also: Any) -> NewEpoch:
        """A new epoch by a member."""
        return open_epoch(
            also.pop("keys", self.members[by][1]),
            key,
            team=TEAM,
            channel=also.pop("channel", self.channel.channel_id),
            epoch=number,
            members=also.pop("members", self.public()),
            previous=previous,
            at="2026-01-01T00:00:00Z",
        )


async def vault(desk: Desk, *names: str) -> Vault:
    made = Vault(desk, await desk.channel("vault", encrypted=True))
    for name in names:
        await made.join(name)
    return made


async def shown(caller: Caller) -> Channel:
    """The channel as it is now."""
    return (await caller.export())[0].channel


async def test_every_member_gets_the_key_that_the_epoch_promises(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        room = await vault(desk, "Ada", "Bob")
        key = new_key()
        ada, bob = room.members["Ada"][0], room.members["Bob"][0]
        opened = await ada.open_epoch(room.epoch("Ada", key=key))
        assert sorted(opened.holders) == sorted(keys.member_key_id for _, keys in room.members.values())
        for caller, keys in room.members.values():
            [view] = (await caller.epochs()).epochs
            [wrap] = view.wraps
            assert wrap.member_key == keys.member_key_id, "nobody is shown the wraps of others"
            assert unwrap(keys, wrap.wrapped, team=TEAM, epoch=view.epoch) == key
        assert ((await shown(bob)).epoch, (await shown(bob)).epoch_stale) == (1, False)
        kinds = [event.kind for event in await desk.events()]
        assert kinds[-2:] == ["epoch.opened", "channel.changed"]


async def test_an_epoch_that_forgets_a_member_or_lets_another_in_is_refused(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        room = await vault(desk, "Ada", "Bob")
        ada, bob = room.members["Ada"], room.members["Bob"]
        stranger = desk.caller("Eve", AGENT, "vault")
        await desk.people(stranger)
        hers = await stranger.enrol()
        mine = (ada[0].actor.principal_id, ada[1].public)
        error = await refused(ada[0].open_epoch(room.epoch("Ada", members=[mine])), EpochIncomplete)
        assert error.status == 409
        assert error.details["missing"] == [(bob[0].actor.principal_id, bob[1].member_key_id)]
        assert error.details["names"] == ["Bob"]
        extra = [*room.public(), (stranger.actor.principal_id, hers.public)]
        error = await refused(ada[0].open_epoch(room.epoch("Ada", members=extra)), EpochIncomplete)
        assert error.details["extra"] == [(stranger.actor.principal_id, hers.member_key_id)]
        assert (await ada[0].epochs()).epochs == ()


async def test_only_a_member_with_a_member_key_opens_one(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        room = await vault(desk, "Ada")
        outsider = desk.caller("Eve", AGENT, "vault")
        await desk.people(outsider)
        keys = await outsider.enrol()
        await refused(outsider.open_epoch(room.epoch("Ada", keys=keys)), Forbidden)
        await outsider.join()
        await refused(outsider.open_epoch(room.epoch("Ada")), Forbidden)  # with somebody else's key
        await refused(outsider.open_epoch(room.epoch("Ada", keys=MemberKeys.new())), Forbidden)
        reader = desk.caller("Ada", {"channel:*": ["read"]}, "vault")
        await refused(reader.open_epoch(room.epoch("Ada")), Forbidden)


async def test_what_is_not_signed_as_it_stands_is_refused(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        room = await vault(desk, "Ada", "Bob")
        ada = room.members["Ada"][0]
        good = room.epoch("Ada")
        wraps = good.wraps
        other = room.epoch("Bob").wraps
        for bad in (
            replace(good, epoch=replace(good.epoch, commitment="0" * 64)),
            replace(good, wraps=(replace(wraps[0], wrapped=wraps[1].wrapped), wraps[1])),
            replace(good, wraps=(wraps[0],)),
            replace(good, wraps=(wraps[0], wraps[0])),
            replace(good, wraps=other),
            replace(good, wraps=(replace(wraps[0], wrapped="AAAA"), wraps[1])),
            room.epoch("Ada", channel="cha_00000000000000000000"),
        ):
            await refused(ada.open_epoch(bad), Invalid)
        plain = desk.caller("Ada", AGENT)
        await refused(plain.open_epoch(good), Invalid)


async def test_an_epoch_follows_the_newest_and_of_two_one_wins(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        room = await vault(desk, "Ada", "Bob")
        ada, bob = room.members["Ada"][0], room.members["Bob"][0]
        await refused(ada.open_epoch(room.epoch("Ada", number=2)), StaleEpoch)
        first = await ada.open_epoch(room.epoch("Ada"))
        lost = await refused(bob.open_epoch(room.epoch("Bob")), StaleEpoch)
        assert (lost.status, lost.code, lost.details["epoch"], lost.details["opened"]) == (
            409,
            "stale_epoch",
            1,
            True,
        )
        await refused(bob.open_epoch(room.epoch("Bob", number=2, previous="0" * 64)), StaleEpoch)
        await bob.open_epoch(room.epoch("Bob", number=2, previous=first.epoch.digest(TEAM)))
        page = await ada.epochs(limit=1)
        assert [view.epoch.epoch for view in page.epochs] == [2]
        assert [view.epoch.epoch for view in (await ada.epochs(limit=1, after=page.next)).epochs] == [1]


async def test_who_comes_later_is_given_the_key_by_who_holds_it(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        room = await vault(desk, "Ada")
        ada, keys = room.members["Ada"]
        await ada.open_epoch(room.epoch("Ada"))
        carol = await room.join("Carol")
        theirs = room.members["Carol"][1]
        assert (await carol.epochs()).epochs[0].wraps == ()

        def share(by: MemberKeys, *to: tuple[str, PublicKeys]) -> Share:
            made = wrap_all(
                by,
                b"k" * 32,
                team=TEAM,
                channel=room.channel.channel_id,
                epoch=1,
                members=to,
                at="2026-01-01T00:00:00Z",
            )
            return Share(made)

        to = (carol.actor.principal_id, theirs.public)
        await refused(carol.share_epoch(1, share(theirs, to)), Forbidden)
        await refused(ada.share_epoch(2, share(keys, to)), Invalid)
        await refused(ada.share_epoch(7, Share(())), NotFound)
        stranger = ("pri_00000000000000000000", MemberKeys.new().public)
        await refused(ada.share_epoch(1, share(keys, stranger)), EpochIncomplete)
        view = await ada.share_epoch(1, share(keys, to))
        assert theirs.member_key_id in view.holders
        [shown] = (await carol.epochs()).epochs
        assert unwrap(theirs, shown.wraps[0].wrapped, team=TEAM, epoch=shown.epoch) == b"k" * 32
        again = await ada.share_epoch(1, share(keys, to))
        assert again.holders == view.holders
        assert [event.kind for event in await desk.events()].count("epoch.shared") == 1


@pytest.mark.parametrize("how", ["leaves", "ends its key"])
async def test_when_a_holder_goes_nothing_is_sealed_with_the_old_key(log_place: str, how: str) -> None:
    async with open_desk(log_place) as desk:
        room = await vault(desk, "Ada", "Bob")
        ada, (bob, keys) = room.members["Ada"][0], room.members["Bob"]
        first = await ada.open_epoch(room.epoch("Ada"))
        sealed = Sealed(epoch=1, nonce="A" * 16, data="B" * 400)
        await ada.set("k", sealed=sealed)
        if how == "leaves":
            await bob.leave()
        else:
            entry = end_entry(keys, keys.member_key_id, team=TEAM, principal=bob.actor.principal_id, at="")
            await bob.enter(entry)
        assert (await shown(ada)).epoch_stale
        assert (await ada.epochs()).stale
        for old in (ada.set("k", sealed=sealed), ada.post(sealed=sealed)):
            stale = await refused(old, StaleEpoch)
            assert (stale.details["epoch"], stale.details["opened"]) == (1, False)
        await refused(ada.share_epoch(1, Share(())), StaleEpoch)
        del room.members["Bob"]
        await ada.open_epoch(room.epoch("Ada", number=2, previous=first.epoch.digest(TEAM)))
        await refused(ada.set("k", sealed=sealed), StaleEpoch)
        await ada.set("k", sealed=replace(sealed, epoch=2))
        await refused(ada.set("k", sealed=replace(sealed, epoch=3)), StaleEpoch)
        if how == "leaves":
            assert (await bob.epochs()).epochs[0].wraps == ()


async def test_the_hub_never_has_a_key(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        room = await vault(desk, "Ada", "Bob")
        key = new_key()
        await room.members["Ada"][0].open_epoch(room.epoch("Ada", key=key))
        for event in await desk.events():
            assert spell(key).encode() not in event.body
            assert key.hex().encode() not in event.body
