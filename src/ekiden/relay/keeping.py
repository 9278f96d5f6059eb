"""The room's rows: loaded, changed, kept, and told in events. What changes here is told in the same
transaction."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from ekiden.kernel.canonical import whole_text
from ekiden.kernel.errors import Forbidden, Hidden, NotFound
from ekiden.kernel.ids import Prefix
from ekiden.kernel.limits import THREAD_EVENTS_KNOWN_MAX
from ekiden.log.port import Actor, Reading, Row, Transaction
from ekiden.relay.loops import NO_WAKES, Account, Woken, wakes_left
from ekiden.relay.port import Known, Ports
from ekiden.relay.rules import Acked, waits_in
from ekiden.relay.wire import (
    Budgets,
    Channel,
    ChannelState,
    Delivery,
    DeliveryState,
    Member,
    Message,
    Thread,
    ThreadState,
)

CHANNELS = "channels"
"""The topic of all that happens to channels as such."""

_encode = msgspec.json.Encoder().encode
_channel = lru_cache(maxsize=1_024)(msgspec.json.Decoder(Channel).decode)
_delivery = msgspec.json.Decoder(Delivery).decode
_thread = msgspec.json.Decoder(Thread).decode
_account = msgspec.json.Decoder(Account).decode
decode_message = msgspec.json.Decoder(Message).decode
_replace = msgspec.structs.replace

HUB = Actor(principal_id="hub", name="hub")
"""Who acts when the hub itself notices something."""


def inbox_topic(principal_id: str) -> str:
    """The topic of what waits for one principal."""
    return f"inbox:{principal_id}"


def column(text: str) -> str:
    """`text` as every engine can keep and compare it: without U+0000 and broken surrogate halves."""
    return whole_text(text).replace("\0", "\ufffd")


def text_of(value: object) -> str:
    """`value` as JSON text for a column."""
    return _encode(value).decode()


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, what its key may do, and what the room was given from outside."""

    actor: Actor
    may: Callable[[str, str], bool]
    ports: Ports
    log_id: str

    @property
    def principal_id(self) -> str:
        """Who acts."""
        return self.actor.principal_id

    def allowed(self, verb: str, resource: str) -> bool:
        """Whether the key allows `verb`; who administers a channel may do all in it."""
        return self.may(verb, resource) or self.may("admin", resource)

    def sees(self, channel: Channel) -> bool:
        """Whether the key may know of a channel."""
        return self.allowed("read", channel.resource)


# --- channels ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class KeptChannel:
    """A channel as its tables hold it. `spoken_seq` is of the last word of a person outside threads. The rest
    is there for a post only: whether the sender follows it (None: it never did), how it was woken, the account of
    wakes, and the
    digest of what was sent under the same id before."""

    channel: Channel
    spoken_seq: int
    follows: bool | None = None
    account: Account = NO_WAKES
    woken: Woken | None = None
    digest: str | None = None

    @property
    def channel_id(self) -> str:
        """The channel's id."""
        return self.channel.channel_id

    @property
    def resource(self) -> str:
        """What permission maps and topics call it."""
        return self.channel.resource


def channel_of(row: Row) -> KeptChannel:
    """A row of one of the queries of channels."""
    stored = _channel(row["channel"])
    channel = _replace(
        stored,
        state=ChannelState(row["state"]),
        first_number=row["first_number"],
        last_number=row["last_number"],
        members=row["members"],
    )
    return KeptChannel(channel, row["spoken_seq"])


def _to_post(row: Row) -> KeptChannel:
    kept = channel_of(row)
    kept.follows = None if row["follows"] is None else bool(row["follows"])
    if row["wakes"] is not None and row["wakes_since"] == kept.spoken_seq:
        kept.account = _account(row["wakes"])
    if row["woken_seq"] is not None:
        kept.woken = Woken(row["woken_hops"], row["woken_seq"], row["woken_at_s"])
    kept.digest = row["digest"]
    return kept


