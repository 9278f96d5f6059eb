"""What a key wrote that is not trusted since a time: marked, and put back where it can be.

Messages stay and are marked as suspect. A status whose newest line the key wrote goes back to the last line that
was not in doubt. Leases that the key took end. What does not fit into one transaction is noted, and a chore goes
on.
"""

import msgspec

from ekiden.kernel import limits
from ekiden.log.port import Actor, Reading, Transaction
from ekiden.relay.keeping import HUB, decode_message, text_of
from ekiden.relay.lease_rules import ended
from ekiden.relay.leases import kept_lease, tell_lease
from ekiden.relay.reach import HUB_WRITER, any_channel
from ekiden.relay.status import tell_status
from ekiden.relay.status_rules import decide_revert, has_value, seconds_of
from ekiden.relay.wire_state import Lease, LeaseEnd, Status, Suspected, Tainted

TOPIC = "access"
_status = msgspec.json.Decoder(Status).decode
_replace = msgspec.structs.replace


async def taint(tx: Transaction, actor: Actor, key_id: str, since: str) -> Tainted:
    """Marks what `key_id` wrote at or after `since` (RFC 3339), puts statuses back, ends its leases, and says
    so."""
    done = await _taint_some(tx, actor, key_id, since)
    if done.left:
        await tx.run("relay.add_taint", team_id=tx.team_id, key_id=key_id, since=since)
    tx.append("key.tainted", done, topics=[TOPIC], actor=actor)
    return done


async def taints_waiting(reading: Reading) -> bool:
    """Whether there is something left to be marked."""
    return await reading.row("relay.next_taint", team_id=reading.team_id) is not None


async def taint_more(tx: Transaction) -> None:
    """Goes on with what was left."""
    row = await tx.row("relay.next_taint", team_id=tx.team_id)
    if row is None:
        return
    done = await _taint_some(tx, HUB, row["key_id"], row["since"])
    if not done.left:
        await tx.run("relay.drop_taint", team_id=tx.team_id, key_id=row["key_id"])
    tx.append("key.tainted", done, topics=[TOPIC], actor=HUB)


async def _taint_some(tx: Transaction, actor: Actor, key_id: str, since: str) -> Tainted:
    leases = await _end_leases(tx, actor, key_id)
    statuses = await _put_back(tx, key_id, since)
    messages = await _mark_messages(tx, actor, key_id, since)
    row = await tx.row("relay.count_tainted", team_id=tx.team_id, key_id=key_id, since=since)
    assert row is not None
    return Tainted(key_id, since, messages, row["messages"] + row["statuses"], statuses, leases)


async def _end_leases(tx: Transaction, actor: Actor, key_id: str) -> tuple[Lease, ...]:
    """Ends what the key holds, whenever it took it: it cannot renew it any more."""
    over: list[Lease] = []
    for row in await tx.rows("relay.leases_held_by", team_id=tx.team_id, key_id=key_id):
        kept = ended(kept_lease(row), LeaseEnd.REVOKED)
        await tell_lease(tx, await any_channel(tx, row["channel_id"]), kept, actor)
        over.append(kept.lease)
    return tuple(over)


async def _put_back(tx: Transaction, key_id: str, since: str) -> tuple[Status, ...]:
    rows = await tx.rows(
        "relay.tainted_statuses",
        team_id=tx.team_id,
        key_id=key_id,
        since=since,
        most=limits.TAINTED_AT_ONCE_MAX,
    )
    keys: dict[tuple[str, str], None] = {}
    for row in rows:
        line = _replace(_status(row["status"]), suspect=True)
        await tx.run(
            "relay.mark_status_change",
            team_id=tx.team_id,
            channel_id=line.channel_id,
            key=line.key,
            version=line.version,
            status=text_of(line),
        )
        keys[line.channel_id, line.key] = None
    back: list[Status] = []
    for channel_id, key in keys:
        line = await _revert(tx, channel_id, key)
        if line is not None:
            # Without its value: many of them must fit into one event, and each was told by itself.
            back.append(_replace(line, value=None, sealed=None, evidence=None))
    return tuple(back)


async def _revert(tx: Transaction, channel_id: str, key: str) -> Status | None:
    """Puts one key back, if its newest line is one in doubt."""
    newest: Status | None = None
    clean: Status | None = None
    before = 1 << 60
    while clean is None:
        rows = await tx.rows(
            "relay.status_history",
            team_id=tx.team_id,
            channel_id=channel_id,
            key=key,
            before=before,
            most=limits.TAINTED_AT_ONCE_MAX,
        )
        if not rows:
            break
        lines = [_status(row["status"]) for row in rows]
        newest = newest or lines[0]
        if not newest.suspect:
            return None
        clean = next((line for line in lines if not line.suspect), None)
        before = lines[-1].version
    assert newest is not None
    line = decide_revert(newest, clean, HUB_WRITER, tx.now)
    if line is None:
        return None
    expires_ms = 0
    if has_value(line) and line.expires_at:
        expires_ms = tx.steady_ms + int((seconds_of(line.expires_at) - seconds_of(tx.now)) * 1_000)
    # The hub puts it back, whoever asked for it.
    return await tell_status(tx, await any_channel(tx, channel_id), line, HUB, expires_ms=expires_ms)


async def _mark_messages(tx: Transaction, actor: Actor, key_id: str, since: str) -> int:
    rows = await tx.rows(
        "relay.tainted_messages",
        team_id=tx.team_id,
        key_id=key_id,
        since=since,
        most=limits.TAINTED_AT_ONCE_MAX,
    )
    marked: dict[str, list[str]] = {}
    for row in rows:
        message = _replace(decode_message(row["message"]), suspect=True)
        await tx.run(
            "relay.mark_message",
            team_id=tx.team_id,
            channel_id=message.channel_id,
            number=message.number,
            message=text_of(message),
        )
        marked.setdefault(message.channel_id, []).append(message.message_id)
    for channel_id, messages in marked.items():
        channel = await any_channel(tx, channel_id)
        told = Suspected(channel_id, tuple(messages))
        tx.append("message.suspected", told, topics=(channel.resource,), actor=actor)
    return len(rows)
