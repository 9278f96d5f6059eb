"""Names: many spellings, one name; nothing invisible in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ekiden.access import names
from ekiden.kernel import limits
from ekiden.kernel.errors import Invalid

SAME = [
    ["Reviewer", "reviewer", "reviewer ", " REVIEWER", "Ｒeviewer", "r\u0435viewer", "rev\u0456ewer"],
    ["Straße", "STRASSE", "strasse"],
    ["café", "cafe\u0301", "CAFÉ"],
    ["my  phone", "my phone", "My\u00a0Phone"],
    ["手机", "手机 "],
    ["\u0430\u0435\u043e", "aeo", "\u03b1eo"],
    ["BUILD", "\u0412UILD", "\u0392uild"],
    ["n\u00eb", "n\u0451", "ne\u0308"],
    ["hope", "\u041d\u041e\u0420\u0415", "\u0570\u0585pe"],
]


@pytest.mark.parametrize("alike", SAME, ids=lambda alike: alike[0])
def test_names_that_look_alike_are_one_name(alike):
    assert len({names.canonical_name(names.checked_name(name)) for name in alike}) == 1


def test_names_that_differ_for_people_differ():
    different = ["reviewer", "reviewer 2", "reviewers", "手机", "电脑", "Rezensent", "telefon", "телефон"]
    assert len({names.canonical_name(name) for name in different}) == len(different)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "   ",
        "all",
        "System",
        " hub ",
        "\u0430ll",
        "Here",
        "everyone",
        "\uff55ser",
        "Assistant",
        "x" * (limits.NAME_CHARS_MAX + 1),
        "a\x00b",
        "a\nb",
        "a\x1b[31mb",
        "reviewer\u200b",
        "a\u202eb",
        "a\u2066b",
        "a\ufeffb",
        "a\u2028b",
        "a\u00adb",
        "\u3164",
        "\u2800",
        "a\ufe0fb",
        "a\U000e0100",
        "a\ud800b",
        "a\ue000b",
        "a\u0378b",
    ],
    ids=ascii,
)
def test_names_that_deceive_or_say_nothing_are_refused_with_the_reason(name):
    with pytest.raises(Invalid) as refused:
        names.checked_name(name)
    assert refused.value.message


@given(st.text(max_size=limits.NAME_CHARS_MAX))
def test_a_name_that_is_taken_is_stable(text):
    """What was accepted once is accepted again unchanged, and its canonical form is its own."""
    try:
        name = names.checked_name(text)
    except Invalid:
        return
    assert names.checked_name(name) == name
    assert names.canonical_name(names.canonical_name(name)) == names.canonical_name(name)


@given(st.text(max_size=300))
def test_what_a_device_says_of_itself_always_becomes_a_name(text):
    name = names.cleaned_name(text)
    assert names.checked_name(name) == name


@given(st.text(min_size=1, max_size=80), st.integers(min_value=2, max_value=1001))
def test_a_numbered_name_keeps_its_bound(text, number):
    name = names.numbered_name(text, number)
    assert len(name) <= limits.NAME_CHARS_MAX
    assert name.endswith(f" {number}")
