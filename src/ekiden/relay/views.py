"""What the room shows: pages of channels, members, messages, threads, mentions; who lags; what a search finds.

Every page is found by an index and by number, so that nothing is passed over however much of another kind lies
between; every page is bounded in rows and in bytes, and says how to go on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from ekiden.kernel.cursors import Cursor, parse_cursor
from ekiden.kernel.errors import Invalid, NotFound
from ekiden.kernel.limits import (
    CHANNELS_PER_TEAM_MAX,
    PAGE_ROWS_MAX,
    RELAY_PAGE_MESSAGES_MAX,
    RELAY_SEARCH_MESSAGES_MAX,
    SEARCH_QUERY_CHARS_MAX,
    SEARCH_TERMS_MAX,
)
from ekiden.log.port import Reading, Row
from ekiden.relay import rules
from ekiden.relay.keeping import (
    Caller,
    KeptChannel,
    KeptDelivery,
    channel_for,
    channel_of,
    count_unread,
    decode_message,
    delivery_of,
    load_acked,
    load_channel,
    load_message,
    load_thread,
    shown_message,
    thread_of,
)
from ekiden.relay.wire import (
    Channel,
    Channels,
    Laggards,
    Member,
    Members,
    Mentions,
    Message,
    Messages,
    Receipt,
    RelaySearch,
    SearchHit,
    Thread,
    Threads,
    ThreadState,
    Waiting,
)

_replace = msgspec.structs.replace
_NUMBER_MAX = 2**53


# --- channels and members ----------------------------------------------------------------------------------


async def list_channels(reading: Reading, caller: Caller, *, after: str, limit: int) -> Channels:
    """The channels that the key may read, by name."""
    name, _, private = after.partition(" ")
    rows = await reading.rows(
        "relay.channels_after",
        team_id=reading.team_id,
        principal_id=caller.principal_id,
        name=name,
        private=int(private == "1") if after else -1,
        most=CHANNELS_PER_TEAM_MAX,
    )
    seen = [(row, channel) for row in rows if caller.sees(channel := channel_of(row).channel)]
    shown = [await _with_unread(reading, caller, row, channel) for row, channel in seen[:limit]]
    more = len(seen) > limit
    last = shown[-1] if shown else None
    return Channels(
        channels=tuple(shown),
        next=f"{last.name} {int(last.private)}" if more and last is not None else "",
        cursor=str(Cursor(caller.log_id, reading.seq)),
    )


async def _with_unread(reading: Reading, caller: Caller, row: Row, channel: Channel) -> Channel:
    if not row["follows"]:
        return channel
    return _replace(channel, unread=await count_unread(reading, channel, caller.principal_id, row["acked_to"]))


async def view_channel(reading: Reading, caller: Caller, ref: str) -> Channel:
    """One channel.

    Raises:
        NotFound: if there is none that the key may read.
    """
    kept = await channel_for(reading, caller, ref, "read")
    row = await reading.row(
        "relay.receipt",
        team_id=reading.team_id,
        channel_id=kept.channel_id,
        principal_id=caller.principal_id,
    )
    return kept.channel if row is None else await _with_unread(reading, caller, row, kept.channel)


async def list_members(reading: Reading, caller: Caller, ref: str, *, after: str, limit: int) -> Members:
    """The members of a channel, in the order of their ids."""
    kept = await channel_for(reading, caller, ref, "read")
    rows = await reading.rows(
        "relay.members_after",
        team_id=reading.team_id,
        channel_id=kept.channel_id,
        after=after,
        most=limit + 1,
    )
    members = tuple(
        Member(
            row["principal_id"],
            row["name"],
            row["kind"],
            row["role"],
            row["joined_at"],
            max(row["acked_to"] or 0, kept.channel.first_number - 1),
        )
        for row in rows[:limit]
    )
    return Members(
        members=members,
        next=members[-1].principal_id if len(rows) > limit else "",
        total=kept.channel.members,
    )


# --- messages ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """Which messages are asked for: a page, and what they must be."""

    after: str = ""
    before: str = ""
    limit: int = 50
    thread: str = ""
    sender: str = ""
    unread: bool = False
    mentions: bool = False


async def list_messages(reading: Reading, caller: Caller, ref: str, asked: Asked) -> Messages:
    """A page of a channel's messages, in the order of their numbers: the newest, or, of what is unread, the
    oldest.

    Raises:
        NotFound: no such channel, or thread in it.
        Invalid: for a cursor of something else, or filters that do not go together.
    """
    channel = (await channel_for(reading, caller, ref, "read")).channel
    after = rules.read_number(asked.after, caller.log_id, channel.channel_id)
    before = rules.read_number(asked.before, caller.log_id, channel.channel_id)
    if after is not None and before is not None:
        raise Invalid("A page lies either before or after something.", hint="Leave one of the two out.")
    if after is not None and after > channel.last_number:
        raise Invalid(f"There is no message {after} yet; the newest is {channel.last_number}.")
    if asked.sender and (asked.thread or asked.mentions or asked.unread):
        raise Invalid("`sender` stands alone: not with `thread`, `mentions` or `unread`.")
    if asked.thread and asked.mentions:
        raise Invalid("`thread` and `mentions` do not go together.")
    if asked.thread and await load_message(reading, channel.channel_id, asked.thread) is None:
        raise NotFound
    acked_to, unread = 0, None
    if asked.unread:
        acked, _ = await load_acked(reading, channel, caller.principal_id)
        acked_to = acked.to
        unread = await count_unread(reading, channel, caller.principal_id, acked_to)
    forwards = after is not None or (asked.unread and before is None)
    page = await _page(
        reading,
        caller,
        channel,
        asked,
        forwards=forwards,
        number=max(after or 0, acked_to) if forwards else before if before is not None else _NUMBER_MAX,
        above=acked_to,
    )
    missing = 0
    if forwards and not asked.unread:
        missing = max(0, channel.first_number - 1 - (after or 0))
    elif not forwards and not page.before:
        missing = max(0, channel.first_number - 1 - acked_to)
    return _replace(page, missing=missing, total_unread=unread, cursor=str(Cursor(caller.log_id, reading.seq)))


async def _page(
    reading: Reading,
    caller: Caller,
    channel: Channel,
    asked: Asked,
    *,
    forwards: bool,
    number: int,
    above: int,
) -> Messages:
    kind = "thread_" if asked.thread else "sender_" if asked.sender else "mentioning_" if asked.mentions else ""
    rows = await reading.rows(
        f"relay.{kind}messages_{'after' if forwards else 'before'}",
        team_id=reading.team_id,
        channel_id=channel.channel_id,
        thread_id=asked.thread,
        sender_id=caller.principal_id if asked.sender == "me" else asked.sender,
        principal_id=caller.principal_id,
        not_of=caller.principal_id if asked.unread else "",
        number=number,
        above=above,
        most=min(asked.limit, RELAY_PAGE_MESSAGES_MAX) + 1,
    )
    fit = min(rules.within_bytes([len(row["message"]) for row in rows]), min(asked.limit, RELAY_PAGE_MESSAGES_MAX))
    more = len(rows) > fit
    messages = [shown_message(row) for row in rows[:fit]]
    if not forwards:
        messages.reverse()
    spell = partial(rules.spell_number, log_id=caller.log_id, channel_id=channel.channel_id)
    if not messages:
        return Messages(())
    # Before the first of a page that begins somewhere, and after the last of one that ends somewhere, there may
    # be more.
    older = more if not forwards else bool(asked.after) and messages[0].number > channel.first_number
    newer = more if forwards else number <= channel.last_number
    return Messages(
        messages=tuple(messages),
        before=spell(messages[0].number) if older else "",
        after=spell(messages[-1].number) if newer else "",
    )


async def view_message(reading: Reading, caller: Caller, ref: str, message_id: str) -> Message:
    """One message.

    Raises:
        NotFound: no such message in a channel that the key may read.
    """
    kept = await channel_for(reading, caller, ref, "read")
    known = await load_message(reading, kept.channel_id, message_id)
    if known is None:
        raise NotFound
    return known.message


async def list_threads(
    reading: Reading, caller: Caller, ref: str, *, state: str, after: str, limit: int
) -> Threads:
    """The threads of a channel: those that something was said in last, first.

    Raises:
        NotFound: no such channel.
        Invalid: if there is no such state.
    """
    channel = (await channel_for(reading, caller, ref, "read")).channel
    if state and state not in set(ThreadState):
        raise Invalid(f"A thread is {' or '.join(ThreadState)}, not {state[:20]!r}.")
    before = rules.read_number(after, caller.log_id, channel.channel_id)
    rows = await reading.rows(
        "relay.threads_before",
        team_id=reading.team_id,
        channel_id=channel.channel_id,
        number=_NUMBER_MAX if before is None else before,
        state=state,
        most=limit + 1,
    )
    threads = [thread_of(row).shown(channel.budgets) for row in rows[:limit]]
    return Threads(
        threads=tuple(threads),
        next=rules.spell_number(threads[-1].last_number, caller.log_id, channel.channel_id)
        if len(rows) > limit
        else "",
    )


async def view_thread(reading: Reading, caller: Caller, ref: str, thread_id: str) -> Thread:
    """One thread.

    Raises:
        NotFound: no such thread in a channel that the key may read.
    """
    channel = (await channel_for(reading, caller, ref, "read")).channel
    known = await load_thread(reading, channel.channel_id, thread_id)
    if known is None:
        raise NotFound
    return known.shown(channel.budgets)


# --- receipts ----------------------------------------------------------------------------------------------


async def own_receipt(reading: Reading, caller: Caller, ref: str) -> Receipt:
    """What the caller has acked in a channel."""
    channel = (await channel_for(reading, caller, ref, "read")).channel
    acked, row = await load_acked(reading, channel, caller.principal_id)
    return Receipt(
        caller.principal_id, caller.actor.name, acked.to, acked.also, row["at"] if row is not None else ""
    )


async def laggards(
    reading: Reading, caller: Caller, ref: str, message_id: str, *, after: str, limit: int
) -> Laggards:
    """Who of the members has not acked a message: how many, and a page of them, the furthest behind first.

    Raises:
        NotFound: no such message in a channel that the key may read.
        Invalid: for a cursor of another form.
    """
    channel = (await channel_for(reading, caller, ref, "read")).channel
    known = await load_message(reading, channel.channel_id, message_id)
    if known is None:
        raise NotFound
    message = known.message
    place = {"team_id": reading.team_id, "channel_id": channel.channel_id, "number": message.number}
    counted = await reading.row("relay.count_lagging", **place)
    sender = await reading.row("relay.is_lagging", **place, principal_id=message.sender_id)
    assert counted is not None
    assert sender is not None
    lagging = counted["behind"] - counted["covered"] - sender["count"]
    acked_to, principal_id = _lag_place(after)
    rows = await reading.rows(
        "relay.lagging_after",
        **place,
        sender_id=message.sender_id,
        acked_to=acked_to,
        principal_id=principal_id,
        most=limit + 1,
    )
    page = rows[:limit]
    entries = await reading.rows(
        "relay.deliveries_of_message", team_id=reading.team_id, message_id=message_id, most=limit
    )
    return Laggards(
        message_id=message_id,
        number=message.number,
        members=channel.members,
        acked=channel.members - lagging,
        lagging=tuple(Receipt(row["principal_id"], row["name"], row["acked_to"], (), row["at"]) for row in page),
        next=f"{page[-1]['acked_to']} {page[-1]['principal_id']}" if len(rows) > limit else "",
        deliveries=tuple(delivery_of(row).delivery for row in entries),
    )


def _lag_place(after: str) -> tuple[int, str]:
    if not after:
        return -1, ""
    number, _, principal_id = after.partition(" ")
    if not (number.isascii() and number.isdigit() and len(number) <= 15):
        raise Invalid("The cursor is not one that this door gave out.", hint="Start again without a cursor.")
    return int(number), principal_id


# --- what waits --------------------------------------------------------------------------------------------


async def mentions(reading: Reading, caller: Caller, *, after: str, limit: int, newer_than: int = 0) -> Mentions:
    """What waits for the caller, the most important first, and what is unread in the channels that it follows.
    With `newer_than` only mentions that came after that place in the log.

    Raises:
        Invalid: for a cursor of another form.
    """
    seen: dict[str, KeptChannel | None] = {}

    async def readable(channel_id: str) -> KeptChannel | None:
        if channel_id not in seen:
            kept = await load_channel(reading, channel_id)
            seen[channel_id] = kept if kept is not None and caller.sees(kept.channel) else None
        return seen[channel_id]

    whose = {"team_id": reading.team_id, "principal_id": caller.principal_id, "newer_than": newer_than}
    rank, seq = _mention_place(after, caller.log_id)
    hits: list[SearchHit] = []
    entries: list[KeptDelivery] = []
    sizes: list[int] = []
    more = True
    while more and len(hits) < limit:
        rows = await reading.rows("relay.deliveries_waiting", **whose, rank=rank, seq=seq, most=limit)
        for row in rows:
            rank, seq = row["rank"], row["seq"]
            kept = await readable(row["channel_id"])
            if kept is not None and len(hits) < limit:
                hits.append(SearchHit(decode_message(row["message"]), kept.channel.name))
                entries.append(delivery_of(row))
                sizes.append(len(row["message"]))
        more = len(rows) == limit
    fit = rules.within_bytes(sizes)
    behind, next_page = 0, ""
    if fit:
        last = entries[fit - 1]
        rows = await reading.rows("relay.count_waiting", **whose, rank=last.rank, seq=last.seq)
        behind = sum([row["count"] for row in rows if await readable(row["channel_id"]) is not None])
        next_page = f"{caller.log_id}.{last.rank}.{last.seq}" if behind else ""
    return Mentions(
        mentions=tuple(hits[:fit]),
        deliveries=tuple(entry.delivery for entry in entries[:fit]),
        channels=await _waiting(reading, caller),
        more=behind,
        next=next_page,
        cursor=str(Cursor(caller.log_id, reading.seq)),
    )


def _mention_place(after: str, log_id: str) -> tuple[int, int]:
    if not after:
        return -1, 0
    parts = after.split(".")
    if len(parts) != 3 or parts[0] != log_id or not all(part.isascii() and part.isdigit() for part in parts[1:]):
        raise Invalid("The cursor is not one that this door gave out.", hint="Start again without a cursor.")
    return int(parts[1]), int(parts[2])


async def _waiting(reading: Reading, caller: Caller) -> tuple[Waiting, ...]:
    """What is unread in each channel that the caller follows and may read."""
    rows = await reading.rows("relay.channels_followed", team_id=reading.team_id, principal_id=caller.principal_id)
    waiting: list[Waiting] = []
    for row in rows:
        channel = channel_of(row).channel
        if not caller.sees(channel):
            continue
        unread = await count_unread(reading, channel, caller.principal_id, row["acked_to"])
        if not unread:
            continue
        oldest = await reading.row(
            "relay.oldest_unread",
            team_id=reading.team_id,
            channel_id=channel.channel_id,
            principal_id=caller.principal_id,
            above=max(row["acked_to"], channel.first_number - 1),
        )
        waiting.append(
            Waiting(
                channel=channel.name,
                channel_id=channel.channel_id,
                unread=unread,
                oldest=oldest["number"] if oldest is not None else channel.first_number,
                newest=channel.last_number,
                encrypted=channel.encrypted,
            )
        )
    return tuple(waiting)


async def something_waits(reading: Reading, caller: Caller, after_seq: int) -> bool:
    """Whether something waits that may wake the caller, and came after a place in the log."""
    rows = await reading.rows(
        "relay.wakes_after",
        team_id=reading.team_id,
        principal_id=caller.principal_id,
        after=after_seq,
        most=PAGE_ROWS_MAX,
    )
    for channel_id in dict.fromkeys(row["channel_id"] for row in rows):
        kept = await load_channel(reading, channel_id)
        if kept is not None and caller.sees(kept.channel):
            return True
    return False


# --- search ------------------------------------------------------------------------------------------------


async def search(
    reading: Reading, caller: Caller, *, text: str, channel: str, after: str, limit: int
) -> RelaySearch:
    """Messages that hold all the words of `text`, newest first, as far back as one request looks.

    Raises:
        NotFound: no such channel.
        Invalid: if there is nothing to look for, or too much.
    """
    terms = list(dict.fromkeys(text.casefold().split()))
    if not terms or len(text) > SEARCH_QUERY_CHARS_MAX or len(terms) > SEARCH_TERMS_MAX:
        raise Invalid(f"Search for 1 to {SEARCH_TERMS_MAX} words, {SEARCH_QUERY_CHARS_MAX} characters in all.")
    only = (await channel_for(reading, caller, channel, "read")).channel_id if channel else ""
    cursor = parse_cursor(after) if after else Cursor(caller.log_id, _NUMBER_MAX)
    if cursor.log_id != caller.log_id:
        raise Invalid("The cursor is of another log.", hint="Start again without a cursor.")
    known = {"team_id": reading.team_id, "before": cursor.seq}
    floor = await reading.row("relay.search_floor", **known, skip=RELAY_SEARCH_MESSAGES_MAX - 1)
    ends = floor is None
    floor = floor or await reading.row("relay.search_oldest", **known)
    if floor is None:
        return RelaySearch(())
    longest = max(terms, key=len).replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    rows = await reading.rows("relay.search_messages", **known, floor=floor["seq"], pattern=f"%{longest}%")
    return await _hits(reading, caller, rows, terms, only, limit, floor, ends=ends)


async def _hits(
    reading: Reading,
    caller: Caller,
    rows: Sequence[Row],
    terms: Sequence[str],
    only: str,
    limit: int,
    floor: Row,
    *,
    ends: bool,
) -> RelaySearch:
    channels: dict[str, KeptChannel | None] = {}
    hits: list[SearchHit] = []
    sizes: list[int] = []
    for row in rows:
        channel_id = row["channel_id"]
        if (only and channel_id != only) or not all(term in row["words"] for term in terms):
            continue
        if channel_id not in channels:
            kept = await load_channel(reading, channel_id)
            channels[channel_id] = kept if kept is not None and caller.sees(kept.channel) else None
        kept = channels[channel_id]
        if kept is None or row["number"] < kept.channel.first_number:
            continue
        found = await reading.row(
            "relay.message_at", team_id=reading.team_id, channel_id=channel_id, number=row["number"]
        )
        assert found is not None
        sizes.append(len(found["message"]))
        if rules.within_bytes(sizes) == len(sizes):
            hits.append(SearchHit(shown_message(found), kept.channel.name))
        if len(hits) == limit or rules.within_bytes(sizes) < len(sizes):
            at = row["seq"] if len(hits) == len(sizes) else row["seq"] + 1
            return RelaySearch(tuple(hits), str(Cursor(caller.log_id, at)), found["at"])
    return RelaySearch(tuple(hits), "" if ends else str(Cursor(caller.log_id, floor["seq"])), floor["at"])
