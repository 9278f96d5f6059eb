"""Law 11 in this room: what a key may not know of answers exactly like what does not exist."""

import msgspec
import pytest

from ekiden.access import routes, verbs
from ekiden.access.rules import Kind, digest_of
from ekiden.access.secrets import new_key
from ekiden.kernel.errors import EkidenError
from ekiden.log.port import Actor

pytestmark = pytest.mark.anyio


def told(error):
    return (error.code, error.status, error.message, error.hint, error.details)


async def refusal(awaitable):
    with pytest.raises(EkidenError) as refused:
        await awaitable
    return told(refused.value)


async def another_team(room):
    """A key and a pairing of another team on the same hub."""
    key = new_key()

    async def verb(tx):
        made = await verbs.bootstrap(tx, secret_digest=key.digest)
        actor = Actor(made.principal_id, made.key_id)
        pairing = await verbs.make_pairing(tx, actor, name="", local=False, code_digest=digest_of("x"))
        return [made.key_id, pairing.pairing_id]

    written = await room.log.write("tem_other", verb)
    return msgspec.json.decode(written.answer)


async def test_a_key_of_another_team_is_like_no_key(room):
    key_id, _ = await another_team(room)
    theirs = await refusal(routes.revoke_key(room.call(parameters={"key_id": key_id})))
    nobodys = await refusal(routes.revoke_key(room.call(parameters={"key_id": "key_" + "0" * 20})))
    assert theirs == nobodys
    assert theirs[:2] == ("not_found", 404)


@pytest.mark.parametrize("act", [routes.confirm_pairing, routes.deny_pairing])
async def test_a_pairing_of_another_team_is_like_no_pairing(room, act):
    _, pairing_id = await another_team(room)
    theirs = await refusal(act(room.call(parameters={"pairing_id": pairing_id})))
    nobodys = await refusal(act(room.call(parameters={"pairing_id": "pai_" + "0" * 20})))
    assert theirs == nobodys


async def test_lists_and_the_audit_show_one_team_only(room):
    await another_team(room)
    keys = (await routes.list_keys(room.call())).keys
    assert [key.key_id for key in keys] == [room.owner.key_id]
    assert (await routes.list_pairings(room.call())).pairings == ()
    actors = {line.actor["id"] for line in (await routes.read_audit(room.call())).lines}
    assert actors == {room.owner.principal_id}


async def test_a_name_that_another_team_uses_is_free_here(room):
    made = await routes.make_key(room.call(), routes.NewKey("Owner two", Kind.AGENT))
    await another_team(room)
    assert made.key_id
    again = await routes.make_key(room.call(), routes.NewKey("Owner three", Kind.AGENT))
    assert again.key_id


async def test_codes_used_unknown_and_misspelled_are_told_alike(room):
    pairing = await routes.make_pairing(room.call(), routes.NewPairing())
    await routes.claim_pairing(room.stranger(), routes.Claim(pairing.code))
    said = [
        await refusal(routes.claim_pairing(room.stranger(), routes.Claim(code)))
        for code in (pairing.code, "0000-0000-0000-0000", "x")
    ]
    assert said[0] == said[1] == said[2]
