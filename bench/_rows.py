"""Logs that are long from the start: the databases make rows themselves, as many commands would have left them.

A filling goes on where the one before it ended, so that a log can be kept and made longer.
"""

import sqlite3
import time
from pathlib import Path

from ekiden.kernel.clock import SystemClock
from ekiden.log.open import open_log
from ekiden.log.postgres_connection import connect, end

TEAM = "tem_00000000000000000000"
TOPICS = 100
PIECE = 100_000
_BODY = '{"message_id":"msg_00000000000000000000","text":"please run the tests again","state":"stored"}'
_AT = "2026-01-01T00:00:00.000Z"
_DIGEST = "d" * 64
# Rows come in the order of each table's key where that can be, as a bulk of them should.
_TEXTS = (
    "INSERT INTO events (team_id, seq, kind, topics, at, actor_id, actor_key, actor_name, body) SEQS"
    f" SELECT '{TEAM}', seq, 'message.stored', TOPIC || ' team', '{_AT}', 'pri_0', 'key_0', 'bench', '{_BODY}'"
    " FROM n ORDER BY seq",
    "INSERT INTO event_topics (team_id, topic, seq) SEQS"
    f" SELECT '{TEAM}', TOPIC, seq FROM n ORDER BY seq % {TOPICS}, seq",
    "INSERT INTO event_topics (team_id, topic, seq) SEQS" + f" SELECT '{TEAM}', 'team', seq FROM n ORDER BY seq",
    "INSERT INTO commands (team_id, principal_id, command_id, digest, answer, seq, done_at_s) SEQS"
    f" SELECT '{TEAM}', 'pri_0', 'c' || (100000000 + seq), '{_DIGEST}', '{{\"seq\":' || seq || '}}', seq,"
    " 1900000000 FROM n ORDER BY seq",
    f"INSERT INTO teams (team_id, head) SEQS SELECT '{TEAM}', seq FROM n ORDER BY seq DESC LIMIT 1"
    " ON CONFLICT (team_id) DO UPDATE SET head = excluded.head",
)


def topic_of(number: int) -> str:
    """One of the topics that each have every hundredth event."""
    return f"session:ses_{1000 + number}"


def _statements(first: int, last: int, seqs: str) -> list[str]:
    """What adds the events of a range of seqs, with all that belongs to them."""
    topic = f"'session:ses_' || (1000 + seq % {TOPICS})"
    return [text.replace("SEQS", seqs.format(first=first, last=last)).replace("TOPIC", topic) for text in _TEXTS]


async def fill_sqlite(path: Path, count: int, *, within_s: float = float("inf")) -> int:
    """Has a file hold events up to `count`, or as far as it gets in the time; how many it holds."""
    log = await open_log(str(path), clock=SystemClock(), queries={})
    head = (await log.bounds(TEAM))[1]
    await log.close()
    return _fill_file(path, head, count, time.monotonic() + within_s)


def _fill_file(path: Path, head: int, count: int, until: float) -> int:
    seqs = "WITH RECURSIVE n (seq) AS (SELECT {first} UNION ALL SELECT seq + 1 FROM n WHERE seq < {last})"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA cache_size = -65536")
    while head < count and time.monotonic() < until:
        last = min(count, head + PIECE)
        connection.execute("BEGIN")
        for statement in _statements(head + 1, last, seqs):
            connection.execute(statement)
        connection.execute("COMMIT")
        head = last
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return head


async def fill_postgres(url: str, count: int, *, within_s: float = float("inf")) -> int:
    """Has a database hold events up to `count`, or as far as it gets in the time; how many it holds."""
    until = time.monotonic() + within_s
    log = await open_log(url, clock=SystemClock(), queries={})
    before = head = (await log.bounds(TEAM))[1]
    await log.close()
    seqs = "WITH n (seq) AS (SELECT generate_series({first}::bigint, {last}::bigint))"
    connection = await connect(url, answer_s=60.0)
    await connection.execute("SET synchronous_commit = off")
    while head < count and time.monotonic() < until:
        last = min(count, head + PIECE)
        await connection.execute("; ".join(_statements(head + 1, last, seqs)))
        head = last
    if head > before:  # else Postgres would do it by itself while something is measured
        await connection.execute("VACUUM ANALYZE")
        await connection.execute("CHECKPOINT")
    await end(connection)
    return head
