"""The demo agent's reader on lines of every kind."""

from hypothesis import given
from hypothesis import strategies as st

from ekiden.transcript.items import ItemKind
from ekiden.transcript.reading import Drift, Line
from ekiden.vendors.demo.transcript import DemoFold


@given(st.lists(st.binary(max_size=200) | st.text(max_size=50).map(str.encode), max_size=20))
def test_no_line_is_ever_lost_or_fatal(lines: list[bytes]) -> None:
    """Whatever stands in a file, each line that is not empty is counted, and damaged ones are shown."""
    fold = DemoFold("abc", "abc.jsonl")
    start = 0
    shown = 0
    for number, raw in enumerate(lines, 1):
        shown += len(fold.feed(Line(raw, start, start + len(raw), number)))
        start += len(raw) + 1
    assert fold.facts.rows == sum(bool(raw.strip()) for raw in lines)
    assert shown >= fold.facts.unreadable_rows


def test_a_row_of_an_unknown_kind_is_kept_and_counted() -> None:
    """It is an item that can be seen, and a file of nothing else says that nothing was understood."""
    fold = DemoFold("abc", "abc.jsonl")
    items = fold.feed(Line(b'{"type":"hologram","id":"x"}', 0, 28, 1))
    assert [item.kind for item in items] == [ItemKind.UNKNOWN]
    assert fold.facts.unknown_kinds == {"hologram": 1}
    assert fold.facts.drift is Drift.NOTHING_PARSED


def test_a_half_line_is_provisional() -> None:
    """A last line without its newline may still change."""
    fold = DemoFold("abc", "abc.jsonl")
    line = b'{"type":"message","id":"1","role":"user","text":"hi"}'
    items = fold.feed(Line(line, 0, len(line), 1, complete=False))
    assert items[0].provisional
