"""Small rooms of the tests' own: a gate with keys in a dict and a few endpoints, before a real log."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from typing import Any

import msgspec

from ekiden.client.transport import Request
from ekiden.hub.app import Hub, Rooms, build
from ekiden.hub.bus import Bus, Exchange, LocalBus
from ekiden.hub.gate import Permissions, Refusal
from ekiden.hub.pages import Pages
from ekiden.hub.settings import Settings
from ekiden.kernel.clock import Clock, SystemClock
from ekiden.kernel.door import Call, Endpoint, Need
from ekiden.kernel.errors import NotFound, Unauthenticated
from ekiden.log.open import open_log
from ekiden.log.port import Actor, Log
from ekiden.sessions.wire import FeedGrew, FeedGrown
from ekiden.testing.bridge import Bridge

TEAM = "tem_00000000000000000000"
OWNER = "ekd_owner"
HOST_ID = "hos_0000000000000000000h"
SESSION = "ses_0000000000000000000a"
OTHER_SESSION = "ses_0000000000000000000b"
HOST_KEY = "ekd_host"
WAIT_S = 10.0
"""How long a test waits for what must come; none waits so long when all is well."""


@dataclass(frozen=True)
class Bearer:
    """Who a key belongs to."""

    team_id: str
    principal_id: str
    key_id: str
    name: str
    permissions: Permissions
    expires_at: float | None = None
    kind: str = "person"


class KeyRing:
    """A gate: keys and their permission maps in a dict, changed by hand."""

    def __init__(self) -> None:
        self.identities: dict[str, Bearer] = {}
        self.recorded: list[Refusal] = []
        self.dropped = 0
        self.asked = 0
        self.give(OWNER, {"*": ["read", "steer", "approve", "start", "admin"]})
        self.give(HOST_KEY, {f"host:{HOST_ID}": ["read", "feed"]})

    def give(self, key: str, permissions: Permissions, *, expires_at: float | None = None) -> Bearer:
        name = key.removeprefix("ekd_")
        identity = Bearer(TEAM, f"pri_{name}", f"key_{name}", name, permissions, expires_at)
        self.identities[key] = identity
        return identity

    def narrow(self, key: str, permissions: Permissions) -> None:
        self.identities[key] = replace(self.identities[key], permissions=permissions)

    async def identify(self, key: str) -> Bearer:
        self.asked += 1
        if key not in self.identities:
            raise Unauthenticated("No such key.")
        return self.identities[key]

    def allows(self, permissions: Permissions, verb: str, resource: str) -> bool:
        return any(
            verb in verbs and (resource.startswith(pattern[:-1]) if pattern.endswith("*") else resource == pattern)
            for pattern, verbs in permissions.items()
        )

    async def record(self, refusals: Sequence[Refusal], dropped: int) -> None:
        self.recorded.extend(refusals)
        self.dropped += dropped


class Say(msgspec.Struct):
    text: str
    topics: tuple[str, ...] = ("team",)
    kind: str = "said"


class Said(msgspec.Struct):
    seq: int


class Page(msgspec.Struct):
    session_id: str
    mine: bool


class Grow(msgspec.Struct):
    entries: tuple[FeedGrew | FeedGrown, ...]


class Paired(msgspec.Struct):
    state: str
    set_cookie_key: str = ""


async def say(call: Call, body: Say) -> Any:
    async def verb(tx: Any) -> Said:
        return Said(tx.append(body.kind, {"text": body.text}, topics=body.topics, actor=call.actor))

    return await call.write(verb)


async def say_in_session(call: Call, body: Say) -> Any:
    return await say(call, Say(body.text, (f"session:{call.parameters['session_id']}", "team"), body.kind))


async def get_session(call: Call) -> Page:
    session_id = call.parameters["session_id"]
    if session_id not in (SESSION, OTHER_SESSION):
        raise NotFound
    return Page(session_id, call.may("steer", f"session:{session_id}"))


async def growing(call: Call) -> Any:
    return list(call.growing(call.parameters["session_id"]))


async def grow(call: Call, body: Grow) -> Said:
    for entry in body.entries:
        call.grow(entry)
    return Said(0)


async def ask_host(call: Call) -> bytes:
    within_s = float(call.query.get("within_s", "5"))
    return await call.request_host(HOST_ID, "page", {"session_id": SESSION}, within_s=within_s)


async def change_at_host(call: Call, body: Say) -> bytes:
    return await call.request_host(HOST_ID, "start", {"text": body.text}, within_s=5)


async def pair(call: Call, body: Say) -> Paired:
    return Paired("confirmed" if call.from_loopback else "waiting", body.text)


async def boom(call: Call) -> None:
    raise RuntimeError("ekd_secret in the text of an exception")


ENDPOINTS = (
    Endpoint("POST", "/v1/say", say, "Says it.", body=Say, answer=Said, need=Need("steer", "team")),
    Endpoint(
        "GET",
        "/v1/sessions/{session_id}",
        get_session,
        "One session.",
        answer=Page,
        need=Need("read", "session:{session_id}"),
    ),
    Endpoint(
        "POST",
        "/v1/sessions/{session_id}/say",
        say_in_session,
        "Says it there.",
        body=Say,
        answer=Said,
        need=Need("steer", "session:{session_id}"),
        status=201,
    ),
    Endpoint(
        "GET",
        "/v1/sessions/{session_id}/growing",
        growing,
        "What grows there.",
        need=Need("read", "session:{session_id}"),
    ),
    Endpoint(
        "POST",
        "/v1/hosts/{host_id}/feed",
        grow,
        "Grows.",
        body=Grow,
        answer=Said,
        need=Need("feed", "host:{host_id}"),
        repeatable=True,
        audience="host",
    ),
    Endpoint("GET", "/v1/page", ask_host, "Asks the host.", need=Need("read", "team")),
    Endpoint("POST", "/v1/start", change_at_host, "Has the host do it.", body=Say, need=Need("start", "team")),
    Endpoint("POST", "/v1/pair", pair, "Pairs.", body=Say, answer=Paired, audience="open"),
    Endpoint("GET", "/v1/boom", boom, "Fails.", need=Need("read", "team")),
)


@dataclass
class House:
    """A started hub and all that a test wants to look at."""

    hub: Hub
    gate: KeyRing
    bridge: Bridge
    hosts: list[tuple[str, bool]] = field(default_factory=list)
    nodes: list["House"] = field(default_factory=list)
    """Where there are several: each of them, reached past the others."""

    async def ask(
        self, method: str, target: str, body: Any = None, key: str = OWNER, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """One request over the bridge: status, headers, body. Header names are given with underscores."""
        head = {name.replace("_", "-"): value for name, value in headers.items()}
        if key:
            head.setdefault("authorization", f"Bearer {key}")
        data = b""
        if body is not None or method != "GET":
            head.setdefault("content-type", "application/json")
            data = body if isinstance(body, bytes) else msgspec.json.encode({} if body is None else body)
        answer = await self.bridge.open(Request(method, target, head, data))
        try:
            whole = b"".join([piece async for piece in answer.chunks()])
        finally:
            await answer.close()
        return answer.status, dict(answer.headers), whole

    async def json(self, method: str, target: str, body: Any = None, key: str = OWNER, **headers: str) -> Any:
        """The answer's JSON; fails where it is no success."""
        status, _, data = await self.ask(method, target, body, key, **headers)
        assert status < 300, (status, data)
        return msgspec.json.decode(data)

    async def say(self, text: str, *topics: str, kind: str = "said") -> int:
        """Stores an event past the door; its seq."""

        async def verb(tx: Any) -> Said:
            return Said(tx.append(kind, {"text": text}, topics=topics or ("team",), actor=Actor("pri_x")))

        written = await self.hub.log.write(TEAM, verb)
        return msgspec.json.decode(written.answer, type=Said).seq

    async def tell(self, kind: str, body: Any, *topics: str) -> None:
        """Stores an event of this kind and body."""

        async def verb(tx: Any) -> None:
            tx.append(kind, body, topics=topics, actor=Actor("pri_x"))

        await self.hub.log.write(TEAM, verb)

    def follow(self, topics: str, key: str = OWNER, after: str = "") -> "Following":
        return Following(self, topics, key, after)


