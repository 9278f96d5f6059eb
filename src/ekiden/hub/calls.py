"""One request that has passed the door, as the rooms see it (`ekiden.kernel.door.Call`)."""

from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from time import monotonic
from typing import Any, TypeVar, cast

from ekiden.hub import telemetry
from ekiden.hub.bells import Bell, Bells
from ekiden.hub.gate import Gate, Permissions
from ekiden.hub.live import Live
from ekiden.hub.metrics import Metrics
from ekiden.kernel.door import HubFacts
from ekiden.kernel.errors import Invalid
from ekiden.kernel.ids import Prefix, derived_id
from ekiden.kernel.limits import COMMAND_ID_CHARS_MAX
from ekiden.log.port import Actor, Command, Reading, Transaction, Written
from ekiden.sessions.wire import FeedGrew, FeedGrown, Growing

T = TypeVar("T")


def command_digest(method: str, path: str, query: bytes, body: bytes) -> str:
    """What makes two requests the same command: verb, path, query and body."""
    return sha256(b"\n".join((method.encode(), path.encode("utf-8", "surrogateescape"), query, body))).hexdigest()


def checked_command_id(header: bytes) -> str:
    """The `Command-Id` of a request.

    Raises:
        Invalid: if it is empty, too long or not plain ASCII.
    """
    if not header.isascii() or not 0 < len(header) <= COMMAND_ID_CHARS_MAX or not header.decode().isprintable():
        raise Invalid(f"A Command-Id is 1 to {COMMAND_ID_CHARS_MAX} printable ASCII characters.")
    return header.decode()


class DoorCall:
    """Who calls, with which rights, and what it may use."""

    __slots__ = (
        "_bells",
        "_command_id",
        "_digest",
        "_gate",
        "_live",
        "_metrics",
        "_writes",
        "actor",
        "denied",
        "from_loopback",
        "hub",
        "kind",
        "parameters",
        "permissions",
        "query",
        "repeated",
        "team_id",
    )

    def __init__(
        self,
        *,
        hub: HubFacts,
        live: Live,
        metrics: Metrics,
        gate: Gate,
        bells: Bells,
        actor: Actor,
        kind: str,
        permissions: Permissions,
        parameters: Mapping[str, str],
        query: Mapping[str, str],
        from_loopback: bool,
        command_id: str,
        digest: str,
    ) -> None:
        self.hub = hub
        self.team_id = live.team_id
        self.actor = actor
        self.kind = kind
        self.permissions = permissions
        self.parameters = parameters
        self.query = query
        self.from_loopback = from_loopback
        self.denied = ("", "")
        """The verb and resource that `may` denied last."""
        self.repeated = False
        """Whether a write of this request was answered from what it answered before."""
        self._live = live
        self._metrics = metrics
        self._gate = gate
        self._bells = bells
        self._command_id = command_id
        self._digest = digest
        self._writes = 0

    def may(self, verb: str, resource: str) -> bool:
        """Whether the caller's key allows `verb` on `resource`."""
        allowed = self._gate.allows(self.permissions, verb, resource)
        # Who asks whether somebody administers a thing asks so after what it really wants to know.
        if not allowed and (verb != "admin" or self.denied[1] != resource):
            self.denied = (verb, resource)
        return allowed

    def _command(self, part: str) -> Command | None:
        if not self._command_id:
            return None
        return Command(self._command_id + part, self.actor.principal_id, self._digest)

    async def write(self, verb: Callable[[Any], Awaitable[object]]) -> Written:
        """Runs a log verb under this request's command id; a second write of one request is a part of its own."""
        self._writes += 1
        part = "" if self._writes == 1 else f"#{self._writes}"
        began_at = monotonic()
        with telemetry.span("log.write"):
            written = await self._live.log.write(self.team_id, verb, command=self._command(part))
        self._metrics.append_s.add(monotonic() - began_at)
        self.repeated = self.repeated or written.repeated
        return written

    async def ask(self, question: Callable[[Any], Awaitable[T]]) -> T:
        """Runs a question on a consistent view of the log."""

        async def asked(reading: Reading) -> T:
            return await question(reading)

        return cast("T", await self._live.log.ask(self.team_id, asked))

    async def request_host(self, host_id: str, verb: str, arguments: object, *, within_s: float) -> bytes:
        """Asks a connected host. Under a command id the request has an id derived from it, which the host answers
        again from memory; that the body is the same is held by the log."""
        request_id = ""
        if self._command_id:
            if self.host_here(host_id):
                await self._live.log.write(self.team_id, _asked, command=self._command(f"@{verb}"))
            request_id = derived_id(Prefix.REQUEST, self.actor.principal_id, self._command_id, host_id, verb)
        with telemetry.span("host.request", verb=verb):
            return await self._live.hosts.request(
                host_id, verb, arguments, within_s=within_s, request_id=request_id
            )

    def bell(self, topic: str, *, within_s: float) -> Bell:
        """A bell for the events of `topic`."""
        return self._bells.bell(self.team_id, topic, within_s)

    def host_here(self, host_id: str) -> bool:
        """Whether the host is connected now."""
        return self._live.hosts.here(host_id)

    def grow(self, entry: object) -> None:
        """Sends a growing item's delta to those who follow, without storing it as an event."""
        assert isinstance(entry, FeedGrew | FeedGrown)
        self._live.grow(entry, self.parameters.get("host_id", ""))

    def growing(self, session_id: str) -> tuple[Growing, ...]:
        """The session's items that grow at this moment, each whole so far."""
        return self._live.growing.of(session_id)


async def _asked(_: Transaction) -> dict[str, bool]:
    return {"asked": True}
