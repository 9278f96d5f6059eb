"""Pairing a device, as both sides see it."""

import msgspec
import pytest

from ekiden.access import routes, secrets
from ekiden.access.routes import Claim, Collect, NewPairing
from ekiden.access.rules import Kind
from ekiden.kernel import limits
from ekiden.kernel.errors import Conflict, EkidenError, NotFound, TooMany, Unauthenticated
from ekiden.log.port import Command

pytestmark = pytest.mark.anyio


async def open_pairing(room, by=None, **also):
    return await routes.make_pairing(room.call(by), NewPairing(**also))


async def claim(room, code, device="Phone", **also):
    return await routes.claim_pairing(room.stranger(**also), Claim(code, device))


async def collect(room, claimed):
    return await routes.collect_pairing(room.stranger(), Collect(claimed.claim))


async def answer(room, pairing_id, confirm=True):
    act = routes.confirm_pairing if confirm else routes.deny_pairing
    return await act(room.call(parameters={"pairing_id": pairing_id}))


async def kinds(room):
    return [event.kind for event in await room.told()]


async def ends(room):
    told = [event for event in await room.told() if event.kind == "pairing.ended"]
    return [msgspec.json.decode(event.body)["state"] for event in told]


async def test_the_link_carries_the_code_where_browsers_do_not_send_it(room):
    pairing = await open_pairing(room)
    before, mark, behind = pairing.link.partition("#")
    assert mark
    assert pairing.code in behind
    assert pairing.code not in before


async def test_a_device_comes_in_after_the_computer_confirms_it(room):
    pairing = await open_pairing(room)
    claimed = await claim(room, pairing.code)
    assert (claimed.state, claimed.set_cookie_key) == ("waiting", "")
    assert (await collect(room, claimed)).state == "waiting"
    (waiting,) = (await routes.list_pairings(room.call())).pairings
    assert (waiting.state, waiting.device, waiting.words) == ("waiting", "Phone", claimed.words)
    await answer(room, pairing.pairing_id)
    collected = await collect(room, claimed)
    assert collected.state == "confirmed"
    identity = await room.gate.identify(collected.set_cookie_key)
    assert (identity.kind, identity.name) == (Kind.DEVICE, "Phone")
    assert identity.permissions == {"*": ["read", "steer", "approve", "start", "admin"]}
    assert (await routes.list_pairings(room.call())).pairings == ()


async def test_a_key_is_collected_once(room):
    """A claim that leaks afterwards is worth nothing."""
    pairing = await open_pairing(room)
    claimed = await claim(room, pairing.code)
    await answer(room, pairing.pairing_id)
    first, second = await collect(room, claimed), await collect(room, claimed)
    assert first.set_cookie_key
    assert (second.state, second.set_cookie_key) == ("expired", "")


async def test_a_code_works_once_and_its_second_bearer_learns_nothing(room):
    pairing = await open_pairing(room)
    await claim(room, pairing.code)
    said = []
    for code in (pairing.code, secrets.new_code(), "not a code"):
        with pytest.raises(NotFound) as refused:
            await claim(room, code)
        said.append((refused.value.message, refused.value.hint, refused.value.details))
    assert said[0] == said[1] == said[2]


async def test_a_local_pairing_lets_this_computer_in_at_once_and_once(room):
    pairing = await open_pairing(room, local=True)
    claimed = await claim(room, pairing.code, from_loopback=True)
    assert (claimed.state, claimed.claim) == ("confirmed", "")
    assert (await room.gate.identify(claimed.set_cookie_key)).name == "Phone"
    with pytest.raises(NotFound):
        await claim(room, pairing.code, from_loopback=True)


async def test_a_local_pairing_from_another_computer_waits_for_confirmation(room):
    pairing = await open_pairing(room, local=True)
    claimed = await claim(room, pairing.code, from_loopback=False)
    assert (claimed.state, claimed.set_cookie_key) == ("waiting", "")
    assert (await collect(room, claimed)).set_cookie_key == ""


async def test_an_ordinary_pairing_waits_even_on_this_computer(room):
    pairing = await open_pairing(room)
    claimed = await claim(room, pairing.code, from_loopback=True)
    assert (claimed.state, claimed.set_cookie_key) == ("waiting", "")


@pytest.mark.parametrize("claimed_first", [True, False])
async def test_denial_is_told_and_final(room, claimed_first):
    pairing = await open_pairing(room)
    claimed = await claim(room, pairing.code) if claimed_first else None
    await answer(room, pairing.pairing_id, confirm=False)
    if claimed is not None:
        assert (await collect(room, claimed)).state == "denied"
    with pytest.raises(Conflict):
        await answer(room, pairing.pairing_id)
    with pytest.raises(NotFound):
        await claim(room, pairing.code)
    assert await ends(room) == ["denied"]


@pytest.mark.parametrize("step", ["open", "waiting", "confirmed"])
async def test_expiry_ends_a_pairing_at_every_step_and_is_told(room, step):
    pairing = await open_pairing(room)
    claimed = await claim(room, pairing.code) if step != "open" else None
    if step == "confirmed":
        await answer(room, pairing.pairing_id)
    room.clock.advance(limits.PAIRING_CODE_S)
    if claimed is None:
        with pytest.raises(NotFound):
            await claim(room, pairing.code)
    else:
        told = await collect(room, claimed)
        assert (told.state, told.set_cookie_key) == ("expired", "")
    with pytest.raises(Conflict):
        await answer(room, pairing.pairing_id)
    assert (await ends(room))[-1] == "expired"


