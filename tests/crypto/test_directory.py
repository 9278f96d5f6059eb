"""The directory of member keys: what may be added, what a reader notices, and whom it trusts."""

import pytest
from msgspec.structs import replace

from crypto.people import ANNA, BEN, CARO, HUB_SEED, TEAM, member
from ekiden.crypto import directory, keys
from ekiden.crypto.directory import Act, Directory, DirectoryBroken, Entry, NewEntry, Trust
from ekiden.crypto.keys import MemberKeys
from ekiden.kernel.errors import Invalid

AT = "2030-01-01T00:00:00.000Z"
SECOND, THIRD = member("anna's phone"), member("anna's other desk")


class Hub:
    """Places entries as a hub does."""

    def __init__(self) -> None:
        self.read = Directory(TEAM, keys.signing_public(HUB_SEED))
        self.entries: list[Entry] = []

    def place(self, entry: NewEntry) -> None:
        directory.checked(entry, TEAM, self.read.keys)
        placed = directory.placed(
            HUB_SEED, entry, team=TEAM, position=len(self.entries) + 1, previous=self.read.head, at=AT
        )
        self.read.take([placed])
        self.entries.append(placed)

    def add(self, who: MemberKeys, principal: str = "pri_anna") -> None:
        self.place(directory.add_entry(who, team=TEAM, principal=principal, label="desk", at=AT))

    def vouch(self, by: MemberKeys, about: MemberKeys, principal: str = "pri_anna") -> None:
        self.place(directory.vouch_entry(by, about.public, team=TEAM, principal=principal, at=AT))


@pytest.fixture
def hub() -> Hub:
    return Hub()


def fresh() -> Directory:
    return Directory(TEAM, keys.signing_public(HUB_SEED))


def test_a_reader_learns_who_has_which_keys(hub: Hub) -> None:
    hub.add(ANNA)
    hub.add(BEN, "pri_ben")
    hub.add(SECOND)
    hub.place(directory.end_entry(SECOND, ANNA.member_key_id, team=TEAM, principal="pri_anna", at=AT))
    reader = fresh()
    reader.take(hub.entries)
    assert [key.public for key in reader.of("pri_anna")] == [SECOND.public]
    assert [key.public for key in reader.of("pri_anna", live=False)] == [ANNA.public, SECOND.public]
    assert [key.public for key in reader.of("pri_ben")] == [BEN.public]


def test_a_directory_that_was_not_only_added_to_is_noticed(hub: Hub) -> None:
    for who, principal in ((ANNA, "pri_anna"), (BEN, "pri_ben"), (CARO, "pri_caro")):
        hub.add(who, principal)
    first, second, third = hub.entries
    moved = replace(second, entry=replace(second.entry, principal_id="pri_anna"))
    for shown in ([second], [first, third], [first, first], [second, first], [first, moved]):
        with pytest.raises(DirectoryBroken):
            fresh().take(shown)
    other = Hub()
    other.add(CARO, "pri_caro")
    other.add(BEN, "pri_ben")
    reader = fresh()
    reader.take([first])
    with pytest.raises(DirectoryBroken):
        reader.take(other.entries[1:])
    with pytest.raises(DirectoryBroken):
        Directory(TEAM, ANNA.public.sign).take([first])


def test_what_a_hub_must_not_place_readers_refuse_too(hub: Hub) -> None:
    hub.add(ANNA)
    hub.add(BEN, "pri_ben")
    bad = [
        directory.add_entry(ANNA, team=TEAM, principal="pri_anna", label="", at=AT),
        directory.add_entry(CARO, team="tem_other", principal="pri_caro", label="", at=AT),
        directory.vouch_entry(BEN, ANNA.public, team=TEAM, principal="pri_anna", at=AT),
        directory.vouch_entry(ANNA, ANNA.public, team=TEAM, principal="pri_anna", at=AT),
        directory.vouch_entry(ANNA, CARO.public, team=TEAM, principal="pri_anna", at=AT),
        directory.end_entry(BEN, ANNA.member_key_id, team=TEAM, principal="pri_anna", at=AT),
        replace(directory.add_entry(CARO, team=TEAM, principal="pri_caro", label="", at=AT), principal_id="pri_x"),
        replace(directory.add_entry(CARO, team=TEAM, principal="pri_caro", label="", at=AT), signature=""),
        NewEntry(Act.END, "pri_anna", CARO.member_key_id, at=AT),
    ]
    for entry in bad:
        with pytest.raises(Invalid):
            directory.checked(entry, TEAM, hub.read.keys)
        placed = directory.placed(HUB_SEED, entry, team=TEAM, position=3, previous=hub.read.head, at=AT)
        reader = fresh()
        reader.take(hub.entries)
        with pytest.raises(DirectoryBroken):
            reader.take([placed])


def test_the_first_key_is_taken_and_a_later_one_only_if_vouched_for(hub: Hub) -> None:
    hub.add(ANNA)
    hub.add(SECOND)
    assert directory.judge(hub.read, "pri_anna", {}) == {
        ANNA.member_key_id: Trust.FIRST,
        SECOND.member_key_id: Trust.CHANGED,
    }
    hub.add(THIRD)
    hub.vouch(ANNA, THIRD)
    hub.vouch(THIRD, SECOND)
    pinned = {ANNA.member_key_id: Trust.COMPARED}
    assert directory.judge(hub.read, "pri_anna", pinned) == {
        ANNA.member_key_id: Trust.COMPARED,
        SECOND.member_key_id: Trust.VOUCHED,
        THIRD.member_key_id: Trust.VOUCHED,
    }


def test_a_key_of_the_hubs_own_making_is_not_trusted_beside_a_pinned_one(hub: Hub) -> None:
    hub.add(ANNA)
    forged, helper = member("forged"), member("forged helper")
    hub.add(forged)
    hub.add(helper)
    hub.vouch(helper, forged)
    judged = directory.judge(hub.read, "pri_anna", {ANNA.member_key_id: Trust.FIRST})
    assert judged[forged.member_key_id] is judged[helper.member_key_id] is Trust.CHANGED
    assert not Trust.CHANGED.good


def test_a_hub_that_ends_the_pinned_key_gains_nothing(hub: Hub) -> None:
    hub.add(ANNA)
    hub.place(NewEntry(Act.END, "pri_anna", ANNA.member_key_id, at=AT))
    forged = member("forged")
    hub.add(forged)
    judged = directory.judge(hub.read, "pri_anna", {ANNA.member_key_id: Trust.FIRST})
    assert judged == {ANNA.member_key_id: Trust.ENDED, forged.member_key_id: Trust.CHANGED}


def test_another_principals_pin_says_nothing(hub: Hub) -> None:
    """Something is pinned for this principal that the directory does not have: its keys are not a first
    contact."""
    hub.add(ANNA)
    assert directory.judge(hub.read, "pri_anna", {BEN.member_key_id: Trust.FIRST}) == {
        ANNA.member_key_id: Trust.CHANGED
    }
