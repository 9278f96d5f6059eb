"""Status: what people, agents and the hub do to the keys of a channel, and what can be asked of them.

Whatever changes is a line in the key's history and an event, in one transaction.
"""

from collections.abc import Sequence

import msgspec

from ekiden.kernel import limits
from ekiden.kernel.clock import iso
from ekiden.kernel.cursors import Cursor, parse_cursor
from ekiden.kernel.errors import Invalid, NotFound, TooMany
from ekiden.log.port import Actor, Reading, Row, Transaction
from ekiden.relay.epochs import refuse_stale
from ekiden.relay.keeping import HUB, text_of
from ekiden.relay.notary import check_clear, check_status, countersign_status
from ekiden.relay.reach import HUB_WRITER, any_channel, writer_of
from ekiden.relay.status_rules import (
    KeptStatus,
    check_value,
    checked_key,
    checked_patterns,
    decide_clear,
    decide_expiry,
    decide_set,
    has_value,
    needs_of,
    refuse_bare,
    seconds_of,
)
from ekiden.relay.status_schemas import check_schema, refuse_misshapen
from ekiden.relay.wire import Channel
from ekiden.relay.wire_state import (
    ClearStatus,
    SetStatus,
    Status,
    Statuses,
    StatusKind,
    StatusRules,
)

_status = msgspec.json.Decoder(Status).decode
_rules = msgspec.json.Decoder(StatusRules).decode


def _kept(row: Row | None) -> KeptStatus | None:
    return KeptStatus(_status(row["status"]), row["expires_ms"]) if row is not None else None


async def load_status(reading: Reading, channel_id: str, key: str) -> KeptStatus | None:
    """The newest line of a key, or None if it never had one."""
    return _kept(await reading.row("relay.status", team_id=reading.team_id, channel_id=channel_id, key=key))


async def tell_status(
    tx: Transaction,
    channel: Channel,
    line: Status,
    actor: Actor,
    *,
    expires_ms: int = 0,
    statement: str = "",
) -> Status:
    """Keeps a new line with the hub's word for where it stands, adds it to the history and says so. `statement` is
    the digest of what the writer has signed."""
    mark = await countersign_status(tx, line, statement, tx.seq + 1)
    line = msgspec.structs.replace(line, countersign=mark)
    seq = tx.append("status.changed", line, topics=(channel.resource,), actor=actor)
    assert seq == mark.seq
    status = text_of(line)
    await tx.run(
        "relay.put_status",
        team_id=tx.team_id,
        channel_id=line.channel_id,
        key=line.key,
        version=line.version,
        present=int(line.kind is not StatusKind.CLEARED),
        expires_ms=expires_ms if has_value(line) else 0,
        status=status,
    )
    await tx.run(
        "relay.add_status_change",
        team_id=tx.team_id,
        channel_id=line.channel_id,
        key=line.key,
        version=line.version,
        seq=seq,
        by_key=actor.key_id,
        at=line.at,
        status=status,
    )
    return line


async def _after_its_end(tx: Transaction, channel: Channel, kept: KeptStatus | None) -> KeptStatus | None:
    """The newest line, after saying that its time is over if that was not said yet."""
    if kept is None or not kept.is_over(tx.steady_ms):
        return kept
    return KeptStatus(await tell_status(tx, channel, decide_expiry(kept.status, HUB_WRITER, tx.now), HUB))


