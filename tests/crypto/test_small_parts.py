"""Keys and their spellings, signatures and domains, tickets, invites, the log's chain."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from crypto.people import ANNA, BEN, CARO, CHANNEL, HUB_SEED, TEAM, known_random
from ekiden.crypto import chain, invites, keys, statements, tickets
from ekiden.crypto.invites import Invite
from ekiden.crypto.statements import Domain, Link
from ekiden.crypto.tickets import Ticket, TicketRefused
from ekiden.kernel.errors import Invalid

HUB_KEY = keys.signing_public(HUB_SEED)
TICKET = Ticket(
    TEAM,
    CHANNEL,
    "build",
    "deploy",
    7,
    "pri_anna",
    "anna",
    "2030-01-01T00:00:00.000Z",
    "2030-01-01T00:10:00.000Z",
)
NOW = "2030-01-01T00:05:00.000Z"


# --- keys and signatures


@given(st.binary(max_size=200))
def test_bytes_have_one_spelling(data: bytes) -> None:
    assert keys.read(keys.spell(data)) == data


@pytest.mark.parametrize("text", ["A", "AB", "A=", "AA==", "A+", "A/", "AA\n", "ÄÄ", "AA AA"])
def test_other_spellings_are_refused(text: str) -> None:
    with pytest.raises(Invalid):
        keys.read(text)


def test_an_id_is_a_fingerprint_of_both_keys() -> None:
    assert len({ANNA.member_key_id, BEN.member_key_id, CARO.member_key_id}) == 3
    mixed = keys.PublicKeys(ANNA.public.sign, BEN.public.wrap)
    assert mixed.member_key_id not in (ANNA.member_key_id, BEN.member_key_id)
    assert ANNA.public.fingerprint.replace(" ", "") == ANNA.member_key_id.removeprefix("mky_")


def test_secret_keys_do_not_show_when_printed() -> None:
    assert keys.spell(ANNA.sign_seed) not in repr(ANNA)
    assert repr(ANNA.sign_seed) not in repr(ANNA)


@given(st.sampled_from(Domain), st.sampled_from(Domain), st.dictionaries(st.text("abc"), st.text("xyz")))
def test_a_signature_holds_in_its_domain_only(one: Domain, other: Domain, fields: dict[str, str]) -> None:
    signature = keys.sign(ANNA.sign_seed, statements.statement(one, fields))
    good = keys.signed_by(ANNA.public.sign, signature, statements.statement(other, fields))
    assert good == (one is other)


@pytest.mark.parametrize("signature", ["", "x", "!", "A" * 86, "A" * 5000])
def test_what_is_no_signature_is_no_error(signature: str) -> None:
    assert not keys.signed_by(ANNA.public.sign, signature, b"statement")
    assert not keys.signed_by(b"short", signature, b"statement")


LINK = Link("mky_x", "2030-01-01T00:00:00.000Z", "chain", 3, "ab")
BUILT: dict[str, tuple[Any, dict[str, Any]]] = {
    "message": (
        statements.message,
        {"team": "t", "channel": "c", "thread": "h", "message": "m", "sender": "s", "content": "d", "link": LINK},
    ),
    "edit": (
        statements.edit,
        {
            "team": "t",
            "channel": "c",
            "thread": "h",
            "message": "m",
            "sender": "s",
            "content": "d",
            "replaces": "r",
            "link": LINK,
        },
    ),
    "delete": (
        statements.delete,
        {"team": "t", "channel": "c", "message": "m", "sender": "s", "replaces": "r", "link": LINK},
    ),
    "status": (
        statements.status,
        {"team": "t", "channel": "c", "key": "k", "sender": "s", "content": "d", "link": LINK},
    ),
    "clear": (statements.status_clear, {"team": "t", "channel": "c", "key": "k", "sender": "s", "link": LINK}),
    "lease": (
        statements.lease,
        {
            "team": "t",
            "channel": "c",
            "name": "n",
            "sender": "s",
            "lease_s": 5,
            "fence": 1,
            "note": "w",
            "link": LINK,
        },
    ),
    "countersign": (
        statements.countersign_message,
        {"team": "t", "channel": "c", "message": "m", "statement_digest": "d", "seq": 4, "number": 2, "at": "a"},
    ),
    "countersign status": (
        statements.countersign_status,
        {"team": "t", "channel": "c", "key": "k", "version": 2, "statement_digest": "d", "seq": 4, "at": "a"},
    ),
    "purge": (
        statements.purge,
        {
            "team": "t",
            "channel": "c",
            "first": 1,
            "last": 5,
            "messages": 5,
            "digest": "d",
            "at": "a",
            "by": "b",
        },
    ),
}


@pytest.mark.parametrize("name", BUILT)
def test_every_field_is_part_of_what_is_signed(name: str) -> None:
    build, fields = BUILT[name]
    whole = build(**fields)
    for field, value in fields.items():
        other = Link("mky_y", LINK.at, LINK.chain, LINK.link, LINK.previous) if field == "link" else value * 2
        assert build(**{**fields, field: other}) != whole, field


def test_every_part_of_a_link_is_part_of_what_is_signed() -> None:
    build, fields = BUILT["message"]
    whole = build(**fields)
    for link in (
        Link("mky_y", LINK.at, LINK.chain, LINK.link, LINK.previous),
        Link(LINK.signer, "later", LINK.chain, LINK.link, LINK.previous),
        Link(LINK.signer, LINK.at, "other", LINK.link, LINK.previous),
        Link(LINK.signer, LINK.at, LINK.chain, 4, LINK.previous),
        Link(LINK.signer, LINK.at, LINK.chain, LINK.link, "cd"),
    ):
        assert build(**{**fields, "link": link}) != whole


def test_text_is_never_taken_for_sealed_text() -> None:
    assert statements.message_content(text="x") != statements.message_content(text="y")
    assert statements.status_content(value=None) != statements.status_content(value={"sealed": None})


def test_two_members_compare_the_same_digits() -> None:
    code = keys.compare_code(ANNA.public, BEN.public)
    assert code == keys.compare_code(BEN.public, ANNA.public)
    assert [len(group) for group in code.split(" ")] == [4, 4, 4]
    assert code != keys.compare_code(ANNA.public, CARO.public)


# --- tickets


def test_a_ticket_is_good_until_it_ends() -> None:
    text = tickets.issue(HUB_SEED, TICKET)
    assert tickets.check(text, HUB_KEY, now=NOW) == TICKET
    assert tickets.check(f" {text}\n", HUB_KEY, now=NOW, team=TEAM, channel="build", name="deploy", at_least=7)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"now": "2030-01-01T00:10:00.000Z"}, "expired"),
        ({"team": "tem_other"}, "other_team"),
        ({"channel": "other"}, "other_lease"),
        ({"name": "other"}, "other_lease"),
        ({"at_least": 8}, "fenced"),
    ],
)
def test_why_a_ticket_is_refused_is_said(asked: dict[str, Any], why: str) -> None:
    with pytest.raises(TicketRefused) as refusal:
        tickets.check(tickets.issue(HUB_SEED, TICKET), HUB_KEY, **{"now": NOW, **asked})
    assert refusal.value.details["why"] == why


def test_a_ticket_of_somebody_else_is_forged() -> None:
    body, signature = tickets.issue(HUB_SEED, TICKET).split(".")[1:]
    later = tickets.issue(HUB_SEED, replace(TICKET, expires_at="2040-01-01T00:00:00.000Z")).split(".")[1]
    for text in (
        tickets.issue(ANNA.sign_seed, TICKET),
        f"ekt1.{later}.{signature}",
        f"ekt2.{body}.{signature}",
        f"ekt1.{body}",
        "",
        "ekt1." + "A" * 100_000,
    ):
        with pytest.raises(TicketRefused) as refusal:
            tickets.check(text, HUB_KEY, now=NOW)
        assert refusal.value.details["why"] == "forged"


# --- invites


def test_an_invite_is_one_word_that_reads_back() -> None:
    invite = Invite(
        "https://hub.example",
        TEAM,
        "inv_1",
        invites.new_code(),
        invites.new_invite_secret(),
        "pri_anna",
        "Anna Ä.",
        keys.spell(ANNA.public.sign),
        keys.spell(ANNA.public.wrap),
        keys.spell(HUB_KEY),
    )
    text = invites.spell_invite(invite)
    assert len(text.split()) == 1
    assert invites.read_invite(f"  {text}\n") == invite
    assert invite.inviter == ANNA.public


@pytest.mark.parametrize("text", ["", "eki1", "eki1.", "eki2.e30", "eki1.e30", "eki1.!", "eki1." + "A" * 9_999])
def test_what_is_no_invite_is_said_to_be_none(text: str) -> None:
    with pytest.raises(Invalid):
        invites.read_invite(text)


def test_a_proof_is_for_one_key_one_guest_one_invite() -> None:
    secret = invites.new_invite_secret(known_random("secret"))
    where: dict[str, Any] = {"team": TEAM, "invite": "inv_1", "principal": "pri_ben", "public": BEN.public}
    good = invites.proof(secret, **where)
    assert invites.proven(good, secret, **where)
    for change in (
        {"team": "t"},
        {"invite": "inv_2"},
        {"principal": "pri_anna"},
        {"public": CARO.public},
    ):
        assert not invites.proven(good, secret, **{**where, **change})
    assert not invites.proven("", secret, **where)
    assert not invites.proven("é\ud800", secret, **where)
    assert not invites.proven(good, invites.new_invite_secret(), **where)


def test_the_hub_keeps_of_a_code_what_does_not_give_it_away() -> None:
    code = invites.new_code()
    assert invites.code_digest(code) == invites.code_digest(code) != invites.code_digest(code + "x")
    assert code not in invites.code_digest(code)


# --- the log's chain


def leaf(**change: Any) -> bytes:
    event: dict[str, Any] = {
        "seq": 4,
        "kind": "message.posted",
        "topics": ("channel:build", "inbox:pri_a"),
        "at": "a",
        "actor": "pri_anna",
        "body": b'{"text":"hi"}',
    }
    return chain.leaf(**{**event, **change})


@pytest.mark.parametrize(
    "change",
    [{"seq": 5}, {"kind": "x"}, {"topics": ("channel:build",)}, {"at": "b"}, {"actor": "x"}, {"body": b"{}"}],
)
def test_every_part_of_an_event_is_in_its_leaf(change: dict[str, Any]) -> None:
    assert leaf(**change) != leaf()


def test_a_redacted_event_leaves_the_chain_whole() -> None:
    body = b'{"text":"hi"}'
    gone = chain.redacted(body)
    assert b"hi" not in gone
    assert leaf(body=gone) == leaf(body=body)
    assert chain.redacted(gone) == gone
    spaced = b'{"redacted": true, "digest": "' + chain.body_digest(body).encode() + b'"}'
    assert leaf(body=spaced) == leaf(body=body)


@given(st.dictionaries(st.sampled_from(["redacted", "digest", "text"]), st.booleans() | st.text(max_size=70)))
def test_a_body_that_looks_redacted_is_read_without_error(body: dict[str, Any]) -> None:
    import msgspec

    assert len(chain.body_digest(msgspec.json.encode(body))) == 64


def test_a_chain_holds_order_and_number_of_its_events() -> None:
    one, two = leaf(seq=1), leaf(seq=2)
    assert chain.link(chain.link(chain.GENESIS, one), two) != chain.link(chain.link(chain.GENESIS, two), one)
    checkpoint = chain.signed_checkpoint(HUB_SEED, team=TEAM, seq=2, value=chain.link(chain.GENESIS, one), at="a")
    assert keys.signed_by(HUB_KEY, checkpoint.signature, checkpoint.statement())
    for change in ({"seq": 3}, {"hash": "0" * 64}, {"team": "t"}, {"at": "b"}):
        assert not keys.signed_by(HUB_KEY, checkpoint.signature, replace(checkpoint, **change).statement())
