"""The shapes of the relay room at the door: status, leases, and what is kept, purged, exported and distrusted."""

from enum import StrEnum
from typing import Any

from ekiden.crypto.directory import Entry
from ekiden.crypto.epochs import Epoch
from ekiden.relay.wire import Authority, Channel, Countersign, Message, Sealed, Signature
from ekiden.transcript.items import Struct

# --- status ------------------------------------------------------------------------------------------------


class Evidence(Struct, frozen=True):
    """What can be looked up: a commit, a run, a link, and who signed as the second."""

    commit: str = ""
    run: str = ""
    link: str = ""
    second: Signature | None = None


class SetStatus(Struct, frozen=True):
    """A new value. `if_version`: only if that is the version now (0: only if there is none); None: whatever is
    there. `expires_s`: 0 never."""

    value: Any = None
    sealed: Sealed | None = None
    if_version: int | None = None
    expires_s: int = 0
    evidence: Evidence | None = None
    signature: Signature | None = None


class ClearStatus(Struct, frozen=True):
    if_version: int | None = None
    signature: Signature | None = None


class StatusKind(StrEnum):
    SET = "set"
    CLEARED = "cleared"
    EXPIRED = "expired"
    REVERTED = "reverted"
    """Put back to the last value that was written with a trusted key."""


class Status(Struct, frozen=True):
    """One key's value, or one line of its history: then `version` counts from 1 without gaps."""

    channel_id: str
    key: str
    version: int
    kind: StatusKind
    value: Any = None
    sealed: Sealed | None = None
    by: str = ""
    by_id: str = ""
    authority: Authority = Authority.AGENT
    at: str = ""
    expires_at: str = ""
    evidence: Evidence | None = None
    signature: Signature | None = None
    countersign: Countersign | None = None
    suspect: bool = False


class Statuses(Struct, frozen=True):
    statuses: tuple[Status, ...]
    next: str = ""
    cursor: str = ""


class StatusRule(Struct, frozen=True):
    """What values of the keys that match `pattern` need: a JSON Schema, evidence, a second signer."""

    pattern: str
    schema: dict[str, Any] | None = None
    evidence: tuple[str, ...] = ()
    """Of `commit`, `run`, `link`, `second`."""


class StatusRules(Struct, frozen=True):
    rules: tuple[StatusRule, ...]


# --- leases ------------------------------------------------------------------------------------------------


class TakeLease(Struct, frozen=True):
    """Takes a lease, or renews the own one: then with its fence. `lease_s` from now."""

    lease_s: int
    fence: int = 0
    note: str = ""
    signature: Signature | None = None


class ReleaseLease(Struct, frozen=True):
    """Lets a lease go, with its fence. `admin` may end anybody's, with the fence 0."""

    fence: int = 0
    signature: Signature | None = None


class LeaseEnd(StrEnum):
    """Why a lease is not held any more."""

    NONE = ""
    RELEASED = "released"
    EXPIRED = "expired"
    BROKEN = "broken"
    """Ended by somebody with `admin`."""
    REVOKED = "revoked"
    """The key that took it is not trusted any more."""


class Lease(Struct, frozen=True):
    """A lock with a time. `fence` grows with each new holder. `ticket` is the hub's signed word for it (only in
    the answer to its holder), which a script checks without asking: see `ekiden.crypto.tickets`. Of a lease that
    is not held, `holder` is who had it last and `ended` why it has not any more."""

    channel_id: str
    name: str
    fence: int
    held: bool
    holder_id: str = ""
    holder: str = ""
    taken_at: str = ""
    expires_at: str = ""
    note: str = ""
    ended: LeaseEnd = LeaseEnd.NONE
    ticket: str = ""
    suspect: bool = False


class Leases(Struct, frozen=True):
    leases: tuple[Lease, ...]
    next: str = ""
    cursor: str = ""


# --- keeping -----------------------------------------------------------------------------------------------


class Purge(Struct, frozen=True):
    """Everything before this number, or before this time."""

    before_number: int = 0
    before: str = ""


class Purged(Struct, frozen=True):
    """The signed note of a purge: which range of numbers went, how many messages, and the digest over what they
    said (`ekiden.crypto.statements.PurgeDigest`). `by`: the name of who wanted it; `hub` for the channel's
    retention."""

    channel_id: str
    first: int
    last: int
    messages: int
    digest: str
    at: str = ""
    by: str = ""
    signature: str = ""


class Purges(Struct, frozen=True):
    """Notes of purges by number. After POST: those of this purge; `left` is how many messages it did not come
    to."""

    purges: tuple[Purged, ...]
    next: str = ""
    left: int = 0


class Exported(Struct, frozen=True):
    """A page of a channel or thread, with all that `ekiden verify` needs: keys of members and of the hub. The
    first page has the epochs; then come, page by page, the directory, notes of purges, messages and lines of
    status."""

    channel: Channel
    messages: tuple[Message, ...]
    statuses: tuple[Status, ...] = ()
    purges: tuple[Purged, ...] = ()
    directory: tuple[Entry, ...] = ()
    epochs: tuple[Epoch, ...] = ()
    hub_key: str = ""
    team_id: str = ""
    thread: str = ""
    next: str = ""


# --- what is not stored ------------------------------------------------------------------------------------


class AttachmentBytes(Struct, frozen=True):
    """Base64 in JSON."""

    data: bytes
    media_type: str = "application/octet-stream"


class Suspected(Struct, frozen=True):
    """The body of `message.suspected` events: messages of a channel that were written with a key which is not
    trusted."""

    channel_id: str
    messages: tuple[str, ...]


class Tainted(Struct, frozen=True):
    """What a key that is not trusted since a time has written after it: how many messages are marked, and how
    many are left to be marked soon."""

    key_id: str
    since: str
    messages: int = 0
    left: int = 0
    statuses: tuple[Status, ...] = ()
    """Each as it stands now, put back; without its value."""
    leases: tuple[Lease, ...] = ()
