"""The recorded sessions of five versions, read into exactly the items that were read and found right."""

import json

import pytest

from ekiden.vendors.claude.transcript import ClaudeFold
from vendors.claude.files import Reading, lines_of
from vendors.claude.golden import EXPECTED, account, sessions

SESSIONS = sessions()


@pytest.mark.parametrize("name", SESSIONS)
def test_a_recording_gives_its_snapshot(name: str) -> None:
    """Items, order, states and facts; `python -m vendors.claude.golden` renews the snapshots."""
    assert account(SESSIONS[name]) == json.loads((EXPECTED / f"{name}.json").read_text("utf-8"))


def test_every_snapshot_has_its_recording() -> None:
    """No snapshot is left over and none is missing."""
    assert {path.stem for path in EXPECTED.glob("*.json")} == set(SESSIONS)


@pytest.mark.parametrize("name", SESSIONS)
def test_a_window_gives_the_same_ids_and_no_others(name: str) -> None:
    """From whichever line a reading begins, each item that it gives has the id that the whole file gives it."""
    path = SESSIONS[name]
    data = path.read_bytes()
    whole = Reading(ClaudeFold(path.stem)).take(lines_of(data))
    starts = [line.start for line in lines_of(data)]
    for start in starts[1::3]:
        window = Reading(ClaudeFold(path.stem)).take(lines_of(data, start, numbered=False))
        later = {key for key, item in whole.items.items() if item.source.start >= start}
        assert set(window.items) <= set(whole.items)
        assert later <= set(window.items) or window.facts.wants_earlier
        for key in later & set(window.items):
            assert window.items[key].text() == whole.items[key].text()


@pytest.mark.parametrize("name", SESSIONS)
def test_a_growing_file_ends_as_the_whole_file_does(name: str) -> None:
    """Fed line by line with a settling after each, the last state of every item is that of one reading."""
    path = SESSIONS[name]
    data = path.read_bytes()
    whole = Reading(ClaudeFold(path.stem)).take(lines_of(data))
    grown = Reading(ClaudeFold(path.stem))
    for line in lines_of(data):
        grown.take([line])
    assert grown.items == whole.items


@pytest.mark.parametrize("name", SESSIONS)
def test_an_unfinished_last_line_is_provisional_and_leaves_no_trace(name: str) -> None:
    """Each line is told first without its newline: what comes is provisional, and the end is the same."""
    path = SESSIONS[name]
    data = path.read_bytes()
    whole = Reading(ClaudeFold(path.stem)).take(lines_of(data))
    fold = ClaudeFold(path.stem)
    grown = Reading(fold)
    for line in lines_of(data):
        unfinished = lines_of(data[: line.end], line.start)
        for item in fold.feed(unfinished[0]):
            assert item.provisional
            assert item.id in whole.items
        grown.take([line], finish=False)
    assert grown.take([]).items == whole.items