class Following:
    """A stream over the bridge, read frame by frame. An async context manager."""

    def __init__(self, house: House, topics: str, key: str, after: str) -> None:
        self._house = house
        self._request = Request(
            "GET",
            f"/v1/stream?topics={topics}",
            {"authorization": f"Bearer {key}", **({"last-event-id": after} if after else {})},
            streaming=True,
        )
        self._buffer = b""
        self.status = 0
        self.last_id = ""

    async def __aenter__(self) -> "Following":
        self._answer = await self._house.bridge.open(self._request)
        self._chunks = self._answer.chunks()
        self.status = self._answer.status
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._chunks.aclose()
        await self._answer.close()

    async def problem(self) -> dict[str, Any]:
        return msgspec.json.decode(b"".join([piece async for piece in self._chunks]))

    async def frame(self) -> dict[str, Any]:
        """The next frame's data, with its `id` where it has one; raises StopAsyncIteration at the end."""
        async with asyncio.timeout(WAIT_S):
            while b"\n\n" not in self._buffer:
                self._buffer += await anext(self._chunks)
        raw, _, self._buffer = self._buffer.partition(b"\n\n")
        fields = dict(line.split(b": ", 1) for line in raw.split(b"\n"))
        told = msgspec.json.decode(fields[b"data"])
        if b"id" in fields:
            told["id"] = self.last_id = fields[b"id"].decode()
        return told

    async def until(self, kind: str) -> dict[str, Any]:
        """The next frame of this kind; what comes before is dropped."""
        while True:
            frame = await self.frame()
            if frame["kind"] == kind:
                return frame

    async def texts(self, count: int) -> list[str]:
        """The texts of the next `count` stored events; beats are left out."""
        found: list[str] = []
        while len(found) < count:
            frame = await self.frame()
            if "seq" in frame:
                found.append(frame["body"]["text"])
        return found

    async def quiet(self) -> list[dict[str, Any]]:
        """All frames that are there before the hub has nothing more to say at this moment."""
        found: list[dict[str, Any]] = []
        for _ in range(20):
            await asyncio.sleep(0)
            await asyncio.sleep(0.001)
            while b"\n\n" in self._buffer or self._answer._pieces:
                found.append(await self.frame())
        return found


