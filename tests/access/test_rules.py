"""The access room's pure decisions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ekiden.access import rules, secrets
from ekiden.access.rights import allows, checked_permissions
from ekiden.access.rules import Kind, PairingState
from ekiden.kernel.errors import Conflict, Invalid, Unauthenticated


@pytest.mark.parametrize("kind", list(Kind))
def test_usual_rights_are_well_formed_and_only_people_and_devices_may_change_rights(kind):
    usual = rules.default_permissions(kind, "hos_1")
    assert checked_permissions(usual) == usual
    assert allows(usual, "admin", "access") is (kind in (Kind.PERSON, Kind.DEVICE))


def test_a_host_may_feed_its_own_sessions_only():
    usual = rules.default_permissions(Kind.HOST, "hos_1")
    assert allows(usual, "feed", "host:hos_1")
    assert not allows(usual, "feed", "host:hos_12")
    assert not allows(usual, "read", "team")


def test_a_key_is_read_back_from_its_spelling():
    key = secrets.new_key()
    presented = rules.read_key(key.text)
    assert presented is not None
    assert (presented.key_id, presented.digest) == (key.key_id, key.digest)


@given(st.text(max_size=120))
def test_what_is_not_a_key_is_no_key(text):
    assert rules.read_key(text) is None


def test_a_key_with_anything_around_it_is_no_key():
    key = secrets.new_key().text
    for text in (key + "\n", " " + key, key.upper(), key[:-1], key + "a"):
        assert rules.read_key(text) is None


@pytest.mark.parametrize(
    ("revoked_at", "expires_at", "valid"),
    [
        ("", "", True),
        ("", "2026-01-01T00:00:01.000Z", True),
        ("", "2026-01-01T00:00:00.000Z", False),
        ("", "2025-12-31T23:59:59.999Z", False),
        ("2026-01-01T00:00:00.000Z", "", False),
    ],
)
def test_a_key_is_valid_until_it_expires_or_is_revoked(revoked_at, expires_at, valid):
    def look():
        rules.refuse_key(revoked_at=revoked_at, expires_at=expires_at, now="2026-01-01T00:00:00.000Z")

    if valid:
        look()
    else:
        with pytest.raises(Unauthenticated):
            look()


@pytest.mark.parametrize(
    ("wanted", "held", "ends_at"),
    [
        ("", "", ""),
        ("", "2026-06-01T00:00:00.000Z", "2026-06-01T00:00:00.000Z"),
        ("2026-05-01T02:00:00+02:00", "", "2026-05-01T00:00:00.000Z"),
        ("2026-06-01T00:00:00Z", "2026-06-01T00:00:00.000Z", "2026-06-01T00:00:00.000Z"),
    ],
)
def test_a_key_ends_at_the_latest_with_its_maker(wanted, held, ends_at):
    assert rules.narrowed_expiry(wanted, held, "2026-01-01T00:00:00.000Z") == ends_at


@pytest.mark.parametrize(
    ("wanted", "held"),
    [
        ("2026-06-01T00:00:00.001Z", "2026-06-01T00:00:00.000Z"),
        ("2025-06-01T00:00:00Z", ""),
        ("2026-06-01T00:00:00", ""),
        ("tomorrow", ""),
        ("9999-99-99", ""),
    ],
)
def test_a_time_that_cannot_be_is_refused(wanted, held):
    with pytest.raises(Invalid):
        rules.narrowed_expiry(wanted, held, "2026-01-01T00:00:00.000Z")


def test_a_code_is_known_however_a_person_types_it():
    code = "k3f9-0a1b-mnpq-rs1t"
    typed = [
        "K3F9 0A1B MNPQ RS1T",
        "k3f90a1bmnpqrs1t",
        "k3f9-oalb-mnpq-rsit",
        " k3f9\u20130a1b\u2013mnpq\u2013rs1t ",
    ]
    assert {rules.code_digest(text) for text in [code, *typed]} == {rules.code_digest(code)}


@pytest.mark.parametrize(
    "text", ["", "k3f9", "k3f9-0a1b-mnpq-rs1u", "k3f9-0a1b-mnpq-rs1t-0", "é" * 16, "x" * 1_000_000]
)
def test_what_cannot_be_a_code_is_none(text):
    assert rules.code_digest(text) is None


def test_codes_are_made_in_the_form_that_is_read():
    assert all(rules.code_digest(secrets.new_code()) for _ in range(200))


@pytest.mark.parametrize("state", list(PairingState))
@pytest.mark.parametrize("to", list(PairingState))
def test_a_pairing_moves_only_along_its_table_and_never_leaves_its_end(state, to):
    if to in rules.PAIRING_MOVES[state]:
        assert rules.move_pairing(state, to) is to
        assert state in rules.PAIRING_LIVE
    else:
        with pytest.raises(Conflict) as refused:
            rules.move_pairing(state, to)
        assert refused.value.details["state"] == state


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("from_loopback", [True, False])
def test_only_a_local_pairing_of_this_computer_needs_no_confirmation(local, from_loopback):
    state = rules.claimed_state(local=local, from_loopback=from_loopback)
    assert (state is PairingState.COLLECTED) is (local and from_loopback)


@pytest.mark.parametrize("state", list(PairingState))
def test_a_device_is_told_one_of_four_words(state):
    assert rules.told_state(state) in {"waiting", "confirmed", "denied", "expired"}


@given(st.integers(min_value=0, max_value=2**70))
def test_words_are_six_digits_in_two_groups(number):
    words = rules.words_of(number)
    assert len(words) == 7
    assert words.replace(" ", "").isdigit()
