"""Hiding what a message says: AES-256-GCM under the channel's epoch key.

The associated data name team, channel, thread, sender, message and epoch, so that a sealed text opens only where
its sender put it. The plaintext is a 4-byte length (big-endian), that many bytes of canonical JSON, and zeros up
to the next size in `PADDED`: what the hub can see of the text's size is one of few steps.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from ekiden.crypto.keys import KEY_BYTES, RandomBytes, read, spell
from ekiden.kernel import canonical
from ekiden.kernel.errors import Invalid, TooLarge
from ekiden.kernel.limits import SEALED_PLAIN_BYTES_MAX

NONCE_BYTES = 12
TAG_BYTES = 16
PADDED = (256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768)
"""Sizes of padded plaintexts in bytes; above the last, its multiples."""
_LENGTH_BYTES = 4


class SealBroken(Invalid):
    """A sealed text does not open: it was changed, moved, or sealed with another key."""

    code = "seal_broken"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sealed text belongs. Of a status value `message` is `status:KEY` and `thread` empty."""

    team: str
    channel: str
    thread: str
    sender: str
    message: str
    epoch: int

    def associated(self) -> bytes:
        """The associated data."""
        return b"ekiden/1/sealed\n" + canonical.exact(
            {
                "team": self.team,
                "channel": self.channel,
                "thread": self.thread,
                "sender": self.sender,
                "message": self.message,
                "epoch": self.epoch,
            }
        )


@dataclass(frozen=True, slots=True)
class SealedText:
    """A nonce and the sealed bytes with their tag, spelled: what `relay.wire.Sealed` carries."""

    epoch: int
    nonce: str
    data: str
    v: int = 1


@dataclass(frozen=True, slots=True)
class SealedFile:
    """An attachment as it is stored (`data`: nonce, sealed bytes, tag), and the key that goes inside the
    message."""

    data: bytes
    key: str


def seal(
    key: bytes, place: Place, content: Mapping[str, Any], random: RandomBytes = secrets.token_bytes
) -> SealedText:
    """Seals `content` (JSON values: `text`, `title`, `attachments`, or a status' `value`) for its place.

    Raises:
        TooLarge: over `SEALED_PLAIN_BYTES_MAX` as canonical JSON.
    """
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = random(NONCE_BYTES)
    data = AESGCM(key).encrypt(nonce, _padded(canonical.exact(dict(content))), place.associated())
    return SealedText(place.epoch, spell(nonce), spell(data))


def open_sealed(key: bytes, place: Place, nonce: str, data: str, *, v: int = 1) -> dict[str, Any]:
    """What was sealed for `place`.

    Raises:
        SealBroken: if anything differs from when it was sealed.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if v != 1:
        raise SealBroken(f"This was sealed in a form ({v}) that this program does not know.", hint="Update it.")
    if len(data) > SEALED_PLAIN_BYTES_MAX * 2:
        raise SealBroken("The sealed text is over its bound.", max=SEALED_PLAIN_BYTES_MAX)
    try:
        padded = AESGCM(key).decrypt(read(nonce, NONCE_BYTES), read(data), place.associated())
        value: Any = msgspec.json.decode(_unpadded(padded))
    except (InvalidTag, Invalid, ValueError, msgspec.DecodeError):
        raise _broken() from None
    if not isinstance(value, dict):
        raise _broken()
    return cast("dict[str, Any]", value)


def seal_file(data: bytes, *, team: str, channel: str, random: RandomBytes = secrets.token_bytes) -> SealedFile:
    """Seals an attachment under a key of its own."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    key, nonce = random(KEY_BYTES), random(NONCE_BYTES)
    return SealedFile(nonce + AESGCM(key).encrypt(nonce, data, _of_file(team, channel)), spell(key))


def open_file(data: bytes, key: str, *, team: str, channel: str) -> bytes:
    """The attachment's own bytes.

    Raises:
        SealBroken: if bytes, key or channel are not those of the sealing.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(read(key, KEY_BYTES)).decrypt(
            data[:NONCE_BYTES], data[NONCE_BYTES:], _of_file(team, channel)
        )
    except (InvalidTag, Invalid, ValueError):
        raise _broken() from None


def padded_size(size: int) -> int:
    """How large a plaintext of `size` bytes (its length included) becomes."""
    for step in PADDED:
        if size <= step:
            return step
    return -(-size // PADDED[-1]) * PADDED[-1]


def _padded(plain: bytes) -> bytes:
    if len(plain) > SEALED_PLAIN_BYTES_MAX:
        raise TooLarge("The text is too long to be sealed.", size=len(plain), max=SEALED_PLAIN_BYTES_MAX)
    framed = len(plain).to_bytes(_LENGTH_BYTES, "big") + plain
    return framed.ljust(padded_size(len(framed)), b"\0")


def _unpadded(padded: bytes) -> bytes:
    size = int.from_bytes(padded[:_LENGTH_BYTES], "big")
    end = _LENGTH_BYTES + size
    if len(padded) != padded_size(end) or any(padded[end:]):
        raise ValueError("not the padding of this length")
    return padded[_LENGTH_BYTES:end]


def _of_file(team: str, channel: str) -> bytes:
    return b"ekiden/1/attachment\n" + canonical.exact({"team": team, "channel": channel})


def _broken() -> SealBroken:
    return SealBroken(
        "This sealed text does not open here.",
        hint="It was changed or moved after it was sealed, or sealed with another key.",
    )
