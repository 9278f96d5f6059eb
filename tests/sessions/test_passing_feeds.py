"""Feeds of nothing but pieces: answered and passed on like any other, and nothing of them is written."""

from pathlib import Path
from typing import Any

import pytest

from ekiden.kernel.errors import NotFound
from ekiden.kernel.ids import Prefix, new_id
from ekiden.sessions.passing import hear_pieces, only_pieces
from ekiden.sessions.wire import FeedAnswer, FeedGrew, FeedGrown, FeedTurn, SessionView
from ekiden.transcript.items import ItemKind
from sessions.door import open_house
from sessions.room import TEAM, Room

pytestmark = pytest.mark.anyio


async def hear(
    room: Room, *pieces: FeedGrew | FeedGrown, host_id: str = ""
) -> tuple[FeedAnswer | None, list[Any]]:
    """What a reading of the log answers, and what it passes on."""
    passing: list[FeedGrew | FeedGrown] = []
    answer = await room.log.ask(
        TEAM,
        lambda reading: hear_pieces(reading, host_id or room.host_id, pieces, boot_id="boot", passing=passing),
    )
    return answer, passing


async def test_pieces_are_heard_as_a_feed_takes_them(room: Room) -> None:
    """The same answer, the same refusals and the same pieces passed on, whichever way they go."""
    session_id = await room.session()
    await room.tell(FeedTurn(session_id, "trn_1", "running"))
    other_host = new_id(Prefix.HOST)
    await room.arrive(other_host, "Other")
    stranger = room.report("other", host_id=other_host).session_id
    pieces = (
        FeedGrew(session_id, "trn_1", "itm_1", ItemKind.MESSAGE, 0, "a"),
        FeedGrew(stranger, "trn_1", "itm_2", ItemKind.MESSAGE, 0, "forged"),
        FeedGrown(session_id, "trn_1", "itm_1", ItemKind.MESSAGE, 2, "ab"),
        FeedGrew(session_id, "trn_2", "itm_3", ItemKind.MESSAGE, 0, "c"),
    )
    heard, passed = await hear(room, *pieces)
    assert heard == await room.tell(*pieces)
    assert passed == room.passed
    assert [refused.index for refused in heard.refused] == [1]
    with pytest.raises(NotFound):
        await hear(room, *pieces, host_id=new_id(Prefix.HOST))


async def test_a_piece_that_may_prove_a_lost_turn_is_left_to_the_writer(room: Room) -> None:
    """Only a write can take a loss back."""
    session_id = await room.session()
    await room.tell(FeedTurn(session_id, "trn_1", "running", proof_at="2026-01-01T00:00:00Z"))
    await room.lose()
    await room.back()
    answer, _ = await hear(room, FeedGrew(session_id, "trn_1", "itm_1", ItemKind.MESSAGE, 3, "more"))
    assert answer is None


def test_a_feed_with_anything_else_is_not_only_pieces() -> None:
    """An empty feed neither: it is answered as it always was."""
    piece = FeedGrew("ses_1", "trn_1", "itm_1", ItemKind.MESSAGE, 0, "a")
    assert only_pieces((piece,))
    assert not only_pieces(())
    assert not only_pieces((piece, FeedTurn("ses_1", "trn_1", "completed")))


async def test_through_the_door_a_piece_waits_for_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While nothing can be written, those who look still get what grows."""

    async def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a piece was written")

    async with open_house(tmp_path) as house, house.host() as host:
        session_id = await host.session()
        await host.tell(FeedTurn(session_id, "trn_1", "running"))
        with monkeypatch.context() as patch:
            patch.setattr(house.hub.log, "write", refuse)
            await host.tell(FeedGrew(session_id, "trn_1", "itm_1", ItemKind.MESSAGE, 0, "grow"))
        view = await house.owner.get(f"/v1/sessions/{session_id}", type=SessionView)
        assert [growing.text for growing in view.growing] == ["grow"]