def _chosen(found: list[KeptChannel], caller: Caller, verb: str) -> KeptChannel:
    """The one of these that the key may do `verb` in."""
    there = [kept for kept in found if kept.channel.state is not ChannelState.DELETED]
    for kept in there:
        if caller.allowed(verb, kept.resource):
            return kept
    for kept in there:
        if caller.allowed("read", kept.resource):
            raise Forbidden("This key may not do that.", verb=verb)
    raise Hidden if there else NotFound


def _query_for(ref: str) -> str:
    return "relay.channel_by_id" if ref.startswith(f"{Prefix.CHANNEL}_") else "relay.channel_by_name"


async def channel_for(reading: Reading, caller: Caller, ref: str, verb: str) -> KeptChannel:
    """The channel of a name or id, in which the key may do `verb`.

    Raises:
        NotFound: if there is none, or none that the key may know of.
        Forbidden: if the key may read it, but not do that.
    """
    rows = await reading.rows(_query_for(ref), team_id=reading.team_id, ref=ref)
    return _chosen([channel_of(row) for row in rows], caller, verb)


async def channel_to_post(reading: Reading, caller: Caller, ref: str, message_id: str) -> KeptChannel:
    """The same for a post, with all that it needs to know; raises what `channel_for` raises."""
    rows = await reading.rows(
        f"{_query_for(ref)}_to_post",
        team_id=reading.team_id,
        ref=ref,
        principal_id=caller.principal_id,
        message_id=message_id,
    )
    return _chosen([_to_post(row) for row in rows], caller, "post")


async def load_channel(reading: Reading, channel_id: str) -> KeptChannel | None:
    """The channel of an id, whoever asks; None if there is none or it was deleted."""
    row = await reading.row("relay.channel_by_id", team_id=reading.team_id, ref=channel_id)
    kept = channel_of(row) if row is not None else None
    return None if kept is None or kept.channel.state is ChannelState.DELETED else kept


def stored_form(channel: Channel) -> str:
    """A channel as its column holds it: without what is counted."""
    return text_of(_replace(channel, first_number=1, last_number=0, members=0, unread=None))


async def put_channel(tx: Transaction, channel: Channel) -> None:
    """Keeps a channel that has changed; telling it is the caller's."""
    await tx.put(
        "relay.put_channel",
        team_id=tx.team_id,
        channel_id=channel.channel_id,
        state=channel.state.value,
        channel=stored_form(channel),
    )


async def tell_channel(tx: Transaction, channel: Channel, kind: str, actor: Actor) -> None:
    """Keeps a channel that has changed and says so. `kind` is `changed` or `deleted`."""
    await put_channel(tx, channel)
    tx.append(f"channel.{kind}", _replace(channel, unread=None), topics=(channel.resource, CHANNELS), actor=actor)


class MemberTold(msgspec.Struct, frozen=True):
    """The body of `member.…` events."""

    channel_id: str
    member: Member


async def add_follower(tx: Transaction, kept: KeptChannel, known: Known, role: str, actor: Actor) -> Member:
    """Makes somebody a member and says so. What it acked when it was one before stays acked."""
    member = Member(known.principal_id, known.name, known.kind, role, joined_at=tx.now)
    await put_member(tx, kept, member)
    await tx.put(
        "relay.follow", team_id=tx.team_id, channel_id=kept.channel_id, principal_id=known.principal_id, follows=1
    )
    await tx.put("relay.count_member", team_id=tx.team_id, channel_id=kept.channel_id, more=1)
    kept.channel = _replace(kept.channel, members=kept.channel.members + 1)
    kept.follows = True
    tell_member(tx, kept, member, "joined", actor)
    return member


async def put_member(tx: Transaction, kept: KeptChannel, member: Member) -> None:
    """Keeps a member's row."""
    await tx.put(
        "relay.put_member",
        team_id=tx.team_id,
        channel_id=kept.channel_id,
        principal_id=member.principal_id,
        name=column(member.name),
        kind=member.kind,
        role=member.role,
        joined_at=member.joined_at,
    )


def tell_member(tx: Transaction, kept: KeptChannel, member: Member, kind: str, actor: Actor) -> None:
    """Says that somebody `joined`, `changed` or `left`."""
    tx.append(
        f"member.{kind}",
        MemberTold(kept.channel_id, member),
        topics=(kept.resource, inbox_topic(member.principal_id)),
        actor=actor,
    )


