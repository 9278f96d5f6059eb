"""What a channel does not keep: its oldest messages, taken away by its retention or by somebody, with a signed
note.

A purge goes from the oldest message on without leaving any out, a bounded number to a transaction. The text leaves
the messages, the events that told of them, what their commands were answered, and attachments that no other
message has. What stays is a note, signed by the hub: which numbers went, how many messages, and a digest over
what they said, so that whoever kept a copy can show that it is whole. Under a legal hold nothing is taken away.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from ekiden.crypto import keys, statements
from ekiden.kernel import limits
from ekiden.kernel.clock import iso
from ekiden.kernel.errors import Invalid
from ekiden.log.port import Actor, Reading, Row, Transaction
from ekiden.relay.keeping import HUB, channel_of, decode_message, rename_thread, text_of, thread_of
from ekiden.relay.rules import refuse_held
from ekiden.relay.status_rules import seconds_of
from ekiden.relay.team_key import team_key
from ekiden.relay.wire import Channel, ChannelState, Message, MessageState
from ekiden.relay.wire_state import Purge, Purged, Purges

_purged = msgspec.json.Decoder(Purged).decode
_NUMBER_MAX = 1 << 53


@dataclass(frozen=True, slots=True)
class Reaches:
    """How far a purge reaches: to below a number, and to before a time (RFC 3339); of the two, the nearer.
    Empty: as far as there are messages."""

    below: int = _NUMBER_MAX
    before: str = ""

    def takes(self, number: int, at: str) -> bool:
        """Whether a message is within reach."""
        return number < self.below and (not self.before or at < self.before)


def asked(purge: Purge) -> Reaches:
    """How far somebody wants to go.

    Raises:
        Invalid: if neither a number nor a time is said, or it is none.
    """
    if purge.before_number < 0 or not (purge.before_number or purge.before):
        raise Invalid("Say before which number, or before which time.", hint="before_number or before")
    return Reaches(purge.before_number or _NUMBER_MAX, _time(purge.before) if purge.before else "")


def _time(text: str) -> str:
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f"{text[:40]!r} is not a time.", hint="Like 2030-01-31T12:00:00Z.") from None
    if parsed.tzinfo is None:
        raise Invalid("The time needs a zone.", hint="Like 2030-01-31T12:00:00Z.")
    return iso(parsed.timestamp())


def kept_by(channel: Channel, now: str) -> Sequence[Reaches]:
    """What the channel's retention takes away: what is older than its age, and what is beyond its count; of a
    channel that was deleted, everything."""
    if channel.state is ChannelState.DELETED:
        return (Reaches(),)
    retention = channel.retention
    reaches: list[Reaches] = []
    if retention.age_s:
        reaches.append(Reaches(before=iso(max(0.0, seconds_of(now) - retention.age_s))))
    if retention.count:
        reaches.append(Reaches(below=channel.last_number - retention.count + 1))
    return reaches


async def purge_some(tx: Transaction, channel: Channel, reaches: Reaches, *, actor: Actor) -> Purged | None:
    """Takes away up to `PURGE_MESSAGES_AT_ONCE_MAX` of the oldest messages within reach, and says so. None if
    there are none.

    Raises:
        Conflict: if the channel is on hold.
    """
    refuse_held(channel)
    rows = await tx.rows(
        "relay.oldest_messages",
        team_id=tx.team_id,
        channel_id=channel.channel_id,
        most=limits.PURGE_MESSAGES_AT_ONCE_MAX,
    )
    going: list[Row] = []
    for row in rows:
        if not reaches.takes(row["number"], row["at"]):
            break
        going.append(row)
    if not going:
        return None
    messages = [decode_message(row["message"]) for row in going]
    last = going[-1]["number"]
    digest = statements.PurgeDigest()
    for message in messages:
        digest.add(
            number=message.number,
            message=message.message_id,
            statement_digest=message.countersign.statement if message.countersign is not None else "",
            content=_content(message),
        )
    where = {"team_id": tx.team_id, "channel_id": channel.channel_id, "last": last}
    await tx.run("relay.unuse_attachments_upto", **where)
    await tx.run("relay.drop_deliveries_upto", **where)
    await tx.run("relay.drop_messages_upto", **where)
    await _drop_threads(tx, channel, last)
    await tx.run("relay.set_first_number", **where)
    note = await _note(tx, channel, messages, last, digest.hex(), actor)
    await _redact(tx, channel, going)
    await tx.run(
        "relay.add_purge",
        team_id=tx.team_id,
        channel_id=channel.channel_id,
        last_number=last,
        upto_seq=_upto(going),
        purged=text_of(note),
    )
    tx.append("channel.purged", note, topics=(channel.resource,), actor=actor)
    return note


def _content(message: Message) -> str:
    if message.state is MessageState.DELETED:
        return ""
    return statements.message_content(
        text=message.text,
        sealed=message.sealed,
        answers=message.answers,
        asks=message.asks,
        mentions=message.named,
        title=message.title,
        attachments=message.attachments,
    )


async def _note(
    tx: Transaction, channel: Channel, messages: list[Message], last: int, digest: str, actor: Actor
) -> Purged:
    note = Purged(
        channel_id=channel.channel_id,
        first=messages[0].number,
        last=last,
        messages=len(messages),
        digest=digest,
        at=tx.now,
        by=actor.name,
    )
    said = statements.purge(
        team=tx.team_id,
        channel=note.channel_id,
        first=note.first,
        last=note.last,
        messages=note.messages,
        digest=note.digest,
        at=note.at,
        by=note.by,
    )
    signature = keys.sign((await team_key(tx)).seed, said)
    return msgspec.structs.replace(note, signature=signature)


async def _drop_threads(tx: Transaction, channel: Channel, last: int) -> None:
    """Threads that lie wholly in the range go with it; one that goes on loses the title that its first word
    gave."""
    where = {"team_id": tx.team_id, "channel_id": channel.channel_id, "last": last}
    for row in await tx.rows("relay.threads_begun_upto", **where):
        kept = thread_of(row)
        if kept.thread.last_number > last:
            await rename_thread(tx, channel, kept, "", HUB)
        elif kept.told:
            await tx.redact(*kept.told, answers=False)
    await tx.run("relay.drop_threads_upto", **where)


def _upto(going: list[Row]) -> int:
    return max(max(row["seq"], row["edit_seq"]) for row in going)


async def _redact(tx: Transaction, channel: Channel, going: list[Row]) -> None:
    """Takes what they said out of the log: the events that told of them, and the titles of threads among them."""
    before = await tx.row("relay.newest_purge", team_id=tx.team_id, channel_id=channel.channel_id)
    titles = await tx.rows(
        "relay.thread_events",
        team_id=tx.team_id,
        topic=channel.resource,
        after=before["upto_seq"] if before is not None else 0,
        upto=_upto(going),
    )
    seqs = {row["seq"] for row in going} | {row["edit_seq"] for row in going} | {row["seq"] for row in titles}
    ordered = sorted(seqs - {0})
    for start in range(0, len(ordered), limits.LOG_REDACTED_AT_ONCE_MAX):
        await tx.redact(*ordered[start : start + limits.LOG_REDACTED_AT_ONCE_MAX], answers=False)
    # What the commands were answered is found with one search for all of them, if they can be that young.
    if seconds_of(going[-1]["at"]) > seconds_of(tx.now) - limits.COMMAND_ANSWERS_KEPT_S:
        await tx.run(
            "relay.redact_answers",
            team_id=tx.team_id,
            first=ordered[0],
            last=ordered[-1] + limits.PURGE_ANSWER_EVENTS,
            pattern=f'%"channel_id":"{channel.channel_id}"%',
        )


async def count_left(reading: Reading, channel: Channel, reaches: Reaches) -> int:
    """How many messages are within reach."""
    row = await reading.row(
        "relay.count_messages_within",
        team_id=reading.team_id,
        channel_id=channel.channel_id,
        below=reaches.below,
        before=reaches.before,
    )
    return row["count"] if row is not None else 0


async def list_purges(reading: Reading, channel: Channel, *, log_id: str, after: str, limit: int) -> Purges:
    """The notes of what was taken away, by number."""
    del log_id
    if after and not (after.isascii() and after.isdigit() and len(after) < 18):
        raise Invalid("`after` is the `next` of the page before.")
    rows = await reading.rows(
        "relay.purges",
        team_id=reading.team_id,
        channel_id=channel.channel_id,
        after=int(after or 0),
        most=limit + 1,
    )
    notes = tuple(_purged(row["purged"]) for row in rows[:limit])
    return Purges(notes, next=str(notes[-1].last) if len(rows) > limit else "")


async def channels_over(reading: Reading) -> list[tuple[Channel, Reaches]]:
    """The channels that hold more than their retention says, and how far that reaches."""
    over: list[tuple[Channel, Reaches]] = []
    for row in await reading.rows("relay.channels_with_heads", team_id=reading.team_id):
        channel = channel_of(row).channel
        if channel.retention.held:
            continue
        for reaches in kept_by(channel, reading.now):
            oldest = await reading.rows(
                "relay.oldest_messages",
                team_id=reading.team_id,
                channel_id=channel.channel_id,
                most=1,
            )
            if oldest and reaches.takes(oldest[0]["number"], oldest[0]["at"]):
                over.append((channel, reaches))
    return over


async def retain_some(tx: Transaction, channel_id: str, reaches: Reaches) -> bool:
    """Takes away some of what a channel's retention does not keep; whether there was anything. A hold that came
    meanwhile holds."""
    row = await tx.row("relay.channel_by_id", team_id=tx.team_id, ref=channel_id)
    if row is None:
        return False
    channel = channel_of(row).channel
    if channel.retention.held or not kept_by(channel, tx.now):
        return False
    return await purge_some(tx, channel, reaches, actor=HUB) is not None
