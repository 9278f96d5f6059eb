"""Canonical JSON: the examples of RFC 8785, its order of names, its numbers, and what is refused."""

import json
import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ekiden.kernel import canonical
from ekiden.kernel.errors import Invalid
from ekiden.kernel.limits import CANONICAL_DEPTH_MAX

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(-(2**53) + 1, 2**53 - 1, allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)


def test_the_example_of_the_standard() -> None:
    """RFC 8785, 3.2.2, but for its one number that is beyond what counts exactly (1E30, refused here)."""
    value = {
        "numbers": [333333333.33333329, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"\u002f",
        "literals": [None, True, False],
    }
    assert canonical.exact(value).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


def test_names_are_ordered_by_their_utf16_units() -> None:
    """RFC 8785, 3.2.3: a smiley's surrogates (D83D…) come before U+FB33, its code point after it."""
    value = {
        "\u20ac": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One",
        "\U0001f600": "Emoji: Grinning Face",
        "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis",
    }
    assert [*json.loads(canonical.exact(value)).values()] == [
        "Carriage Return",
        "One",
        "Control",
        "Latin Small Letter O With Diaeresis",
        "Euro Sign",
        "Emoji: Grinning Face",
        "Hebrew Letter Dalet With Dagesh",
    ]


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("433fffffffffffff", "9007199254740991"),
        ("c33fffffffffffff", "-9007199254740991"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("41b3de4355555553", "333333333.3333332"),
        ("41b3de4355555554", "333333333.33333325"),
        ("41b3de4355555555", "333333333.3333333"),
        ("41b3de4355555556", "333333333.3333334"),
        ("41b3de4355555557", "333333333.33333343"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
    ],
)
def test_numbers_of_the_standards_table(bits: str, text: str) -> None:
    """RFC 8785, appendix B: the rows that this program does not refuse."""
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical.exact(number).decode() == text


@pytest.mark.parametrize(
    "value",
    [2**53, -(2**53), 2.0**53, 1e21, 1e30, float("nan"), float("inf"), "\ud800", {"\udc00": 1}, {1: 2}, b"x", {1}],
)
def test_what_other_programs_would_read_otherwise_is_refused(value: Any) -> None:
    with pytest.raises(Invalid):
        canonical.exact(value)


def test_depth_is_bounded() -> None:
    value: Any = 0
    for _ in range(CANONICAL_DEPTH_MAX):
        value = [value]
    canonical.exact(value)
    with pytest.raises(Invalid):
        canonical.exact([value])


@given(json_values)
def test_what_is_spelled_reads_back_and_is_spelled_alike_again(value: Any) -> None:
    spelled = canonical.exact(value)
    again = json.loads(spelled)
    assert again == value
    assert canonical.exact(again) == spelled


@given(st.dictionaries(st.text("abcxyz_0123"), st.text('abc \n"\\é€') | st.integers(-(2**53) + 1, 2**53 - 1)))
def test_both_spellings_agree_on_plain_names_texts_and_counts(value: dict[str, Any]) -> None:
    assert canonical.exact(value) == canonical.encode(value)


def test_a_shape_is_spelled_as_its_json() -> None:
    class Thing(msgspec.Struct, omit_defaults=True):
        late: int
        early: str = "x"

    assert canonical.exact([Thing(1), Thing(2, "y")]) == b'[{"late":1},{"early":"y","late":2}]'
