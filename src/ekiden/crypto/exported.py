"""An export of a channel as `verify` reads it: the parts of `ekiden.relay.wire` that are signed or countersigned.

They are spelled again here because an export is checked where there is no relay: on paper, this room is below it.
"""

from typing import Any

from ekiden.crypto.directory import Entry
from ekiden.crypto.epochs import Epoch
from ekiden.crypto.shape import Struct


class Sealed(Struct, frozen=True):
    """As `relay.wire.Sealed`."""

    epoch: int
    nonce: str
    data: str
    v: int = 1


class Signature(Struct, frozen=True):
    """As `relay.wire.Signature`."""

    signer: str
    signature: str
    at: str
    chain: str = ""
    link: int = 0
    previous: str = ""
    replaces: str = ""


class Countersign(Struct, frozen=True):
    """As `relay.wire.Countersign`."""

    seq: int
    number: int
    at: str
    signature: str = ""
    statement: str = ""


class Attachment(Struct, frozen=True):
    """As `relay.wire.Attachment`."""

    sha256: str
    size: int
    name: str = ""
    media_type: str = "application/octet-stream"


class Message(Struct, frozen=True):
    """As `relay.wire.Message`."""

    message_id: str
    channel_id: str
    number: int
    sender_id: str
    sender: str = ""
    text: str = ""
    sealed: Sealed | None = None
    thread_id: str = ""
    answers: str = ""
    asks: str = ""
    named: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    title: str = ""
    state: str = "kept"
    edits: int = 0
    suspect: bool = False
    signature: Signature | None = None
    countersign: Countersign | None = None

    @property
    def deleted(self) -> bool:
        """Whether its text was taken back."""
        return self.state == "deleted"


class Evidence(Struct, frozen=True):
    """As `relay.wire_state.Evidence`."""

    commit: str = ""
    run: str = ""
    link: str = ""
    second: Signature | None = None


class Status(Struct, frozen=True):
    """As `relay.wire_state.Status`."""

    channel_id: str
    key: str
    version: int
    kind: str
    value: Any = None
    sealed: Sealed | None = None
    by_id: str = ""
    evidence: Evidence | None = None
    signature: Signature | None = None
    countersign: Countersign | None = None
    suspect: bool = False


class Purged(Struct, frozen=True):
    """As `relay.wire_state.Purged`."""

    channel_id: str
    first: int
    last: int
    messages: int
    digest: str
    at: str = ""
    by: str = ""
    signature: str = ""


class Channel(Struct, frozen=True):
    """As `relay.wire.Channel`."""

    channel_id: str
    name: str
    encrypted: bool = False
    signed: bool = False
    first_number: int = 1
    last_number: int = 0


class Exported(Struct, frozen=True):
    """As `relay.wire_state.Exported`: one page."""

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
