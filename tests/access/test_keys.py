"""Keys on a real log: made, narrowed, revoked, expired, and never kept as they are."""

import sqlite3

import msgspec
import pytest
from tests.access.conftest import Room

from ekiden.access import routes
from ekiden.access.gate import AccessGate, open_home
from ekiden.access.routes import NewKey
from ekiden.access.rules import Kind
from ekiden.kernel import limits
from ekiden.kernel.clock import iso
from ekiden.kernel.errors import Conflict, EkidenError, Forbidden, Invalid, NotFound, TooMany, Unauthenticated
from ekiden.kernel.ids import Prefix, derived_id
from ekiden.log.open import open_log
from ekiden.log.port import Command
from ekiden.log.queries import room_queries

pytestmark = pytest.mark.anyio


async def make(room, name="Agent", kind=Kind.AGENT, by=None, **also):
    return await routes.make_key(room.call(by), NewKey(name, kind, **also))


async def test_the_first_start_makes_an_owner_who_may_do_all(room):
    assert room.owner.kind is Kind.PERSON
    assert room.gate.allows(room.owner.permissions, "admin", "access")
    assert [event.kind for event in await room.told()] == ["key.made", "key.used_first"]


async def test_a_later_start_keeps_the_key_of_the_command_line(room):
    assert await open_home(room.log, room.clock, local_key=room.owner_key) == (room.team_id, room.owner_key)


@pytest.mark.parametrize("kept", ["", "nonsense", "ekd_" + "0" * 20 + "_" + "a" * 52])
async def test_a_lost_key_file_is_replaced_and_the_lost_key_ended(room, kept):
    """Who can read the data folder owns the hub: no lock-out, and no second owner."""
    team_id, key = await open_home(room.log, room.clock, local_key=kept)
    assert team_id == room.team_id
    assert (await room.gate.identify(key)).principal_id == room.owner.principal_id
    with pytest.raises(Unauthenticated):
        await room.gate.identify(room.owner_key)


async def test_a_made_key_names_its_bearer(room):
    made = await make(room)
    identity = await room.gate.identify(made.key)
    assert (identity.principal_id, identity.key_id, identity.name) == (made.principal_id, made.key_id, "Agent")


async def test_a_host_gets_an_id_of_its_own_and_rights_on_nothing_else(room):
    made = await make(room, "Desk", Kind.HOST)
    identity = await room.gate.identify(made.key)
    assert made.host_id == derived_id(Prefix.HOST, made.principal_id)
    assert identity.permissions == {f"host:{made.host_id}": ["read", "feed"]}
    with pytest.raises(Forbidden):
        await make(room, "Desk two", Kind.HOST, permissions={"*": ["feed"]})


async def test_no_key_gives_more_than_it_has(room):
    """Verb, resource, or time: each is refused when it goes beyond the maker's own."""
    ends_at = iso(room.clock.now() + 3600)
    narrow = await make(
        room, "Narrow", Kind.PERSON, permissions={"access": ["admin"], "session:a*": ["read"]}, expires_at=ends_at
    )
    by = await room.gate.identify(narrow.key)
    for wanted in (
        {"session:a*": ["steer"]},
        {"session:*": ["read"]},
        {"*": ["read"]},
        {"access": ["read"]},
        None,
    ):
        with pytest.raises(Forbidden):
            await make(room, "Wider", Kind.PERSON, by, permissions=wanted)
    with pytest.raises(Invalid):
        await make(
            room, "Longer", by=by, permissions={"session:ab": ["read"]}, expires_at=iso(room.clock.now() + 7200)
        )
    child = await make(room, "Child", by=by, permissions={"session:ab": ["read"]})
    assert (await room.gate.identify(child.key)).expires_at == pytest.approx(room.clock.now() + 3600)


async def test_a_key_ends_when_it_expires(room):
    made = await make(room, expires_at=iso(room.clock.now() + 60))
    room.clock.advance(59)
    assert (await room.gate.identify(made.key)).key_id == made.key_id
    room.clock.advance(1)
    with pytest.raises(Unauthenticated, match="expired"):
        await room.gate.identify(made.key)


async def test_a_revoked_key_ends_and_stays_ended(room):
    made = await make(room)
    call = room.call(parameters={"key_id": made.key_id})
    first = await routes.revoke_key(call)
    room.clock.advance(60)
    assert await routes.revoke_key(call) == first
    with pytest.raises(Unauthenticated, match="revoked"):
        await room.gate.identify(made.key)
    assert [event.kind for event in await room.told()].count("key.revoked") == 1


async def test_a_revoked_key_makes_no_more_keys_even_if_the_door_remembers_it(room):
    made = await make(room, "Second", Kind.PERSON)
    remembered = await room.gate.identify(made.key)
    await routes.revoke_key(room.call(parameters={"key_id": made.key_id}))
    with pytest.raises(Unauthenticated):
        await make(room, "Third", by=remembered)


async def test_signing_out_ends_the_key_that_asks(room):
    made = await make(room, "Phone", Kind.DEVICE)
    await routes.sign_out(room.call(await room.gate.identify(made.key)))
    with pytest.raises(Unauthenticated):
        await room.gate.identify(made.key)


async def test_a_key_of_another_team_or_none_cannot_be_revoked(room):
    for key_id in ("key_" + "0" * 20, "", "' OR 1=1 --"):
        with pytest.raises(NotFound):
            await routes.revoke_key(room.call(parameters={"key_id": key_id}))


