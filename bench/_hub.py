"""The hub that the door's benchmarks measure: the real rooms, in a process of its own, on data of its own.

Beside the product's own places it has some that only a measurement needs: a message that is kept in memory and
one whose verb is nothing (what a durable message is measured against), many stored events at once, and many pieces
of a growing item. It ends when whoever started it closes its input.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from _memory import Memory
from ekiden.access import keys as access_keys
from ekiden.access.gate import AccessGate, open_home
from ekiden.access.rules import Kind
from ekiden.access.secrets import new_key
from ekiden.hub.app import Rooms, build
from ekiden.hub.people import TeamPeople
from ekiden.hub.serve import spare_what_lasts, start_serving
from ekiden.hub.settings import Settings
from ekiden.hub.wiring import ROOMS, endpoints_with
from ekiden.kernel.clock import SystemClock, iso
from ekiden.kernel.door import Call, Endpoint, Need
from ekiden.kernel.ids import Prefix, derived_id, new_id
from ekiden.kernel.limits import FEED_ENTRIES_MAX
from ekiden.log.open import open_log
from ekiden.log.port import Actor, Event, Log, Reading, Transaction, Written
from ekiden.log.queries import joined, room_queries
from ekiden.relay import keeping as relay_keeping
from ekiden.relay.notary import TeamNotary
from ekiden.relay.port import Known, Ports
from ekiden.sessions import verbs
from ekiden.sessions.feed import take_feed
from ekiden.sessions.rules import MessageState
from ekiden.sessions.wire import (
    Ability,
    FeedGrew,
    FeedSession,
    HostReport,
    Message,
    SendMessage,
    SessionReport,
)
from ekiden.transcript.items import ItemKind

COMMITS_NOTED_MAX = 10_000
READER_KEYS = 4
"""A key may hold only so many streams."""
GROWING_SESSION = "ses_00000000000000000000"
_CLOCK = SystemClock()


class Said(msgspec.Struct):
    """A stored event of usual size that tells when it was made."""

    text: str
    sent_at: float


class Burst(msgspec.Struct):
    """`count` events, `at_once` of them on their way to the disk at a time."""

    count: int
    at_once: int = 64


class Stretch(msgspec.Struct):
    """`count` pieces of a growing item, `per_s` of them a second."""

    count: int
    per_s: float


class Committed(msgspec.Struct):
    """When the hub heard of the commit of events, by seq, on the machine's steady clock in seconds."""

    at: dict[int, float]


class Crowd(msgspec.Struct):
    """`count` members of a channel, of whom every tenth has acked all."""

    channel: str
    count: int


class Done(msgspec.Struct):
    """How many there were."""

    count: int


async def send_nothing(call: Call, body: SendMessage) -> Message:
    """`POST …/messages` with the verb replaced by nothing: all that the door does for a message."""
    return Message(
        message_id=new_id(Prefix.MESSAGE),
        session_id=call.parameters["session_id"],
        text=body.text,
        state=MessageState.STORED.value,
        sent_by=call.actor.name,
        sent_by_id=call.actor.principal_id,
        sent_at=iso(_CLOCK.now()),
    )


class InMemory:
    """`POST …/messages` as it is, on a memory instead of a database."""

    def __init__(self) -> None:
        self.memory: Memory | None = None

    async def send(self, call: Any, body: SendMessage) -> Written:
        """What `sessions.routes.send_message` does."""
        assert self.memory is not None
        message_id = new_id(Prefix.MESSAGE)

        async def verb(tx: Any) -> Message:
            return await verbs.send_message(
                tx, call.parameters["session_id"], body, message_id=message_id, actor=call.actor, fresh=True
            )

        return await self.memory.write(verb, call._command(""))


async def burst(call: Call, body: Burst) -> Done:
    """Stores events through the log, as rooms do, and answers when all are on disk."""
    actor: Actor = call.actor
    room = asyncio.Semaphore(body.at_once)

    async def one() -> None:
        async with room:
            said = Said("x" * 120, time.time())

            async def verb(tx: Any) -> None:
                tx.append("said", said, topics=("team",), actor=actor)

            await call.write(verb)

    async with asyncio.TaskGroup() as group:
        for _ in range(body.count):
            group.create_task(one())
    return Done(body.count)


