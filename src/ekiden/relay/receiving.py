"""What becomes of what was said: acked, declined, offered, surfaced, expired. None of it wakes anybody, but that
the sender of what nobody answered in time is told so.
"""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from ekiden.kernel.errors import Forbidden, NotFound
from ekiden.kernel.limits import (
    DELIVERIES_EXPIRED_AT_ONCE_MAX,
    DELIVERIES_TOLD_PER_ACK_MAX,
    MENTIONS_PER_MESSAGE_MAX,
)
from ekiden.log.port import Actor, Reading, Transaction
from ekiden.relay import rules
from ekiden.relay.calling import way_to
from ekiden.relay.channels import caller_known
from ekiden.relay.keeping import (
    HUB,
    Caller,
    KeptChannel,
    KeptDelivery,
    add_delivery,
    add_follower,
    channel_for,
    delivery_of,
    load_acked,
    load_channel,
    load_message,
    move_delivery,
    tell_delivery,
)
from ekiden.relay.port import Notice, Ports
from ekiden.relay.rules import Acked, acked_with
from ekiden.relay.wire import Ack, Authority, Channel, Delivery, DeliveryState, Receipt, Way

_replace = msgspec.structs.replace


async def ack(tx: Transaction, caller: Caller, ref: str, body: Ack) -> Receipt:
    """Notes what the caller took note of. What was acked before stays so.

    Raises:
        NotFound: no such channel, or one of the messages is not in it; nothing was changed.
        Forbidden: if the key may not ack here.
        Invalid: see `rules.check_ack`.
        Conflict: if too many exceptions would have to be kept.
    """
    kept = await channel_for(tx, caller, ref, "ack")
    if not caller.sees(kept.channel):
        raise Forbidden("Who may not read a channel has nothing to ack in it.", verb="read")
    channel = kept.channel
    rules.check_ack(body, channel.last_number)
    named: list[int] = []
    for message_id in dict.fromkeys(body.messages):
        known = await load_message(tx, channel.channel_id, message_id)
        if known is None:
            raise NotFound("There is no such message here.", hint="Nothing was acked.", message_id=message_id)
        named.append(known.message.number)
    before, row = await load_acked(tx, channel, caller.principal_id)
    after = await _joined(tx, caller, channel, before, body.upto, named)
    rules.refuse_scattered(after)
    if row is None:
        await add_follower(tx, kept, await caller_known(tx, caller), "", caller.actor)
    receipt = Receipt(caller.principal_id, caller.actor.name, after.to, after.also, tx.now)
    if after != before or row is None:
        await _put(tx, channel, caller.principal_id, before, after)
        tx.append("receipt.changed", receipt, topics=(channel.resource,), actor=caller.actor)
    await _settle(tx, caller, kept, body)
    return receipt


async def _joined(
    tx: Transaction, caller: Caller, channel: Channel, before: Acked, upto: int, named: Sequence[int]
) -> Acked:
    """What is acked from now on. One's own messages need no ack, so a gap that holds only those is none."""
    ranges = [(number, number) for number in named]
    if upto:
        ranges.append((1, upto))
    after = acked_with(before, ranges)
    touched = {*named, upto}
    for low, high in after.gaps():
        if low - 1 not in touched and high + 1 not in touched and (low, high) in before.gaps():
            continue
        row = await tx.row(
            "relay.own_between",
            team_id=tx.team_id,
            channel_id=channel.channel_id,
            principal_id=caller.principal_id,
            low=low,
            high=high,
        )
        if row is not None and row["count"] == high - low + 1:
            ranges.append((low, high))
    return acked_with(after, ranges)


async def _put(tx: Transaction, channel: Channel, principal_id: str, before: Acked, after: Acked) -> None:
    known = {"team_id": tx.team_id, "channel_id": channel.channel_id, "principal_id": principal_id}
    await tx.put("relay.put_receipt", **known, acked_to=after.to, at=tx.now, follows=1)
    for low, _ in set(before.also) - set(after.also):
        await tx.put("relay.drop_range", **known, low=low)
    for low, high in set(after.also) - set(before.also):
        await tx.put("relay.put_range", **known, low=low, high=high)


async def _settle(tx: Transaction, caller: Caller, kept: KeptChannel, body: Ack) -> None:
    """The mentions among what was acked are acked, or declined. The newest are told one by one; of the rest, if
    there are more, the receipt tells."""
    known = {"team_id": tx.team_id, "principal_id": caller.principal_id}
    to = DeliveryState.DECLINED if body.declined else DeliveryState.ACKED
    entries: list[KeptDelivery] = []
    for message_id in dict.fromkeys(body.messages):
        row = await tx.row("relay.delivery", **known, message_id=message_id)
        if row is not None:
            entries.append(delivery_of(row))
    if body.upto:
        upto = {**known, "channel_id": kept.channel_id, "number": body.upto}
        rows = await tx.rows("relay.deliveries_upto", **upto, most=DELIVERIES_TOLD_PER_ACK_MAX)
        entries += map(delivery_of, rows)
    for entry in entries:
        if to not in rules.DELIVERY_MOVES[entry.delivery.state]:
            continue
        moved = await move_delivery(tx, entry, to, reason=body.reason)
        if moved.principal_id != entry.sender_id:
            tell_delivery(tx, moved, entry.sender_id, caller.actor)
            if body.declined:
                await _tell_sender(tx, entry, moved, caller.actor, caller.ports, wakes=False)
    if body.upto:
        await tx.put("relay.ack_deliveries_upto", **known, channel_id=kept.channel_id, number=body.upto, at=tx.now)


