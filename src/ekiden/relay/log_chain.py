"""The team's log as a hash chain: checkpoints that the hub signs now and then, and what they prove.

The chain is computed behind the writers, from the newest checkpoint on, so posting does not pay for it. Nothing
of it is stored but the checkpoints: whoever has the events can compute the rest. Events are only forgotten up to
a checkpoint, so what is kept always verifies from there (`relay.log_check`).
"""

import msgspec

from ekiden.crypto import chain
from ekiden.crypto.chain import GENESIS, Checkpoint, Checkpoints
from ekiden.kernel import limits
from ekiden.log.port import Event, Log, Reading, Transaction
from ekiden.relay.status_rules import seconds_of
from ekiden.relay.team_key import known_team_key, team_key

_checkpoint = msgspec.json.Decoder(Checkpoint).decode
NEWEST = 1 << 62
"""Above every seq."""


async def newest_checkpoint(reading: Reading, before: int = NEWEST) -> Checkpoint | None:
    """The newest checkpoint with a seq below `before`, or None."""
    row = await reading.row("relay.checkpoints", team_id=reading.team_id, before=before, most=1)
    return _checkpoint(row["checkpoint"]) if row is not None else None


async def checkpoint_waits(reading: Reading) -> bool:
    """Whether enough has happened since the newest checkpoint, or anything at all for long enough."""
    newest = await newest_checkpoint(reading)
    if newest is None:
        return reading.seq > 0
    age_s = seconds_of(reading.now) - seconds_of(newest.at)
    return reading.seq - newest.seq >= limits.CHECKPOINT_EVENTS or (
        reading.seq > newest.seq and age_s >= limits.CHECKPOINT_S
    )


def linked(value: bytes, events: list[Event] | tuple[Event, ...]) -> bytes:
    """The chain's value after some more events."""
    for event in events:
        value = chain.link(value, leaf_of(event))
    return value


def leaf_of(event: Event) -> bytes:
    """The hash of one event."""
    return chain.leaf(
        seq=event.seq,
        kind=event.kind,
        topics=event.topics,
        at=event.at,
        actor=event.actor.principal_id,
        body=event.body,
    )


async def next_checkpoint(log: Log, team_id: str, upto: int | None = None) -> tuple[int, bytes] | None:
    """Where the chain stands (seq, value) after up to `CHECKPOINT_EVENTS` more events than the newest checkpoint
    says, and at most at the event `upto`; None if it stands where it stood.

    A log that begins in the middle (what was before it was forgotten before there were checkpoints) begins its
    chain there.
    """
    newest: Checkpoint | None = await log.ask(team_id, newest_checkpoint)
    if newest is not None:
        seq, value = newest.seq, bytes.fromhex(newest.hash)
    else:
        seq, value = (await log.bounds(team_id))[0] - 1, GENESIS
        if seq:
            return seq, value
    began, left = seq, limits.CHECKPOINT_EVENTS
    if upto is not None:
        left = min(left, upto - seq)
    while left > 0:
        events = tuple(await log.events(team_id, seq, limit=min(left, limits.CHAIN_PAGE_EVENTS)))
        if not events:
            break
        seq, value, left = events[-1].seq, linked(value, events), left - len(events)
    return (seq, value) if seq > began else None


async def drop_checkpoints(tx: Transaction, before: int) -> None:
    """Drops checkpoints below a seq: their events are forgotten."""
    await tx.run("relay.drop_checkpoints", team_id=tx.team_id, before=before)


async def add_checkpoint(tx: Transaction, seq: int, value: bytes) -> Checkpoint:
    """Signs where the chain stands, and keeps that."""
    key = await team_key(tx)
    made = chain.signed_checkpoint(key.seed, team=tx.team_id, seq=seq, value=value, at=tx.now)
    await tx.run(
        "relay.add_checkpoint",
        team_id=tx.team_id,
        seq=seq,
        checkpoint=msgspec.json.encode(made).decode(),
    )
    return made


async def list_checkpoints(reading: Reading, *, before: int, limit: int) -> Checkpoints:
    """Checkpoints with a seq below `before` (0: all), newest first."""
    rows = await reading.rows(
        "relay.checkpoints", team_id=reading.team_id, before=before or NEWEST, most=limit + 1
    )
    shown = tuple(_checkpoint(row["checkpoint"]) for row in rows[:limit])
    key = await known_team_key(reading)
    return Checkpoints(
        shown,
        hub_key=key.public_key if key is not None else "",
        next=str(shown[-1].seq) if len(rows) > limit else "",
    )
