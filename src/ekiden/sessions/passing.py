"""Feeds that hold nothing but pieces of growing items: nothing of them is stored, so no commit is waited for.

What makes a piece safe to be told again is its index, not the id of its command. Wherever a piece would change
what is stored (it proves that a lost turn runs), the feed is taken as any other (`feed.take_feed`).
"""

from collections.abc import Sequence
from typing import TypeGuard

from ekiden.kernel.errors import NotFound
from ekiden.log.port import Reading
from ekiden.sessions.keeping import load_host, load_session
from ekiden.sessions.wire import FeedAnswer, FeedEntry, FeedGrew, FeedGrown, Refused, SessionState

Piece = FeedGrew | FeedGrown


def only_pieces(entries: Sequence[FeedEntry]) -> TypeGuard[Sequence[Piece]]:
    """Whether a feed holds pieces of growing items and nothing else."""
    return bool(entries) and all(isinstance(entry, Piece) for entry in entries)


async def hear_pieces(
    reading: Reading, host_id: str, pieces: Sequence[Piece], *, boot_id: str, passing: list[Piece]
) -> FeedAnswer | None:
    """Answers as `feed.take_feed` does, or None if something must be stored.

    Args:
        boot_id: the hub's, for the answer.
        passing: receives the pieces that are to be sent.

    Raises:
        NotFound: the host has never reported itself.
    """
    if await load_host(reading, host_id) is None:
        raise NotFound(hint="A host reports itself first: PUT /v1/hosts/{host_id}.")
    known: dict[str, bool] = {}
    refused: list[Refused] = []
    for index, piece in enumerate(pieces):
        here = known.get(piece.session_id)
        if here is None:
            kept = await load_session(reading, piece.session_id)
            here = known[piece.session_id] = kept is not None and kept.host_id == host_id
            if here and kept is not None and kept.report.state is SessionState.LOST:
                return None
        if here:
            passing.append(piece)
        else:
            absent = NotFound()
            refused.append(Refused(index=index, code=absent.code, message=absent.message))
    return FeedAnswer(seq=reading.seq, boot_id=boot_id, stale=(), refused=tuple(refused))
