"""`chaos_lost_or_doubled`: commands that were acknowledged and are not in the log exactly once, and events that a
follower missed or saw twice, while all that can go goes.

Three nodes as processes on one Postgres, 16 clients that send 20,000 commands, each to the next node and again
under its own name until it is answered. A node is killed every 2 s, Postgres is stopped twice as by a crash, NATS
is away for 10 s. A follower goes from node to node by its cursor all the time. `nodes_chaos.py N` sends N of them.
"""

import asyncio
import contextlib
import json
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from _load import figure
from _nodes import Node, a_postgres, nodes
from ekiden.kernel.clock import SystemClock
from ekiden.log.open import open_log

COMMANDS = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
CLIENTS = 16
KILL_EVERY_S = 2.0
POSTGRES_AT_S = (4.0, 11.0)
NATS_AWAY_S = (2.0, 12.0)
GIVE_UP_S = 44.0
"""After the start of the program; what is not answered by then counts as lost."""


class Way:
    """One client's connection to whichever node answers."""

    def __init__(self, ports: list[int], key: str, first: int) -> None:
        self._ports, self._key, self._at = ports, key, first
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    def leave(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
        self._at += 1

    async def post(self, name: str) -> int | None:
        """Sends one command; its seq, or None if it has to be sent again."""
        port = self._ports[self._at % len(self._ports)]
        try:
            async with asyncio.timeout(5):
                if self._streams is None:
                    self._streams = await asyncio.open_connection("127.0.0.1", port)
                reader, writer = self._streams
                body = json.dumps({"text": name}).encode()
                head = (
                    f"POST /v1/append HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {self._key}\r\n"
                    f"Content-Type: application/json\r\nCommand-Id: {name}\r\nContent-Length: {len(body)}\r\n\r\n"
                )
                writer.write(head.encode() + body)
                answer = await reader.readuntil(b"\r\n\r\n")
                fields = answer.decode().lower().split("\r\n")
                size = next(int(line.split(":")[1]) for line in fields if line.startswith("content-length:"))
                told = json.loads(await reader.readexactly(size))
        except (OSError, asyncio.IncompleteReadError, TimeoutError, StopIteration, ValueError):
            self.leave()
            return None
        if answer.startswith(b"HTTP/1.1 200"):
            return told["seq"]
        self.leave()
        return None


async def send_all(ports: list[int], key: str, until: float) -> dict[str, int]:
    """All commands, by 16 clients; the seq that each was answered with."""
    answered: dict[str, int] = {}
    names = iter([f"c{number:05}" for number in range(COMMANDS)])

    async def client(number: int) -> None:
        way = Way(ports, key, number)
        for sent, name in enumerate(names):
            while (seq := await way.post(name)) is None:
                if time.monotonic() > until:
                    return
                await asyncio.sleep(0.02)
            answered[name] = seq
            if sent % 20 == 19:
                way.leave()

    await asyncio.gather(*(client(number) for number in range(CLIENTS)))
    return answered


async def follow(ports: list[int], key: str, log_id: str, seen: list[int]) -> None:
    """Reads the team's events for ever, at one node after the other."""
    cursor, at = f"{log_id}.0", 0
    while True:
        at += 1
        port = ports[at % len(ports)]
        writer = None
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
            head = (
                f"GET /v1/stream?topics=team,access HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
                f"Authorization: Bearer {key}\r\nLast-Event-ID: {cursor}\r\n\r\n"
            )
            writer.write(head.encode())
            while line := await asyncio.wait_for(reader.readline(), 12):
                if line.startswith(b"id: "):
                    cursor = line[4:].decode().strip()
                    seen.append(int(cursor.rpartition(".")[2]))
        except (OSError, ValueError, TimeoutError):
            pass
        finally:
            if writer is not None:
                writer.close()
        await asyncio.sleep(0.05)


class Chaos:
    """Takes things away on a thread of its own, until it is told to end."""

    def __init__(self, of: list[Node], postgres: Any, nats: Any) -> None:
        self.did = {"nodes killed": 0, "Postgres stopped": 0, "NATS stopped": 0}
        self._nodes, self._postgres, self._nats = of, postgres, nats
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._kill, self._crash, self._silence)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _kill(self) -> None:
        while not self._ended.wait(KILL_EVERY_S):
            node = self._nodes[self.did["nodes killed"] % len(self._nodes)]
            node.kill()
            self.did["nodes killed"] += 1
            node.start()
            for one in self._nodes:
                one.keep()

    def _crash(self) -> None:
        began = time.monotonic()
        for at in POSTGRES_AT_S:
            if self._ended.wait(max(0.0, began + at - time.monotonic())):
                return
            self._postgres.stop()
            self.did["Postgres stopped"] += 1
            self._postgres.start()

    def _silence(self) -> None:
        if not self._ended.wait(NATS_AWAY_S[0]):
            self._nats.stop()
            self.did["NATS stopped"] += 1
            self._ended.wait(NATS_AWAY_S[1] - NATS_AWAY_S[0])
            self._nats.start()


async def stored(database: str, team_id: str) -> dict[int, str]:
    """What is in the log: the command of each event, by seq."""
    log = await open_log(database, clock=SystemClock(), queries={})
    found: dict[int, str] = {}
    after = 0
    while events := await log.events(team_id, after, limit=2_000):
        after = events[-1].seq
        found.update({event.seq: json.loads(event.body).get("text", "") for event in events})
    await log.close()
    return found


async def measure(database: str, three: list[Node], postgres: Any, nats: Any, until: float) -> tuple[int, str]:
    for node in three:
        node.start()
    hello = [await asyncio.to_thread(node.ready) for node in three]
    ports = [node.port for node in three]
    key, log_id, team_id = hello[0]["key"], hello[0]["log_id"], hello[0]["team_id"]
    seen: list[int] = []
    following = asyncio.create_task(follow(ports, key, log_id, seen))
    began = time.monotonic()
    chaos = Chaos(three, postgres, nats)
    try:
        answered = await send_all(ports, key, until - 4)
    finally:
        took_s = time.monotonic() - began
        await asyncio.to_thread(chaos.end)
    log = await stored(database, team_id)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(1.0, until - time.monotonic())):
            while not seen or seen[-1] < max(log):  # noqa: ASYNC110 - the follower is another task, and a node between them may be dead
                await asyncio.sleep(0.05)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    commands = [text for text in log.values() if text.startswith("c")]
    wrong = {
        "never answered": COMMANDS - len(answered),
        "lost": sum(log.get(seq) != name for name, seq in answered.items()),
        "doubled": len(commands) - len(set(commands)),
        "missed by the follower": len(set(log) - set(seen)),
        "seen twice or out of order": sum(b <= a for a, b in pairwise(seen)),
        "holes in seq": max(log) - len(log),
    }
    words = ", ".join(f"{count} {name}" for name, count in [*wrong.items(), *chaos.did.items()])
    return sum(wrong.values()), f"of {COMMANDS} in {took_s:.1f} s: {words}"


def main() -> None:
    from nats_server import NatsServer

    until = time.monotonic() + GIVE_UP_S
    with (
        tempfile.TemporaryDirectory() as home,
        a_postgres() as (postgres, database),
        NatsServer() as nats,
        nodes(database, nats.url, Path(home), 3) as three,
    ):
        wrong, words = asyncio.run(measure(database, three, postgres, nats, until))
    figure("chaos_lost_or_doubled", wrong, "commands", "<= 0", words)


if __name__ == "__main__":
    main()
