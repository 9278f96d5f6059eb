"""Whether the log is still what the hub has signed: the hash chain (`relay.log_chain`), computed anew over all
events that are kept, and held against every checkpoint.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from ekiden.crypto import chain
from ekiden.crypto.chain import GENESIS, Checkpoint
from ekiden.crypto.keys import KEY_BYTES, read, signed_by
from ekiden.kernel import limits
from ekiden.log.moment import Moment
from ekiden.log.port import Event, Log, Question, Reading, Row
from ekiden.log.redacting import REDACTED, Redacted
from ekiden.relay.log_chain import NEWEST, leaf_of
from ekiden.relay.team_key import known_team_key

_checkpoint = msgspec.json.Decoder(Checkpoint).decode
_redacted = msgspec.json.Decoder(Redacted).decode


class Why(StrEnum):
    """What is wrong with some events."""

    CHANGED = "changed"
    """They do not lead to what the hub has signed."""
    MISSING = "missing"
    SIGNATURE = "signature"
    """The checkpoint after the last of them is not one that the hub has signed."""
    REDACTED = "redacted"
    """What was said is gone, and nothing tells of it."""


@dataclass(frozen=True, slots=True)
class Break:
    """The events from `first` to `last` are not as the hub has signed them."""

    why: Why
    first: int
    last: int


@dataclass(slots=True)
class LogCheck:
    """What a check of the log found: `first` is the oldest event that is kept, `head` the newest, `checked_to` the
    last one that a checkpoint covers (0 if there is none); `hub_key` is what signatures were checked with."""

    first: int
    head: int
    hub_key: str = ""
    events: int = 0
    checkpoints: int = 0
    checked_to: int = 0
    breaks: list[Break] = field(default_factory=list[Break])

    @property
    def good(self) -> bool:
        """Whether nothing is broken."""
        return not self.breaks


Progress = Callable[[LogCheck], None]
"""Hears after each page how far a check is."""


async def check_log(
    log: Log | Moment, team_id: str, hub_key: str = "", *, progress: Progress | None = None
) -> LogCheck:
    """Computes the chain over all events that are kept and compares it with every checkpoint. `hub_key`: the
    public key that is pinned; the one in the database, if empty. Of a log that is written meanwhile, hand in one
    moment.

    What was changed, taken out or put in between is found, up to the newest checkpoint, as long as the
    checkpoints (or the key that signs them) were not replaced as well: against that helps a checkpoint that
    somebody else keeps. A hub that was killed while it forgot old events looks cut until it has run again.

    Raises:
        Invalid: if `hub_key` is none.
    """
    walk = _Walk(LogCheck(*await log.bounds(team_id), hub_key), log, team_id, progress)
    checkpoints = await walk.signed_checkpoints()
    found = walk.found
    before = [checkpoint for checkpoint in checkpoints if checkpoint.seq < found.first]
    later = [checkpoint for checkpoint in checkpoints if checkpoint.seq >= found.first]
    begin = before[-1] if before else None
    if found.first > 1 and (begin is None or begin.seq != found.first - 1):
        found.breaks.append(Break(Why.MISSING, begin.seq + 1 if begin is not None else 1, found.first - 1))
        # Nobody has signed where the events that are kept begin: they can only be checked from the next one on.
        begin = later.pop(0) if later else None
        walk.seq = begin.seq if begin is not None else found.head
    elif len(before) > 1:
        # Checkpoints go with their events; here events went without them.
        found.breaks.append(Break(Why.MISSING, before[0].seq + 1, found.first - 1))
    if begin is not None:
        walk.value = bytes.fromhex(begin.hash)
    for checkpoint in later:
        found.checkpoints += 1
        await walk.to_checkpoint(checkpoint)
    await walk.to_head()
    return found


class _Walk:
    """A check on its way along the log: it stands after the event `seq`, where the chain has `value`."""

    def __init__(self, found: LogCheck, log: Log | Moment, team_id: str, progress: Progress | None) -> None:
        self.found = found
        self.seq = found.first - 1
        self.value = GENESIS
        self._log = log
        self._team_id = team_id
        self._progress = progress
        self._gone: dict[int, str] = {}
        """Digests of what events said that they say no more."""
        self._told: dict[int, str] = {}
        """The same, as events tell of it."""

    async def signed_checkpoints(self) -> list[Checkpoint]:
        """All checkpoints that the hub has signed, in order. Others are noted."""
        signed: list[Checkpoint] = []
        key = await self._log.ask(self._team_id, known_team_key)
        if not self.found.hub_key and key is not None:
            self.found.hub_key = key.public_key
        public = read(self.found.hub_key, KEY_BYTES) if self.found.hub_key else b""
        before = NEWEST
        while True:
            rows = await self._log.ask(self._team_id, _checkpoint_rows(before))
            for row in rows:
                checkpoint = self._signed(row, public)
                if checkpoint is not None:
                    signed.append(checkpoint)
                else:
                    self.found.breaks.append(Break(Why.SIGNATURE, row["seq"], row["seq"]))
            if len(rows) < limits.PAGE_ROWS_MAX:
                return signed[::-1]
            before = rows[-1]["seq"]

    def _signed(self, row: Row, public: bytes) -> Checkpoint | None:
        try:
            checkpoint = _checkpoint(row["checkpoint"])
        except msgspec.DecodeError:
            return None
        good = (
            public
            and (checkpoint.team, checkpoint.seq) == (self._team_id, row["seq"])
            and signed_by(public, checkpoint.signature, checkpoint.statement())
        )
        return checkpoint if good else None

    async def to_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Goes on to a checkpoint, and compares. What comes after it is judged by itself: one break does not hide
        another."""
        first = self.seq + 1
        whole = await self._go(checkpoint.seq)
        if whole and self.value.hex() != checkpoint.hash:
            self.found.breaks.append(Break(Why.CHANGED, first, checkpoint.seq))
        self.value = bytes.fromhex(checkpoint.hash)
        self.found.checked_to = checkpoint.seq

    async def to_head(self) -> None:
        """Goes on to the end, which no checkpoint covers yet, but which may tell of what is gone before it."""
        await self._go(self.found.head)
        for seq, digest in self._gone.items():
            if self._told.get(seq) != digest:
                self.found.breaks.append(Break(Why.REDACTED, seq, seq))

    async def _go(self, upto: int) -> bool:
        """Reads on to an event. False if some are missing."""
        whole = True
        while self.seq < upto:
            page = await self._log.events(
                self._team_id, self.seq, limit=min(upto - self.seq, limits.CHAIN_PAGE_EVENTS)
            )
            for event in page:
                if event.seq > upto:
                    break
                whole = self._none_missing(event.seq - 1) and whole
                self._take(event)
            if not page or page[-1].seq > upto:
                whole = self._none_missing(upto) and whole
            if self._progress is not None:
                self._progress(self.found)
        return whole

    def _none_missing(self, upto: int) -> bool:
        if self.seq >= upto:
            return True
        self.found.breaks.append(Break(Why.MISSING, self.seq + 1, upto))
        self.seq = upto
        return False

    def _take(self, event: Event) -> None:
        self.seq, self.value = event.seq, chain.link(self.value, leaf_of(event))
        self.found.events += 1
        if event.kind == REDACTED:
            # One that cannot be read was changed, and tells of nothing.
            with contextlib.suppress(msgspec.DecodeError):
                self._told.update(_redacted(event.body).events)
        elif chain.redacted(event.body) == event.body:
            self._gone[event.seq] = chain.body_digest(event.body)


def _checkpoint_rows(before: int) -> Question:
    async def question(reading: Reading) -> list[Row]:
        return await reading.rows(
            "relay.checkpoints", team_id=reading.team_id, before=before, most=limits.PAGE_ROWS_MAX
        )

    return question
