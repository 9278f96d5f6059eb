"""Who holds the key of an encrypted channel.

An epoch is 32 random bytes. Who opens it wraps them to each member's key (HPKE of RFC 9180, base mode, with
X25519, HKDF-SHA256 and AES-256-GCM) and signs a statement of members and commitment, which names the epoch before
it by hash. So a member knows from whom a key comes and that all were given the same one. Somebody who joins is
given the newest epoch's key by the next member that posts; somebody who leaves ends the epoch.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ekiden.crypto import keys, statements
from ekiden.crypto.keys import KEY_BYTES, MemberKeys, PublicKeys, RandomBytes, read, spell
from ekiden.crypto.sealing import SealBroken
from ekiden.crypto.shape import Struct
from ekiden.kernel import canonical
from ekiden.kernel.errors import Invalid
from ekiden.kernel.limits import EPOCH_MEMBER_KEYS_MAX

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.hpke import Suite

WRAPPED_BYTES = 32 + KEY_BYTES + 16
"""An encapsulated key, the epoch's key, a tag."""


class Epoch(Struct, frozen=True):
    """The signed statement of one epoch. Epochs of a channel count from 1."""

    channel_id: str
    epoch: int
    members: tuple[tuple[str, str], ...]
    """(principal id, member key id), sorted: to whom the key was wrapped when it was opened."""
    commitment: str
    """SHA-256 of the epoch's key, in hex."""
    previous: str
    """`Epoch.digest` of the one before, empty for the first."""
    at: str
    signer: str
    """Id of the member key that opened it."""
    signature: str = ""

    def statement(self, team: str) -> bytes:
        """What is signed."""
        return statements.statement(
            statements.Domain.EPOCH,
            {
                "team": team,
                "channel": self.channel_id,
                "epoch": self.epoch,
                "members": [list(pair) for pair in self.members],
                "commitment": self.commitment,
                "previous": self.previous,
                "at": self.at,
                "signer": self.signer,
            },
        )

    def digest(self, team: str) -> str:
        """SHA-256 of the statement, in hex."""
        return statements.digest(self.statement(team))


class Wrap(Struct, frozen=True):
    """An epoch's key for one member key, signed by who wrapped it."""

    epoch: int
    principal_id: str
    member_key: str
    wrapped: str
    """Base64url: 32 bytes of encapsulated key, then the sealed key."""
    signer: str
    at: str
    signature: str = ""

    def statement(self, team: str, channel: str) -> bytes:
        """What is signed."""
        return statements.statement(
            statements.Domain.WRAP,
            {
                "team": team,
                "channel": channel,
                "epoch": self.epoch,
                "principal": self.principal_id,
                "member_key": self.member_key,
                "wrapped": self.wrapped,
                "at": self.at,
                "signer": self.signer,
            },
        )


class NewEpoch(Struct, frozen=True):
    """Body of POST …/epochs. Refused with `stale_epoch` if it does not follow the newest."""

    epoch: Epoch
    wraps: tuple[Wrap, ...]


class Share(Struct, frozen=True):
    """Body of POST …/epochs/{epoch}/keys: the epoch's key for members that came later."""

    wraps: tuple[Wrap, ...]


class EpochView(Struct, frozen=True):
    """An epoch with what the asking principal may open. `holders`: member key ids that the key is wrapped to
    now."""

    epoch: Epoch
    wraps: tuple[Wrap, ...] = ()
    """Those to the asking principal's member keys."""
    holders: tuple[str, ...] = ()


class Epochs(Struct, frozen=True):
    """Newest first; `after` (an epoch) asks for those below it. `stale`: somebody left since the newest was
    opened, so that it must not be used to post."""

    epochs: tuple[EpochView, ...]
    stale: bool = False
    next: str = ""


def new_key(random: RandomBytes = secrets.token_bytes) -> bytes:
    """The key of a new epoch."""
    return random(KEY_BYTES)


def commitment(key: bytes) -> str:
    """What the epoch's statement says of its key."""
    return hashlib.sha256(key).hexdigest()


def open_epoch(
    signer: MemberKeys,
    key: bytes,
    *,
    team: str,
    channel: str,
    epoch: int,
    members: Iterable[tuple[str, PublicKeys]],
    previous: str,
    at: str,
) -> NewEpoch:
    """The statement of a new epoch and its wraps, signed. `members`: (principal id, member key), several keys of
    one principal if it has them.

    Raises:
        Invalid: over `EPOCH_MEMBER_KEYS_MAX` member keys.
    """
    whole = sorted(members, key=lambda one: (one[0], one[1].member_key_id))
    _bounded(whole)
    opened = Epoch(
        channel,
        epoch,
        tuple((principal, public.member_key_id) for principal, public in whole),
        commitment(key),
        previous,
        at,
        signer.member_key_id,
    )
    opened = replace(opened, signature=keys.sign(signer.sign_seed, opened.statement(team)))
    return NewEpoch(opened, wrap_all(signer, key, team=team, channel=channel, epoch=epoch, members=whole, at=at))


def wrap_all(
    signer: MemberKeys,
    key: bytes,
    *,
    team: str,
    channel: str,
    epoch: int,
    members: Sequence[tuple[str, PublicKeys]],
    at: str,
) -> tuple[Wrap, ...]:
    """The epoch's key wrapped to each of `members`, signed."""
    _bounded(members)
    made: list[Wrap] = []
    for principal, public in members:
        wrapped = spell(wrap(key, public, team=team, channel=channel, epoch=epoch))
        bare = Wrap(epoch, principal, public.member_key_id, wrapped, signer.member_key_id, at)
        signature = keys.sign(signer.sign_seed, bare.statement(team, channel))
        made.append(replace(bare, signature=signature))
    return tuple(made)


def wrap(key: bytes, public: PublicKeys, *, team: str, channel: str, epoch: int) -> bytes:
    """`key` for one member key: `WRAPPED_BYTES` bytes."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    to = X25519PublicKey.from_public_bytes(public.wrap)
    return _suite().encrypt(key, to, wrap_info(team, channel, epoch, public.member_key_id))


def unwrap(member: MemberKeys, wrapped: str, *, team: str, epoch: Epoch) -> bytes:
    """The epoch's key, checked against the commitment.

    Raises:
        SealBroken: if it was wrapped to another key or for another place, or is not the key of the statement.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    info = wrap_info(team, epoch.channel_id, epoch.epoch, member.member_key_id)
    own = X25519PrivateKey.from_private_bytes(member.wrap_seed)
    try:
        key = _suite().decrypt(read(wrapped, WRAPPED_BYTES), own, info)
    except (InvalidTag, Invalid, ValueError):
        raise SealBroken("This key of the channel is not wrapped to this member key.") from None
    if not hmac.compare_digest(commitment(key), epoch.commitment):
        raise SealBroken(
            "The key that was wrapped to this member is not the one that the epoch's statement promises.",
            hint="Who opened the epoch gave different keys to different members. Open a new one.",
        )
    return key


def wrap_info(team: str, channel: str, epoch: int, member_key: str) -> bytes:
    """HPKE's `info`: binds a wrap to its place."""
    return b"ekiden/1/wrap\n" + canonical.exact(
        {"team": team, "channel": channel, "epoch": epoch, "member_key": member_key}
    )


def _bounded(members: Sequence[object]) -> None:
    if len(members) > EPOCH_MEMBER_KEYS_MAX:
        raise Invalid("An encrypted channel has at most so many member keys.", max=EPOCH_MEMBER_KEYS_MAX)


@lru_cache(maxsize=1)
def _suite() -> "Suite":
    from cryptography.hazmat.primitives import hpke

    return hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)
