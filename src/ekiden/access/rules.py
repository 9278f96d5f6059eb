"""What keys may do, how keys and codes are spelled, and how a pairing goes. Pure decisions.

Secrets are kept as a plain SHA-256. A slow password hash defends secrets that people choose and that can be
guessed; these are 256 random bits (80 for a code that lives ten minutes), beyond any guessing, so a slow hash
would only make each request slow.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import assert_never

from ekiden.access.rights import ALL_RIGHTS, Permissions, Right
from ekiden.kernel.clock import iso
from ekiden.kernel.errors import Conflict, EkidenError, Invalid, NotFound, Unauthenticated
from ekiden.kernel.ids import Prefix, derived_id


class Kind(StrEnum):
    """What a principal is."""

    PERSON = "person"
    AGENT = "agent"
    DEVICE = "device"
    SERVICE = "service"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class Identity:
    """The bearer of a valid key. `expires_at` is in seconds since the epoch, None for never; `used_at` is
    RFC 3339 and coarse, "" if the key was never used."""

    team_id: str
    principal_id: str
    key_id: str
    name: str
    kind: Kind
    permissions: Permissions
    expires_at: float | None = None
    used_at: str = ""


# Usual rights

_TALK = (Right.READ, Right.POST, Right.ACK, Right.MENTION, Right.LEASE)


def default_permissions(kind: Kind, host_id: str = "") -> dict[str, list[str]]:
    """What a principal of that kind gets if nothing else is said."""
    match kind:
        case Kind.PERSON | Kind.DEVICE:
            return {"*": [right.value for right in ALL_RIGHTS]}
        case Kind.AGENT:
            return {
                "channel:*": [*(right.value for right in _TALK), "status:*"],
                "session:*": [Right.READ.value],
                "team": [Right.READ.value],
            }
        case Kind.SERVICE:
            return {"team": [Right.READ.value]}
        case Kind.HOST:
            return {f"host:{host_id}": [Right.READ.value, Right.FEED.value]}
        case _:
            assert_never(kind)


def own_resources(principal_id: str) -> frozenset[str]:
    """What every principal may read that may do anything at all: its own inbox, and whose keys are whose."""
    return frozenset({f"inbox:{principal_id}", "directory"})


# Keys

_KEY = re.compile(r"ekd_(?P<id>[0-9a-hjkmnp-tv-z]{20})_(?P<secret>[a-z2-7]{52})\Z")


@dataclass(frozen=True, slots=True)
class PresentedKey:
    """A key as its bearer shows it, taken apart."""

    key_id: str
    digest: str


def spell_key(key_id: str, secret: str) -> str:
    """The key as its bearer keeps it. `secret` is 52 letters of base 32 (256 bits)."""
    return f"ekd_{key_id.removeprefix('key_')}_{secret}"


def read_key(text: str) -> PresentedKey | None:
    """A presented key taken apart, or None if it has another form."""
    found = _KEY.match(text)
    return None if found is None else PresentedKey(f"key_{found['id']}", digest_of(found["secret"]))


def digest_of(secret: str) -> str:
    """What is kept of a secret: its SHA-256 as 64 hex digits."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def key_id_of(secret_digest: str) -> str:
    """The id of the key with this secret. Derived, so that who makes the secret can spell the key beforehand."""
    return derived_id(Prefix.KEY, secret_digest)


def same_digest(one: str, other: str) -> bool:
    """Whether two digests are equal, in a time that tells nothing."""
    return hmac.compare_digest(one, other)


def refuse_key(*, revoked_at: str, expires_at: str, now: str) -> None:
    """Raises:
    Unauthenticated: if a key with these times is not valid at `now`.
    """
    if revoked_at:
        raise Unauthenticated("The key was revoked.", hint="Pair this device again, or ask for a new key.")
    if expires_at and expires_at <= now:
        raise Unauthenticated("The key has expired.", hint="Pair this device again, or ask for a new key.")


def narrowed_expiry(wanted: str, held: str, now: str) -> str:
    """When a key ends that was made with a key that ends at `held` ("" for never): never later than that.

    Raises:
        Invalid: if `wanted` is not a time of RFC 3339, is over already, or is later than `held`.
    """
    if not wanted:
        return held
    expires_at = _read_time("expires_at", wanted)
    if expires_at <= now:
        raise Invalid("expires_at is over already.")
    if held and expires_at > held:
        raise Invalid(f"A key cannot outlive the key that makes it, which ends at {held}.")
    return expires_at


def past_time(since: str, now: str) -> str:
    """A time that has come already, in the one spelling.

    Raises:
        Invalid: if `since` is not a time of RFC 3339, or not over yet.
    """
    time = _read_time("since", since)
    if time > now:
        raise Invalid("since has not come yet.")
    return time