async def until(holds: Callable[[], bool]) -> None:
    """Waits until something holds; fails if it does not come to."""
    async with asyncio.timeout(WAIT_S):
        while not holds():  # noqa: ASYNC110 - whatever is waited for has no event of its own
            await asyncio.sleep(0.005)


class SharedLog:
    """One log under several nodes: what they stop stays open for the others."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def close(self) -> None:
        """It is closed by whoever opened it."""


class RoundRobin:
    """Hands each request to the next node, as the plainest proxy does."""

    def __init__(self, hubs: Sequence[Hub]) -> None:
        self._hubs = cycle(hubs)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await next(self._hubs)(scope, receive, send)


NODES: ContextVar[int] = ContextVar("NODES", default=1)
"""How many nodes a house has that says nothing of it."""


@asynccontextmanager
async def open_house(
    home: Path | str = ":memory:",
    *,
    clock: Clock | None = None,
    settings: Settings | None = None,
    pages: Pages | None = None,
    started: bool = True,
    nodes: int | None = None,
    buses: Sequence[Bus] = (),
) -> AsyncIterator[House]:
    """A hub before the small rooms; with `started` it runs, and is stopped at the end, streams too.

    With `nodes` over 1 these are nodes of one hub on one log, and each request goes to the next; `buses` are
    theirs, else they meet in this process.
    """
    count = nodes or len(buses) or NODES.get()
    clock = clock or SystemClock()
    location = home if isinstance(home, str) else str(home / "ekiden.db")
    log = await open_log(location, clock=clock, queries={})
    gate = KeyRing()
    hosts: list[tuple[str, bool]] = []

    async def host_changed(team_id: str, host_id: str, here: bool, seen_at: str) -> None:
        assert team_id == TEAM
        assert seen_at.endswith("Z")
        known = next((was for told, was in reversed(hosts) if told == host_id), None)
        if known != here:  # said a second time, by another node too, it is no news
            hosts.append((host_id, here))

    exchange = Exchange()
    carry: Sequence[Bus | None] = buses or ([LocalBus(exchange) for _ in range(count)] if count > 1 else [None])
    hubs = [
        build(
            settings or Settings(Path("unused")),
            SharedLog(log) if count > 1 else log,
            clock,
            Rooms(ENDPOINTS, gate, TEAM, host_changed, pages=pages, bus=bus),
        )
        for bus in carry
    ]
    if started:
        await asyncio.gather(*(hub.start() for hub in hubs))
    bridge = Bridge(hubs[0] if count == 1 else RoundRobin(hubs))
    bridges = [Bridge(hub) for hub in hubs] if count > 1 else []
    houses = [House(hub, gate, own, hosts) for hub, own in zip(hubs, bridges, strict=False)]
    try:
        yield House(hubs[0], gate, bridge, hosts, houses)
    finally:
        for one in (bridge, *bridges):
            await one.close()
        if started:
            for hub in hubs:
                await hub.stop()
        if count > 1:
            await log.close()