async def set_status(
    tx: Transaction, channel: Channel, key: str, body: SetStatus, rules: StatusRules, *, actor: Actor
) -> Status:
    """Gives a key a value. `rules` are those that the value was held to already; if others stand by now, it is
    held to them here.

    Raises:
        VersionMoved, Invalid, TooLarge, RuleBroken: see `status_rules`.
        SignatureRefused: see `notary.check_status`.
        StaleEpoch: if the value was sealed in an epoch that is over.
        TooMany: at `STATUS_KEYS_PER_CHANNEL_MAX`.
    """
    checked_key(key)
    check_value(channel, body)
    by_now = await load_rules(tx, channel.channel_id)
    if by_now != rules:
        refuse_unfit(by_now, key, body)
    if body.sealed is not None:
        refuse_stale(channel, body.sealed.epoch)
    statement = await check_status(tx, channel, key, body, actor)
    seen = await load_status(tx, channel.channel_id, key)
    if seen is None:
        await _refuse_more_keys(tx, channel)
    kept = await _after_its_end(tx, channel, seen)
    if seen is not None and kept is not None and kept != seen and body.if_version == seen.status.version:
        # The caller saw that it had expired; that this is said only now does not make it another version.
        body = msgspec.structs.replace(body, if_version=kept.status.version)
    line = decide_set(
        kept.status if kept is not None else None,
        channel,
        key,
        body,
        await writer_of(tx, actor),
        at=tx.now,
        expires_at=iso(seconds_of(tx.now) + body.expires_s) if body.expires_s else "",
    )
    expires_ms = tx.steady_ms + body.expires_s * 1_000 if body.expires_s else 0
    return await tell_status(tx, channel, line, actor, expires_ms=expires_ms, statement=statement)


async def clear_status(tx: Transaction, channel: Channel, key: str, body: ClearStatus, *, actor: Actor) -> Status:
    """Takes a key's value away; a key without one stays as it is.

    Raises:
        NotFound: if the key never had a value.
        VersionMoved: see `status_rules`.
    """
    kept = await load_status(tx, channel.channel_id, checked_key(key))
    if kept is None:
        raise NotFound
    statement = await check_clear(tx, channel, key, body, actor)
    kept = await _after_its_end(tx, channel, kept)
    assert kept is not None
    line = decide_clear(kept.status, channel, key, body, await writer_of(tx, actor), tx.now)
    if line is None:
        return kept.status
    return await tell_status(tx, channel, line, actor, statement=statement)


async def _refuse_more_keys(tx: Transaction, channel: Channel) -> None:
    counted = await tx.row("relay.count_statuses", team_id=tx.team_id, channel_id=channel.channel_id)
    if counted is not None and counted["count"] >= limits.STATUS_KEYS_PER_CHANNEL_MAX:
        raise TooMany(
            "The channel has as many status keys as it may have.",
            hint="Use a key again, or another channel.",
            max=limits.STATUS_KEYS_PER_CHANNEL_MAX,
        )


async def statuses_waiting(reading: Reading) -> bool:
    """Whether there are values whose time is over without that being said."""
    return bool(await _over(reading, 1))


async def _over(reading: Reading, most: int) -> list[Row]:
    return await reading.rows(
        "relay.expired_statuses", team_id=reading.team_id, now_ms=reading.steady_ms, most=most
    )


async def expire_statuses(tx: Transaction) -> int:
    """Says of values whose time is over that it is, at most `EXPIRED_AT_ONCE_MAX` of them; returns how many."""
    rows = await _over(tx, limits.EXPIRED_AT_ONCE_MAX)
    for row in rows:
        channel = await any_channel(tx, row["channel_id"])
        kept = _kept(row)
        assert kept is not None
        await _after_its_end(tx, channel, kept)
    return len(rows)


# --- rules -------------------------------------------------------------------------------------------------


async def load_rules(reading: Reading, channel_id: str) -> StatusRules:
    """What values of a channel need."""
    row = await reading.row("relay.status_rules", team_id=reading.team_id, channel_id=channel_id)
    return _rules(row["rules"]) if row is not None else StatusRules(())


async def put_rules(tx: Transaction, channel: Channel, rules: StatusRules, *, actor: Actor) -> StatusRules:
    """Sets what values of a channel need from now on; values that are there stay.

    Raises:
        Invalid: see `status_rules.checked_patterns` and `status_schemas.check_schema`.
    """
    check_rules(rules, channel)
    await tx.run("relay.put_status_rules", team_id=tx.team_id, channel_id=channel.channel_id, rules=text_of(rules))
    body = {"channel_id": channel.channel_id, "rules": rules.rules}
    tx.append("status.rules_changed", body, topics=(channel.resource,), actor=actor)
    return rules


def check_rules(rules: StatusRules, channel: Channel) -> None:
    """Raises:
    Invalid: for rules that cannot be held to.
    """
    checked_patterns(rules.rules, encrypted=channel.encrypted)
    for rule in rules.rules:
        if rule.schema is not None:
            check_schema(rule.schema)


