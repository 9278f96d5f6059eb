"""The grammar of mentions: whom a text calls, in the hub and on the page alike."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ekiden.kernel.limits import MENTION_CHARS_MAX
from ekiden.relay.mentions import mentions_in

VECTORS = json.loads((Path(__file__).parent / "mention_vectors.json").read_text("utf-8"))
TWIN = Path(__file__).parents[2] / "src/ekiden/web/state/mentions.js"
PIECES = (
    *(
        "@",
        "bob",
        "@bob",
        '@"',
        '"',
        "`",
        "``",
        "```",
        "~~~",
        "\n",
        "\n\n",
        "\r\n",
        " ",
        "\\",
        "/",
        "> ",
        "_",
        "*",
    ),
    *(".", "-", "https://", "role:", "é", "e\u0301", "小", "𝒃", "😀", "\u2028", "\x1c", "\ufeff", "(", "1", "a"),
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=24).map("".join)


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["why"] for vector in VECTORS])
def test_a_text_calls_whom_it_should(vector: dict[str, object]) -> None:
    assert list(mentions_in(str(vector["text"]))) == vector["names"]


@given(TEXTS)
@settings(max_examples=500)
def test_names_stand_in_the_text_once_and_within_bounds(text: str) -> None:
    names = mentions_in(text)
    assert len(set(names)) == len(names)
    for name in names:
        assert f"@{name}" in text or name in text
        assert 0 < len(name.removeprefix("role:")) <= MENTION_CHARS_MAX
        assert "\n" not in name


@given(TEXTS)
@settings(max_examples=300)
def test_nobody_is_called_in_code_or_quotes(text: str) -> None:
    """Whatever a text is, its quotation calls nobody, and neither does it in a fence longer than any in it."""
    quoted = "\n".join(f"> {line}" for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    assert mentions_in(quoted) == ()
    assert mentions_in(f"{'~' * 90}\n{text}\n{'~' * 90}") == ()


def test_the_page_agrees_on_texts_of_all_kinds(tmp_path: Path) -> None:
    """The same random texts to both: a difference would show one thing and do another."""
    node = shutil.which("node")
    assert node is not None, "Node is needed to run the page's twin"
    import random

    chance = random.Random(20)
    texts = ["".join(chance.choice(PIECES) for _ in range(chance.randrange(30))) for _ in range(4_000)]
    (tmp_path / "texts.json").write_text(json.dumps(texts))
    script = (
        f'import {{ mentionsIn }} from "{TWIN.as_uri()}"; import {{ readFileSync }} from "node:fs";'
        f'const texts = JSON.parse(readFileSync("{tmp_path / "texts.json"}", "utf8"));'
        "console.log(JSON.stringify(texts.map(mentionsIn)));"
    )
    (tmp_path / "twin.mjs").write_text(script)
    ran = subprocess.run(
        [node, str(tmp_path / "twin.mjs")], capture_output=True, text=True, timeout=60, check=True
    )
    told = json.loads(ran.stdout)
    assert sum(bool(names) for names in told) > 400
    for text, names in zip(texts, told, strict=True):
        assert list(mentions_in(text)) == names, text
