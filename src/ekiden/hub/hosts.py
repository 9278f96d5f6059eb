"""The link to hosts: which are connected, and asking them.

A host is connected while it holds a stream with the topic of its own work. A request goes out on that stream and
its answer comes back by `POST /v1/hosts/{host_id}/answers`. A request that was open when the stream broke is told
again on the next one; a host answers a repeated one from memory. When a host's streams have been gone for a short
grace, without a feed as a sign of life, it is lost: whoever waits for it is told, and so is the sessions room.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from ekiden.hub.frames import Frame, passing
from ekiden.kernel import errors
from ekiden.kernel.clock import Clock, iso
from ekiden.kernel.errors import (
    CommandInFlight,
    EkidenError,
    HostAway,
    HostSilent,
    TooMany,
    Unavailable,
)
from ekiden.kernel.ids import Prefix, new_id
from ekiden.kernel.limits import HOST_GRACE_S, HOST_REQUESTS_OPEN_MAX

HostChanged = Callable[[str, bool, str], None]
"""Told (host id, whether it is here, when it was last seen)."""


class HostProblem(msgspec.Struct, frozen=True):
    """What a host refused a request with."""

    code: str
    message: str
    status: int = 500
    hint: str = ""
    details: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


class HostAnswer(msgspec.Struct, frozen=True):
    """`POST /v1/hosts/{host_id}/answers`: the answer to one request."""

    request_id: str
    ok: bool
    result: msgspec.Raw = msgspec.Raw(b"null")
    problem: HostProblem | None = None


class AnswerTaken(msgspec.Struct, frozen=True):
    """`taken` is false when nobody is known to wait for the answer (any more)."""

    taken: bool


class HostRefused(Unavailable):
    """A host refused with a code that is not in this program's own tree."""

    code = "host_refused"
    status = 502
    retry_helps = False


def _tree(root: type[EkidenError]) -> dict[str, type[EkidenError]]:
    found = {root.code: root}
    for child in root.__subclasses__():
        found |= _tree(child)
    return found


_ERRORS = _tree(errors.EkidenError)


def error_of(problem: HostProblem) -> EkidenError:
    """The host's refusal as the error that it was there."""
    kind = _ERRORS.get(problem.code)
    details = {name: value for name, value in problem.details.items() if name not in ("message", "hint", "self")}
    if kind is None:
        return HostRefused(problem.message, hint=problem.hint, host_code=problem.code, **details)
    error = kind.__new__(kind)
    EkidenError.__init__(error, problem.message, hint=problem.hint, **details)
    return error


class Elsewhere(Protocol):
    """The same hub's other nodes, for the hosts of one team."""

    def has(self, host_id: str) -> bool:
        """Whether the host is connected to another node."""
        ...

    def came(self, host_id: str) -> None: ...
    def went(self, host_id: str) -> None: ...
    def spoke(self, host_id: str) -> None: ...
    def ask(self, host_id: str, body: dict[str, Any]) -> None: ...
    def ask_ended(self, host_id: str, request_id: str) -> None: ...

    def asking(self, host_id: str) -> Collection[str]:
        """Ids of the requests with which other nodes wait for the host."""
        ...

    def answer(self, host_id: str, told: HostAnswer, *, settled: bool) -> bool:
        """Hands an answer to whoever asked elsewhere, or may have; False if nobody is known to wait there.
        `settled` says that somebody here has got it."""
        ...


@dataclass(slots=True)
class _Request:
    frame: Frame
    body: dict[str, Any]
    answer: "asyncio.Future[bytes]"


@dataclass(slots=True)
class _Host:
    streams: int = 0
    here: bool = False
    seen_at: float = 0.0
    requests: dict[str, _Request] = field(default_factory=dict[str, _Request])
    grace: asyncio.TimerHandle | None = None


