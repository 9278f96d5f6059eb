"""Epochs of encrypted channels: who may open one, and that its key reaches every member.

The hub never sees a key. It looks that an epoch follows the newest, that its key is wrapped to every member that
has a member key and to nobody else, and that what is said is signed; so a member that was forgotten shows before
anything is sealed with it. To which of a member's keys it is wrapped is for who opens the epoch to say: a key that
nobody vouches for is given nothing, whatever the hub thinks of it. When somebody leaves, or a member key ends, the
epoch is stale: the next message needs a new one.
"""

from collections.abc import Sequence

import msgspec

from ekiden.crypto import keys
from ekiden.crypto.directory import MemberKey
from ekiden.crypto.epochs import (
    WRAPPED_BYTES,
    Epoch,
    Epochs,
    EpochView,
    NewEpoch,
    Share,
    Wrap,
)
from ekiden.kernel import limits
from ekiden.kernel.errors import Conflict, Forbidden, Invalid, NotFound, StaleEpoch
from ekiden.log.port import Actor, Reading, Transaction
from ekiden.relay.keeping import load_channel, tell_channel, text_of
from ekiden.relay.member_keys import keys_of_members, load_member_key
from ekiden.relay.wire import Channel

_epoch = msgspec.json.Decoder(Epoch).decode
_wrap = msgspec.json.Decoder(Wrap).decode
_replace = msgspec.structs.replace
_NEWEST = 1 << 53


class EpochIncomplete(Conflict):
    """The epoch's key is wrapped to no key of some member, or to a key that is no live one of a member. `details`:
    missing, extra (both lists of [principal id, member key id]); names of the missing in `names`."""

    code = "epoch_incomplete"


class Pairs(msgspec.Struct, frozen=True):
    """The body of an `epoch.shared` event: to which keys an epoch's key was wrapped later."""

    channel_id: str
    epoch: int
    members: tuple[tuple[str, str], ...]


def refuse_stale(channel: Channel, epoch: int) -> None:
    """Raises:
    StaleEpoch: if what was sealed in `epoch` may not be added to the channel any more.
    """
    if epoch == channel.epoch and epoch > 0 and not channel.epoch_stale:
        return
    raise StaleEpoch(
        "The key of this channel has changed: seal it anew.",
        hint="Open a new epoch first." if channel.epoch_stale or not channel.epoch else "Take the newest epoch.",
        epoch=channel.epoch,
        opened=bool(channel.epoch) and not channel.epoch_stale,
    )


def refuse_unsigned_epoch(team: str, channel_id: str, body: NewEpoch, signer: MemberKey) -> None:
    """Checks whatever does not need the tables, so that it is done outside of the log's one writer.

    Raises:
        Invalid: if the statement or a wrap is not signed by `signer`, or is of another form.
    """
    epoch = body.epoch
    if epoch.channel_id != channel_id:
        raise Invalid("The epoch's statement is of another channel.")
    if not keys.signed_by(signer.public.sign, epoch.signature, epoch.statement(team)):
        raise Invalid("The epoch's signature is not good.")
    if list(epoch.members) != sorted(set(epoch.members)):
        raise Invalid("The members of an epoch are sorted, each once.")
    if len(epoch.members) > limits.EPOCH_MEMBER_KEYS_MAX:
        raise Invalid("Too many member keys.", max=limits.EPOCH_MEMBER_KEYS_MAX)
    if sorted((wrap.principal_id, wrap.member_key) for wrap in body.wraps) != list(epoch.members):
        raise Invalid("The key is wrapped to each member of the epoch, and to nobody else.")
    refuse_unsigned_wraps(team, channel_id, epoch.epoch, body.wraps, signer)


def refuse_unsigned_wraps(
    team: str, channel_id: str, epoch: int, wraps: Sequence[Wrap], signer: MemberKey
) -> None:
    """Raises:
    Invalid: if a wrap is of another epoch or form, or not signed by `signer`.
    """
    if len(wraps) > limits.EPOCH_MEMBER_KEYS_MAX:
        raise Invalid("Too many member keys.", max=limits.EPOCH_MEMBER_KEYS_MAX)
    signer_id = signer.public.member_key_id
    for wrap in wraps:
        keys.read(wrap.wrapped, WRAPPED_BYTES)
        if wrap.epoch != epoch or wrap.signer != signer_id:
            raise Invalid("A wrap is of another epoch, or by another key.")
        if not keys.signed_by(signer.public.sign, wrap.signature, wrap.statement(team, channel_id)):
            raise Invalid("The signature of a wrap is not good.")


