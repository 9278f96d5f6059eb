"""The hub as an ASGI application: the order of checks, then a room's endpoint, then its answer.

Every request is looked at in this order, before any code of a room runs: `Host`, `Origin`, no key in the URL,
what stands at the path, the method, the content type, the declared size, who it is, what the key may do, the
command id, and the body within its bounds of size and time. Whatever is refused becomes a problem by one table
(`problems`), and what was refused for who or whence it came from goes into the audit trail.

There is no middleware: the whole way of a request is `Hub.__call__` and what it calls, because each write of
each client goes this way.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import msgspec

import ekiden
from ekiden.hub import checks, metrics, openapi, telemetry
from ekiden.hub.asgi import ABORT, Receive, Scope, Send
from ekiden.hub.bus import Bus
from ekiden.hub.calls import DoorCall, checked_command_id, command_digest
from ekiden.hub.gate import Gate, Identity, Refusal
from ekiden.hub.hosts import AnswerTaken, HostAnswer
from ekiden.hub.live import Live, TeamHostChanged
from ekiden.hub.metrics import Metrics
from ekiden.hub.neighbours import Neighbours
from ekiden.hub.paths import Paths
from ekiden.hub.problems import problem_of, unforeseen
from ekiden.hub.reading import BodyLate, decode_body, from_loopback, read_body, read_query, too_large
from ekiden.hub.refusals import Refusals
from ekiden.hub.responses import JSON, PROBLEM, STREAM, Header, cookie_header, cookie_key
from ekiden.hub.settings import Settings
from ekiden.hub.streams import Streams
from ekiden.hub.topics import read_topics
from ekiden.kernel.clock import Clock
from ekiden.kernel.cursors import Cursor, parse_cursor
from ekiden.kernel.door import Endpoint, HubFacts, Need
from ekiden.kernel.errors import (
    EkidenError,
    Forbidden,
    NotFound,
    TooLarge,
    TooMany,
    Unauthenticated,
    Unavailable,
)
from ekiden.kernel.ids import Prefix, new_id
from ekiden.kernel.limits import (
    DRAIN_NOTICE_S_MAX,
    GROWING_SWEEP_S,
    HOST_AWAY_AFTER_S,
    IDENTITIES_KEPT_MAX,
    KEY_USED_EVERY_S,
    REQUEST_BODY_BYTES_MAX,
    SHUTDOWN_S,
)
from ekiden.log.port import Actor, Event, Log, Written

_log = logging.getLogger("ekiden.hub")
_encode = msgspec.json.Encoder().encode
_NOBODY = Actor("")
_WEBSOCKET_CLOSED = 1000
SIGN_OUT = "/v1/sign-out"
"""The place whose success takes the page's cookie away."""
_WRITES_WITH_BODY = frozenset(("POST", "PUT", "PATCH"))


class PageFiles(Protocol):
    """What answers everything outside of `/v1/`."""

    async def answer(self, scope: Scope, headers: Mapping[bytes, bytes], send: Send) -> None: ...


class Chores(Protocol):
    """What runs beside requests, see `hub.chores`."""

    def start(self) -> None: ...
    async def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Rooms:
    """What the door stands before. `team_id` is the team of open endpoints; `host_changed` is told when a host
    comes and when it is lost: (team id, host id, here, when it was last seen). `hosts_before` counted as connected
    when the hub was last here: they are lost if they do not come back. `announce` is told what people open. `bus`
    goes to the hub's other nodes, where there are any; `chores` are done by one of them at a time."""

    endpoints: Sequence[Endpoint]
    gate: Gate
    team_id: str
    host_changed: Callable[[str, str, bool, str], Awaitable[None]] | None = None
    hosts_before: Sequence[str] = ()
    pages: PageFiles | None = None
    announce: Callable[[str], None] | None = None
    bus: Bus | None = None
    chores: Chores | None = None


class Healthy(msgspec.Struct, frozen=True):
    """The hub runs."""

    ok: bool