async def offer(tx: Transaction, principal_id: str, message_ids: Sequence[str], *, again: bool) -> list[Delivery]:
    """Notes that mentions were in an answer. `again` counts those too that were in one before."""
    offered: list[Delivery] = []
    for message_id in message_ids:
        row = await tx.row("relay.delivery", team_id=tx.team_id, principal_id=principal_id, message_id=message_id)
        if row is None:
            continue
        kept = delivery_of(row)
        state = kept.delivery.state
        if state is DeliveryState.STORED:
            if kept.delivery.way is Way.SESSION:
                # It was offered there; that it surfaced may never have been noted, if the hub died meanwhile.
                kept = replace(kept, delivery=_replace(kept.delivery, attempt=1))
            moved = await move_delivery(tx, kept, DeliveryState.OFFERED)
            if moved.principal_id != kept.sender_id:
                tell_delivery(tx, moved, kept.sender_id, HUB)
        elif again and kept.waits:
            moved = await move_delivery(tx, kept, state, again=True)
        else:
            moved = kept.delivery
        offered.append(moved)
    return offered


async def surface(tx: Transaction, principal_id: str, message_ids: Sequence[str]) -> None:
    """Notes that mentions were seen to reach the model, or the person's eyes."""
    for message_id in dict.fromkeys(message_ids):
        row = await tx.row("relay.delivery", team_id=tx.team_id, principal_id=principal_id, message_id=message_id)
        if row is None:
            continue
        kept = delivery_of(row)
        if DeliveryState.SURFACED in rules.DELIVERY_MOVES[kept.delivery.state] and kept.waits:
            moved = await move_delivery(tx, kept, DeliveryState.SURFACED)
            if moved.principal_id != kept.sender_id:
                tell_delivery(tx, moved, kept.sender_id, HUB)


async def something_expires(reading: Reading, now: str) -> bool:
    """Whether `expire` has anything to do."""
    row = await reading.row("relay.deliveries_expired", team_id=reading.team_id, now=now, most=1)
    return row is not None


async def expire(tx: Transaction, ports: Ports) -> None:
    """Ends what was not answered in time, some at once, and tells the senders."""
    rows = await tx.rows(
        "relay.deliveries_expired", team_id=tx.team_id, now=tx.now, most=DELIVERIES_EXPIRED_AT_ONCE_MAX
    )
    for kept in map(delivery_of, rows):
        moved = await move_delivery(tx, kept, DeliveryState.EXPIRED)
        tell_delivery(tx, moved, kept.sender_id, HUB)
        await _tell_sender(tx, kept, moved, HUB, ports, wakes=True)


async def _tell_sender(
    tx: Transaction, kept: KeptDelivery, ended: Delivery, actor: Actor, ports: Ports, *, wakes: bool
) -> None:
    """Puts into the sender's inbox who will not answer: one notice for a message, with all who ended so."""
    channel = await load_channel(tx, kept.channel_id)
    known = await load_message(tx, kept.channel_id, ended.message_id)
    sender = await ports.people.known(tx, kept.sender_id)
    if channel is None or known is None or sender is None:
        return
    rows = await tx.rows(
        "relay.deliveries_of_message",
        team_id=tx.team_id,
        message_id=ended.message_id,
        most=MENTIONS_PER_MESSAGE_MAX,
    )
    same = [delivery_of(row).delivery for row in rows]
    notice = Delivery(
        message_id=ended.message_id,
        principal_id=sender.principal_id,
        name=sender.name,
        state=DeliveryState.STORED,
        why=ended.state.value,
        at=tx.now,
        reason=", ".join(sorted(delivery.name for delivery in same if delivery.state is ended.state)),
        channel=channel.channel.name,
        number=ended.number,
    )
    if wakes:
        told = Notice(
            principal_id=sender.principal_id,
            channel=channel.channel.name,
            channel_id=kept.channel_id,
            message_id=ended.message_id,
            number=ended.number,
            sender=HUB.name,
            sender_id=HUB.principal_id,
            authority=Authority.SYSTEM,
            thread_id=known.message.thread_id,
            encrypted=channel.channel.encrypted,
            why=ended.state.value,
        )
        notice = _replace(notice, way=await way_to(tx, ports.wakers, sender, told))
    waits = rules.WAITS if wakes else rules.WAITS_QUIETLY
    seq = tell_delivery(tx, notice, sender.principal_id, actor)
    await add_delivery(tx, KeptDelivery(notice, kept.channel_id, sender.principal_id, waits, 1, seq))
