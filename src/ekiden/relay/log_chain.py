"""The team's log as a hash chain: checkpoints that the hub signs now and then, and what they prove.

The chain is computed behind the writers, from the newest checkpoint on, so posting does not pay for it. Nothing
of it is stored but the checkpoints: whoever has the events can compute the rest. Events are only forgotten up to
a checkpoint, so what is kept always verifies from there.
"""

from dataclasses import dataclass, field

import msgspec

from ekiden.crypto import chain
from ekiden.crypto.chain import GENESIS, Checkpoint, Checkpoints
from ekiden.crypto.keys import KEY_BYTES, read, signed_by
from ekiden.kernel import limits
from ekiden.log.port import Event, Log, Reading, Transaction
from ekiden.log.redacting import REDACTED, Redacted
from ekiden.relay.status_rules import seconds_of
from ekiden.relay.team_key import known_team_key, team_key

_checkpoint = msgspec.json.Decoder(Checkpoint).decode
_redacted = msgspec.json.Decoder(Redacted).decode
_NEWEST = 1 << 62


async def newest_checkpoint(reading: Reading, before: int = _NEWEST) -> Checkpoint | None:
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
        "relay.checkpoints", team_id=reading.team_id, before=before or _NEWEST, most=limit + 1
    )
    shown = tuple(_checkpoint(row["checkpoint"]) for row in rows[:limit])
    key = await known_team_key(reading)
    return Checkpoints(
        shown,
        hub_key=key.public_key if key is not None else "",
        next=str(shown[-1].seq) if len(rows) > limit else "",
    )


# --- verifying ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Break:
    """Something between two checkpoints is not as it was signed. `why`: `changed` (the events do not lead to the
    signed value), `missing`, `signature`, `redacted` (an event lost its body and nothing tells of it)."""

    why: str
    first: int
    last: int


@dataclass(slots=True)
class LogCheck:
    """What a check of the log found: `checked_to` is the last event that a checkpoint covers."""

    events: int = 0
    checkpoints: int = 0
    first: int = 0
    checked_to: int = 0
    breaks: list[Break] = field(default_factory=list[Break])

    @property
    def good(self) -> bool:
        """Whether nothing is broken."""
        return not self.breaks


async def check_log(log: Log, team_id: str, hub_key: str = "") -> LogCheck:
    """Computes the chain over all events that are kept and compares it with every checkpoint. `hub_key`: the
    public key that is pinned; the one in the database, if empty.

    What was changed, taken out or put in between is found, up to the newest checkpoint, as long as the
    checkpoints (or the key that signs them) were not replaced as well: against that helps a checkpoint that
    somebody else keeps.
    """
    found = LogCheck()
    oldest, _ = await log.bounds(team_id)
    checkpoints, public = await _kept(log, team_id)
    public = hub_key or public
    found.first = oldest
    seq, value = oldest - 1, GENESIS
    known = {checkpoint.seq: checkpoint for checkpoint in checkpoints}
    if oldest > 1:
        begin = known.get(seq)
        if begin is None:
            # Nobody has signed where the events that are kept begin: they can only be checked from the next one
            # on.
            later = [one.seq for one in checkpoints if one.seq >= oldest]
            found.breaks.append(Break("missing", oldest, later[0] if later else oldest))
            if not later:
                return found
            begin = known[later[0]]
        seq, value = begin.seq, bytes.fromhex(begin.hash)
    redactions: dict[int, str] = {}
    told: dict[int, str] = {}
    last = seq
    for checkpoint in (one for one in checkpoints if one.seq > seq):
        found.checkpoints += 1
        if not signed_by(read(public, KEY_BYTES), checkpoint.signature, checkpoint.statement()):
            found.breaks.append(Break("signature", last + 1, checkpoint.seq))
        while seq < checkpoint.seq:
            page = tuple(await log.events(team_id, seq, limit=min(checkpoint.seq - seq, limits.CHAIN_PAGE_EVENTS)))
            if not page or page[0].seq != seq + 1 or page[-1].seq != seq + len(page):
                found.breaks.append(Break("missing", seq + 1, checkpoint.seq))
                seq = checkpoint.seq
                break
            _note_redactions(page, redactions, told)
            seq, value = page[-1].seq, linked(value, page)
            found.events += len(page)
        if value.hex() != checkpoint.hash and not (found.breaks and found.breaks[-1].last == checkpoint.seq):
            found.breaks.append(Break("changed", last + 1, checkpoint.seq))
        # What comes after is judged by itself: one break does not hide another.
        value, last = bytes.fromhex(checkpoint.hash), checkpoint.seq
        found.checked_to = checkpoint.seq
    _note_redactions(tuple(await log.events(team_id, seq, limit=limits.CHAIN_PAGE_EVENTS)), {}, told)
    for event, digest in redactions.items():
        if told.get(event) != digest:
            found.breaks.append(Break("redacted", event, event))
    return found


def _note_redactions(page: tuple[Event, ...], redactions: dict[int, str], told: dict[int, str]) -> None:
    for event in page:
        if event.kind == REDACTED:
            told.update(_redacted(event.body).events)
        elif chain.redacted(event.body) == event.body:
            redactions[event.seq] = chain.body_digest(event.body)


async def _kept(log: Log, team_id: str) -> tuple[list[Checkpoint], str]:
    """All checkpoints in order, and the hub's key as the database has it."""
    kept: list[Checkpoint] = []
    before = 0
    while True:
        page: Checkpoints = await log.ask(
            team_id,
            lambda reading, before=before: list_checkpoints(reading, before=before, limit=limits.PAGE_ROWS_MAX),
        )
        kept += page.checkpoints
        if not page.next:
            return kept[::-1], page.hub_key
        before = int(page.next)
