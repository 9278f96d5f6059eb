"""Leases: taken, renewed, let go, and ended when their time is over, with who lost one told of it."""

import msgspec

from ekiden.kernel import limits
from ekiden.kernel.cursors import Cursor
from ekiden.kernel.errors import TooMany
from ekiden.log.port import Actor, Reading, Row, Transaction
from ekiden.relay.keeping import HUB, inbox_topic, text_of
from ekiden.relay.lease_rules import (
    Holder,
    KeptLease,
    as_read,
    bounded,
    checked_lease_name,
    decide_end,
    decide_release,
    decide_take,
)
from ekiden.relay.notary import check_lease, ticket_of
from ekiden.relay.reach import any_channel
from ekiden.relay.wire import Channel
from ekiden.relay.wire_state import Lease, Leases, ReleaseLease, TakeLease

_lease = msgspec.json.Decoder(Lease).decode


def kept_lease(row: Row) -> KeptLease:
    """A row of one of the queries of leases."""
    return KeptLease(_lease(row["lease"]), row["holder_key"], row["expires_ms"], row["lasts_ms"])


async def load_lease(reading: Reading, channel_id: str, name: str) -> KeptLease | None:
    """A lease, held or not; None if it was never taken."""
    row = await reading.row("relay.lease", team_id=reading.team_id, channel_id=channel_id, name=name)
    return kept_lease(row) if row is not None else None


async def tell_lease(tx: Transaction, channel: Channel, kept: KeptLease, actor: Actor) -> None:
    """Keeps a lease that has changed and says so; its holder, or who was it last, hears of it wherever it
    listens."""
    topics = (channel.resource, inbox_topic(kept.lease.holder_id))
    seq = tx.append("lease.changed", kept.lease, topics=topics, actor=actor)
    await tx.run(
        "relay.put_lease",
        team_id=tx.team_id,
        channel_id=kept.lease.channel_id,
        name=kept.lease.name,
        fence=kept.lease.fence,
        holder_id=kept.lease.holder_id,
        holder_key=kept.holder_key,
        expires_ms=kept.expires_ms,
        lasts_ms=kept.lasts_ms,
        seq=seq,
        lease=text_of(kept.lease),
    )


async def _after_its_end(tx: Transaction, channel: Channel, kept: KeptLease | None) -> KeptLease | None:
    """The lease, after saying that its time is over if that was not said yet."""
    over = decide_end(kept, tx.steady_ms)
    if over is None:
        return kept
    await tell_lease(tx, channel, over, HUB)
    return over


def _holder(actor: Actor) -> Holder:
    return Holder(actor.principal_id, actor.name, actor.key_id)


async def take_lease(tx: Transaction, channel: Channel, name: str, asked: TakeLease, *, actor: Actor) -> Lease:
    """Takes a lease, or renews it with its fence. Only the answer has the ticket: no event and no list does.

    Raises:
        SignatureRefused: see `notary.check_lease`.
        LeaseHeld, LeaseGone, Invalid: see `lease_rules.decide_take`.
        TooMany: at `LEASES_PER_CHANNEL_MAX`.
    """
    kept = await load_lease(tx, channel.channel_id, checked_lease_name(name))
    await check_lease(
        tx,
        channel,
        name,
        actor,
        asked.signature,
        lease_s=asked.lease_s,
        fence=asked.fence,
        note=asked.note,
    )
    if kept is None:
        await _refuse_more_names(tx, channel)
    now_ms = tx.steady_ms
    if not asked.fence:
        kept = await _after_its_end(tx, channel, kept)
    taken = decide_take(kept, channel.channel_id, name, asked, _holder(actor), now=tx.now, now_ms=now_ms)
    await tell_lease(tx, channel, taken, actor)
    return msgspec.structs.replace(taken.lease, ticket=await ticket_of(tx, channel, taken.lease))


async def release_lease(
    tx: Transaction, channel: Channel, name: str, asked: ReleaseLease, *, actor: Actor, may_break: bool
) -> Lease:
    """Lets a lease go.

    Raises:
        LeaseGone, Invalid: see `lease_rules.decide_release`.
    """
    kept = await load_lease(tx, channel.channel_id, checked_lease_name(name))
    await check_lease(tx, channel, name, actor, asked.signature, lease_s=0, fence=asked.fence, note="")
    freed = decide_release(kept, name, asked, _holder(actor), may_break=may_break, now_ms=tx.steady_ms)
    await tell_lease(tx, channel, freed, actor)
    return freed.lease


async def _refuse_more_names(tx: Transaction, channel: Channel) -> None:
    counted = await tx.row("relay.count_leases", team_id=tx.team_id, channel_id=channel.channel_id)
    if counted is not None and counted["count"] >= limits.LEASES_PER_CHANNEL_MAX:
        raise TooMany(
            "The channel has as many names of leases as it may have.",
            hint="Use a name again, or another channel.",
            max=limits.LEASES_PER_CHANNEL_MAX,
        )


async def leases_waiting(reading: Reading) -> bool:
    """Whether there are leases whose time is over without that being said."""
    return bool(await _over(reading, 1))


async def _over(reading: Reading, most: int) -> list[Row]:
    now_ms = reading.steady_ms
    return await reading.rows(
        "relay.ended_leases",
        team_id=reading.team_id,
        now_ms=now_ms,
        ahead_ms=now_ms + limits.LEASE_CLOCK_AHEAD_S * 1_000,
        most=most,
    )


async def end_leases(tx: Transaction) -> int:
    """Tells the holders of leases whose time is over, at most `EXPIRED_AT_ONCE_MAX` of them; returns how many."""
    rows = await _over(tx, limits.EXPIRED_AT_ONCE_MAX)
    for row in rows:
        channel = await any_channel(tx, row["channel_id"])
        kept, now_ms = kept_lease(row), tx.steady_ms
        if kept.holds(now_ms):
            await tell_lease(tx, channel, bounded(kept, now=tx.now, now_ms=now_ms), HUB)
        else:
            await _after_its_end(tx, channel, kept)
    return len(rows)


async def view_lease(reading: Reading, channel: Channel, name: str) -> Lease | None:
    """One lease as it stands now, or None if it was never taken."""
    kept = await load_lease(reading, channel.channel_id, checked_lease_name(name))
    return as_read(kept, reading.steady_ms) if kept is not None else None


async def list_leases(reading: Reading, channel: Channel, *, log_id: str, after: str, limit: int) -> Leases:
    """The leases of a channel by name, those that were let go as well."""
    rows = await reading.rows(
        "relay.leases",
        team_id=reading.team_id,
        channel_id=channel.channel_id,
        after=after[: limits.LEASE_NAME_CHARS_MAX].replace("\0", "\ufffd"),
        most=limit + 1,
    )
    return Leases(
        leases=tuple(as_read(kept_lease(row), reading.steady_ms) for row in rows[:limit]),
        next=rows[limit - 1]["name"] if len(rows) > limit else "",
        cursor=str(Cursor(log_id, reading.seq)),
    )
