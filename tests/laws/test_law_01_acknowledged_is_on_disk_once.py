"""Law 1: an acknowledged write is on disk, once.

A hub under load from many callers is killed with SIGKILL at random moments, 200 times, on one database. Callers
that got no answer send their command again to the next life, as clients do. The same with the log in Postgres,
fewer times, for there a life takes longer to begin. A kill leaves the kernel's own memory whole, so what a loss of
power would take is held by another test: the pragmas and the order of commit and acknowledgement
(`tests/log/test_disk.py`).
"""

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.log import crash_nursery

from ekiden.log.postgres_connection import connect, end

KILLS = 200
KILLS_ON_POSTGRES = 30


class Lives:
    """Runs lives one after another and keeps what they acknowledged."""

    def __init__(self, place: Path | str) -> None:
        self.place = place
        self.acked: dict[str, int] = {}
        self.sent: set[str] = set()
        self.repeated = 0
        self._process = subprocess.Popen(
            [sys.executable, crash_nursery.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def live(self, life: int, chance: random.Random) -> None:
        """One life, killed after some acknowledgements and a moment more."""
        again = sorted(self.sent - set(self.acked))
        order = {"path": str(self.place), "life": life, "again": again}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        left = chance.choice([0, 0, 1, chance.randrange(2, 60), chance.randrange(60, 300)])
        moment_s = chance.random() * 0.02
        killer = None
        while (line := self._process.stdout.readline().strip()) != "died":
            assert line, "the nursery ended"
            word, *rest = line.split()
            if word == "born":
                pid = int(rest[0])
            elif word == "sent":
                self.sent.add(rest[0])
            else:
                self._note(*rest)
                left -= 1
            if killer is None and left <= 0:
                killer = threading.Timer(moment_s, os.kill, (pid, signal.SIGKILL))
                killer.start()
        killer.join()

    def _note(self, command_id: str, seq: str, repeated: str) -> None:
        assert command_id not in self.acked, f"{command_id} was answered twice to one caller"
        self.acked[command_id] = int(seq)
        self.repeated += int(repeated)

    def end(self) -> None:
        self._process.stdin.close()
        assert self._process.wait(20) == 0
        self._process.stdout.close()


@pytest.mark.timeout(180)
def test_two_hundred_kills_lose_nothing_acknowledged_and_double_nothing(tmp_path):
    path = tmp_path / "data" / "ekiden.db"
    lives = Lives(path)
    chance = random.Random()
    for life in range(KILLS):
        lives.live(life, chance)
    lives.end()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    holds_what_was_acknowledged(lives, *(connection.execute(query).fetchall() for query in STORED))
    connection.close()
    # The run was what it is meant to be: much was acknowledged, and kills did fall between commit and answer.
    assert len(lives.acked) > KILLS
    assert lives.repeated > 0


@pytest.mark.timeout(180)
@pytest.mark.anyio
async def test_kills_of_a_hub_on_postgres_lose_nothing_acknowledged_and_double_nothing(postgres_url):
    lives = Lives(postgres_url)
    chance = random.Random()

    def run():
        for life in range(KILLS_ON_POSTGRES):
            lives.live(life, chance)
        lives.end()

    await asyncio.to_thread(run)
    connection = await connect(postgres_url)
    stored = [[tuple(row.values()) for row in await connection.fetch(query)] for query in STORED]
    await end(connection)
    holds_what_was_acknowledged(lives, *stored)
    assert len(lives.acked) > KILLS_ON_POSTGRES


STORED = (
    "SELECT seq, body FROM events ORDER BY seq",
    "SELECT head FROM teams",
    "SELECT count(*), min(seq), max(seq) FROM event_topics",
    "SELECT command_id FROM commands",
)


def holds_what_was_acknowledged(lives, rows, heads, topics, answers):
    stored = [json.loads(body)["id"] for _, body in rows]
    assert [seq for seq, _ in rows] == list(range(1, len(rows) + 1)), "a seq is missing or doubled"
    assert (heads, topics) == ([(len(rows),)], [(len(rows), 1, len(rows))])
    assert len(stored) == len(set(stored)), "something is there twice"
    assert set(lives.acked) <= set(stored), "something acknowledged is missing"
    assert {name for (name,) in answers} == set(stored), "a command and its answer came apart"
    assert set(stored) <= lives.sent