async def signer_of(reading: Reading, channel: Channel, member_key_id: str, actor: Actor) -> MemberKey:
    """The member key that opens or shares an epoch: the caller's own, who is a member.

    Raises:
        Invalid: if the channel is not encrypted.
        Forbidden: if the caller is no member, or the key is not its own, or ended.
    """
    if not channel.encrypted:
        raise Invalid("This channel is not encrypted: it has no epochs.")
    row = await reading.row(
        "relay.is_member",
        team_id=reading.team_id,
        channel_id=channel.channel_id,
        principal_id=actor.principal_id,
    )
    if row is None:
        raise Forbidden("Only members of the channel do this.", hint="Join it first.")
    key = await load_member_key(reading, member_key_id)
    if key is None or key.principal_id != actor.principal_id or not key.live:
        raise Forbidden(
            "This is signed with a key that is not a live member key of yours.",
            hint="Put your member key into the directory first.",
        )
    return key


async def open_epoch(tx: Transaction, channel: Channel, body: NewEpoch, *, actor: Actor) -> EpochView:
    """Opens an epoch whose signatures were checked.

    Raises:
        Forbidden, Invalid: see `signer_of`.
        StaleEpoch: if it does not follow the newest.
        EpochIncomplete: if a member that has live keys is given none, or a key that is nobody's here is.
    """
    epoch = body.epoch
    await signer_of(tx, channel, epoch.signer, actor)
    await _refuse_other_place(tx, channel, epoch)
    names: dict[tuple[str, str], str] = {}
    for key in await keys_of_members(tx, channel.channel_id):
        names[(key.principal_id, key.public.member_key_id)] = key.name
    given = {principal_id for principal_id, _ in epoch.members}
    missing = sorted(pair for pair in names if pair[0] not in given)
    extra = sorted({*epoch.members} - names.keys())
    if missing or extra:
        raise EpochIncomplete(
            "The epoch's key has to be wrapped to each member that has a key, and to nobody else.",
            hint="Read the members and the directory again.",
            missing=missing,
            extra=extra,
            names=sorted({names[pair] for pair in missing}),
        )
    await tx.run(
        "relay.add_epoch",
        team_id=tx.team_id,
        channel_id=channel.channel_id,
        epoch=epoch.epoch,
        statement=text_of(epoch),
    )
    for wrap in body.wraps:
        await _add_wrap(tx, channel, wrap)
    tx.append("epoch.opened", epoch, topics=(channel.resource,), actor=actor)
    changed = _replace(channel, epoch=epoch.epoch, epoch_stale=False)
    await tell_channel(tx, changed, "changed", actor)
    mine = tuple(wrap for wrap in body.wraps if wrap.principal_id == actor.principal_id)
    return EpochView(epoch, mine, tuple(wrap.member_key for wrap in body.wraps))


async def _refuse_other_place(tx: Transaction, channel: Channel, epoch: Epoch) -> None:
    previous = ""
    if channel.epoch:
        row = await tx.row("relay.epoch", team_id=tx.team_id, channel_id=channel.channel_id, epoch=channel.epoch)
        assert row is not None
        previous = _epoch(row["statement"]).digest(tx.team_id)
    if epoch.epoch != channel.epoch + 1 or epoch.previous != previous:
        raise StaleEpoch(
            f"The newest epoch is {channel.epoch}: this does not follow it.",
            hint="Read the newest epoch and open the one after it, if that is still needed.",
            epoch=channel.epoch,
            opened=bool(channel.epoch) and not channel.epoch_stale,
        )


async def _add_wrap(tx: Transaction, channel: Channel, wrap: Wrap) -> int:
    return await tx.run(
        "relay.add_epoch_key",
        team_id=tx.team_id,
        channel_id=channel.channel_id,
        epoch=wrap.epoch,
        member_key_id=wrap.member_key,
        principal_id=wrap.principal_id,
        wrapped=text_of(wrap),
    )


