"""How what an event said leaves the log, while that it was said stays: the same for all engines.

The body is replaced by its digest, which is all that the hash chain holds of it (`ekiden.crypto.chain`), so the
chain stays whole. The answer of the command that said it goes too: it repeated the text. An event of its own
tells of the redaction, so that whoever keeps frames in memory, on whichever node, puts the digest in their
place, and a body that was replaced by anybody else is found out.
"""

from collections.abc import Sequence

import msgspec

from ekiden.crypto.chain import body_digest, redacted
from ekiden.kernel import limits
from ekiden.log.port import LOG_TOPIC, Actor, Transaction
from ekiden.log.queries import load_queries

REDACTED = "log.redacted"
"""The kind of the event that tells of a redaction."""
_LOG = Actor("hub", name="hub")

QUERIES = load_queries(
    "log",
    """
-- name: said
-- What an event said, and who said it.
SELECT body, actor_id FROM events WHERE team_id = :team_id AND seq = :seq;

-- name: redact
-- Puts a digest in the place of what an event said.
UPDATE events SET body = :body WHERE team_id = :team_id AND seq = :seq;

-- name: redact_answer
-- The answer of the command that an event belongs to: the first of its actor that ended at the event or after it.
UPDATE commands SET answer = '{"redacted":true}' WHERE team_id = :team_id AND principal_id = :actor_id AND seq = (
    SELECT min(c.seq) FROM commands AS c
    WHERE c.team_id = :team_id AND c.principal_id = :actor_id AND c.seq >= :seq
);
""",
)


class Redacted(msgspec.Struct, frozen=True):
    """The body of a `log.redacted` event: which events, each with the digest of what it said (hex)."""

    events: tuple[tuple[int, str], ...]


async def redact(tx: Transaction, seqs: Sequence[int], *, answers: bool) -> int:
    """See `log.port.Transaction.redact`."""
    assert len(seqs) <= limits.LOG_REDACTED_AT_ONCE_MAX
    gone: list[tuple[int, str]] = []
    for seq in seqs:
        row = await tx.row("log.said", team_id=tx.team_id, seq=seq)
        if row is None:
            continue
        body = row["body"].encode()
        instead = redacted(body)
        if instead == body:
            continue
        await tx.run("log.redact", team_id=tx.team_id, seq=seq, body=instead.decode())
        if answers:
            await tx.run("log.redact_answer", team_id=tx.team_id, actor_id=row["actor_id"], seq=seq)
        gone.append((seq, body_digest(body)))
    if gone:
        tx.append(REDACTED, Redacted(tuple(gone)), topics=[LOG_TOPIC], actor=_LOG)
    return len(gone)
