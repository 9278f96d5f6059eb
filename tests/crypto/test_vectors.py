"""The committed vectors are what this program makes, and what it can open."""

import json
from typing import Any

import msgspec

from crypto.make_vectors import EPOCH_KEY, PLACE, build
from crypto.people import ANNA, BEN, TEAM
from ekiden.crypto import epochs, keys
from ekiden.crypto.epochs import Epoch, Wrap

VECTORS: dict[str, Any] = json.loads(PLACE.read_text())


def test_the_vectors_are_what_is_made_today() -> None:
    """A change here changes what is signed or sealed everywhere: other versions, the page, exports on disk."""
    made = msgspec.json.decode(msgspec.json.encode(build()))
    assert VECTORS.keys() == {*made, "wraps"}
    for name, value in made.items():
        assert VECTORS[name] == value, name


def test_wraps_of_another_day_open() -> None:
    epoch = msgspec.convert(VECTORS["epoch"]["epoch"], Epoch)
    for member, vector in zip((ANNA, BEN), VECTORS["wraps"], strict=True):
        wrap = msgspec.convert(vector["wrap"], Wrap)
        stated = wrap.statement(TEAM, epoch.channel_id)
        assert stated.decode() == vector["text"]
        assert keys.signed_by(ANNA.public.sign, wrap.signature, stated)
        assert epochs.unwrap(member, wrap.wrapped, team=TEAM, epoch=epoch) == EPOCH_KEY