# --- messages and threads ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeptMessage:
    """A message as its row holds it. `seq` is of the event that told of it, `edit_seq` of its last edit (0:
    none)."""

    message: Message
    seq: int
    edit_seq: int
    digest: str


def shown_message(row: Row) -> Message:
    """A row with `message` and `replies` as clients see it."""
    message = decode_message(row["message"])
    return _replace(message, replies=row["replies"]) if row["replies"] else message


async def load_message(reading: Reading, channel_id: str, message_id: str) -> KeptMessage | None:
    """A message of a channel, or None."""
    row = await reading.row("relay.message", team_id=reading.team_id, channel_id=channel_id, message_id=message_id)
    if row is None:
        return None
    return KeptMessage(shown_message(row), row["seq"], row["edit_seq"], row["digest"])


@dataclass(slots=True)
class KeptThread:
    """A thread as its row holds it. `named`: somebody gave it its title, else that is of its first message; then
    `told` has the seqs of the events that said it, so that they can be taken back with the message."""

    thread: Thread
    root_number: int
    account: Account
    named: bool = False
    told: tuple[int, ...] = ()
    fresh: bool = False

    def shown(self, budgets: Budgets) -> Thread:
        """As clients see it."""
        return _replace(self.thread, wakes_left=wakes_left(self.account, budgets), stopped=self.account.stopped)


def thread_of(row: Row) -> KeptThread:
    """A row of one of the queries of threads."""
    stored = _thread(row["thread"])
    thread = _replace(
        stored,
        state=ThreadState(row["state"]),
        replies=row["replies"],
        last_number=row["last_number"],
        last_at=row["last_at"],
    )
    account = _account(row["wakes"]) if row["wakes"] else NO_WAKES
    told = tuple(int(seq) for seq in row["told"].split())
    return KeptThread(thread, row["root_number"], account, bool(row["named"]), told)


async def load_thread(reading: Reading, channel_id: str, thread_id: str) -> KeptThread | None:
    """A thread of a channel, or None."""
    row = await reading.row("relay.thread", team_id=reading.team_id, channel_id=channel_id, thread_id=thread_id)
    return thread_of(row) if row is not None else None


async def put_thread(tx: Transaction, kept: KeptThread) -> None:
    """Keeps a thread as it is now."""
    thread = kept.thread
    await tx.put(
        "relay.put_thread",
        team_id=tx.team_id,
        channel_id=thread.channel_id,
        thread_id=thread.thread_id,
        root_number=kept.root_number,
        state=thread.state.value,
        replies=thread.replies,
        last_number=thread.last_number,
        last_at=thread.last_at,
        thread=text_of(_replace(thread, replies=0, last_number=0, last_at="")),
        named=int(kept.named),
        told=" ".join(map(str, kept.told)),
        wakes=text_of(kept.account),
    )


async def tell_thread(tx: Transaction, channel: Channel, kept: KeptThread, actor: Actor) -> Thread:
    """Keeps a thread as it is now and says so."""
    shown = kept.shown(channel.budgets)
    seq = tx.append("thread.changed", shown, topics=(channel.resource,), actor=actor)
    if not kept.named:
        kept.told = (*kept.told, seq)
        if len(kept.told) > THREAD_EVENTS_KNOWN_MAX:
            # What is no longer known of could not be taken back later, so it is taken back now.
            await tx.redact(kept.told[0])
            kept.told = kept.told[1:]
    await put_thread(tx, kept)
    return shown


async def rename_thread(tx: Transaction, channel: Channel, kept: KeptThread, title: str, actor: Actor) -> None:
    """Gives a thread the title that its first message has by now; the one before leaves the log."""
    if kept.named or kept.thread.title == title:
        return
    if kept.told:
        await tx.redact(*kept.told)
    kept.told = ()
    kept.thread = _replace(kept.thread, title=title)
    await tell_thread(tx, channel, kept, actor)