async def test_wrong_keys_are_told_nothing_of_which_part_was_wrong(room):
    made = await make(room)
    wrong_secret = made.key[:-4] + ("aaaa" if not made.key.endswith("aaaa") else "bbbb")
    said = set()
    for key in ("", "x", wrong_secret, "ekd_" + "0" * 20 + made.key[24:], "ekd_\u0660" * 20):
        with pytest.raises(Unauthenticated) as refused:
            await room.gate.identify(key)
        said.add((refused.value.message, refused.value.hint))
    assert len(said) == 1


@pytest.mark.parametrize("name", ["agent", "AGENT ", "\u0410gent", "ａgent"], ids=ascii)
async def test_a_name_that_looks_like_one_that_is_there_is_refused(room, name):
    await make(room)
    with pytest.raises(Conflict):
        await make(room, name)


async def test_a_name_is_free_again_when_its_bearer_has_no_valid_key(room):
    made = await make(room)
    await routes.revoke_key(room.call(parameters={"key_id": made.key_id}))
    again = await make(room)
    assert again.principal_id != made.principal_id


async def test_the_list_shows_keys_without_secrets_and_marks_the_one_that_asks(room):
    made = await make(room)
    keys = (await routes.list_keys(room.call())).keys
    assert {key.key_id: key.this for key in keys} == {made.key_id: False, room.owner.key_id: True}
    shown = msgspec.json.encode(keys).decode()
    assert made.key not in shown
    assert made.key.rpartition("_")[2] not in shown


async def test_use_is_dated_coarsely_and_the_first_use_is_told(room):
    made = await make(room)

    async def used_at():
        keys = (await routes.list_keys(room.call())).keys
        return next(key.used_at for key in keys if key.key_id == made.key_id)

    assert await used_at() == ""
    await room.gate.identify(made.key)
    first = await used_at()
    assert first == iso(room.clock.now())
    room.clock.advance(limits.KEY_USED_EVERY_S - 1)
    await room.gate.identify(made.key)
    assert await used_at() == first
    room.clock.advance(1)
    await room.gate.identify(made.key)
    assert await used_at() == iso(room.clock.now())
    told = [event for event in await room.told() if event.kind == "key.used_first"]
    assert len(told) == 2  # the owner's and this one's


async def test_keys_are_bounded_and_revoking_makes_room(room, monkeypatch):
    monkeypatch.setattr(limits, "KEYS_PER_TEAM_MAX", 3)
    made = [await make(room, f"Agent {number}") for number in range(2)]
    with pytest.raises(TooMany):
        await make(room, "One more")
    await routes.revoke_key(room.call(parameters={"key_id": made[0].key_id}))
    await make(room, "One more")


async def test_a_repeated_command_makes_no_second_key_and_shows_no_secret(room):
    call = room.call(command=Command("c1", room.owner.principal_id, "d"))
    first = await routes.make_key(call, NewKey("Agent", Kind.AGENT))
    again = await routes.make_key(call, NewKey("Agent", Kind.AGENT))
    assert first.key
    assert again == msgspec.structs.replace(first, key="")
    assert len((await routes.list_keys(room.call())).keys) == 2


async def test_no_secret_is_anywhere_in_the_database(tmp_path, clock):
    """Keys, codes and claims: only their digests are on disk, in tables, events and command answers alike."""
    file = tmp_path / "data" / "ekiden.db"
    log = await open_log(str(file), clock=clock, queries=room_queries("ekiden.access"))
    team_id, owner_key = await open_home(log, clock)
    gate = AccessGate(log, clock)
    owner = await gate.identify(owner_key)
    room = Room(log, clock, gate, team_id, owner_key, owner)
    number = iter(range(100))

    def command():
        return Command(f"c{next(number)}", owner.principal_id, "d")

    made = await routes.make_key(room.call(command=command()), NewKey("Agent", Kind.AGENT))
    pairing = await routes.make_pairing(room.call(command=command()), routes.NewPairing())
    claimed = await routes.claim_pairing(room.stranger(command=command()), routes.Claim(pairing.code, "Phone"))
    confirm = room.call(command=command(), parameters={"pairing_id": pairing.pairing_id})
    await routes.confirm_pairing(confirm)
    collected = await routes.collect_pairing(room.stranger(command=command()), routes.Collect(claimed.claim))
    await log.close()
    secrets = [
        owner_key,
        made.key,
        collected.set_cookie_key,
        claimed.claim,
        pairing.code,
        pairing.code.replace("-", ""),
    ]
    assert all(len(secret) >= 16 for secret in secrets)
    connection = sqlite3.connect(file)
    dump = "\n".join(connection.iterdump())
    connection.close()
    assert "Phone" in dump
    for secret in secrets:
        assert secret not in dump
        assert secret.rpartition("_")[2] not in dump


async def test_refused_rights_leave_no_principal_behind(room):
    before = len(await room.told())
    for body in (
        NewKey("all", Kind.AGENT),
        NewKey("A", Kind.AGENT, {"team": ["fly"]}),
        NewKey("B", Kind.AGENT, None, "x"),
    ):
        with pytest.raises(EkidenError):
            await routes.make_key(room.call(), body)
    assert len(await room.told()) == before
    assert len((await routes.list_keys(room.call())).keys) == 1


async def test_me_tells_who_asks_and_whom(room):
    me = await routes.me(room.call())
    assert (me.principal_id, me.key_id, me.kind, me.team_id) == (
        room.owner.principal_id,
        room.owner.key_id,
        "person",
        room.team_id,
    )
    assert me.hub["log_id"] == room.log.log_id