async def share_epoch(tx: Transaction, channel: Channel, epoch: int, body: Share, *, actor: Actor) -> EpochView:
    """Gives the newest epoch's key to members that came later; signatures were checked. A key that has it keeps
    it.

    Raises:
        NotFound: if there is no such epoch.
        StaleEpoch: if it is not the newest, or is stale.
        Forbidden: if the caller does not hold the epoch's key itself.
        EpochIncomplete: if a wrap is to a key that is not a live one of a member.
    """
    row = await tx.row("relay.epoch", team_id=tx.team_id, channel_id=channel.channel_id, epoch=epoch)
    if row is None:
        raise NotFound
    refuse_stale(channel, epoch)
    for signer in {wrap.signer for wrap in body.wraps}:
        await signer_of(tx, channel, signer, actor)
    holders = await _holders(tx, channel, epoch)
    if not any(principal_id == actor.principal_id for principal_id, _ in holders):
        raise Forbidden("Only who holds the epoch's key can share it.")
    allowed = {
        (key.principal_id, key.public.member_key_id) for key in await keys_of_members(tx, channel.channel_id)
    }
    given = [(wrap.principal_id, wrap.member_key) for wrap in body.wraps]
    if extra := sorted({*given} - allowed):
        raise EpochIncomplete(
            "An epoch's key is wrapped to live keys of members only.", missing=[], extra=extra, names=[]
        )
    added = [pair for pair, wrap in zip(given, body.wraps, strict=True) if await _add_wrap(tx, channel, wrap)]
    if added:
        told = Pairs(channel.channel_id, epoch, tuple(added))
        tx.append("epoch.shared", told, topics=(channel.resource,), actor=actor)
    return EpochView(_epoch(row["statement"]), holders=tuple(key for _, key in await _holders(tx, channel, epoch)))


async def _holders(reading: Reading, channel: Channel, epoch: int) -> list[tuple[str, str]]:
    rows = await reading.rows(
        "relay.epoch_holders", team_id=reading.team_id, channel_id=channel.channel_id, epoch=epoch
    )
    return [(row["principal_id"], row["member_key_id"]) for row in rows]


async def read_epochs(reading: Reading, channel: Channel, principal_id: str, *, before: int, limit: int) -> Epochs:
    """Epochs before one (0: the newest first of all), newest first, with the wraps to the caller's own keys."""
    rows = await reading.rows(
        "relay.epochs",
        team_id=reading.team_id,
        channel_id=channel.channel_id,
        before=before or _NEWEST,
        most=limit + 1,
    )
    shown = [_epoch(row["statement"]) for row in rows[:limit]]
    wraps: dict[int, list[Wrap]] = {}
    if shown:
        for row in await reading.rows(
            "relay.epoch_wraps",
            team_id=reading.team_id,
            channel_id=channel.channel_id,
            principal_id=principal_id,
            first=shown[-1].epoch,
            last=shown[0].epoch,
        ):
            wraps.setdefault(row["epoch"], []).append(_wrap(row["wrapped"]))
    views: list[EpochView] = []
    for epoch in shown:
        # Only of the newest it matters who holds it by now: nothing is sealed with the others any more.
        newest = epoch.epoch == channel.epoch
        holders = tuple(key for _, key in await _holders(reading, channel, epoch.epoch)) if newest else ()
        views.append(EpochView(epoch, tuple(wraps.get(epoch.epoch, ())), holders))
    return Epochs(tuple(views), channel.epoch_stale, str(shown[-1].epoch) if len(rows) > limit else "")


async def all_epochs(reading: Reading, channel: Channel, most: int) -> tuple[Epoch, ...]:
    """The statements of a channel's epochs, in order."""
    rows = await reading.rows(
        "relay.all_epochs", team_id=reading.team_id, channel_id=channel.channel_id, most=most
    )
    return tuple(_epoch(row["statement"]) for row in rows)


async def end_epochs_of(tx: Transaction, member_key_id: str, actor: Actor) -> None:
    """Makes the epochs stale whose key a member key holds that has ended now."""
    rows = await tx.rows("relay.epochs_held_by", team_id=tx.team_id, member_key_id=member_key_id)
    for row in rows:
        kept = await load_channel(tx, row["channel_id"])
        if kept is not None and kept.channel.epoch == row["epoch"] and not kept.channel.epoch_stale:
            await tell_channel(tx, _replace(kept.channel, epoch_stale=True), "changed", actor)
