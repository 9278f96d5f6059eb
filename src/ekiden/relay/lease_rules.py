"""Decisions about leases: who holds one, until when, and who is refused. Pure.

A lease has one holder at a time, and a fence that grows with each new one and is never given twice: whoever
guards a thing remembers the highest fence it has seen, and refuses a lower one. Time is the log's steady clock
alone, so a clock that steps neither takes a lease away nor makes it last for ever. Two programs with one key are
two: who holds a lease is said by its fence, not by the key.
"""

import re
from dataclasses import dataclass, replace

import msgspec

from ekiden.kernel import limits
from ekiden.kernel.clock import iso
from ekiden.kernel.errors import Conflict, Invalid
from ekiden.relay.status_rules import seconds_of
from ekiden.relay.wire_state import Lease, LeaseEnd, ReleaseLease, TakeLease

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]*\Z")
_MS_PER_S = 1_000


class LeaseHeld(Conflict):
    """Somebody has the lease. `details`: name, holder, holder_id, expires_at; `fence` too where it is the caller's
    own, so that who lost the answer can still renew."""

    code = "lease_held"


class LeaseGone(Conflict):
    """The fence is not that of the lease now. `details`: name, held, holder, holder_id, expires_at, ended."""

    code = "lease_lost"


@dataclass(frozen=True, slots=True)
class KeptLease:
    """A lease as its table holds it: `expires_ms` is in the log's steady time, 0 when it is not held."""

    lease: Lease
    holder_key: str = ""
    expires_ms: int = 0
    lasts_ms: int = 0

    def holds(self, now_ms: int) -> bool:
        """Whether it has a holder at `now_ms`."""
        return self.expires_ms > now_ms


@dataclass(frozen=True, slots=True)
class Holder:
    """Who takes a lease."""

    principal_id: str
    name: str
    key_id: str


def checked_lease_name(name: str) -> str:
    """`name` unchanged if a lease can be called so.

    Raises:
        Invalid: if not.
    """
    if len(name) > limits.LEASE_NAME_CHARS_MAX or not _NAME.match(name):
        raise Invalid(
            f"{name[:80]!r} cannot be the name of a lease.",
            hint="Letters, digits and . _ : @ - , for example deploy.production.",
            max=limits.LEASE_NAME_CHARS_MAX,
        )
    return name


def check_time(lease_s: int) -> None:
    """Raises:
    Invalid: if a lease cannot be taken for so long.
    """
    if not 1 <= lease_s <= limits.LEASE_S_MAX:
        raise Invalid(f"lease_s is 1 to {limits.LEASE_S_MAX} seconds.", max=limits.LEASE_S_MAX)


def decide_take(
    kept: KeptLease | None, channel_id: str, name: str, asked: TakeLease, by: Holder, *, now: str, now_ms: int
) -> KeptLease:
    """The lease after it was taken, or renewed where `asked.fence` says so. An end that nobody has told of yet
    must have been told (`decide_end`) before.

    Raises:
        LeaseHeld: if somebody has it and it is not a renewal.
        LeaseGone: if it is a renewal and the fence is not that of a lease which the caller has.
        Invalid: for a time or a note out of bounds.
    """
    check_time(asked.lease_s)
    if len(asked.note) > limits.LEASE_NOTE_CHARS_MAX:
        raise Invalid(f"A note has at most {limits.LEASE_NOTE_CHARS_MAX} characters.")
    if asked.fence < 0:
        raise Invalid("A fence is the number that was answered when the lease was taken.")
    lasts_ms = asked.lease_s * _MS_PER_S
    expires_ms = now_ms + lasts_ms
    expires_at = iso(seconds_of(now) + asked.lease_s)
    if asked.fence:
        mine = owned(kept, name, asked.fence, by.principal_id, now_ms)
        lease = _with(mine.lease, expires_at=expires_at, note=asked.note or mine.lease.note)
        return replace(mine, lease=lease, holder_key=by.key_id, expires_ms=expires_ms, lasts_ms=lasts_ms)
    if kept is not None and kept.holds(now_ms):
        raise _held(kept, name, by.principal_id)
    lease = Lease(
        channel_id=channel_id,
        name=name,
        fence=(kept.lease.fence if kept is not None else 0) + 1,
        held=True,
        holder_id=by.principal_id,
        holder=by.name,
        taken_at=now,
        expires_at=expires_at,
        note=asked.note,
    )
    return KeptLease(lease, by.key_id, expires_ms, lasts_ms)