async def put_wakes(tx: Transaction, channel_id: str, since: int, account: Account) -> None:
    """Keeps the account of who woke whom outside threads."""
    await tx.put("relay.put_wakes", team_id=tx.team_id, channel_id=channel_id, since=since, wakes=text_of(account))


# --- mentions on their way ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeptDelivery:
    """A mention on its way, as its row holds it."""

    delivery: Delivery
    channel_id: str
    sender_id: str
    waits: int
    rank: int
    seq: int


def delivery_of(row: Row) -> KeptDelivery:
    """A row of one of the queries of deliveries."""
    delivery = _replace(
        _delivery(row["delivery"]),
        state=DeliveryState(row["state"]),
        at=row["at"],
        attempt=row["attempt"],
        reason=row["reason"],
        expires_at=row["expires_at"],
        number=row["number"],
    )
    return KeptDelivery(delivery, row["channel_id"], row["sender_id"], row["waits"], row["rank"], row["seq"])


async def add_delivery(tx: Transaction, kept: KeptDelivery) -> None:
    """Keeps a new one, or a notice in the place of an older one."""
    delivery = kept.delivery
    await tx.put(
        "relay.add_delivery",
        team_id=tx.team_id,
        principal_id=delivery.principal_id,
        message_id=delivery.message_id,
        channel_id=kept.channel_id,
        number=delivery.number,
        sender_id=kept.sender_id,
        waits=kept.waits,
        rank=kept.rank,
        seq=kept.seq,
        state=delivery.state.value,
        at=delivery.at,
        reason=column(delivery.reason),
        expires_at=delivery.expires_at,
        delivery=text_of(_replace(delivery, state=DeliveryState.STORED, at="", attempt=0, reason="", number=0)),
    )


async def move_delivery(
    tx: Transaction, kept: KeptDelivery, to: DeliveryState, *, reason: str = "", again: bool = False
) -> Delivery:
    """Brings a mention to another state, or notes that it was offered again; telling it is the caller's."""
    before = kept.delivery
    quietly = bool(before.why) or before.state is DeliveryState.ACKED
    moved = _replace(
        before,
        state=to,
        at=before.at if again else tx.now,
        attempt=before.attempt + (to is DeliveryState.OFFERED or again),
        reason=reason or before.reason,
    )
    await tx.put(
        "relay.move_delivery",
        team_id=tx.team_id,
        principal_id=moved.principal_id,
        message_id=moved.message_id,
        waits=waits_in(to, moved.asks, quietly=quietly and moved.why != "expired"),
        state=to.value,
        at=moved.at,
        attempt=moved.attempt,
        reason=column(moved.reason),
    )
    return moved


def tell_delivery(tx: Transaction, delivery: Delivery, sender_id: str, actor: Actor) -> int:
    """Says to both sides how far a mention is."""
    return tx.append(
        "delivery.changed",
        delivery,
        topics=(inbox_topic(delivery.principal_id), inbox_topic(sender_id)),
        actor=actor,
    )


# --- receipts ----------------------------------------------------------------------------------------------


async def load_acked(reading: Reading, channel: Channel, principal_id: str) -> tuple[Acked, Row | None]:
    """What a principal has acked in a channel, what is purged being acked; and its row, if it has one."""
    known = {"team_id": reading.team_id, "channel_id": channel.channel_id, "principal_id": principal_id}
    row = await reading.row("relay.receipt", **known)
    ranges = await reading.rows("relay.receipt_ranges", **known)
    to = max(row["acked_to"] if row is not None else 0, channel.first_number - 1)
    return Acked(to, tuple((entry["low"], entry["high"]) for entry in ranges)), row


async def count_unread(reading: Reading, channel: Channel, principal_id: str, acked_to: int) -> int:
    """How many messages a principal has neither sent nor acked: by arithmetic, however many there are."""
    above = max(acked_to, channel.first_number - 1)
    if channel.last_number <= above:
        return 0
    row = await reading.row(
        "relay.acked_and_own",
        team_id=reading.team_id,
        channel_id=channel.channel_id,
        principal_id=principal_id,
        above=above,
    )
    assert row is not None
    return channel.last_number - above - row["acked"] - row["own"]