async def stretch(call: Call, body: Stretch) -> Done:
    """Lets an item grow piece by piece, as a running turn does: what is due goes out, however late the loop is."""
    began = time.perf_counter()
    item_id = new_id(Prefix.ITEM)
    index = 0
    while index < body.count:
        due = min(body.count, int((time.perf_counter() - began) * body.per_s) + 1)
        while index < due:
            text = f'"sent_at":{time.time()} {"x" * 60}'
            call.grow(FeedGrew(GROWING_SESSION, "trn_0", item_id, ItemKind.MESSAGE, index, text))
            index += 1
        await asyncio.sleep(max(0.0, began + index / body.per_s - time.perf_counter()))
    return Done(body.count)


class Commits:
    """Notes when the log's followers are told of new events, once it was asked; it is the first of them."""

    def __init__(self) -> None:
        self._at: dict[int, float] | None = None

    def note(self, _: str, events: Sequence[Event]) -> None:
        """A follower of the log."""
        if self._at is not None and len(self._at) < COMMITS_NOTED_MAX:
            now = time.perf_counter()
            self._at.update((event.seq, now) for event in events)

    async def told(self, _: Call) -> Committed:
        """What was noted since it was asked for the last time."""
        at, self._at = self._at or {}, {}
        return Committed(at)


async def crowd(call: Call, body: Crowd) -> Done:
    """Lets many follow a channel, as if each had joined."""
    actor: Actor = call.actor

    async def verb(tx: Any) -> None:
        row = await tx.row("relay.channel_by_name", team_id=tx.team_id, ref=body.channel)
        kept = relay_keeping.channel_of(row)
        for number in range(body.count):
            who = Known(derived_id(Prefix.PRINCIPAL, str(number)), f"agent {number:05}", "agent")
            await relay_keeping.add_follower(tx, kept, who, "", actor)
            if number % 10 == 9:
                known = {"team_id": tx.team_id, "channel_id": kept.channel_id, "principal_id": who.principal_id}
                await tx.run("relay.put_receipt", **known, acked_to=kept.channel.last_number, at=tx.now, follows=1)

    await call.write(verb)
    return Done(body.count)


def measuring(in_memory: InMemory, commits: Commits) -> tuple[Endpoint, ...]:
    """The places that only a measurement needs."""
    team, session = Need("steer", "team"), Need("steer", "session:{session_id}")
    message = {"body": SendMessage, "need": session, "status": 201}
    path = "/v1/sessions/{session_id}"
    return (
        Endpoint("POST", f"{path}/nothing", send_nothing, "A message and no verb.", **message),
        Endpoint("POST", f"{path}/memory", in_memory.send, "A message and no database.", **message),
        Endpoint("POST", "/v1/burst", burst, "Many events.", body=Burst, need=team),
        Endpoint("GET", "/v1/committed", commits.told, "When events were committed.", need=Need("read", "team")),
        Endpoint("POST", "/v1/crowd", crowd, "Many members.", body=Crowd, need=team),
        Endpoint("POST", "/v1/stretch", stretch, "Many pieces.", body=Stretch, need=team),
    )


def report(host_id: str, number: int) -> SessionReport:
    """One of many sessions, with texts of usual length."""
    native_id = f"{number:08x}-0000-4000-8000-000000000000"
    at = f"2026-01-{1 + number % 28:02}T{number % 24:02}:00:00.000Z"
    return SessionReport(
        session_id=derived_id(Prefix.SESSION, host_id, "claude", native_id),
        vendor="claude",
        native_id=native_id,
        title=f"Session {number}: look at the retry loop and say what is wrong with it",
        cwd=f"/home/person/projects/project-{number % 40}",
        project=f"/home/person/projects/project-{number % 40}",
        git_branch="main",
        model="a-model",
        vendor_version="2.1.0",
        created_at=at,
        updated_at=at,
        abilities=(Ability("queue", can=True),),
        file=f"/home/person/.claude/projects/p/{native_id}.jsonl",
        size=100_000 + number,
        rows=200,
        messages=40,
    )


