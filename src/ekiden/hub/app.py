"""The hub: the rooms behind one door, and the life of what they share.

It starts, follows the log, tells those who follow it, drains and ends. How a request is answered stands in
`door.py`, how a stream is served in `streams.py`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import msgspec

import ekiden
from ekiden.client.bridge import Bridge
from ekiden.hub import metrics, openapi
from ekiden.hub.asgi import ABORT, EXCHANGE, Exchange, Receive, Scope, Send
from ekiden.hub.bells import Bells
from ekiden.hub.bus import Bus
from ekiden.hub.callers import Callers
from ekiden.hub.calls import DoorCall
from ekiden.hub.door import Door, PageFiles, Request
from ekiden.hub.gate import Gate
from ekiden.hub.hosts import AnswerTaken, HostAnswer
from ekiden.hub.live import Live, TeamHostChanged
from ekiden.hub.metrics import Metrics
from ekiden.hub.neighbours import Neighbours
from ekiden.hub.reading import from_loopback, read_query
from ekiden.hub.refusals import Refusals
from ekiden.hub.responses import STREAM, Header
from ekiden.hub.settings import Settings
from ekiden.hub.streams import Streams
from ekiden.hub.topics import read_topics
from ekiden.kernel.clock import Clock
from ekiden.kernel.cursors import Cursor, parse_cursor
from ekiden.kernel.door import Endpoint, HubFacts, Need
from ekiden.kernel.errors import EkidenError, NotFound, Unavailable
from ekiden.kernel.ids import Prefix, new_id
from ekiden.kernel.limits import DRAIN_NOTICE_S_MAX, GROWING_SWEEP_S, HOST_AWAY_AFTER_S, SHUTDOWN_S
from ekiden.log.port import Event, Log
from ekiden.mcp.http import McpEndpoint

_log = logging.getLogger("ekiden.hub")
_WEBSOCKET_CLOSED = 1000
MCP_PATH = "/mcp"
_INSIDE = "http://localhost"
"""A name that the door always answers to."""


class Chores(Protocol):
    """What runs beside requests, see `hub.chores`."""

    def start(self) -> None: ...
    async def stop(self) -> None: ...


_KEYS_CHANGED = frozenset({"key.changed", "key.revoked", "key.rotated"})
"""Events after which what was known of a key may be wrong. That one was made or refused changes no other."""


@dataclass(frozen=True, slots=True)
class Rooms:
    """What the door stands before. `team_id` is the team of open endpoints; `host_changed` is told when a host
    comes and when it is lost: (team id, host id, here, when it was last seen). `hosts_before` counted as connected
    when the hub was last here: they are lost if they do not come back. `announce` is told where programs of this
    computer reach this node. `bus` goes to the hub's other nodes, where there are any; `chores` are done by one of
    them at a time. `bells` are
    rung with each event; `closing` is awaited before the log closes."""

    endpoints: Sequence[Endpoint]
    gate: Gate
    team_id: str
    host_changed: Callable[[str, str, bool, str], Awaitable[None]] | None = None
    hosts_before: Sequence[str] = ()
    pages: PageFiles | None = None
    announce: Callable[[str], None] | None = None
    bus: Bus | None = None
    chores: Chores | None = None
    bells: Bells = field(default_factory=Bells)
    closing: Sequence[Callable[[], Awaitable[None]]] = ()


class Healthy(msgspec.Struct, frozen=True):
    """The hub runs."""

    ok: bool


class Hub:
    """The door of one hub. An ASGI application; `start` it before the first request, `stop` it after the last.

    It owns `log` from `start` on, and closes it in `stop`.
    """

    def __init__(self, settings: Settings, log: Log, clock: Clock, rooms: Rooms) -> None:
        self.settings = settings
        self.log = log
        self.clock = clock
        self.rooms = rooms
        self.facts = HubFacts(ekiden.__version__, new_id(Prefix.EVENT), log.log_id, settings.url)
        self.streams = Streams(rooms.gate, clock, self.facts.boot_id)
        self._callers = Callers(rooms.gate, clock)
        self._refusals = Refusals(rooms.gate, clock)
        self._teams: dict[str, Live] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.Task[None] | None = None
        self._unfollow: Callable[[], None] | None = None
        self.metrics = Metrics(self)
        self.bells = rooms.bells
        self.draining = False
        self.ready = False
        self.neighbours: Neighbours | None = None
        if rooms.bus is not None:
            self.neighbours = Neighbours(
                rooms.bus,
                clock,
                self.bells,
                boot_changed=self._boot_changed,
                keys_changed=self._forget_identities,
            )
        self.door = Door(self, rooms.gate, self._callers, self._refusals, team_id=rooms.team_id, pages=rooms.pages)
        self.endpoints: tuple[Endpoint, ...] = (*self._own_endpoints(), *rooms.endpoints)
        for endpoint in self.endpoints:
            self.door.add(endpoint, self._serve_stream if endpoint.run is _elsewhere else None)
        # Not JSON, and not for clients: it stands beside what the description describes.
        self.door.add(Endpoint("GET", "/metrics", _elsewhere, "", audience="open"), self._serve_metrics)
        # The tools of agents have a protocol of their own; behind it they go through this very door.
        self.mcp = McpEndpoint()
        self.door.add(Endpoint("POST", MCP_PATH, _elsewhere, "", repeatable=True), self._serve_mcp)
        self._description = b""

    # Life

    async def start(self) -> None:
        """Follows the log from now on."""
        self._unfollow = self.log.follow(self._take)
        _, newest = await self.log.bounds(self.rooms.team_id)
        live = self.live(self.rooms.team_id)
        live.ring.begin(newest)
        for host_id in self.rooms.hosts_before:
            live.hosts.expect(host_id, HOST_AWAY_AFTER_S)
        if self.neighbours is not None:
            await self.neighbours.start()
        if self.rooms.chores is not None:
            self.rooms.chores.start()
        self.ready = True
        self._sweeper = asyncio.ensure_future(self._sweep())

    async def stop(self) -> None:
        """Ends every stream with its reason, finishes what was accepted and closes the log."""
        self.ready = False
        self.bells.close()
        await self.streams.close(SHUTDOWN_S / 2)
        await self.mcp.close()
        if self.rooms.chores is not None:
            await self.rooms.chores.stop()
        if self.neighbours is not None:
            await self.neighbours.stop()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for live in self._teams.values():
            live.hosts.close()
        await self._refusals.close()
        while self._background:
            await asyncio.gather(*self._background, return_exceptions=True)
        if self._unfollow is not None:
            self._unfollow()
            self._unfollow = None
        for close in self.rooms.closing:
            await close()
        await self.log.close()

    async def drain(self, notice_s: float = 0.0) -> None:
        """Lets this node go without a loss: first `/readyz` says no, for `notice_s` at most a proxy may still send
        requests here, then every stream is told to go on elsewhere. Requests are answered until the end."""
        self.draining = True
        await asyncio.sleep(min(notice_s, DRAIN_NOTICE_S_MAX))
        self.bells.close()
        await self.streams.close(SHUTDOWN_S / 2, "draining")

    async def _sweep(self) -> None:
        """Lets go of growing items that nobody will make whole any more."""
        while True:
            await asyncio.sleep(GROWING_SWEEP_S)
            for live in self._teams.values():
                live.growing.sweep()

    def listening_at(self, url: str, own_url: str) -> None:
        """Says what people open, and where this node itself is reached, once the port is known."""
        self.facts = replace(self.facts, url=url)
        if self.rooms.announce is not None:
            self.rooms.announce(own_url)

    @property
    def teams(self) -> tuple[Live, ...]:
        """The live state of every team that was heard of."""
        return tuple(self._teams.values())

    def live(self, team_id: str) -> Live:
        """The live state of a team."""
        live = self._teams.get(team_id)
        if live is None:
            changed: TeamHostChanged = self._host_changed
            live = self._teams[team_id] = Live(team_id, self.log, self.clock, changed)
            if self.neighbours is not None:
                self.neighbours.attach(live)
        return live

    def _take(self, team_id: str, events: Sequence[Event]) -> None:
        """Newly committed events: to those who follow; and where keys changed, nobody is known any more."""
        self.live(team_id).take(events)
        self.bells.note(team_id, events)
        self.metrics.committed(events)
        if any(event.kind in _KEYS_CHANGED for event in events):
            self._forget_identities(team_id)
            if self.neighbours is not None:
                self.neighbours.tell_keys_changed(team_id)

    def _forget_identities(self, team_id: str) -> None:
        self._callers.forget()
        if len(self.streams):
            self._do(self.streams.recheck(team_id))

    def _boot_changed(self, boot_id: str) -> None:
        self.facts = replace(self.facts, boot_id=boot_id)
        self.streams.boot_id = boot_id

    def _host_changed(self, team_id: str, host_id: str, here: bool, seen_at: str) -> None:
        if self.rooms.host_changed is not None:
            self._do(self._tell_host_changed(team_id, host_id, here, seen_at))

    async def _tell_host_changed(self, team_id: str, host_id: str, here: bool, seen_at: str) -> None:
        assert self.rooms.host_changed is not None
        try:
            await self.rooms.host_changed(team_id, host_id, here, seen_at)
        except EkidenError as error:
            _log.warning("That host %s is %s was not stored: %s", host_id, "here" if here else "lost", error.code)

    def _do(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # Requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI 3."""
        match scope["type"]:
            case "http":
                await self.door.answer(scope, receive, send)
            case "lifespan":
                await self._lifespan(receive, send)
            case _:
                await send({"type": "websocket.close", "code": _WEBSOCKET_CLOSED})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    # The door's own endpoints

    def _own_endpoints(self) -> tuple[Endpoint, ...]:
        return (
            Endpoint(
                "GET",
                "/healthz",
                self._healthz,
                "Whether the hub runs and can store.",
                answer=Healthy,
                audience="open",
            ),
            Endpoint(
                "GET",
                "/readyz",
                self._readyz,
                "Whether new requests should come to this node.",
                answer=Healthy,
                audience="open",
            ),
            Endpoint("GET", "/v1/openapi.json", self._openapi, "This description of the door.", audience="open"),
            Endpoint(
                "POST",
                "/v1/hosts/{host_id}/answers",
                self._answers,
                "A host's answer to a request.",
                body=HostAnswer,
                answer=AnswerTaken,
                need=Need("feed", "host:{host_id}"),
                repeatable=True,
                audience="host",
            ),
            Endpoint(
                "GET",
                "/v1/stream",
                _elsewhere,
                "Server-sent events from a cursor on, see docs/door.md.",
                query=(
                    (
                        "topics",
                        "Comma-separated: `team`, `access`, `session:ID`, `host:ID`, `channels`, `channel:NAME`, "
                        "`private:NAME`, `inbox:PRINCIPAL`, `directory`.",
                    ),
                    ("after", "The cursor to resume after; `Last-Event-ID` goes before it."),
                ),
            ),
        )

    async def _openapi(self, _: DoorCall) -> bytes:
        if not self._description:
            self._description = openapi.describe(self.endpoints)
        return self._description

    async def _answers(self, call: DoorCall, body: HostAnswer) -> AnswerTaken:
        return AnswerTaken(self.live(call.team_id).hosts.answer(call.parameters["host_id"], body))

    async def _healthz(self, _: DoorCall) -> Healthy:
        """Refused with 503 while the log cannot store, with the reason."""
        health = self.log.health
        if not health.ok:
            raise Unavailable(f"The hub cannot store anything now: {health.reason}.", since=health.since)
        return Healthy(ok=True)

    async def _readyz(self, call: DoorCall) -> Healthy:
        """Refused with 503 while this node starts, ends or cannot store, with the reason."""
        if self.draining or not self.ready:
            raise Unavailable("This node is ending." if self.draining else "This node is starting.")
        return await self._healthz(call)

    async def _serve_metrics(self, request: Request) -> None:
        """A program on this computer needs no key, anyone else one that may read `team`."""
        if not from_loopback(request.scope, request.headers):
            identity, _ = await self.door.identify(request.scope, request.headers)
            if not self.rooms.gate.allows(identity.permissions, "read", "team"):
                raise NotFound
        data = self.metrics.text()
        head: list[Header] = [*metrics.HEADERS, (b"content-length", b"%d" % len(data))]
        await request.send({"type": "http.response.start", "status": 200, "headers": head})
        await request.send({"type": "http.response.body", "body": data})

    async def _serve_mcp(self, request: Request) -> None:
        client = request.scope.get("client")
        peer = str(client[0]) if client and from_loopback(request.scope, request.headers) else ""
        inside = Bridge(self, url=_INSIDE, client=peer)
        exchange: Exchange | None = request.scope.get("extensions", {}).get(EXCHANGE)
        try:
            await self.mcp.serve(
                request.scope,
                request.receive,
                request.send,
                key=request.key,
                transport=inside,
                gone=lambda: exchange is not None and exchange.gone,
            )
        finally:
            await inside.close()

    async def _serve_stream(self, request: Request) -> None:
        assert request.identity is not None
        asked = read_query(request.query)
        topics = read_topics(asked.get("topics", ""))
        resume = request.headers.get(b"last-event-id", b"").decode("latin-1") or asked.get("after", "")
        after: Cursor | None = parse_cursor(resume) if resume else None
        await self.streams.serve(
            self.live(request.identity.team_id),
            request.identity,
            request.key,
            topics,
            after,
            request.receive,
            request.send,
            STREAM,
            request.scope.get("extensions", {}).get(ABORT),
        )


def build(settings: Settings, log: Log, clock: Clock, rooms: Rooms) -> Hub:
    """The door before these rooms. Not yet started."""
    return Hub(settings, log, clock, rooms)


async def _elsewhere(_: DoorCall) -> None:
    raise AssertionError("what serves this place answers itself")
