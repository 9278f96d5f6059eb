"""`lost_or_duplicated`: posts that were acknowledged and are not stored exactly once, and what followers missed or
saw twice, of 100,000, while the hub, the clients and their connections are killed.

The hub is `ekiden up --no-host` as it is installed. Eight agents, each a process of its own, post into four
channels over several connections each. All the time one of them is killed with SIGKILL; the one that takes its
place sends again half of what its forerunner had no answer to, under the same ids, and forgets the rest, which may
be stored or not, but not twice. Every fourth agent and one of two followers go through a proxy that breaks each
connection off after some bytes. The hub is killed with SIGKILL several times, and started again on its data. The
followers resume by their cursor, always.

At the end, of the database: each acknowledged id is there, under the number that was acknowledged, no id twice,
the numbers of each channel gapless, one event for each message; and each follower saw each event once and in
order.

The chances are drawn from a seed, which is told: `relay_chaos.py COUNT SEED` does it again, as far as the
machine's timing lets it. What does not fit in the time is not sent; how many were is told.
"""

import asyncio
import contextlib
import json
import random
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import uvloop

from _hub import clean_environment
from _load import figure
from _outbox import CHANNELS, message_id
from _wire import request_bytes
from ekiden.client.plain import PlainClient

WANTED = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
AGENTS = 8
CONNECTIONS = 24
KILL_AGENT_EVERY_S = 0.8
KILL_HUB_EVERY_S = (7.0, 11.0)
CUT_AFTER_BYTES = (5_000, 500_000)
SENDING_S = 38.0
GIVE_UP_S = 46.0
SHARE_NEEDED = 10
"""A run in which not even one in so many of the posts was acknowledged has failed."""
_CURSOR = re.compile(rb"^id: [a-z0-9]+\.(\d+)$", re.MULTILINE)
_MESSAGE = re.compile(rb'"message_id":"(msg_\d{20})"')


class TheHub:
    """`ekiden up` on data and a port that stay the same."""

    def __init__(self, home: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.home = home / "data"
        self.kills = 0
        self._environment = {**clean_environment(), "HOME": str(home), "EKIDEN_HOME": str(self.home)}
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Starts it and waits until it answers."""
        words = ["up", "--json", "--no-open", "--no-host", "--port", str(self.port)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ekiden.cli", *words],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), "the hub did not start"

    def end(self, how: signal.Signals) -> None:
        """Ends it with a signal."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.communicate()
            self._process = None

    def kill(self) -> None:
        """Kills it and starts it again."""
        self.end(signal.SIGKILL)
        self.kills += 1
        self.start()


class _Half(asyncio.Protocol):
    """One side of a proxied connection."""

    def __init__(self, proxy: "Proxy", other: "_Half | None" = None) -> None:
        self.proxy, self.other = proxy, other
        self.transport: Any = None
        self.waiting: list[bytes] = []
        self.left = other.left if other is not None else [proxy.chances.randrange(*CUT_AFTER_BYTES)]

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        if self.other is None:
            self.other = _Half(self.proxy, self)
            self.proxy.connect(self, self.other)
        else:
            transport.writelines(self.other.waiting)

    def data_received(self, data: bytes) -> None:
        self.left[0] -= len(data)
        if self.left[0] < 0:
            self.proxy.cuts += 1
            self.cut()
        elif self.other is not None and self.other.transport is not None:
            if not self.other.transport.is_closing():
                self.other.transport.write(data)
        else:
            self.waiting.append(data)

    def connection_lost(self, _: Exception | None) -> None:
        self.cut()

    def cut(self) -> None:
        """Breaks both sides off in the middle of whatever is on its way."""
        for half in (self, self.other):
            if half is not None and half.transport is not None:
                half.transport.abort()


class Proxy:
    """Stands before the hub and breaks connections off."""

    def __init__(self, hub_port: int, chances: random.Random) -> None:
        self.chances = chances
        self.cuts = 0
        self.port = 0
        self._hub_port = hub_port
        self._connecting: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begins to take connections."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Half(self), "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]

    def connect(self, near: _Half, far: _Half) -> None:
        """Goes on to the hub; what cannot be reached is broken off."""

        async def connect() -> None:
            try:
                await asyncio.get_running_loop().create_connection(lambda: far, "127.0.0.1", self._hub_port)
            except OSError:
                near.cut()

        task = asyncio.create_task(connect())
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)


