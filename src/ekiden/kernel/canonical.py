"""JSON in one spelling, so that equal values have equal bytes.

Two spellings, both with keys sorted, without white space, in UTF-8:

- `encode` is the fast one, for comparing what this program alone has written: keys in the order of their bytes,
  numbers as msgspec writes them.
- `exact` is RFC 8785, for what is signed and must come out alike in every language: keys in the order of their
  UTF-16 units, numbers as ECMAScript writes them. Numbers that a double does not hold exactly as a count (beyond
  ±(2⁵³-1)), NaN, infinities and lone surrogates are refused: other programs would read them as something else.

Where text may carry lone surrogates, `whole_text` makes them U+FFFD before anything is stored or sent.
"""

import hashlib
import math
import re
from typing import Any, cast

import msgspec

from ekiden.kernel.errors import Invalid
from ekiden.kernel.limits import CANONICAL_DEPTH_MAX

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_encoder = msgspec.json.Encoder(order="sorted")
_SAFE_MAX = 2**53 - 1


def encode(value: object) -> bytes:
    """`value` (JSON types and msgspec structs) in the fast spelling."""
    return _encoder.encode(value)


def digest(value: object) -> str:
    """SHA-256 of the fast spelling, as 64 hex digits."""
    return hashlib.sha256(encode(value)).hexdigest()


def exact(value: object) -> bytes:
    """`value` (JSON types and msgspec structs) as RFC 8785 spells it.

    Raises:
        Invalid: if it holds what cannot be spelled alike everywhere (see above), or is nested deeper than
            `CANONICAL_DEPTH_MAX`.
    """
    pieces: list[bytes] = []
    _write(value, pieces, 0)
    return b"".join(pieces)


def exact_digest(value: object) -> str:
    """SHA-256 of the exact spelling, as 64 hex digits."""
    return hashlib.sha256(exact(value)).hexdigest()


def whole_text(text: str) -> str:
    """`text` with each half of a broken surrogate pair replaced by U+FFFD."""
    return _LONE_SURROGATE.sub("\ufffd", text) if not text.isascii() else text


def _write(value: object, pieces: list[bytes], depth: int) -> None:
    if depth > CANONICAL_DEPTH_MAX:
        raise Invalid("The value is nested too deeply to be signed.", max=CANONICAL_DEPTH_MAX)
    match value:
        case str():
            pieces.append(_text(value))
        case None | bool():
            pieces.append({None: b"null", True: b"true", False: b"false"}[value])
        case int() | float():
            pieces.append(_number(value))
        case list() | tuple():
            before = b"["
            for entry in cast("list[object]", value):
                pieces.append(before)
                _write(entry, pieces, depth + 1)
                before = b","
            pieces.append(b"[]" if before == b"[" else b"]")
        case dict():
            before = b"{"
            for key, entry in sorted(cast("dict[object, object]", value).items(), key=_utf16_order):
                pieces += (before, _text(cast("str", key)), b":")
                _write(entry, pieces, depth + 1)
                before = b","
            pieces.append(b"{}" if before == b"{" else b"}")
        case msgspec.Struct() | msgspec.Raw():
            plain: Any = msgspec.json.decode(_encoder.encode(value))
            _write(plain, pieces, depth)
        case _:
            raise Invalid(f"A {type(value).__name__} has no place in what is signed.")


def _utf16_order(pair: tuple[object, object]) -> bytes:
    key = pair[0]
    if not isinstance(key, str):
        raise Invalid("Names in what is signed are text.")
    return key.encode("utf-16-be", "surrogatepass")


def _text(text: str) -> bytes:
    # msgspec escapes exactly what RFC 8785, 3.2.2.2 asks for.
    try:
        return _encoder.encode(text)
    except UnicodeEncodeError:
        raise Invalid("What is signed holds half of a surrogate pair.") from None


def _number(number: float) -> bytes:
    """ECMAScript's Number::toString, which writes the shortest digits that read back the same, as `repr` finds
    them."""
    if abs(number) > _SAFE_MAX or not math.isfinite(number):
        raise Invalid("A number in what is signed is beyond what every program reads alike.", max=_SAFE_MAX)
    if isinstance(number, int) or number.is_integer():
        return b"%d" % int(number)
    from decimal import Decimal

    sign, digit_values, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int)
    digits = "".join(map(str, digit_values))
    point = len(digits) + exponent
    if 0 < point <= 21:
        text = f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        text = f"0.{'0' * -point}{digits}"
    else:
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        text = f"{digits[0]}{fraction}e{point - 1:+d}"
    return f"{'-' if sign else ''}{text}".encode()
