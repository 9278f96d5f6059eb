"""Shared tools of the benchmarks over several nodes: nodes as processes of their own on one Postgres.

`python _nodes.py DATABASE NATS PORT HOME` runs one node (NATS may be empty) until it is asked to end.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from _hub import clean_environment
from ekiden.access.gate import AccessGate, open_home
from ekiden.hub.app import Rooms, build
from ekiden.hub.bus_link import nats_bus, notify_bus
from ekiden.hub.chores import Chores
from ekiden.hub.people import TeamPeople
from ekiden.hub.serve import serve
from ekiden.hub.settings import Settings
from ekiden.hub.tidying import own_chores
from ekiden.hub.wiring import ENDPOINTS, ROOMS
from ekiden.kernel.clock import SystemClock
from ekiden.kernel.door import Call, Endpoint, Need
from ekiden.log.open import open_log
from ekiden.log.queries import joined, room_queries
from ekiden.log.wakeups_nats import NatsWakeups
from ekiden.relay.port import Ports

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # a Postgres and a NATS that can be stopped


class Said(msgspec.Struct):
    text: str


class Answer(msgspec.Struct):
    seq: int


async def append(call: Call, body: Said) -> Any:
    async def verb(tx: Any) -> Answer:
        return Answer(tx.append("said", body, topics=("team",), actor=call.actor))

    return await call.write(verb)


class Committed(msgspec.Struct):
    """When this node heard of the commit of each event that it knows, by seq, on the clock of the machine."""

    at: dict[int, float]


COMMITTED: dict[int, float] = {}
COMMITTED_KEPT_MAX = 10_000


def note_commits(_: str, events: Any) -> None:
    """A follower of the log: what it is told was committed just before."""
    now = time.perf_counter()
    if len(COMMITTED) < COMMITTED_KEPT_MAX:
        COMMITTED.update((event.seq, now) for event in events)


async def committed(_: Call) -> Committed:
    return Committed(COMMITTED)


MEASURING = (
    Endpoint("POST", "/v1/append", append, "A durable command.", body=Said, need=Need("steer", "team")),
    Endpoint("GET", "/v1/committed", committed, "When events were committed.", need=Need("read", "team")),
)


async def _node(database: str, nats: str, port: int, home: str) -> None:
    clock = SystemClock()
    settings = Settings(Path(home), port=port)
    wakeups = NatsWakeups(nats) if nats else None
    queries = joined(*(room_queries(room) for room in ROOMS))
    log = await open_log(database, clock=clock, queries=queries, wakeups=wakeups)
    log.follow(note_commits)
    if wakeups is not None:
        await wakeups.open(log.log_id)
    key_file = Path(home, "key")
    held = await asyncio.to_thread(lambda: key_file.read_text() if key_file.exists() else "")
    team_id, key = await open_home(log, clock, local_key=held, alone=False)
    await asyncio.to_thread(key_file.write_text, key)
    bus = nats_bus(nats, log.log_id) if nats else notify_bus(database, log.log_id)
    chores = Chores(log, team_id, bus.node_id, clock, own_chores(clock, 0, 0, Ports(TeamPeople())))
    endpoints = (*ENDPOINTS, *MEASURING)
    hub = build(settings, log, clock, Rooms(endpoints, AccessGate(log, clock), team_id, bus=bus, chores=chores))

    def ready(_: object) -> None:
        print(json.dumps({"key": key, "team_id": team_id, "log_id": log.log_id}), flush=True)

    await serve(hub, started=ready)


class Node:
    """One node in a process of its own."""

    def __init__(self, database: str, nats: str, port: int, home: Path) -> None:
        self.port = port
        self._words = [sys.executable, __file__, database, nats, str(port), str(home)]
        self._process: subprocess.Popen[str] | None = None
        home.mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        """Begins to start it."""
        self._process = subprocess.Popen(
            self._words, stdout=subprocess.PIPE, text=True, env=clean_environment(), cwd=Path(__file__).parent
        )

    def keep(self) -> None:
        """Starts it again if it has ended by itself, as the system's supervisor does."""
        if self._process is not None and self._process.poll() is not None:
            self._process.communicate()
            self.start()

    def ready(self) -> dict[str, Any]:
        """Waits until it answers; its key and log."""
        assert self._process is not None
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline() or "null")

    def kill(self) -> None:
        """Kills it at once."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ends it politely."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.communicate()
            self._process = None


@contextlib.contextmanager
def a_postgres() -> Iterator[tuple[Any, str]]:
    """The server, which can be stopped and started, and the url of an empty database on it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from postgres_server import fresh_database, server
    yield server(), fresh_database(empty=True)


@contextlib.contextmanager
def nodes(database: str, nats: str, home: Path, count: int) -> Iterator[list[Node]]:
    """Nodes that are not started yet, and are ended in any case."""
    from nats_server import free_port

    made = [Node(database, nats, free_port(), home / str(number)) for number in range(count)]
    try:
        yield made
    finally:
        for node in made:
            node.kill()


def main() -> None:
    database, nats, port, home = sys.argv[1:]
    os.environ.setdefault("XDG_RUNTIME_DIR", home)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_node(database, nats, int(port), home))


if __name__ == "__main__":
    main()
