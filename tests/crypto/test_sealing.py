"""Sealed texts open where their sender put them and nowhere else, and tell little of their size."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crypto.people import CHANNEL, TEAM, known_random
from ekiden.crypto import sealing
from ekiden.crypto.keys import read, spell
from ekiden.crypto.sealing import Place, SealBroken
from ekiden.kernel.errors import TooLarge
from ekiden.kernel.limits import SEALED_PLAIN_BYTES_MAX

KEY = known_random("epoch")(32)
PLACE = Place(TEAM, CHANNEL, "msg_root", "pri_anna", "msg_one", 3)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=400)


@given(texts, texts)
def test_what_is_sealed_opens_in_its_place(text: str, title: str) -> None:
    content = {"text": text, "title": title, "attachments": []}
    sealed = sealing.seal(KEY, PLACE, content)
    assert sealing.open_sealed(KEY, PLACE, sealed.nonce, sealed.data) == content


@given(st.sampled_from([field.name for field in fields(Place)]), texts)
def test_it_opens_nowhere_else(name: str, other: str) -> None:
    """Every associated field counts."""
    sealed = sealing.seal(KEY, PLACE, {"text": "hi"})
    value: Any = len(other) + 4 if name == "epoch" else other + "!"
    with pytest.raises(SealBroken):
        sealing.open_sealed(KEY, replace(PLACE, **{name: value}), sealed.nonce, sealed.data)


@given(st.integers(0, 2**31), st.integers(0, 7))
def test_a_changed_bit_is_noticed(at: int, bit: int) -> None:
    sealed = sealing.seal(KEY, PLACE, {"text": "hi"}, known_random("nonce"))
    data = bytearray(read(sealed.data))
    data[at % len(data)] ^= 1 << bit
    with pytest.raises(SealBroken):
        sealing.open_sealed(KEY, PLACE, sealed.nonce, spell(bytes(data)))


@pytest.mark.parametrize("change", ["key", "nonce", "short", "form", "letters", "empty"])
def test_other_keys_and_forms_are_refused_alike(change: str) -> None:
    sealed = sealing.seal(KEY, PLACE, {"text": "hi"}, known_random("nonce"))
    key = known_random("other")(32) if change == "key" else KEY
    nonce = spell(bytes(12)) if change == "nonce" else sealed.nonce
    data = {"short": sealed.data[:8], "letters": "!" + sealed.data[1:], "empty": ""}.get(change, sealed.data)
    with pytest.raises(SealBroken):
        sealing.open_sealed(key, PLACE, nonce, data, v=2 if change == "form" else 1)


@given(st.integers(0, 70_000))
def test_sizes_are_padded_to_few_steps(size: int) -> None:
    sealed = sealing.seal(KEY, PLACE, {"text": "x" * size})
    padded = len(read(sealed.data)) - sealing.TAG_BYTES
    framed = 4 + len('{"text":""}') + size
    assert framed <= padded
    assert padded in sealing.PADDED or padded % sealing.PADDED[-1] == 0
    smaller = [step for step in sealing.PADDED if step < padded] or [0]
    assert framed > (padded - sealing.PADDED[-1] if padded > sealing.PADDED[-1] else smaller[-1])


def test_what_is_too_long_is_refused_before_it_is_sent() -> None:
    with pytest.raises(TooLarge):
        sealing.seal(KEY, PLACE, {"text": "x" * SEALED_PLAIN_BYTES_MAX})


@given(st.binary(max_size=3_000))
def test_attachments_open_in_their_channel_only(data: bytes) -> None:
    sealed = sealing.seal_file(data, team=TEAM, channel=CHANNEL)
    assert sealing.open_file(sealed.data, sealed.key, team=TEAM, channel=CHANNEL) == data
    with pytest.raises(SealBroken):
        sealing.open_file(sealed.data, sealed.key, team=TEAM, channel="cha_other")
    with pytest.raises(SealBroken):
        sealing.open_file(sealed.data[:-1], sealed.key, team=TEAM, channel=CHANNEL)
    with pytest.raises(SealBroken):
        sealing.open_file(b"", sealed.key, team=TEAM, channel=CHANNEL)
