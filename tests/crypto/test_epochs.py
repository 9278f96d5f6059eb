"""Epoch keys reach the members that the statement names, and no one else."""

from typing import Any

import pytest
from msgspec.structs import replace

from crypto.people import ANNA, BEN, CARO, CHANNEL, TEAM, known_random
from ekiden.crypto import epochs, keys
from ekiden.crypto.epochs import Epoch, NewEpoch
from ekiden.crypto.keys import MemberKeys
from ekiden.crypto.sealing import SealBroken
from ekiden.kernel.errors import Invalid
from ekiden.kernel.limits import EPOCH_MEMBER_KEYS_MAX

KEY = known_random("epoch key")(32)


def opened(*members: tuple[str, MemberKeys], epoch: int = 1, previous: str = "") -> NewEpoch:
    return epochs.open_epoch(
        ANNA,
        KEY,
        team=TEAM,
        channel=CHANNEL,
        epoch=epoch,
        members=[(principal, one.public) for principal, one in members],
        previous=previous,
        at="2030-01-01T00:00:00.000Z",
    )


def test_each_member_gets_the_key_and_nobody_else() -> None:
    new = opened(("pri_ben", BEN), ("pri_anna", ANNA))
    assert [wrap.principal_id for wrap in new.wraps] == ["pri_anna", "pri_ben"]
    for who, wrap in zip((ANNA, BEN), new.wraps, strict=True):
        assert epochs.unwrap(who, wrap.wrapped, team=TEAM, epoch=new.epoch) == KEY
        with pytest.raises(SealBroken):
            epochs.unwrap(CARO, wrap.wrapped, team=TEAM, epoch=new.epoch)


@pytest.mark.parametrize("change", [{"channel_id": "cha_other"}, {"epoch": 2}, {"commitment": "0" * 64}])
def test_a_wrap_opens_in_its_epoch_only(change: dict[str, Any]) -> None:
    new = opened(("pri_ben", BEN))
    with pytest.raises(SealBroken):
        epochs.unwrap(BEN, new.wraps[0].wrapped, team=TEAM, epoch=replace(new.epoch, **change))
    with pytest.raises(SealBroken):
        epochs.unwrap(BEN, new.wraps[0].wrapped, team="tem_other", epoch=new.epoch)


def test_a_member_that_is_given_another_key_notices() -> None:
    new = opened(("pri_ben", BEN))
    other = epochs.wrap(bytes(32), BEN.public, team=TEAM, channel=CHANNEL, epoch=1)
    with pytest.raises(SealBroken) as refusal:
        epochs.unwrap(BEN, keys.spell(other), team=TEAM, epoch=new.epoch)
    assert "promises" in refusal.value.message


def test_statement_and_wraps_are_signed_by_who_opened() -> None:
    new = opened(("pri_anna", ANNA), ("pri_ben", BEN))
    sign = ANNA.public.sign
    assert keys.signed_by(sign, new.epoch.signature, new.epoch.statement(TEAM))
    for wrap in new.wraps:
        assert keys.signed_by(sign, wrap.signature, wrap.statement(TEAM, CHANNEL))
        assert not keys.signed_by(sign, wrap.signature, wrap.statement(TEAM, "cha_other"))
    for name, value in {"epoch": 9, "members": (), "commitment": "x", "previous": "x", "at": "x"}.items():
        changed: Epoch = replace(new.epoch, **{name: value})
        assert not keys.signed_by(sign, new.epoch.signature, changed.statement(TEAM)), name


def test_the_number_of_member_keys_is_bounded() -> None:
    with pytest.raises(Invalid):
        opened(*[(f"pri_{number}", BEN) for number in range(EPOCH_MEMBER_KEYS_MAX + 1)])
