"""Whom a message calls, who of them is woken, and which way it goes to each.

A name that reaches nobody is said to be so; nobody is left out in silence.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import msgspec

from ekiden.kernel.clock import iso
from ekiden.kernel.limits import CHANNEL_MEMBERS_MAX, MENTIONS_PER_MESSAGE_MAX, WAKES_FORGOTTEN_S
from ekiden.log.port import Reading, Transaction
from ekiden.relay import loops, rules
from ekiden.relay.keeping import (
    HUB,
    Caller,
    KeptChannel,
    KeptDelivery,
    KeptThread,
    add_delivery,
    column,
    delivery_of,
    load_channel,
    load_message,
    tell_delivery,
)
from ekiden.relay.mentions import mentions_in
from ekiden.relay.port import Known, Notice, Waker
from ekiden.relay.wire import (
    Asks,
    Authority,
    Channel,
    Delivery,
    DeliveryState,
    Edit,
    Mention,
    Message,
    Post,
    Unplaced,
    Way,
)

_replace = msgspec.structs.replace
_ROLE, _ALL = "role:", "all"


# --- who is called -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Called:
    """Whom a message mentions, each once, and the names that reach nobody."""

    people: dict[str, tuple[Known, str]]
    """By principal id: who, and how it was called."""
    unplaced: list[Unplaced]

    @property
    def mentions(self) -> tuple[Mention, ...]:
        """As the message says it."""
        return tuple(Mention(who.principal_id, who.name, via) for who, via in self.people.values())


async def call(tx: Transaction, caller: Caller, channel: Channel, text: str, others: Sequence[str]) -> Called:
    """Finds out whom the names in a text, and those beside it, mean."""
    called = Called({}, [])
    names = dict.fromkeys((*mentions_in(text), *(name.removeprefix("@") for name in others)))
    if not names:
        return called
    may_call = caller.allowed("mention", channel.resource)
    for name in names:
        if name.casefold() == _ALL:
            found, via = await _everybody(tx, caller, channel, called), _ALL
        elif not may_call:
            called.unplaced.append(Unplaced(name, "may_not_mention"))
            continue
        else:
            found, via = await _named(tx, caller, channel, name, called)
        for who in found:
            if len(called.people) >= MENTIONS_PER_MESSAGE_MAX and who.principal_id not in called.people:
                called.unplaced.append(Unplaced(name, "too_many"))
                break
            called.people.setdefault(who.principal_id, (who, via))
    return called


async def _everybody(tx: Transaction, caller: Caller, channel: Channel, called: Called) -> Sequence[Known]:
    if not caller.allowed("mention:all", channel.resource):
        called.unplaced.append(Unplaced(_ALL, "may_not_mention"))
        return ()
    if channel.members > MENTIONS_PER_MESSAGE_MAX:
        called.unplaced.append(Unplaced(_ALL, "too_many"))
        return ()
    rows = await tx.rows(
        "relay.members_after",
        team_id=tx.team_id,
        channel_id=channel.channel_id,
        after="",
        most=CHANNEL_MEMBERS_MAX,
    )
    members = (Known(row["principal_id"], row["name"], row["kind"]) for row in rows)
    return [who for who in members if who.principal_id != caller.principal_id]


async def _named(
    tx: Transaction, caller: Caller, channel: Channel, name: str, called: Called
) -> tuple[Sequence[Known], str]:
    """Whom a name means: somebody of that name, or else the members with that role."""
    role = name.removeprefix(_ROLE)
    if role == name:
        found = await caller.ports.people.named(tx, name, tx.now)
        if len(found) == 1:
            return found, "name"
        if found:
            called.unplaced.append(Unplaced(name, "ambiguous"))
            return (), ""
    rows = await tx.rows(
        "relay.members_of_role",
        team_id=tx.team_id,
        channel_id=channel.channel_id,
        role=column(role.casefold()),
        most=MENTIONS_PER_MESSAGE_MAX + 1,
    )
    members = [Known(row["principal_id"], row["name"], row["kind"]) for row in rows]
    others = [who for who in members if who.principal_id != caller.principal_id]
    if not members or not role:
        called.unplaced.append(Unplaced(name, "unknown"))
    return others, f"{_ROLE}{role.casefold()}"


# --- who is woken ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Judged:
    """Why each that is called is not woken ("" if it is), in the order of `Called.people`. `changed`: the account
    is another one now; `spoken_seq` is of the last word of a person where this is said."""

    why: tuple[str, ...]
    woken: tuple[str, ...]
    hops: int
    account: loops.Account
    spoken_seq: int
    changed: bool


async def judge(
    tx: Transaction,
    caller: Caller,
    kept: KeptChannel,
    thread: KeptThread | None,
    body: Post | Edit,
    sender: Known,
    called: Called,
) -> Judged:
    """Who of those that are called is woken: not oneself, not who may not read here, and not without end. `kept`
    is the channel as `keeping.channel_to_post` gives it."""
    at = _seconds(tx.now)
    account = kept.account if thread is None else thread.account
    spoken_seq = kept.spoken_seq if thread is None else account.spoken_seq
    hops = 0 if sender.is_person else loops.hops_of(kept.woken, spoken_seq=spoken_seq, at=at)
    why: dict[str, str] = {}
    for who, _ in called.people.values():
        if who.principal_id == caller.principal_id:
            why[who.principal_id] = "self"
        elif not await caller.ports.people.may(tx, who.principal_id, "read", kept.resource, tx.now):
            why[who.principal_id] = "may_not_read"
        else:
            why[who.principal_id] = ""
    reached = [(who.principal_id, who.is_person) for who, _ in called.people.values() if not why[who.principal_id]]
    if not reached and not (sender.is_person and thread is not None):
        return Judged(tuple(why.values()), (), hops, account, spoken_seq, changed=False)
    brings = isinstance(body, Post) and bool(body.attachments or body.answers or body.asks is not Asks.NOTHING)
    words = None if body.sealed is not None else loops.words_of(body.text)
    said = loops.Said(caller.principal_id, sender.is_person, hops, words, brings, at)
    judged = loops.judge(account, kept.channel.budgets, said, reached, in_thread=thread is not None)
    why.update(zip((who for who, _ in reached), judged.why, strict=True))
    woken = tuple(who for who, reason in why.items() if not reason)
    return Judged(tuple(why.values()), woken, hops, judged.account, spoken_seq, changed=True)


async def _note_woken(tx: Transaction, principal_id: str, message: Message, judged: Judged, seq: int) -> None:
    """How far an agent that is woken by a message is from the last word of a person."""
    at = _seconds(tx.now)
    await tx.put(
        "relay.put_woken",
        team_id=tx.team_id,
        principal_id=principal_id,
        hops=judged.hops + 1,
        seq=seq,
        at_s=at,
        anew=int(message.authority is Authority.PERSON),
        spoken_seq=judged.spoken_seq,
        forgotten_s=at - WAKES_FORGOTTEN_S,
    )


def _seconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp())


async def deliver(
    tx: Transaction,
    caller: Caller,
    channel: Channel,
    message: Message,
    called: Called,
    judged: Judged,
    expires_s: int,
    seq: int,
) -> tuple[Delivery, ...]:
    """Brings a message on its way to each that it mentions, and says which way that is. Where nobody may be woken
    it waits all the same; only oneself, and who may not read here, get nothing."""
    expires_at = _later(tx.now, expires_s) if expires_s else ""
    deliveries: list[Delivery] = []
    for (who, _), reason in zip(called.people.values(), judged.why, strict=True):
        delivery = Delivery(
            message_id=message.message_id,
            principal_id=who.principal_id,
            name=who.name,
            state=DeliveryState.STORED,
            why=reason,
            asks=message.asks,
            at=tx.now,
            expires_at=expires_at,
            channel=channel.name,
            number=message.number,
        )
        if reason not in ("self", "may_not_read"):
            if not reason:
                delivery = _replace(delivery, way=await _reach(tx, caller, channel, message, who))
                if not who.is_person:
                    await _note_woken(tx, who.principal_id, message, judged, seq)
            waits = rules.waits_in(delivery.state, message.asks, quietly=bool(reason))
            rank = rules.rank_of(message.asks)
            await add_delivery(tx, KeptDelivery(delivery, channel.channel_id, message.sender_id, waits, rank, seq))
            tell_delivery(tx, delivery, message.sender_id, caller.actor)
        deliveries.append(delivery)
    return tuple(deliveries)


async def _reach(tx: Transaction, caller: Caller, channel: Channel, message: Message, who: Known) -> Way:
    return await way_to(tx, caller.ports.wakers, who, _notice(channel, message, who.principal_id))


def _notice(channel: Channel, message: Message, principal_id: str) -> Notice:
    return Notice(
        principal_id=principal_id,
        channel=channel.name,
        channel_id=channel.channel_id,
        message_id=message.message_id,
        number=message.number,
        sender=message.sender,
        sender_id=message.sender_id,
        authority=message.authority,
        text=message.text,
        thread_id=message.thread_id,
        asks=message.asks,
        encrypted=channel.encrypted,
    )


async def not_handed_over(reading: Reading, delivery: Delivery) -> bool:
    """Whether a mention that was to be handed over to one who waits is still to be."""
    return await _to_hand_over(reading, delivery.principal_id, delivery.message_id) is not None


async def _to_hand_over(reading: Reading, principal_id: str, message_id: str) -> KeptDelivery | None:
    row = await reading.row(
        "relay.delivery", team_id=reading.team_id, principal_id=principal_id, message_id=message_id
    )
    if row is None:
        return None
    kept = delivery_of(row)
    waits = (DeliveryState.STORED, Way.WAITING, "", rules.WAITS)
    return kept if (kept.delivery.state, kept.delivery.way, kept.delivery.why, kept.waits) == waits else None


async def reach_again(tx: Transaction, principal_id: str, kind: str, message_id: str, waker: Waker) -> None:
    """Brings a mention that was to be handed over to one who waits, and was not, another way."""
    kept = await _to_hand_over(tx, principal_id, message_id)
    if kept is None:
        return
    channel = await load_channel(tx, kept.channel_id)
    known = await load_message(tx, kept.channel_id, message_id)
    if channel is None or known is None:
        return
    way = await waker.reach(tx, principal_id, kind, _notice(channel.channel, known.message, principal_id))
    if way is not None:
        moved = _replace(kept.delivery, way=way)
        await add_delivery(tx, replace(kept, delivery=moved))
        tell_delivery(tx, moved, kept.sender_id, HUB)


async def way_to(tx: Transaction, wakers: Sequence[Waker], who: Known, notice: Notice) -> Way:
    """The first way in which somebody can be reached; at the latest its inbox, or its next call."""
    for waker in wakers:
        way = await waker.reach(tx, who.principal_id, who.kind, notice)
        if way is not None:
            return way
    return Way.INBOX if who.is_person else Way.NEXT_CALL


def _later(time: str, by_s: int) -> str:
    return iso((datetime.fromisoformat(time).astimezone(UTC) + timedelta(seconds=by_s)).timestamp())