def _read_time(field: str, text: str) -> str:
    try:
        parsed = datetime.fromisoformat(text)
        if parsed.tzinfo is None:
            raise Invalid(f"{field} needs a time zone.", hint="Like 2030-01-31T12:00:00Z.")
        return iso(parsed.astimezone(UTC).timestamp())
    except (ValueError, OverflowError):
        raise Invalid(f"{field}: {text[:40]!r} is not a time.", hint="Like 2030-01-31T12:00:00Z.") from None


def later(time: str, seconds: float) -> str:
    """The time (RFC 3339) so many seconds after another; before it, if negative."""
    return iso(seconds_at(time) + seconds)


def seconds_at(time: str) -> float:
    """A time (RFC 3339) as seconds since the epoch."""
    return datetime.fromisoformat(time).timestamp()


def seconds_of(time: str) -> float | None:
    """RFC 3339 as seconds since the epoch; None for ""."""
    return seconds_at(time) if time else None


# Pairing

CODE_LETTERS = 16
"""80 bits: with the tries that are allowed, guessing one of 16 codes within its ten minutes is hopeless."""

_CONFUSED = str.maketrans({"o": "0", "i": "1", "l": "1", "-": None, " ": None, "\u2013": None})
_CODE = re.compile(r"[0-9a-hjkmnp-tv-z]{16}\Z")


class PairingState(StrEnum):
    """`open`: nobody has come yet. `waiting`: a device has come and the computer must confirm it."""

    OPEN = "open"
    WAITING = "waiting"
    CONFIRMED = "confirmed"
    COLLECTED = "collected"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


PAIRING_MOVES: Mapping[PairingState, frozenset[PairingState]] = {
    PairingState.OPEN: frozenset(
        {
            PairingState.WAITING,
            PairingState.COLLECTED,
            PairingState.EXPIRED,
            PairingState.DENIED,
            PairingState.CANCELLED,
        }
    ),
    PairingState.WAITING: frozenset(
        {PairingState.CONFIRMED, PairingState.DENIED, PairingState.EXPIRED, PairingState.CANCELLED}
    ),
    PairingState.CONFIRMED: frozenset({PairingState.COLLECTED, PairingState.EXPIRED, PairingState.CANCELLED}),
    PairingState.COLLECTED: frozenset(),
    PairingState.DENIED: frozenset(),
    PairingState.EXPIRED: frozenset(),
    PairingState.CANCELLED: frozenset(),
}
PAIRING_LIVE = (PairingState.OPEN, PairingState.WAITING, PairingState.CONFIRMED)


def move_pairing(state: PairingState, to: PairingState) -> PairingState:
    """`to`, if a pairing may go there from `state`.

    Raises:
        Conflict: if it may not; `details` say in which state it is.
    """
    if to not in PAIRING_MOVES[state]:
        raise Conflict(f"The pairing is {state} already.", state=state.value)
    return to


class InviteState(StrEnum):
    """Only an open invite can be claimed; the others are ends."""

    OPEN = "open"
    CLAIMED = "claimed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


def claimed_state(*, local: bool, from_loopback: bool) -> PairingState:
    """Where a claim leads: a local pairing needs no confirmation by the computer if the device is the computer."""
    return PairingState.COLLECTED if local and from_loopback else PairingState.WAITING


def told_state(state: PairingState) -> str:
    """What the device is told of a pairing that it has claimed: waiting, confirmed, denied or expired."""
    match state:
        case PairingState.OPEN | PairingState.WAITING:
            return "waiting"
        case PairingState.CONFIRMED:
            return "confirmed"
        case PairingState.DENIED | PairingState.CANCELLED:
            return "denied"
        case PairingState.EXPIRED | PairingState.COLLECTED:
            return "expired"
        case _:
            assert_never(state)


def spell_code(letters: str) -> str:
    """A code as people read it: `k3f9-a2b1-…`."""
    return "-".join(letters[start : start + 4] for start in range(0, len(letters), 4))


def code_digest(text: str) -> str | None:
    """What is kept of a code, from any way in which a person types it (case, dashes, o for 0, l for 1); None if
    it cannot be a code."""
    letters = text[:64].strip().lower().translate(_CONFUSED)
    return digest_of(letters) if _CODE.match(letters) else None


def no_such_code() -> EkidenError:
    """A code that was never given out, has been used or has expired: all answer alike."""
    return NotFound(
        "This pairing code does not work.",
        hint="It works once and for ten minutes: ask the computer for a new one.",
    )


def words_of(number: int) -> str:
    """Six digits to compare on both sides: `048 213`."""
    digits = f"{number % 1_000_000:06}"
    return f"{digits[:3]} {digits[3:]}"
