"""JSON in one spelling, so that equal values have equal bytes (RFC 8785 for the values that Ekiden sends).

Keys sorted, no white space, UTF-8. Lone surrogates, which JSON text may carry but UTF-8 may not, become
U+FFFD before anything is stored or sent.
"""

import hashlib
import re

import msgspec

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_encoder = msgspec.json.Encoder(order="sorted")


def encode(value: object) -> bytes:
    """`value` (JSON types and msgspec structs) as canonical JSON."""
    return _encoder.encode(value)


def digest(value: object) -> str:
    """SHA-256 of the canonical JSON, as 64 hex digits."""
    return hashlib.sha256(encode(value)).hexdigest()


def whole_text(text: str) -> str:
    """`text` with each half of a broken surrogate pair replaced by U+FFFD."""
    return _LONE_SURROGATE.sub("\ufffd", text) if not text.isascii() else text
