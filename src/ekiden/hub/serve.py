"""Runs a hub under uvicorn: uvloop, httptools, no access log, and an end that tells everyone."""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from ekiden.hub.app import Hub
from ekiden.hub.asgi import ABORT, EXCHANGE
from ekiden.kernel.errors import Unavailable
from ekiden.kernel.limits import CONNECTIONS_MAX, KEEP_ALIVE_S, SHUTDOWN_S

_log = logging.getLogger("ekiden.hub")


class _Exchange:
    """See `hub.asgi.Exchange`. What is read and set here is uvicorn's own state of a request; where a later
    uvicorn keeps another, the request goes the way of ASGI."""

    __slots__ = ("_cycle",)

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle

    def arrived(self) -> bytes | None:
        cycle = self._cycle
        try:
            return None if cycle.more_body or cycle.disconnected else bytes(cycle.body)
        except AttributeError:
            return None

    @property
    def gone(self) -> bool:
        return getattr(self._cycle, "disconnected", False)

    def answer(self, head: bytes, body: bytes) -> bool:
        cycle = self._cycle
        try:
            plain = (
                cycle.keep_alive
                and not (cycle.response_started or cycle.disconnected or cycle.flow.write_paused)
                and cycle.scope["method"] != "HEAD"
            )
            write, wake, complete = cycle.transport.write, cycle.message_event.set, cycle.on_response
            usual = b"".join([b"%b: %b\r\n" % header for header in cycle.default_headers])  # the date
        except AttributeError:
            return False
        if not plain:
            return False
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        write(b"%b%b\r\n%b" % (head[:-2], usual, body))
        wake()
        complete()
        return True


class _Protocol(HttpToolsProtocol):
    """HTTP/1.1 as uvicorn speaks it; a stream may cut its connection, and what is whole needs no messages."""

    def on_headers_complete(self) -> None:
        scope = cast("dict[str, Any]", self.scope)
        extensions: dict[str, Any] = {ABORT: self.transport.abort}
        scope["extensions"] = extensions
        super().on_headers_complete()
        extensions[EXCHANGE] = _Exchange(self.cycle)


class _Server(uvicorn.Server):
    """Leaves signals to whoever runs the process: a host may have to end as well."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def listen(address: str, port: int) -> socket.socket:
    """A socket that listens at `address`; port 0 lets the system choose.

    Raises:
        Unavailable: if the address or port cannot be had.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address, port))
        listening.listen(CONNECTIONS_MAX)
    except OSError as error:
        listening.close()
        raise Unavailable(
            f"The hub cannot listen at {address} port {port}: {error.strerror}.",
            hint="Another program has the port? Choose one with --port.",
        ) from error
    listening.setblocking(False)
    return listening


class Serving:
    """A hub that answers at `url`. `stop` ends it."""

    def __init__(self, hub: Hub, server: _Server, listening: socket.socket) -> None:
        self.hub = hub
        self.port: int = listening.getsockname()[1]
        self.url = hub.settings.url_at(self.port)
        self._server = server
        self._listening = listening
        self._run = asyncio.ensure_future(server.serve(sockets=[listening]))

    async def ready(self) -> None:
        """Waits until requests are answered."""
        while not self._server.started:
            if self._run.done():
                await self._run
                raise Unavailable("The HTTP server ended while it started.")
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        """Tells streams to go on elsewhere, finishes requests, closes the sockets and then the log."""
        if self.hub.neighbours is not None:
            await self.hub.drain(self.hub.settings.drain_s)
        await self.hub.streams.close(SHUTDOWN_S / 2)
        self._server.should_exit = True
        try:
            await self._run
        finally:
            self._listening.close()
            await self.hub.stop()


def _server(app: Any) -> _Server:
    return _Server(
        uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=int(SHUTDOWN_S),
        )
    )


@asynccontextmanager
async def answering(app: Any, address: str, port: int) -> AsyncGenerator[None]:
    """Has a program of ASGI answer at an address, where there is no hub yet.

    Raises:
        Unavailable: if the address cannot be had.
    """
    listening = listen(address, port)
    server = _server(app)
    run = asyncio.ensure_future(server.serve(sockets=[listening]))
    try:
        yield
    finally:
        server.should_exit = True
        await run
        listening.close()


def spare_what_lasts() -> None:
    """Takes all that is in memory now out of the collector's sight: modules and wiring last as long as the
    process, and going through them stops every stream for ten milliseconds. For a process that has started."""
    gc.collect()
    gc.freeze()


async def start_serving(hub: Hub) -> Serving:
    """Starts the hub and its HTTP server in this event loop; returns once it answers.

    Raises:
        Unavailable: if the address cannot be had.
    """
    listening = listen(hub.settings.address, hub.settings.port)
    try:
        await hub.start()
    except BaseException:
        listening.close()
        raise
    serving = Serving(hub, _server(hub), listening)
    await serving.ready()
    hub.listening_at(serving.url, hub.settings.own_url_at(serving.port))
    return serving


async def serve(hub: Hub, *, started: Callable[[Serving], None] | None = None) -> None:
    """Serves until SIGINT or SIGTERM, then ends cleanly. `started` is told once requests are answered."""
    loop = asyncio.get_running_loop()
    asked_to_end = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked_to_end.set)
    try:
        serving = await start_serving(hub)
        try:
            if started is not None:
                started(serving)
            spare_what_lasts()
            await asked_to_end.wait()
        finally:
            await serving.stop()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
