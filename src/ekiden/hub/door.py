"""The way of a request: the order of checks, then an endpoint of a room, then its answer.

Every request is looked at in this order, before any code of a room runs: `Host`, `Origin`, no key in the URL,
what stands at the path, the method, the content type, the declared size, who it is, what the key may do, the
command id, and the body within its bounds of size and time. Whatever is refused becomes a problem by one table
(`problems`), and what was refused for who or whence it came from goes into the audit trail.

There is no middleware: the whole way is `Door.answer` and what it calls, because each write of each client goes
this way.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from ekiden.hub import checks, telemetry
from ekiden.hub.asgi import EXCHANGE, Exchange, Receive, Scope, Send
from ekiden.hub.bells import Bells
from ekiden.hub.callers import Callers, key_of
from ekiden.hub.calls import DoorCall, checked_command_id, command_digest
from ekiden.hub.gate import Gate, Identity, Refusal
from ekiden.hub.live import Live
from ekiden.hub.metrics import Metrics
from ekiden.hub.paths import Paths
from ekiden.hub.problems import problem_of, unforeseen
from ekiden.hub.reading import (
    BodyLate,
    BodyOver,
    decode_body,
    discard_body,
    from_loopback,
    read_body,
    read_query,
)
from ekiden.hub.refusals import Refusals
from ekiden.hub.responses import JSON, PROBLEM, Header, answer_head, cookie_header
from ekiden.hub.settings import Settings
from ekiden.kernel.door import Endpoint, HubFacts
from ekiden.kernel.errors import EkidenError, Forbidden, Hidden, NotFound, TooMany, Unauthenticated
from ekiden.kernel.limits import REQUEST_BODY_BYTES_MAX
from ekiden.log.port import Actor, Written

_encode = msgspec.json.Encoder().encode
_NOBODY = Actor("")
_NO_EXTENSIONS: Mapping[str, Any] = {}
SIGN_OUT = "/v1/sign-out"
"""The place whose success takes the page's cookie away."""
_WRITES_WITH_BODY = frozenset(("POST", "PUT", "PATCH"))


class PageFiles(Protocol):
    """What answers everything outside of `/v1/`."""

    async def answer(self, scope: Scope, headers: Mapping[bytes, bytes], send: Send) -> None: ...


class House(Protocol):
    """What stands behind the door, as a request finds it."""

    @property
    def settings(self) -> Settings: ...
    @property
    def facts(self) -> HubFacts: ...
    @property
    def metrics(self) -> Metrics: ...
    @property
    def bells(self) -> Bells: ...
    def live(self, team_id: str, /) -> Live: ...


@dataclass(frozen=True, slots=True)
class Request:
    """A request that has passed the checks, for a place that answers by itself. `identity` is None and `key` empty
    where anybody may come."""

    scope: Scope
    headers: Mapping[bytes, bytes]
    query: bytes
    identity: Identity | None
    key: str
    receive: Receive
    send: Send


Serve = Callable[[Request], Awaitable[None]]
"""Answers a request by itself: with a stream, or with something that is not JSON."""


class _Place:
    """An endpoint, prepared for being called often."""

    __slots__ = (
        "decode",
        "endpoint",
        "head",
        "need",
        "open",
        "resource",
        "run",
        "serve",
        "status",
        "takes_body",
        "writes",
    )

    def __init__(self, endpoint: Endpoint, serve: Serve | None) -> None:
        assert inspect.iscoroutinefunction(endpoint.run), f"{endpoint.path}: an endpoint is an async function"
        self.endpoint = endpoint
        self.run = endpoint.run
        self.serve = serve
        self.open = endpoint.audience == "open"
        self.need = endpoint.need
        self.resource = endpoint.need.resource if endpoint.need is not None else ""
        self.status = endpoint.status
        self.head = answer_head(endpoint.status)
        self.writes = endpoint.method not in ("GET", "HEAD")
        self.takes_body = endpoint.method in _WRITES_WITH_BODY
        self.decode = msgspec.json.Decoder(endpoint.body).decode if endpoint.body is not None else None