class Follower:
    """Reads all channels by its cursor, over as many connections as it takes."""

    def __init__(self, port: int, key: str, cursor: str) -> None:
        self.port, self.key, self.cursor = port, key, cursor
        self.seen: list[tuple[int, bytes]] = []
        self.told_gaps = 0
        self.resumed = -1

    async def run(self) -> None:
        """Follows for ever."""
        while True:
            writer = None
            self.resumed += 1
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 22)
                topics = ",".join(f"channel:{name}" for name in CHANNELS)
                more = f"Last-Event-ID: {self.cursor}\r\n"
                writer.write(request_bytes("GET", f"/v1/stream?topics={topics}", self.key, self.port, more=more))
                rest = b""
                while data := await asyncio.wait_for(reader.read(1 << 18), 20):
                    *frames, rest = (rest + data).split(b"\n\n")
                    for frame in frames:
                        self._take(frame)
            except (OSError, TimeoutError):
                pass
            finally:
                if writer is not None:
                    writer.close()
            await asyncio.sleep(0.03)

    def _take(self, frame: bytes) -> None:
        self.told_gaps += b'"kind":"stream.gap"' in frame or b'"kind":"stream.reset"' in frame
        at = _CURSOR.search(frame)
        if at is None:
            return
        if b'"kind":"message.posted"' in frame:
            message = _MESSAGE.search(frame)
            assert message is not None, frame
            self.seen.append((int(at[1]), message[1]))
        self.cursor = at[0][4:].decode()


class Agent:
    """One agent: a process after the other, and what they have told."""

    def __init__(self, number: int, port: int, key: str, chances: random.Random) -> None:
        self.number, self.port, self.key = number, port, key
        self.acknowledged: dict[int, int] = {}
        self.forgotten = 0
        self.kills = 0
        self._chances = chances
        self._first = 0
        self._again: list[int] = []
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Starts a process that goes on where the one before it was killed."""
        options = {"port": self.port, "key": self.key, "client": self.number, "connections": CONNECTIONS}
        options |= {"first": self._first, "again": self._again}
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-S",
            str(Path(__file__).parent / "_outbox.py"),
            json.dumps(options),
            stdout=subprocess.PIPE,
            env=clean_environment(),
        )
        self._reading = asyncio.create_task(self._read(self._process))

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            if line.endswith(b"\n"):
                index, number = line.split()
                known = self.acknowledged.setdefault(int(index), int(number))
                assert known == int(number), "the same id was acknowledged under two numbers"

    async def kill(self) -> None:
        """Kills its process and takes in what that has told."""
        assert self._process is not None
        assert self._reading is not None
        assert self._process.returncode is None, "a client ended by itself"
        self._process.kill()
        await self._process.wait()
        await self._reading
        self.kills += 1
        # What may have been on its way: each connection is at most one message further than what was answered.
        sent = max([*self.acknowledged, *self._again, self._first - 1]) + 1 + CONNECTIONS
        open_ = [index for index in range(self._first_unknown(), sent) if index not in self.acknowledged]
        self._again = [index for index in open_ if self._chances.random() < 0.5]
        self.forgotten += len(open_) - len(self._again)
        self._known_below = sent
        self._first = sent

    _known_below = 0

    def _first_unknown(self) -> int:
        """From where on it is to be looked what was not answered; what was taken up before and is not answered yet
        is looked at again."""
        return min([self._known_below, *self._again])


@contextlib.contextmanager
def prepared(home: Path) -> Iterator[tuple[TheHub, list[str]]]:
    """A hub with its channels, and the keys of the agents and followers."""
    hub = TheHub(home)
    try:
        hub.start()
        key = (hub.home / "local.key").read_text().strip()
        with PlainClient(f"http://127.0.0.1:{hub.port}", key) as client:
            for name in CHANNELS:
                client.post("/v1/channels", {"name": name})
            made = [client.post("/v1/keys", {"name": f"agent {n}", "kind": "agent"}) for n in range(AGENTS + 2)]
        yield hub, [one["key"] for one in made]
    finally:
        hub.end(signal.SIGKILL)


def stored(database: Path) -> tuple[dict[str, tuple[int, str, int]], list[tuple[int, str]], int]:
    """What the database holds: messages by id (seq, channel, number), the events that tell of them (seq, id), and
    how many rows of messages there are."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT message_id, seq, channel_id, number FROM channel_messages").fetchall()
        events = connection.execute(
            "SELECT seq, json_extract(body, '$.message_id') FROM events WHERE kind = 'message.posted' ORDER BY seq"
        ).fetchall()
    return {name: (seq, channel, number) for name, seq, channel, number in rows}, events, len(rows)


