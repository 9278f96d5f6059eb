"""Signatures of status, leases and member keys: what counts, what is refused, and what the hub says beside it."""

from typing import Any

import msgspec
import pytest

from ekiden.crypto import keys, statements, tickets
from ekiden.crypto.directory import Act, Directory, NewEntry, add_entry, end_entry, vouch_entry
from ekiden.crypto.keys import MemberKeys, read
from ekiden.kernel import limits
from ekiden.kernel.errors import EkidenError, Forbidden, Invalid, NotFound, TooMany
from ekiden.relay.notary import SignatureRefused
from ekiden.relay.wire_state import Evidence, StatusRule
from relay.state_desk import TEAM, Desk, Signer, open_desk

pytestmark = pytest.mark.anyio
AGENT = {"channel:*": ["read", "status:*", "lease", "post"]}


async def refused(awaitable: Any, kind: type[EkidenError], **details: Any) -> EkidenError:
    with pytest.raises(kind) as caught:
        await awaitable
    assert {name: caught.value.details.get(name) for name in details} == details
    return caught.value


async def member(desk: Desk, name: str, channel: str = "build") -> Signer:
    """Somebody with a member key in the directory."""
    caller = desk.caller(name, AGENT, channel)
    await desk.people(caller)
    made = await desk.channel(channel) if channel == "build" else None
    return Signer(caller, await caller.enrol(), made.channel_id if made else "")


# --- status ------------------------------------------------------------------------------------------------