async def _serve(home: str, sessions: int, database_url: str = "") -> None:
    settings = Settings(Path(home), port=0)
    queries = joined(*(room_queries(room) for room in ROOMS))
    log = await open_log(database_url or str(settings.database), clock=_CLOCK, queries=queries)
    team_id, key = await open_home(log, _CLOCK)
    gate = AccessGate(log, _CLOCK)
    in_memory, commits = InMemory(), Commits()
    endpoints = endpoints_with(Ports(TeamPeople(), (), TeamNotary()))
    log.follow(commits.note)
    hub = build(settings, log, _CLOCK, Rooms((*endpoints, *measuring(in_memory, commits)), gate, team_id))
    serving = await start_serving(hub)
    keys = [key, *[await _make_key(log, gate, team_id, key, f"Reader {number}") for number in range(READER_KEYS)]]
    session_ids = await _make_sessions(log, team_id, sessions)
    in_memory.memory = Memory(team_id, await _rows(log, team_id, session_ids), log, _CLOCK)
    _, head = await log.bounds(team_id)
    spare_what_lasts()
    told = {"port": serving.port, "keys": keys, "log_id": log.log_id, "sessions": session_ids, "head": head}
    print(json.dumps(told), flush=True)
    try:
        await asyncio.to_thread(sys.stdin.read)
    finally:
        await serving.stop()


async def _make_key(log: Log, gate: AccessGate, team_id: str, maker: str, name: str) -> str:
    owner = await gate.identify(maker)
    key = new_key()

    async def verb(tx: Any) -> None:
        await access_keys.make_key(
            tx,
            Actor(owner.principal_id, owner.key_id, owner.name),
            name=name,
            kind=Kind.DEVICE,
            permissions=None,
            expires_at="",
            secret_digest=key.digest,
        )

    await log.write(team_id, verb)
    return key.text


async def _make_sessions(log: Log, team_id: str, count: int) -> list[str]:
    """Sessions of one host that is not connected: what is sent to them is stored and waits."""
    host_id = derived_id(Prefix.HOST, "bench")
    actor = Actor(host_id, name="desk")
    reports = [report(host_id, number) for number in range(count)]

    async def verb(tx: Transaction) -> None:
        await verbs.report_host(tx, host_id, HostReport("desk", "Linux", "0"), actor=actor, boot_id="")
        for start in range(0, count, FEED_ENTRIES_MAX):
            entries = [FeedSession(one) for one in reports[start : start + FEED_ENTRIES_MAX]]
            await take_feed(tx, host_id, entries, actor=actor, boot_id="", passing=[])

    await log.write(team_id, verb)
    return [one.session_id for one in reports]


async def _rows(log: Log, team_id: str, session_ids: list[str]) -> dict[str, Any]:
    async def question(reading: Reading) -> dict[str, Any]:
        return {
            session_id: await reading.row("sessions.session", team_id=team_id, session_id=session_id)
            for session_id in session_ids
        }

    return await log.ask(team_id, question)


class Served:
    """A hub that runs in another process. `head` is the seq of its newest event when it began to answer."""

    def __init__(self, told: dict[str, Any], pid: int) -> None:
        self.port: int = told["port"]
        self.keys: list[str] = told["keys"]
        self.key = self.keys[0]
        self.log_id: str = told["log_id"]
        self.sessions: list[str] = told["sessions"]
        self.head: int = told["head"]
        self.pid = pid

    def processor_s(self) -> float:
        """Seconds of processor time that it has taken so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def a_hub(sessions: int = 1, database_url: str = "") -> Iterator[Served]:
    """A hub on a data folder of its own, on the disk that holds the temporary files, or with its log in
    Postgres."""
    with tempfile.TemporaryDirectory(prefix="ekiden-bench-") as home:
        process = subprocess.Popen(
            [sys.executable, __file__, str(Path(home) / "data"), str(sessions), database_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clean_environment(),
        )
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield Served(json.loads(process.stdout.readline()), process.pid)
        finally:
            process.stdin.close()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()


def clean_environment() -> dict[str, str]:
    """What a measured process sees."""
    return {"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8"}


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
