"""The log's hash chain: each event's hash holds the one before, and the hub signs where the chain stands.

A leaf names the event's body by its digest, so that a redacted body (`{"redacted": true, "digest": …}`) leaves the
chain whole: who and when stay proven, what was said is gone. A checkpoint is the hub's signed word for one
position; what is kept after a purge verifies from the checkpoint before it.
"""

import hashlib
from collections.abc import Sequence

import msgspec
from msgspec import structs

from ekiden.crypto import keys, statements
from ekiden.crypto.shape import Struct
from ekiden.kernel import canonical

GENESIS = hashlib.sha256(b"ekiden/1/genesis\n").digest()
"""The chain's value before the first event."""


class _Redacted(msgspec.Struct, frozen=True):
    redacted: bool = False
    digest: str = ""


class Checkpoint(Struct, frozen=True):
    """Where a team's chain stood after event `seq`; `hash` in hex."""

    team: str
    seq: int
    hash: str
    at: str
    signature: str = ""

    def statement(self) -> bytes:
        """What is signed."""
        return statements.statement(
            statements.Domain.CHECKPOINT,
            {"team": self.team, "seq": self.seq, "hash": self.hash, "at": self.at},
        )


class Checkpoints(Struct, frozen=True):
    """A page, newest first."""

    checkpoints: tuple[Checkpoint, ...]
    hub_key: str = ""
    next: str = ""


class HubKey(Struct, frozen=True):
    """The hub's signing key of the team (Ed25519, base64url): what countersignatures, tickets, notes of purges and
    checkpoints are checked with. Members pin it at first contact."""

    team_id: str
    public_key: str
    made_at: str = ""


def body_digest(body: bytes) -> str:
    """What a leaf holds of an event's body, in hex: SHA-256 of its bytes as stored, or what a redacted one says it
    was."""
    if body.startswith(b'{"') and b'"redacted":true' in body[:128].replace(b" ", b""):
        try:
            said = msgspec.json.decode(body, type=_Redacted)
        except msgspec.DecodeError:
            said = _Redacted()
        if said.redacted and len(said.digest) == 64:
            return said.digest
    return hashlib.sha256(body).hexdigest()


def redacted(body: bytes) -> bytes:
    """The body that takes the place of one that must go; of a redacted one, itself."""
    return msgspec.json.encode({"digest": body_digest(body), "redacted": True})


def leaf(*, seq: int, kind: str, topics: Sequence[str], at: str, actor: str, body: bytes) -> bytes:
    """The hash of one event: 32 bytes. `actor`: the principal's id."""
    return hashlib.sha256(
        b"ekiden/1/leaf\n" + canonical.exact([seq, kind, list(topics), at, actor, body_digest(body)])
    ).digest()


def link(before: bytes, event_leaf: bytes) -> bytes:
    """The chain's value after one more event: 32 bytes."""
    return hashlib.sha256(b"ekiden/1/link\n" + before + event_leaf).digest()


def signed_checkpoint(seed: bytes, *, team: str, seq: int, value: bytes, at: str) -> Checkpoint:
    """The hub's word that the chain stood at `value` after event `seq`."""
    bare = Checkpoint(team, seq, value.hex(), at)
    return structs.replace(bare, signature=keys.sign(seed, bare.statement()))
