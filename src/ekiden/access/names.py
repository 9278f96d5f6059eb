"""Names that people give: shown as given, compared in one canonical form. Pure.

Two names that a person could take for one another are one name here: letter case, widths and compositions
(NFKD and case folding), outer and repeated spaces, and letters of other scripts that look like Latin ones.
Invisible, control and direction-changing characters are refused, not dropped. What a thing is called never
identifies it: ids do.
"""

import unicodedata

from ekiden.kernel import limits
from ekiden.kernel.errors import Invalid

RESERVED = frozenset(
    {
        *("all", "anybody", "anyone", "everybody", "everyone", "here", "me", "nobody", "none", "you"),
        *("admin", "agents", "channel", "channels", "people", "role", "roles", "root", "team"),
        *("assistant", "ekiden", "hub", "human", "system", "tool", "user"),
    }
)
"""Words that mean more than one, Ekiden itself, or whom a model takes its orders from."""

_REFUSED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_BLANK_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
_VARIATION_SELECTORS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))

_LOOKS_LIKE_LATIN = str.maketrans(
    # Cyrillic, Greek, Armenian, and letters beside the Latin alphabet; small and capital forms alike.
    "аеорсухіјѕһԁԛԝьвнмткӏɡνορικατυχβεζημօսհոցզıɑɡɩ",
    "aeopcyxijshdqwbbhmtklgvopikatuxbezhmouhngqiagi",
)
_NO_NAME = "unnamed"


def checked_name(text: str) -> str:
    """The name as it is shown: outer spaces gone, inner ones single.

    Raises:
        Invalid: with the reason, if the name is empty, too long, reserved or holds refused characters.
    """
    if len(text) > limits.NAME_CHARS_MAX:
        raise Invalid(f"A name has at most {limits.NAME_CHARS_MAX} characters, this one has {len(text)}.")
    for letter in text:
        if not _visible(letter):
            raise Invalid(
                f"The name holds U+{ord(letter):04X}, which is invisible or controls how text is shown.",
                hint="Use letters, digits, signs and spaces.",
            )
    name = " ".join(text.split())
    if not name:
        raise Invalid("A name may not be empty.")
    if canonical_name(name) in RESERVED:
        raise Invalid(f"{name!r} is a reserved word.", hint="Take another name.")
    return name


def canonical_name(name: str) -> str:
    """The form in which names are compared."""
    # Taken apart first: what looks alike without its accents does so with them.
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())
    return " ".join(unicodedata.normalize("NFC", folded.translate(_LOOKS_LIKE_LATIN)).split())


def cleaned_name(text: str) -> str:
    """A name out of words that a stranger's device says of itself: what is refused in names is left out."""
    name = " ".join("".join(letter for letter in text if _visible(letter)).split())
    name = name[: limits.NAME_CHARS_MAX].strip()
    return name if name and canonical_name(name) not in RESERVED else _NO_NAME


def numbered_name(name: str, number: int) -> str:
    """`name` told apart from others of that name: `Phone 2`."""
    mark = f" {number}"
    return name[: limits.NAME_CHARS_MAX - len(mark)] + mark


def _visible(letter: str) -> bool:
    return (
        unicodedata.category(letter) not in _REFUSED_CATEGORIES
        and letter not in _BLANK_LETTERS
        and not any(ord(letter) in selectors for selectors in _VARIATION_SELECTORS)
    )