class _Place:
    """An endpoint, prepared for being called often."""

    __slots__ = ("decode", "endpoint", "need", "open", "resource", "run", "status", "takes_body", "writes")

    def __init__(self, endpoint: Endpoint) -> None:
        assert inspect.iscoroutinefunction(endpoint.run), f"{endpoint.path}: an endpoint is an async function"
        self.endpoint = endpoint
        self.run = endpoint.run
        self.open = endpoint.audience == "open"
        self.need = endpoint.need
        self.resource = endpoint.need.resource if endpoint.need is not None else ""
        self.status = endpoint.status
        self.writes = endpoint.method not in ("GET", "HEAD")
        self.takes_body = endpoint.method in _WRITES_WITH_BODY
        self.decode = msgspec.json.Decoder(endpoint.body).decode if endpoint.body is not None else None


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
        self.checks = checks.Checks(settings.hosts, secure=settings.secure)
        self._gate = rooms.gate
        self._refusals = Refusals(rooms.gate, clock)
        self._teams: dict[str, Live] = {}
        self._identities: dict[str, tuple[Identity, float]] = {}
        self._keys_changed = 0
        self._places: Paths[_Place] = Paths()
        self._background: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.Task[None] | None = None
        self._unfollow: Callable[[], None] | None = None
        self.metrics = Metrics(self)
        self.draining = False
        self.ready = False
        self.neighbours: Neighbours | None = None
        if rooms.bus is not None:
            self.neighbours = Neighbours(
                rooms.bus, clock, boot_changed=self._boot_changed, keys_changed=self._forget_identities
            )
        own = (
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
                _stream,
                "Server-sent events from a cursor on, see docs/door.md.",
                query=(
                    ("topics", "Comma-separated: `team`, `access`, `session:ID`, `host:ID`."),
                    ("after", "The cursor to resume after; `Last-Event-ID` goes before it."),
                ),
            ),
        )
        self.endpoints: tuple[Endpoint, ...] = (*own, *rooms.endpoints)
        for endpoint in self.endpoints:
            self._places.add(endpoint.method, endpoint.path, _Place(endpoint))
        # Not JSON, and not for clients: it stands beside what the description describes.
        self._places.add("GET", "/metrics", _Place(Endpoint("GET", "/metrics", _metrics, "", audience="open")))
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
        await self.streams.close(SHUTDOWN_S / 2)
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
        await self.log.close()

    async def drain(self, notice_s: float = 0.0) -> None:
        """Lets this node go without a loss: first `/readyz` says no, for `notice_s` at most a proxy may still send
        requests here, then every stream is told to go on elsewhere. Requests are answered until the end."""
        self.draining = True
        await asyncio.sleep(min(notice_s, DRAIN_NOTICE_S_MAX))
        await self.streams.close(SHUTDOWN_S / 2, "draining")

    async def _sweep(self) -> None:
        """Lets go of growing items that nobody will make whole any more."""
        while True:
            await asyncio.sleep(GROWING_SWEEP_S)
            for live in self._teams.values():
                live.growing.sweep()

    def listening_at(self, url: str) -> None:
        """Says what people open, once the port is known."""
        self.facts = replace(self.facts, url=url)
        if self.rooms.announce is not None:
            self.rooms.announce(url)

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
        self.metrics.committed(events)
        if any("access" in event.topics for event in events):
            self._forget_identities(team_id)
            if self.neighbours is not None:
                self.neighbours.tell_keys_changed(team_id)

    def _forget_identities(self, team_id: str) -> None:
        self._identities.clear()
        self._keys_changed += 1
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

    # A request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI 3."""
        kind = scope["type"]
        if kind == "lifespan":
            await self._lifespan(receive, send)
            return
        if kind != "http":
            await send({"type": "websocket.close", "code": _WEBSOCKET_CLOSED})
            return
        try:
            await self._request(scope, receive, send)
        except EkidenError as error:
            await _send_problem(send, error)
        except Exception as error:
            await _send_problem(send, unforeseen(error, scope["method"], self._template(scope["path"])))

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

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        headers: dict[bytes, bytes] = dict(scope["headers"])
        query: bytes = scope["query_string"]
        try:
            self.checks.address(headers, path)
            checks.no_key_in_url(scope.get("raw_path") or path.encode("utf-8", "surrogateescape"), query)
        except EkidenError as error:
            self._note(scope, str(error.details.get("header", "key_in_url")))
            raise
        found = self._places.find(path)
        if found is None:
            if self.rooms.pages is None or path.startswith("/v1/"):
                raise NotFound
            await self.rooms.pages.answer(scope, headers, send)
            return
        methods, parameters = found
        method: str = scope["method"]
        place = methods.get(method)
        if place is None:
            raise checks.NotAllowed(f"{method} is not something that can be done here.", allow=", ".join(methods))
        if place.takes_body:
            checks.json_body(headers)
        declared = headers.get(b"content-length")
        if declared is not None and int(declared) > REQUEST_BODY_BYTES_MAX:
            raise too_large(int(declared))
        if place.open:
            identity, key = None, ""
        else:
            identity, key = await self._identify(scope, headers)
            if place.need is not None:
                self._permit(scope, place, identity, parameters)
        if place.run is _stream:
            assert identity is not None
            await self._serve_stream(scope, headers, query, identity, key, receive, send)
            return
        if place.run is _metrics:
            await self._serve_metrics(scope, headers, send)
            return
        command_id = ""
        if place.writes and b"command-id" in headers:
            command_id = checked_command_id(headers[b"command-id"])
        body = await read_body(receive) if place.writes else b""
        actor = Actor(identity.principal_id, identity.key_id, identity.name) if identity is not None else _NOBODY
        live = self.live(identity.team_id if identity is not None else self.rooms.team_id)
        if place.endpoint.audience == "host" and "host_id" in parameters:
            live.hosts.seen(parameters["host_id"])
        call = DoorCall(
            hub=self.facts,
            live=live,
            metrics=self.metrics,
            gate=self._gate,
            actor=actor,
            permissions=identity.permissions if identity is not None else {},
            parameters=parameters,
            query=read_query(query) if query else {},
            from_loopback=from_loopback(scope, headers),
            command_id=command_id,
            digest=command_digest(method, path, query, body) if command_id else "",
        )
        with telemetry.span("request", method=method, route=place.endpoint.path):
            if place.decode is None:
                answer = await place.run(call)
            else:
                answer = await place.run(call, decode_body(place.decode, body))
        await self._send_answer(scope, place, call, answer, send)

    async def _send_answer(self, scope: Scope, place: _Place, call: DoorCall, answer: Any, send: Send) -> None:
        extra: list[Header] = []
        if isinstance(answer, Written):
            data = answer.answer
        elif isinstance(answer, bytes):
            data = answer
        elif answer is None:
            data = b"{}"
        else:
            cookie = getattr(answer, "set_cookie_key", None)
            if cookie is None:
                data = _encode(answer)
            else:
                data = _encode({**_fields(answer, without="set_cookie_key")})
                if cookie:
                    secure = self.settings.secure or scope.get("scheme") == "https"
                    extra.append(cookie_header(cookie, secure=secure))
        if place.endpoint.path == SIGN_OUT:
            extra.append(cookie_header("", secure=self.settings.secure))
        if call.repeated:
            extra.append((b"command-repeated", b"true"))
        await send(
            {
                "type": "http.response.start",
                "status": place.status,
                "headers": [*JSON, (b"content-length", b"%d" % len(data)), *extra],
            }
        )
        await send({"type": "http.response.body", "body": data})

    # Who, and what they may

    async def _identify(self, scope: Scope, headers: Mapping[bytes, bytes]) -> tuple[Identity, str]:
        authorization = headers.get(b"authorization")
        if authorization is not None:
            scheme, _, value = authorization.partition(b" ")
            key = value.strip().decode("latin-1") if scheme.lower() == b"bearer" else ""
        else:
            key = cookie_key(headers.get(b"cookie", b""))
        if not key:
            self._note(scope, "no_key")
            raise Unauthenticated("A key is needed.", hint="Pair this device: `ekiden pair` on the computer.")
        kept = self._identities.get(key)
        if kept is not None:
            identity, until = kept
            if self.clock.monotonic() < until and (
                identity.expires_at is None or self.clock.now() < identity.expires_at
            ):
                return identity, key
        keys_changed = self._keys_changed
        try:
            identity = await self._gate.identify(key)
        except Unauthenticated:
            self._note(scope, "unknown_key")
            raise
        if keys_changed == self._keys_changed:
            if len(self._identities) >= IDENTITIES_KEPT_MAX:
                self._identities.clear()
            self._identities[key] = (identity, self.clock.monotonic() + KEY_USED_EVERY_S)
        return identity, key

    def _permit(self, scope: Scope, place: _Place, identity: Identity, parameters: Mapping[str, str]) -> None:
        """What a key may not even read answers like what does not exist."""
        need = place.need
        assert need is not None
        resource = place.resource.format_map(parameters) if "{" in place.resource else place.resource
        if self._gate.allows(identity.permissions, need.verb, resource):
            return
        self._note(scope, "not_allowed", identity)
        if self._gate.allows(identity.permissions, "read", resource):
            raise Forbidden("This key may not do that.", verb=need.verb)
        raise NotFound

    def _template(self, path: str) -> str:
        """Where a path leads, without what a stranger wrote into it."""
        found = self._places.find(path)
        if found is None:
            return "/v1/…" if path.startswith("/v1/") else "/…"
        return next(iter(found[0].values())).endpoint.path

    def _note(self, scope: Scope, reason: str, identity: Identity | None = None) -> None:
        client = scope.get("client")
        self._refusals.note(
            Refusal(
                reason,
                scope["method"],
                self._template(scope["path"]),
                identity.key_id if identity is not None else "",
                identity.principal_id if identity is not None else "",
                identity.name if identity is not None else "",
                str(client[0]) if client else "",
                identity.team_id if identity is not None else self.rooms.team_id,
            )
        )

    # The door's own endpoints

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

    async def _serve_metrics(self, scope: Scope, headers: Mapping[bytes, bytes], send: Send) -> None:
        """A program on this computer needs no key, anyone else one that may read `team`."""
        if not from_loopback(scope, headers):
            identity, _ = await self._identify(scope, headers)
            if not self._gate.allows(identity.permissions, "read", "team"):
                raise NotFound
        data = self.metrics.text()
        head: list[Header] = [*metrics.HEADERS, (b"content-length", b"%d" % len(data))]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": data})

    async def _serve_stream(
        self,
        scope: Scope,
        headers: Mapping[bytes, bytes],
        query: bytes,
        identity: Identity,
        key: str,
        receive: Receive,
        send: Send,
    ) -> None:
        asked = read_query(query)
        topics = read_topics(asked.get("topics", ""))
        resume = headers.get(b"last-event-id", b"").decode("latin-1") or asked.get("after", "")
        after: Cursor | None = parse_cursor(resume) if resume else None
        abort = scope.get("extensions", {}).get(ABORT)
        await self.streams.serve(
            self.live(identity.team_id), identity, key, topics, after, receive, send, STREAM, abort
        )


def build(settings: Settings, log: Log, clock: Clock, rooms: Rooms) -> Hub:
    """The door before these rooms. Not yet started."""
    return Hub(settings, log, clock, rooms)


async def _stream(_: DoorCall) -> None:
    raise AssertionError("Hub._serve_stream answers here")


async def _metrics(_: DoorCall) -> None:
    raise AssertionError("Hub._serve_metrics answers here")


def _fields(answer: Any, *, without: str) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(answer)
    built.pop(without, None)
    return built


async def _send_problem(send: Send, error: EkidenError) -> None:
    """Answers with a problem."""
    data = _encode(problem_of(error))
    headers: list[Header] = [*PROBLEM, (b"content-length", b"%d" % len(data))]
    match error:
        case Unauthenticated():
            headers.append((b"www-authenticate", b"Bearer"))
        case TooMany():
            headers.append((b"retry-after", str(error.details.get("retry_after_s", 1)).encode()))
        case checks.NotAllowed():
            headers.append((b"allow", str(error.details["allow"]).encode()))
        case TooLarge() | BodyLate():
            headers.append((b"connection", b"close"))
        case _:
            pass
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": data})