class HostLinks:
    """The hosts of one team. `send` puts a frame where the hosts' streams see it."""

    def __init__(self, clock: Clock, send: Callable[[Frame], None], changed: HostChanged) -> None:
        self._clock = clock
        self._send = send
        self._changed = changed
        self._hosts: dict[str, _Host] = {}
        self.elsewhere: Elsewhere | None = None
        """The other nodes, where there are any."""

    def here(self, host_id: str) -> bool:
        """Whether the host is connected now, to whichever node."""
        host = self._hosts.get(host_id)
        return (host is not None and host.here) or (self.elsewhere is not None and self.elsewhere.has(host_id))

    def dialled(self, host_id: str) -> bool:
        """Whether a stream of the host is open at this node."""
        host = self._hosts.get(host_id)
        return host is not None and host.streams > 0

    def all_dialled(self) -> tuple[str, ...]:
        """The hosts with a stream at this node."""
        return tuple(host_id for host_id, host in self._hosts.items() if host.streams)

    def expect(self, host_id: str, within_s: float) -> None:
        """A host that is about to connect, or was here before the hub started: lost if it does not come."""
        if host_id not in self._hosts:
            host = self._hosts[host_id] = _Host(seen_at=self._clock.now())
            host.grace = asyncio.get_running_loop().call_later(within_s, self._lose, host_id)

    def seen(self, host_id: str) -> None:
        """A sign of life: a report, a feed or an answer. With one node, a host that is not connected is about to
        be: who asks it meanwhile waits."""
        if self.elsewhere is not None:
            self.elsewhere.spoke(host_id)
        elif host_id not in self._hosts:
            self.expect(host_id, HOST_GRACE_S)
        self.heard_of(host_id)

    def heard_of(self, host_id: str) -> None:
        """A sign of life, given to whichever node."""
        host = self._hosts.get(host_id)
        if host is None:
            return
        host.seen_at = self._clock.now()
        if host.grace is not None and host.here:
            self._await_return(host_id, host)

    def opened(self, host_id: str) -> None:
        """A stream of the host has begun."""
        host = self._hosts.setdefault(host_id, _Host())
        host.streams += 1
        host.seen_at = self._clock.now()
        if host.grace is not None:
            host.grace.cancel()
            host.grace = None
        if not host.here:
            host.here = True
            self._changed(host_id, True, iso(host.seen_at))
        if self.elsewhere is not None:
            self.elsewhere.came(host_id)

    def await_return(self, host_id: str, within_s: float) -> None:
        """A host that was at another node a moment ago: lost, if it does not come back to any in time."""
        host = self._hosts.setdefault(host_id, _Host())
        if host.streams:
            return
        host.here = True
        host.seen_at = self._clock.now()
        self._await_return(host_id, host, within_s)

    def told_lost(self, host_id: str) -> None:
        """The log says that the host is lost. If it has a stream here, that is put right; else nobody waits for
        its return any longer."""
        host = self._hosts.get(host_id)
        if host is None:
            return
        if host.streams:
            self._changed(host_id, True, iso(self._clock.now()))
        elif host.here and host.grace is not None:
            host.grace.cancel()
            self._let_go(host_id, host)

    def ask_again(self, host_id: str) -> None:
        """The host has come to another node: what it has not answered yet is asked there."""
        host = self._hosts.get(host_id)
        if host is not None and self.elsewhere is not None:
            for request in host.requests.values():
                self.elsewhere.ask(host_id, request.body)

    def open_requests(self, host_id: str) -> list[Frame]:
        """What the host has not answered yet: told again wherever its stream may have missed it."""
        host = self._hosts.get(host_id)
        return [request.frame for request in host.requests.values()] if host is not None else []

    def closed(self, host_id: str) -> None:
        """A stream of the host has ended."""
        host = self._hosts.get(host_id)
        if host is None:
            return
        host.streams -= 1
        if host.streams == 0:
            host.seen_at = self._clock.now()
            self._await_return(host_id, host)
            if self.elsewhere is not None:
                self.elsewhere.went(host_id)

    def _await_return(self, host_id: str, host: _Host, within_s: float | None = None) -> None:
        if host.grace is not None:
            host.grace.cancel()
        wait_s = HOST_GRACE_S if within_s is None else within_s
        host.grace = asyncio.get_running_loop().call_later(wait_s, self._lose, host_id)

    def _lose(self, host_id: str) -> None:
        host = self._hosts[host_id]
        if self.elsewhere is not None and self.elsewhere.has(host_id):
            # It dialled another node: what it is asked goes there.
            host.here, host.grace = False, None
            if not host.requests:
                del self._hosts[host_id]
            return
        self._let_go(host_id, host)
        self._changed(host_id, False, iso(host.seen_at))

    def _let_go(self, host_id: str, host: _Host) -> None:
        del self._hosts[host_id]
        for request in host.requests.values():
            if not request.answer.done():
                request.answer.set_exception(self._away(host_id, host))

    def _away(self, host_id: str, host: _Host | None) -> HostAway:
        return HostAway(
            "The computer that has this is not connected.",
            hint="It answers again once `ekiden up` runs there.",
            host=host_id,
            last_seen_at=iso(host.seen_at) if host is not None else "",
        )

    async def request(
        self, host_id: str, verb: str, arguments: object, *, within_s: float, request_id: str = ""
    ) -> bytes:
        """Asks the host and returns its answer as JSON. `request_id` names a changing verb's command.

        Raises:
            HostAway: if it is not connected, or is lost while we wait. A host that was here before the hub
                started anew is waited for: it is told as soon as it is back.
            HostSilent: if it does not answer within `within_s`.
            TooMany: if `HOST_REQUESTS_OPEN_MAX` requests wait for it already.
            CommandInFlight: if the same request waits already.
            EkidenError: what the host refused with.
        """
        host = self._hosts.get(host_id)
        if host is None and self.elsewhere is not None and self.elsewhere.has(host_id):
            host = self._hosts[host_id] = _Host(seen_at=self._clock.now())
        if host is None:
            raise self._away(host_id, host)
        elsewhere = self.elsewhere.asking(host_id) if self.elsewhere is not None else ()
        if len(host.requests) + len(elsewhere) >= HOST_REQUESTS_OPEN_MAX:
            raise TooMany(
                "The computer has too many requests waiting.", max=HOST_REQUESTS_OPEN_MAX, retry_after_s=1
            )
        request_id = request_id or new_id(Prefix.REQUEST)
        if request_id in host.requests or request_id in elsewhere:
            raise CommandInFlight("The same command is being carried out at this moment.")
        body = {"request_id": request_id, "verb": verb, "arguments": arguments, "within_s": within_s}
        frame = passing("host.request", body, (f"host:{host_id}",))
        answer = asyncio.get_running_loop().create_future()
        host.requests[request_id] = _Request(frame, body, answer)
        self._send(frame)
        if self.elsewhere is not None and (not host.streams or self.elsewhere.has(host_id)):
            self.elsewhere.ask(host_id, body)
        try:
            async with asyncio.timeout(within_s):
                return await answer
        except TimeoutError:
            raise HostSilent(
                f"The computer did not answer within {within_s:g} s.", hint="Try again.", host=host_id
            ) from None
        finally:
            del host.requests[request_id]
            if self.elsewhere is not None:
                self.elsewhere.ask_ended(host_id, request_id)
                if not (host.requests or host.streams or host.here or host.grace):
                    self._forget(host_id, host)

    def _forget(self, host_id: str, host: _Host) -> None:
        """Drops what was held only for requests to a host at another node."""
        if self._hosts.get(host_id) is host:
            del self._hosts[host_id]

    def answer(self, host_id: str, told: HostAnswer) -> bool:
        """Takes a host's answer; False if nobody waits for it (any more), at this node or another."""
        self.seen(host_id)
        taken = self.settle(host_id, told)
        if self.elsewhere is not None:
            taken = self.elsewhere.answer(host_id, told, settled=taken) or taken
        return taken

    def settle(self, host_id: str, told: HostAnswer) -> bool:
        """Gives an answer to whoever waits for it at this node."""
        host = self._hosts.get(host_id)
        request = host.requests.get(told.request_id) if host is not None else None
        if request is None or request.answer.done():
            return False
        if told.ok:
            request.answer.set_result(bytes(told.result))
        else:
            problem = told.problem or HostProblem("internal", "The computer gave no reason.")
            request.answer.set_exception(error_of(problem))
        return True

    def close(self) -> None:
        """Wakes everyone who waits, without calling a host lost: it is the hub that goes."""
        for host_id, host in self._hosts.items():
            if host.grace is not None:
                host.grace.cancel()
            for request in host.requests.values():
                if not request.answer.done():
                    request.answer.set_exception(self._away(host_id, host))
        self._hosts.clear()
