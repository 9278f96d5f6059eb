"""A reply is within its budget to the character, and what it leaves out is counted, for any content."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ekiden.kernel.errors import Invalid
from ekiden.mcp.budget import Block, Shown, fitted, room_of

TEXTS = st.text(st.characters(codec=None), max_size=1500)


def more(end: int) -> str:
    return f"…cut at {end}, with {'9' * (end % 7)} more"


def without_cut(rest: str) -> tuple[str, int]:
    """What follows the words of a cut, and where they say that it was; -1 if there are none."""
    found = re.match(r"\n…cut at (\d+), with 9* more", rest)
    return (rest[found.end() :], int(found[1])) if found else (rest, -1)


BLOCKS = st.lists(
    st.builds(
        Block,
        head=st.text("h[]# ", min_size=1, max_size=120),
        text=TEXTS,
        start=st.just(0),
        more=st.sampled_from([more, None]),
        most=st.sampled_from([0, 200]),
    ),
    max_size=30,
)


@given(BLOCKS, st.integers(100, 1500))
def test_a_reply_keeps_its_budget_and_counts_what_is_missing(blocks: list[Block], budget: int) -> None:
    told: list[Shown] = []

    def tail(shown: Shown) -> str:
        told.append(shown)
        missing = len(blocks) - shown.blocks
        return (
            f"{missing} of {len(blocks)} not shown, cut at {shown.cut_at}" if missing or shown.cut_at >= 0 else ""
        )

    room = room_of(budget)
    reply = fitted("HEAD", blocks, tail, room)
    assert len(reply) <= room
    shown = told[-1]
    assert reply.startswith("HEAD")
    # Head lines of blocks are ours and hold no line feed here: those that are there are the first ones, whole.
    rest = reply[len("HEAD") :]
    for block in blocks[: shown.blocks]:
        assert rest.startswith(f"\n{block.head}")
        rest = rest[1 + len(block.head) :]
        while rest.startswith("\n| "):
            rest = rest[1:].partition("\n")[1] + rest[1:].partition("\n")[2]
        rest, said_cut = without_cut(rest)
        last = block is blocks[shown.blocks - 1]
        if last and shown.cut_at >= 0:
            assert said_cut == shown.cut_at
        elif said_cut >= 0:
            assert block.most
            assert 0 < said_cut < len(block.text)
    said = tail(shown)
    assert rest == (f"\n{said}" if said else "")


@given(BLOCKS)
def test_nothing_is_said_to_be_missing_where_all_fits(blocks: list[Block]) -> None:
    reply = fitted("HEAD", blocks, lambda shown: "cut" if shown.blocks < len(blocks) else "", 10_000_000)
    assert reply.count("\n") >= len(blocks)
    assert not reply.endswith("cut")


def test_the_most_important_is_cut_rather_than_left_out() -> None:
    reply = fitted(
        "H", [Block("first", "x" * 5000, more=more), Block("second")], lambda s: f"{2 - s.blocks} left", 400
    )
    assert len(reply) <= 400
    assert len(reply) > 390
    assert reply.endswith("1 left")
    assert "…cut at " in reply


@pytest.mark.parametrize("tokens", [99, 0, -1, 20_001])
def test_a_budget_without_sense_is_refused(tokens: int) -> None:
    with pytest.raises(Invalid, match="100 to 20000 tokens"):
        room_of(tokens)