class Door:
    """Answers requests. `team_id` is the team of open endpoints; `pages` answers what is outside of `/v1/`."""

    def __init__(
        self,
        house: House,
        gate: Gate,
        callers: Callers,
        refusals: Refusals,
        *,
        team_id: str,
        pages: PageFiles | None,
    ) -> None:
        self.checks = checks.Checks(house.settings.hosts, secure=house.settings.secure)
        self._house = house
        self._gate = gate
        self._callers = callers
        self._refusals = refusals
        self._team_id = team_id
        self._pages = pages
        self._places: Paths[_Place] = Paths()

    def add(self, endpoint: Endpoint, serve: Serve | None = None) -> None:
        """Lets an endpoint be reached. With `serve`, that answers in the place of `endpoint.run`."""
        self._places.add(endpoint.method, endpoint.path, _Place(endpoint, serve))

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one HTTP request, whatever becomes of it."""
        try:
            await self._answer(scope, receive, send)
        except EkidenError as error:
            await _send_problem(receive, send, error)
        except Exception as error:
            await _send_problem(receive, send, unforeseen(error, scope["method"], self._template(scope["path"])))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
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
            if self._pages is None or path.startswith("/v1/"):
                raise NotFound
            await self._pages.answer(scope, headers, send)
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
            raise BodyOver(int(declared), unread=True)
        if place.open:
            identity, key = None, ""
        else:
            identity, key = await self.identify(scope, headers)
            if place.need is not None:
                self._permit(scope, place, identity, parameters)
        if place.serve is not None:
            await place.serve(Request(scope, headers, query, identity, key, receive, send))
            return
        command_id = ""
        if place.writes and b"command-id" in headers:
            command_id = checked_command_id(headers[b"command-id"])
        exchange: Exchange | None = scope.get("extensions", _NO_EXTENSIONS).get(EXCHANGE)
        body = (await _body(exchange, receive)) if place.writes else b""
        actor = Actor(identity.principal_id, identity.key_id, identity.name) if identity is not None else _NOBODY
        live = self._house.live(identity.team_id if identity is not None else self._team_id)
        if place.endpoint.audience == "host" and "host_id" in parameters:
            live.hosts.seen(parameters["host_id"])
        call = DoorCall(
            hub=self._house.facts,
            live=live,
            metrics=self._house.metrics,
            gate=self._gate,
            bells=self._house.bells,
            actor=actor,
            kind=str(identity.kind) if identity is not None else "",
            permissions=identity.permissions if identity is not None else {},
            parameters=parameters,
            query=read_query(query) if query else {},
            from_loopback=from_loopback(scope, headers),
            command_id=command_id,
            digest=command_digest(method, path, query, body) if command_id else "",
        )
        try:
            with telemetry.span("request", method=method, route=place.endpoint.path):
                if place.decode is None:
                    answer = await place.run(call)
                else:
                    answer = await place.run(call, decode_body(place.decode, body))
        except (Forbidden, Hidden) as error:
            self._note(scope, str(error.details.get("refused", "not_allowed")), identity, call.denied)
            raise
        await self._send_answer(scope, place, call, answer, exchange, send)

    async def _send_answer(
        self, scope: Scope, place: _Place, call: DoorCall, answer: Any, exchange: Exchange | None, send: Send
    ) -> None:
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
                    secure = self._house.settings.secure or scope.get("scheme") == "https"
                    extra.append(cookie_header(cookie, secure=secure))
        if place.endpoint.path == SIGN_OUT:
            extra.append(cookie_header("", secure=self._house.settings.secure))
        if call.repeated:
            extra.append((b"command-repeated", b"true"))
        if exchange is not None and not extra and exchange.answer(b"%b%d\r\n\r\n" % (place.head, len(data)), data):
            return
        await send(
            {
                "type": "http.response.start",
                "status": place.status,
                "headers": [*JSON, (b"content-length", b"%d" % len(data)), *extra],
            }
        )
        await send({"type": "http.response.body", "body": data})

    # Who, and what they may

    async def identify(self, scope: Scope, headers: Mapping[bytes, bytes]) -> tuple[Identity, str]:
        """Who calls, and with which key.

        Raises:
            Unauthenticated: if there is no key, or none that is known; it is noted.
        """
        key = key_of(headers)
        if not key:
            self._note(scope, "no_key")
            raise Unauthenticated("A key is needed.", hint="Pair this device: `ekiden pair` on the computer.")
        try:
            return await self._callers.identify(key), key
        except Unauthenticated:
            self._note(scope, "unknown_key")
            raise

    def _permit(self, scope: Scope, place: _Place, identity: Identity, parameters: Mapping[str, str]) -> None:
        """What a key may not even read answers like what does not exist."""
        need = place.need
        assert need is not None
        resource = place.resource.format_map(parameters) if "{" in place.resource else place.resource
        if self._gate.allows(identity.permissions, need.verb, resource):
            return
        self._note(scope, "not_allowed", identity, (need.verb, resource))
        if self._gate.allows(identity.permissions, "read", resource):
            raise Forbidden("This key may not do that.", verb=need.verb)
        raise NotFound

    def _template(self, path: str) -> str:
        """Where a path leads, without what a stranger wrote into it."""
        found = self._places.find(path)
        if found is None:
            return "/v1/…" if path.startswith("/v1/") else "/…"
        return next(iter(found[0].values())).endpoint.path

    def _note(
        self, scope: Scope, reason: str, identity: Identity | None = None, asked: tuple[str, str] = ("", "")
    ) -> None:
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
                identity.team_id if identity is not None else self._team_id,
                *asked,
            )
        )


def _fields(answer: Any, *, without: str) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(answer)
    built.pop(without, None)
    return built


async def _body(exchange: Exchange | None, receive: Receive) -> bytes:
    """The request's body; without any waiting if all of it came with its head."""
    arrived = exchange.arrived() if exchange is not None else None
    if arrived is None:
        return await read_body(receive)
    if len(arrived) > REQUEST_BODY_BYTES_MAX:
        raise BodyOver(len(arrived), unread=False)
    return arrived


async def _send_problem(receive: Receive, send: Send, error: EkidenError) -> None:
    """Answers with a problem. What is refused for its body is answered at once, whatever is still to come of it;
    the connection ends when that is over."""
    unread = False
    data = _encode(problem_of(error))
    headers: list[Header] = [*PROBLEM, (b"content-length", b"%d" % len(data))]
    match error:
        case Unauthenticated():
            headers.append((b"www-authenticate", b"Bearer"))
        case TooMany():
            headers.append((b"retry-after", str(error.details.get("retry_after_s", 1)).encode()))
        case checks.NotAllowed():
            headers.append((b"allow", str(error.details["allow"]).encode()))
        case BodyOver() | BodyLate():
            headers.append((b"connection", b"close"))
            unread = error.unread
        case _:
            pass
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    if unread:
        await send({"type": "http.response.body", "body": data, "more_body": True})
        await discard_body(receive)
        data = b""
    await send({"type": "http.response.body", "body": data})
