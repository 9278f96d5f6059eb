"""Where secrets come from: the operating system's random numbers, spelled so that people and programs can carry
them. They are made outside the log and never go into it."""

import base64
import secrets
from dataclasses import dataclass

from ekiden.access import rules

_CODE_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


@dataclass(frozen=True, slots=True)
class NewKey:
    """A fresh key: as its bearer keeps it, its id, and the digest that is kept here."""

    text: str
    key_id: str
    digest: str


def new_key() -> NewKey:
    """A key of 256 random bits."""
    secret = new_secret()
    digest = rules.digest_of(secret)
    key_id = rules.key_id_of(digest)
    return NewKey(rules.spell_key(key_id, secret), key_id, digest)


def new_secret() -> str:
    """256 random bits as 52 letters of base 32."""
    return base64.b32encode(secrets.token_bytes(32)).decode("ascii").rstrip("=").lower()


def new_code() -> str:
    """A pairing code of 80 random bits, in groups of four."""
    return rules.spell_code("".join(secrets.choice(_CODE_ALPHABET) for _ in range(rules.CODE_LETTERS)))


def new_number() -> int:
    """A number for the digits that are compared on both sides."""
    return secrets.randbelow(1_000_000)