def decide_release(
    kept: KeptLease | None, name: str, asked: ReleaseLease, by: Holder, *, may_break: bool, now_ms: int
) -> KeptLease:
    """The lease after it was let go by its holder, or ended by somebody who may (`may_break`, with the fence 0).

    Raises:
        LeaseGone: if the caller does not have it, or nobody does.
        Invalid: if no fence is given.
    """
    if asked.fence < 0 or (asked.fence == 0 and not may_break):
        raise Invalid("To let a lease go, say its fence.")
    if asked.fence == 0:
        if kept is None or not kept.holds(now_ms):
            raise _gone(kept, name, now_ms)
        return ended(kept, LeaseEnd.BROKEN)
    return ended(owned(kept, name, asked.fence, by.principal_id, now_ms), LeaseEnd.RELEASED)


def decide_end(kept: KeptLease | None, now_ms: int) -> KeptLease | None:
    """The lease after its time ran out; None if it has not, or that was told already."""
    if kept is None or not kept.expires_ms or kept.holds(now_ms):
        return None
    return ended(kept, LeaseEnd.EXPIRED)


def bounded(kept: KeptLease, *, now: str, now_ms: int) -> KeptLease:
    """The lease, never longer from now than it was taken for: a clock that was put back (a restored machine)
    must not make one last for ever."""
    if kept.expires_ms - kept.lasts_ms <= now_ms:
        return kept
    expires_at = iso(seconds_of(now) + kept.lasts_ms / _MS_PER_S)
    return replace(kept, lease=_with(kept.lease, expires_at=expires_at), expires_ms=now_ms + kept.lasts_ms)


def ended(kept: KeptLease, why: LeaseEnd) -> KeptLease:
    """The lease with no holder."""
    return KeptLease(_with(kept.lease, held=False, ended=why))


def as_read(kept: KeptLease, now_ms: int) -> Lease:
    """A lease as it is shown at `now_ms`: one whose time is over is not held, whoever has told of it or not."""
    lease = kept.lease
    if lease.held and not kept.holds(now_ms):
        return _with(lease, held=False, ended=LeaseEnd.EXPIRED)
    return lease


def owned(kept: KeptLease | None, name: str, fence: int, principal_id: str, now_ms: int) -> KeptLease:
    """The lease, if `principal_id` holds it with this fence.

    Raises:
        LeaseGone: if not; says who has it now.
    """
    if kept is None or not kept.holds(now_ms) or kept.lease.fence != fence or kept.lease.holder_id != principal_id:
        raise _gone(kept, name, now_ms)
    return kept


def _held(kept: KeptLease, name: str, principal_id: str) -> LeaseHeld:
    lease = kept.lease
    mine = {"fence": lease.fence} if lease.holder_id == principal_id else {}
    return LeaseHeld(
        f"{lease.holder} holds {name!r} until {lease.expires_at}.",
        hint="Renew it with its fence, or let it go." if mine else "Wait for its end, or ask its holder.",
        name=name,
        holder=lease.holder,
        holder_id=lease.holder_id,
        expires_at=lease.expires_at,
        **mine,
    )


def _gone(kept: KeptLease | None, name: str, now_ms: int) -> LeaseGone:
    shown = as_read(kept, now_ms) if kept is not None else None
    held = shown is not None and shown.held
    return LeaseGone(
        f"{shown.holder} holds {name!r} now." if shown is not None and held else f"Nobody holds {name!r} now.",
        hint="What you guard with it is no longer yours: stop, and take it again.",
        name=name,
        held=held,
        holder=shown.holder if shown is not None and held else "",
        holder_id=shown.holder_id if shown is not None and held else "",
        expires_at=shown.expires_at if shown is not None else "",
        ended=shown.ended.value if shown is not None else "",
    )


def _with(lease: Lease, **fields: object) -> Lease:
    return msgspec.structs.replace(lease, **fields)