def refuse_unfit(rules: StatusRules, key: str, body: SetStatus) -> None:
    """Raises:
    RuleBroken: if the value is not what the rules ask for.
    """
    needs = needs_of(rules, key)
    refuse_bare(needs, key, body.evidence)
    for rule in needs:
        if rule.schema is not None and body.sealed is None:
            refuse_misshapen(rule.schema, rule.pattern, key, body.value)


# --- reading -----------------------------------------------------------------------------------------------


async def view_status(reading: Reading, channel: Channel, key: str) -> Status:
    """The newest line of a key.

    Raises:
        NotFound: if it never had one.
    """
    kept = await load_status(reading, channel.channel_id, checked_key(key))
    if kept is None:
        raise NotFound
    return kept.as_read(reading.steady_ms)


async def list_statuses(
    reading: Reading, channel: Channel, *, log_id: str, prefix: str, after: str, limit: int
) -> Statuses:
    """The newest line of each key that was not cleared, by key."""
    rows = await reading.rows(
        "relay.statuses",
        team_id=reading.team_id,
        channel_id=channel.channel_id,
        prefix=_plain(prefix),
        after=_plain(after),
        most=limit + 1,
    )
    page = cut_page(rows, limit)
    shown = tuple(KeptStatus(_status(row["status"]), row["expires_ms"]) for row in page)
    return Statuses(
        statuses=tuple(kept.as_read(reading.steady_ms) for kept in shown),
        next=shown[-1].status.key if len(page) < len(rows) else "",
        cursor=str(Cursor(log_id, reading.seq)),
    )


async def status_history(
    reading: Reading, channel: Channel, key: str, *, log_id: str, after: str, limit: int
) -> Statuses:
    """The lines of one key, newest first. `after` is the version that the page before ended with."""
    if after and not (after.isascii() and after.isdigit() and len(after) < 18):
        raise Invalid("`after` is the `next` of the page before.")
    checked_key(key)
    rows = await reading.rows(
        "relay.status_history",
        team_id=reading.team_id,
        channel_id=channel.channel_id,
        key=key,
        before=int(after) if after else 1 << 60,
        most=limit + 1,
    )
    if not rows and not after:
        raise NotFound
    page = cut_page(rows, limit)
    return Statuses(
        statuses=tuple(_status(row["status"]) for row in page),
        next=str(page[-1]["version"]) if len(page) < len(rows) else "",
        cursor=str(Cursor(log_id, reading.seq)),
    )


async def status_changes(reading: Reading, channel: Channel, *, log_id: str, after: str, limit: int) -> Statuses:
    """The lines of all keys in the order in which they were written. `after` is `next` of the page before, or the
    `cursor` of any answer."""
    start = 0
    if after:
        cursor = parse_cursor(after)
        if cursor.log_id != log_id:
            raise Invalid("This is a place in another log.", hint="Start again without `after`.")
        start = cursor.seq
    rows = await reading.rows(
        "relay.status_changes",
        team_id=reading.team_id,
        channel_id=channel.channel_id,
        after=start,
        most=limit + 1,
    )
    page = cut_page(rows, limit)
    return Statuses(
        statuses=tuple(_status(row["status"]) for row in page),
        next=str(Cursor(log_id, page[-1]["seq"])) if len(page) < len(rows) else "",
        cursor=str(Cursor(log_id, reading.seq)),
    )


def cut_page(rows: Sequence[Row], limit: int) -> list[Row]:
    """The first of the rows: at most `limit`, and about `STATUS_PAGE_BYTES_MAX` of what they hold; one at
    least."""
    size = 0
    for count, row in enumerate(rows[:limit]):
        size += len(row["status"])
        if size > limits.STATUS_PAGE_BYTES_MAX and count:
            return list(rows[:count])
    return list(rows[:limit])


def _plain(text: str) -> str:
    """A part of a key out of a query; what no key holds finds nothing."""
    return text[: limits.STATUS_KEY_CHARS_MAX].replace("\0", "\ufffd")