async def test_nobody_is_confirmed_before_they_have_come(room):
    pairing = await open_pairing(room)
    with pytest.raises(Conflict):
        await answer(room, pairing.pairing_id)
    assert (await claim(room, pairing.code)).state == "waiting"


@pytest.mark.parametrize(
    "claim_text", ["", "x", "a" * 52, "a" * 100_000, "\ud800"], ids=lambda text: ascii(text[:8])
)
async def test_an_unknown_claim_finds_nothing(room, claim_text):
    await open_pairing(room)
    with pytest.raises(EkidenError) as refused:
        await routes.collect_pairing(room.stranger(), Collect(claim_text))
    assert refused.value.status in (404, 422)


async def test_wrong_codes_are_bounded_for_the_network_and_do_not_lock_this_computer_out(room):
    pairing = await open_pairing(room)
    for _ in range(limits.PAIRING_TRIES_MAX):
        with pytest.raises(NotFound):
            await claim(room, secrets.new_code(), from_loopback=False)
    with pytest.raises(TooMany) as refused:
        await claim(room, pairing.code, from_loopback=False)
    assert 0 < refused.value.details["retry_after_s"] <= limits.PAIRING_TRIES_WINDOW_S
    assert (await claim(room, pairing.code, from_loopback=True)).state == "waiting"
    room.clock.advance(limits.PAIRING_TRIES_WINDOW_S)
    again = await open_pairing(room)
    assert (await claim(room, again.code, from_loopback=False)).state == "waiting"


async def test_open_pairings_are_bounded_and_run_out(room):
    for _ in range(limits.PAIRINGS_OPEN_MAX):
        await open_pairing(room)
    with pytest.raises(TooMany):
        await open_pairing(room)
    room.clock.advance(limits.PAIRING_CODE_S)
    await open_pairing(room)
    assert len((await routes.list_pairings(room.call())).pairings) == 1


async def test_a_paired_device_gets_no_more_than_the_one_who_opened_the_pairing(room):
    permissions = {"access": ["admin"], "session:*": ["read"]}
    made = await routes.make_key(room.call(), routes.NewKey("Narrow", Kind.PERSON, permissions))
    by = await room.gate.identify(made.key)
    pairing = await open_pairing(room, by, local=True)
    claimed = await claim(room, pairing.code)
    assert (await room.gate.identify(claimed.set_cookie_key)).permissions == permissions


async def test_revoking_a_key_ends_the_pairings_that_it_opened(room):
    made = await routes.make_key(room.call(), routes.NewKey("Second", Kind.PERSON))
    by = await room.gate.identify(made.key)
    pairing = await open_pairing(room, by, local=True)
    waiting = await open_pairing(room, by)
    claimed = await claim(room, waiting.code)
    await routes.revoke_key(room.call(parameters={"key_id": made.key_id}))
    with pytest.raises(NotFound):
        await claim(room, pairing.code)
    assert (await collect(room, claimed)).state == "denied"
    with pytest.raises(Unauthenticated):
        await open_pairing(room, by)


async def test_devices_of_one_name_are_told_apart(room):
    seen = []
    for _ in range(3):
        pairing = await open_pairing(room, local=True)
        claimed = await claim(room, pairing.code, "Chrome on Android")
        seen.append((await room.gate.identify(claimed.set_cookie_key)).name)
    assert seen == ["Chrome on Android", "Chrome on Android 2", "Chrome on Android 3"]


@pytest.mark.parametrize(
    "device", ["", "\u202eevil\x1b[2J", "all", "x" * 5000, "<b>Phone</b>", "\ud800x"], ids=ascii
)
async def test_what_a_device_calls_itself_is_only_text(room, device):
    pairing = await open_pairing(room, local=True)
    claimed = await claim(room, pairing.code, device)
    name = (await room.gate.identify(claimed.set_cookie_key)).name
    assert 0 < len(name) <= limits.NAME_CHARS_MAX
    assert name.isprintable()


async def test_the_name_given_with_the_pairing_wins_over_the_device(room):
    pairing = await open_pairing(room, name="Kitchen tablet", local=True)
    claimed = await claim(room, pairing.code, "Chrome on Android")
    assert (await room.gate.identify(claimed.set_cookie_key)).name == "Kitchen tablet"


async def test_the_audit_shows_each_step_and_no_secret(room):
    pairing = await open_pairing(room)
    claimed = await claim(room, pairing.code)
    await answer(room, pairing.pairing_id)
    collected = await collect(room, claimed)
    assert (await kinds(room))[2:] == ["pairing.asked", "pairing.ended", "key.made"]
    told = b"".join(event.body for event in await room.told()).decode()
    for secret in (pairing.code, claimed.claim, collected.set_cookie_key):
        assert secret not in told


async def test_repeating_a_claim_makes_no_second_device_and_tells_no_secret(room):
    pairing = await open_pairing(room, local=True)
    call = room.stranger(command=Command("c1", "", "d"))
    first = await routes.claim_pairing(call, Claim(pairing.code, "Phone"))
    again = await routes.claim_pairing(call, Claim(pairing.code, "Phone"))
    assert first.set_cookie_key
    assert again == msgspec.structs.replace(first, set_cookie_key="")
    assert len((await routes.list_keys(room.call())).keys) == 2