async def test_a_signed_status_is_checked_and_countersigned(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = await member(desk, "Ada")
        line = await ada.caller.set("tests.unit", {"passed": 3}, signature=ada.status("tests.unit", {"passed": 3}))
        assert line.countersign is not None
        assert line.countersign.statement == ada.previous
        said = statements.countersign_status(
            team=TEAM,
            channel=line.channel_id,
            key=line.key,
            version=1,
            statement_digest=ada.previous,
            seq=line.countersign.seq,
            at=line.at,
        )
        hub_key = read((await ada.caller.hub_key()).public_key)
        assert keys.signed_by(hub_key, line.countersign.signature, said)
        [event] = [event for event in await desk.events() if event.kind == "status.changed"]
        assert event.seq == line.countersign.seq
        gone = await ada.caller.clear("tests.unit", signature=ada.clear("tests.unit"))
        assert gone.countersign is not None
        assert gone.countersign.statement == ada.previous


async def test_a_signature_of_something_else_does_not_count(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada, bob = await member(desk, "Ada"), await member(desk, "Bob")
        await refused(ada.caller.set("k", 2, signature=ada.status("k", 1)), SignatureRefused, why="forged")
        await refused(ada.caller.set("other", 1, signature=ada.status("k", 1)), SignatureRefused, why="forged")
        other = await desk.channel("other")
        ada.caller.channel = "other"
        await refused(ada.caller.set("k", 1, signature=ada.status("k", 1)), SignatureRefused, why="forged")
        ada.caller.channel, ada.channel_id = "build", other.channel_id
        await refused(ada.caller.set("k", 1, signature=ada.status("k", 1)), SignatureRefused, why="forged")
        theirs = bob.status("k", 1, sender=ada.caller.actor.principal_id)
        await refused(ada.caller.set("k", 1, signature=theirs), SignatureRefused, why="other_principal")
        stranger = Signer(ada.caller, MemberKeys.new(), bob.channel_id)
        await refused(
            ada.caller.set("k", 1, signature=stranger.status("k", 1)), SignatureRefused, why="unknown_key"
        )
        await refused(ada.caller.get("k"), NotFound)


async def test_where_all_is_signed_the_unsigned_is_refused(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = await member(desk, "Ada")
        await desk.channel(signed=True)
        await refused(ada.caller.set("k", 1), SignatureRefused, why="unsigned")
        await refused(ada.caller.take("l"), SignatureRefused, why="unsigned")
        await refused(ada.caller.post("hello"), Invalid)
        await ada.caller.set("k", 1, signature=ada.status("k", 1))
        await refused(ada.caller.clear("k"), SignatureRefused, why="unsigned")
        await ada.caller.take("l", signature=ada.lease("l", 60))
        await refused(ada.caller.take("m", 61, signature=ada.lease("m", 60)), SignatureRefused, why="forged")


async def test_a_key_that_ended_signs_no_more(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = await member(desk, "Ada")
        who = ada.caller.actor.principal_id
        await ada.caller.enter(
            end_entry(ada.keys, ada.keys.member_key_id, team=TEAM, principal=who, at="2026-01-01T00:00:00Z")
        )
        await refused(ada.caller.set("k", 1, signature=ada.status("k", 1)), SignatureRefused, why="ended_key")


async def test_a_second_signer_is_somebody_else_and_signs_the_same(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada, bob = await member(desk, "Ada"), await member(desk, "Bob")
        await desk.caller().rules(StatusRule("deploy", evidence=("second",)))
        value = {"version": 7}
        evidence = Evidence(
            commit="0d1f2e3", second=bob.status("deploy", value, evidence=Evidence(commit="0d1f2e3"))
        )
        line = await ada.caller.set("deploy", value, evidence=evidence)
        assert line.evidence == evidence
        other = Evidence(commit="0000000", second=evidence.second)
        await refused(ada.caller.set("deploy", value, evidence=other), SignatureRefused, why="forged")
        await refused(ada.caller.set("deploy", {"version": 8}, evidence=evidence), SignatureRefused, why="forged")
        own = Evidence(second=ada.status("deploy", value))
        await refused(ada.caller.set("deploy", value, evidence=own), SignatureRefused, why="same_signer")


# --- tickets -----------------------------------------------------------------------------------------------


async def test_a_ticket_is_checked_without_asking(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        lease = await ada.take("deploy", 60)
        hub_key = read((await ada.hub_key()).public_key)
        ticket = tickets.check(
            lease.ticket, hub_key, now="2026-01-01T00:00:59.000Z", team=TEAM, channel="build", name="deploy"
        )
        assert (ticket.fence, ticket.holder) == (1, ada.actor.principal_id)
        for moment, least, why in (
            ("2026-01-01T00:01:00.000Z", 0, "expired"),
            ("2026-01-01T00:00:00Z", 2, "fenced"),
        ):
            with pytest.raises(tickets.TicketRefused) as caught:
                tickets.check(lease.ticket, hub_key, now=moment, at_least=least)
            assert caught.value.details["why"] == why
        again = await ada.take("deploy", 120, fence=1)
        assert tickets.check(again.ticket, hub_key, now="2026-01-01T00:01:30.000Z").fence == 1


async def test_only_the_answer_to_the_holder_has_the_ticket(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        lease = await ada.take("deploy")
        assert lease.ticket
        assert (await ada.lease("deploy")).ticket == ""
        assert (await ada.leases()).leases[0].ticket == ""
        assert not [event for event in await desk.events() if b"ekt1." in event.body]


# --- the directory -----------------------------------------------------------------------------------------


async def whole(desk: Desk) -> Directory:
    """The directory as a reader makes it out, page by page."""
    ada = desk.caller()
    directory = Directory(TEAM, read((await ada.hub_key()).public_key))
    after = ""
    while True:
        page = await ada.directory(after=after, limit=2)
        directory.take(page.entries)
        after = page.next
        if not after:
            assert page.head == directory.position
            return directory


async def test_the_directory_is_a_chain_that_a_reader_can_check(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada, bob = await member(desk, "Ada"), await member(desk, "Bob")
        who = ada.caller.actor.principal_id
        second = await ada.caller.enrol()
        at = "2026-01-01T00:00:00Z"
        await ada.caller.enter(vouch_entry(ada.keys, second.public, team=TEAM, principal=who, at=at))
        await ada.caller.enter(end_entry(second, ada.keys.member_key_id, team=TEAM, principal=who, at=at))
        directory = await whole(desk)
        assert directory.position == 5
        assert [key.public.member_key_id for key in directory.of(who)] == [second.member_key_id]
        assert directory.keys[second.member_key_id].vouched_by == (ada.keys.member_key_id,)
        assert [key.name for key in directory.of(bob.caller.actor.principal_id)] == ["Bob"]
        told = [event for event in await desk.events() if event.kind == "directory.added"]
        assert [event.topics for event in told] == [("directory",)] * 5
        page = await ada.caller.directory(principal=who)
        assert [entry.position for entry in page.entries] == [1, 3, 4, 5]


async def test_only_the_principal_itself_or_who_administers_access_adds_for_it(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada, bob = desk.caller("Ada", AGENT), desk.caller("Bob", AGENT)
        boss = desk.caller("Boss", {"access": ["admin"]})
        await desk.people(ada, bob, boss)
        fresh = MemberKeys.new()

        def entry(keys: MemberKeys) -> NewEntry:
            return add_entry(keys, team=TEAM, principal=ada.actor.principal_id, label="", at="")

        await refused(bob.enter(entry(fresh)), Forbidden)
        await ada.enter(entry(fresh))
        await boss.enter(entry(MemberKeys.new()))
        unsigned = NewEntry(Act.END, ada.actor.principal_id, fresh.member_key_id)
        await refused(ada.enter(unsigned), Forbidden)
        await refused(bob.enter(unsigned), Forbidden)
        await boss.enter(unsigned)
        assert fresh.member_key_id not in {
            key.public.member_key_id for key in (await whole(desk)).of(ada.actor.principal_id)
        }
        nobody = add_entry(MemberKeys.new(), team=TEAM, principal="pri_0000000000000000none", label="", at="")
        await refused(boss.enter(nobody), NotFound)


async def test_an_entry_that_proves_nothing_is_refused(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = await member(desk, "Ada")
        who, replace = ada.caller.actor.principal_id, msgspec.structs.replace
        fresh, other = MemberKeys.new(), MemberKeys.new()
        good = add_entry(fresh, team=TEAM, principal=who, label="x", at="")
        for bad in (
            replace(good, label="y"),
            replace(good, signature=add_entry(other, team=TEAM, principal=who, label="x", at="").signature),
            replace(good, sign=keys.spell(other.public.sign)),
            add_entry(fresh, team="tem_other", principal=who, label="x", at=""),
            add_entry(ada.keys, team=TEAM, principal=who, label="x", at=""),
            vouch_entry(fresh, ada.keys.public, team=TEAM, principal=who, at=""),
            replace(good, at="x" * 200),
        ):
            await refused(ada.caller.enter(bad), Invalid)
        assert (await whole(desk)).position == 1


async def test_keys_of_one_principal_are_bounded(log_place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_desk(log_place) as desk:
        monkeypatch.setattr(limits, "MEMBER_KEYS_PER_PRINCIPAL_MAX", 2)
        ada = await member(desk, "Ada")
        await ada.caller.enrol()
        await refused(ada.caller.enrol(), TooMany)
        who = ada.caller.actor.principal_id
        await ada.caller.enter(end_entry(ada.keys, ada.keys.member_key_id, team=TEAM, principal=who, at=""))
        await ada.caller.enrol()
        monkeypatch.setattr(limits, "DIRECTORY_ENTRIES_PER_PRINCIPAL_MAX", 4)
        await refused(ada.caller.enrol(), TooMany)