def faults(agents: list[Agent], followers: list[Follower], database: Path) -> dict[str, int]:
    """How many of each kind of fault there were."""
    messages, events, rows = stored(database)
    numbers: dict[str, list[int]] = {}
    for _, channel, number in messages.values():
        numbers.setdefault(channel, []).append(number)
    told = Counter(name for _, name in events)
    wrong = {
        "acknowledged and lost": sum(
            messages.get(message_id(agent.number, index), (0, "", 0))[2] != number
            for agent in agents
            for index, number in agent.acknowledged.items()
        ),
        "stored twice": rows - len(messages) + sum(count - 1 for count in told.values()),
        "holes in numbers": sum(sorted(of) != list(range(1, len(of) + 1)) for of in numbers.values()),
        "without their event": sum((seq, name) not in set_of_events for name, (seq, _, _) in messages.items())
        if (set_of_events := set(events))
        else len(messages),
    }
    for name in ("missed by a follower", "seen twice or out of order", "gaps told"):
        wrong[name] = 0
    for follower in followers:
        seen = {(seq, name.decode()) for seq, name in follower.seen}
        wrong["missed by a follower"] += len(set_of_events - seen)
        wrong["seen twice or out of order"] += sum(b[0] <= a[0] for a, b in pairwise(follower.seen))
        wrong["gaps told"] += follower.told_gaps
    return wrong


async def measure(hub: TheHub, keys: list[str], until: float) -> tuple[int, str]:
    chances = random.Random(SEED)
    proxy = Proxy(hub.port, random.Random(SEED + 1))
    await proxy.start()
    agents = [
        Agent(number, proxy.port if number % 4 == 0 else hub.port, keys[number], random.Random(f"{SEED} {number}"))
        for number in range(AGENTS)
    ]
    with PlainClient(f"http://127.0.0.1:{hub.port}", keys[-1]) as client:
        cursor = client.get("/v1/channels")["cursor"]
    followers = [Follower(hub.port, keys[-1], cursor), Follower(proxy.port, keys[-2], cursor)]
    following = [asyncio.create_task(follower.run()) for follower in followers]
    began = time.monotonic()
    sending_until = min(began + SENDING_S, until - 6)
    hub_dies_at = began + chances.uniform(*KILL_HUB_EVERY_S)
    dying: asyncio.Task[None] | None = None
    for agent in agents:
        await agent.start()
    while time.monotonic() < sending_until and sum(len(agent.acknowledged) for agent in agents) < WANTED:
        await asyncio.sleep(KILL_AGENT_EVERY_S)
        agent = chances.choice(agents)
        await agent.kill()
        await agent.start()
        if time.monotonic() > hub_dies_at and (dying is None or dying.done()):
            if dying is not None:
                dying.result()
            dying = asyncio.create_task(asyncio.to_thread(hub.kill))
            hub_dies_at = time.monotonic() + chances.uniform(*KILL_HUB_EVERY_S)
    took_s = time.monotonic() - began
    for agent in agents:
        await agent.kill()
    if dying is not None:
        await dying
    head = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(1.0, until - time.monotonic())):
            while not head or any(not one.seen or one.seen[-1][0] < head for one in followers):
                await asyncio.sleep(0.2)
                head = await asyncio.to_thread(_newest, hub.home / "ekiden.db")
    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)
    hub.end(signal.SIGTERM)
    wrong = faults(agents, followers, hub.home / "ekiden.db")
    done = sum(len(agent.acknowledged) for agent in agents)
    assert done >= WANTED / SHARE_NEEDED, f"only {done} posts were acknowledged, which shows nothing"
    did = {
        "agents killed": sum(agent.kills for agent in agents),
        "hubs killed": hub.kills,
        "connections cut": proxy.cuts,
        "resumed streams": sum(follower.resumed for follower in followers),
        "forgotten without an answer": sum(agent.forgotten for agent in agents),
    }
    words = ", ".join(f"{count} {name}" for name, count in [*wrong.items(), *did.items()])
    return sum(
        wrong.values()
    ), f"of {done} acknowledged in {took_s:.1f} s ({done / took_s:.0f}/s), seed {SEED}: {words}"


def _newest(database: Path) -> int:
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        row = connection.execute("SELECT max(seq) FROM channel_messages").fetchone()
    return row[0] or 0


def main() -> None:
    until = time.monotonic() + GIVE_UP_S
    with tempfile.TemporaryDirectory(prefix="ekiden-bench-") as home, prepared(Path(home)) as (hub, keys):
        wrong, words = uvloop.run(measure(hub, keys, until))
    figure("lost_or_duplicated", wrong, "posts", "<= 0", words)


if __name__ == "__main__":
    main()
