"""A member's keys: Ed25519 to sign and X25519 to be wrapped to; and how bytes are spelled in JSON.

The id of a member key is derived from both public keys, so that an id is a fingerprint: whoever knows the id
(100 bits of SHA-256) cannot be given other keys under it.
"""

import base64
import binascii
import hashlib
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from ekiden.kernel.errors import Invalid
from ekiden.kernel.ids import Prefix, derived_id
from ekiden.kernel.limits import COMPARE_CODE_ROUNDS, MEMBER_KEYS_READ_KEPT_MAX

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

KEY_BYTES = 32
SIGNATURE_BYTES = 64
_BASE64URL = re.compile(r"[A-Za-z0-9_-]*")

RandomBytes = Callable[[int], bytes]
"""Gives so many random bytes: `secrets.token_bytes`, or a known sequence for test vectors."""


def spell(data: bytes) -> str:
    """Base64url without padding (RFC 4648, 5), the only spelling of bytes in what Ekiden signs and seals."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def read(text: str, size: int | None = None) -> bytes:
    """The bytes that `text` spells; `size`: how many they must be.

    Raises:
        Invalid: if it is not base64url without padding, is one of several spellings of the same bytes, or has
        another
            size.
    """
    if _BASE64URL.fullmatch(text):
        try:
            data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except binascii.Error:
            data = None
        # Equal bytes must have equal spellings: the unused bits of the last letter are zero.
        if data is not None and (size is None or len(data) == size) and spell(data) == text:
            return data
    raise Invalid("This is not base64url of the size that is expected here.", size=size or 0)


@dataclass(frozen=True, slots=True)
class PublicKeys:
    """What others may know of a member key: 32 bytes each to check its signatures and to wrap to it."""

    sign: bytes
    wrap: bytes

    @property
    def member_key_id(self) -> str:
        """`mky_…`, derived from both keys."""
        return derived_id(Prefix.MEMBER_KEY, spell(self.sign), spell(self.wrap))

    @property
    def fingerprint(self) -> str:
        """The id in groups of five letters, to be read aloud."""
        letters = self.member_key_id.partition("_")[2]
        return " ".join(letters[at : at + 5] for at in range(0, len(letters), 5))


@dataclass(frozen=True, slots=True)
class MemberKeys:
    """Both secret keys, as the 32-byte seeds that they are stored as."""

    sign_seed: bytes = field(repr=False)
    wrap_seed: bytes = field(repr=False)
    public: PublicKeys

    @classmethod
    def from_seeds(cls, sign_seed: bytes, wrap_seed: bytes) -> "MemberKeys":
        """The keys that the seeds stand for."""
        wrap = _wrap_key(wrap_seed).public_key().public_bytes_raw()
        return cls(sign_seed, wrap_seed, PublicKeys(signing_public(sign_seed), wrap))

    @classmethod
    def new(cls, random: RandomBytes = secrets.token_bytes) -> "MemberKeys":
        """Fresh keys."""
        return cls.from_seeds(random(KEY_BYTES), random(KEY_BYTES))

    @property
    def member_key_id(self) -> str:
        """As that of the public keys."""
        return self.public.member_key_id


def signing_public(seed: bytes) -> bytes:
    """The Ed25519 public key (32 bytes) of a 32-byte seed."""
    return _sign_key(seed).public_key().public_bytes_raw()


def sign(seed: bytes, statement: bytes) -> str:
    """The Ed25519 signature (RFC 8032) of `statement`, spelled."""
    return spell(_sign_key(seed).sign(statement))


def signed_by(public: bytes, signature: str, statement: bytes) -> bool:
    """Whether `signature` (spelled) of `statement` was made with the seed of `public`. Never raises for bad
    input."""
    from cryptography.exceptions import InvalidSignature

    try:
        _public_key(public).verify(read(signature, SIGNATURE_BYTES), statement)
    except (InvalidSignature, Invalid, ValueError):
        return False
    return True


def compare_code(one: PublicKeys, other: PublicKeys) -> str:
    """Twelve digits in groups of four that two members see alike if each has the other's true keys.

    About 40 bits behind `COMPARE_CODE_ROUNDS` rounds of PBKDF2-HMAC-SHA256: who stands between them and wants to
    show both the same digits has to find keys for it, at so many rounds a try.
    """
    pair = b"".join(sorted((one.sign + one.wrap, other.sign + other.wrap)))
    stretched = hashlib.pbkdf2_hmac("sha256", pair, b"ekiden/1/compare\n", COMPARE_CODE_ROUNDS, 8)
    digits = f"{int.from_bytes(stretched, 'big') % 10**12:012d}"
    return f"{digits[:4]} {digits[4:8]} {digits[8:]}"


# Keys are read from their seeds once: signing is what a busy member does for every message.
@lru_cache(maxsize=8)
def _sign_key(seed: bytes) -> "Ed25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(seed)


@lru_cache(maxsize=MEMBER_KEYS_READ_KEPT_MAX)
def _public_key(public: bytes) -> "Ed25519PublicKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(public)


def _wrap_key(seed: bytes) -> "X25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(seed)
