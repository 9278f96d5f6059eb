"""Identifiers: a printed prefix that names the kind of thing, and 20 base-32 characters (100 bits).

Fresh ids are for things made here. They begin with the time, so that what is made together lies together: where
ids are keys of a table, a commit then writes one page of it and not one for each row. Nothing reads a time or an
order out of them. Derived ids are for things that exist elsewhere already (a native session, a turn of it), so
that finding the same thing twice gives the same id.
"""

import hashlib
import os
import time
from enum import StrEnum

from ekiden.kernel.errors import Invalid

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford base 32: no i, l, o, u
_LENGTH = 20


class Prefix(StrEnum):
    """One printed prefix per noun of the glossary."""

    TEAM = "tem"
    PRINCIPAL = "pri"
    KEY = "key"
    PAIRING = "pai"
    HOST = "hos"
    SESSION = "ses"
    TURN = "trn"
    ITEM = "itm"
    APPROVAL = "apr"
    MESSAGE = "msg"
    REQUEST = "req"
    COMMAND = "cmd"
    EVENT = "evt"
    CHANNEL = "cha"
    MEMBER_KEY = "mky"
    INVITE = "inv"


_LETTER_OF_BYTE = _ALPHABET.encode() * 8
_LOW_HALF = (1 << 50) - 1
_PAIRS = tuple(high + low for high in _ALPHABET for low in _ALPHABET)


def _spell(number: int) -> str:
    """100 bits, two letters at a time and without a loop: reading a session derives an id for every item."""
    high, low = number >> 50, number & _LOW_HALF
    return (
        f"{_PAIRS[high >> 40]}{_PAIRS[high >> 30 & 1023]}{_PAIRS[high >> 20 & 1023]}{_PAIRS[high >> 10 & 1023]}"
        f"{_PAIRS[high & 1023]}{_PAIRS[low >> 40]}{_PAIRS[low >> 30 & 1023]}{_PAIRS[low >> 20 & 1023]}"
        f"{_PAIRS[low >> 10 & 1023]}{_PAIRS[low & 1023]}"
    )


def new_id(prefix: Prefix) -> str:
    """A fresh id, for example `msg_cw3k…`: eight letters for the time in milliseconds, which come round in 34
    years, and twelve random ones (60 bits; of each random byte five are a letter)."""
    ms = time.time_ns() // 1_000_000
    first = _PAIRS[ms >> 30 & 1023] + _PAIRS[ms >> 20 & 1023] + _PAIRS[ms >> 10 & 1023] + _PAIRS[ms & 1023]
    return f"{prefix}_{first}{os.urandom(12).translate(_LETTER_OF_BYTE).decode()}"


def derived_id(prefix: Prefix, *parts: str) -> str:
    """The id of a thing known by `parts`; the same parts always give the same id (SHA-256, cut to 100 bits)."""
    digest = hashlib.sha256("\x00".join(parts).encode("utf-8", "surrogatepass")).digest()
    return prefix + "_" + _spell(int.from_bytes(digest[:13], "big") >> 4)


def checked_id(prefix: Prefix, text: str) -> str:
    """`text` unchanged if it is a well-formed id of this kind.

    Raises:
        Invalid: if it is not.
    """
    head, _, tail = text.partition("_")
    if head != prefix or len(tail) != _LENGTH or any(letter not in _ALPHABET for letter in tail):
        raise Invalid(
            f"{text[:40]!r} is not a {prefix.name.lower()} id",
            hint=f"It looks like {prefix}_ and 20 letters.",
        )
    return text
