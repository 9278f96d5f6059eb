"""A connection to NATS that comes and goes by itself; what is told while it is away is dropped, never kept.

NATS core only: nothing is stored there, so nothing there has to be backed up. `nats-py` is an extra
(`pip install 'ekiden[nats]'`) and is imported when a link is opened.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from ekiden.kernel.errors import Unavailable
from ekiden.kernel.limits import BUS_CLOSE_S, BUS_WAITING_BYTES_MAX, NATS_CONNECT_S, NATS_RETRY_S

_log = logging.getLogger("ekiden.nats")
Taker = Callable[[bytes], None]


class NatsLink:
    """One connection of this node. All of it is used on the event loop only."""

    def __init__(self, url: str, *, name: str) -> None:
        self.connected = False
        self.dropped = 0
        """Messages that could not go out."""
        self.bytes_max = 0
        """Of one message; known once connected."""
        self._url = url
        self._name = name
        self._client: Any = None
        self._takers: dict[str, Taker] = {}
        self._joined: list[Callable[[], None]] = []
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._waiting_bytes = 0
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks: list[asyncio.Task[None]] = []

    def subscribe(self, subject: str, taker: Taker) -> None:
        """Hands what comes at `subject` to `taker`; before `open`."""
        self._takers[subject] = taker

    def on_joined(self, joined: Callable[[], None]) -> None:
        """Calls `joined` each time the link is there (again)."""
        self._joined.append(joined)

    async def open(self, *, wait_s: float = NATS_CONNECT_S) -> None:
        """Connects, or goes on trying in the background after `wait_s`.

        Raises:
            Unavailable: if `nats-py` is not installed.
        """
        try:
            import nats
        except ImportError as error:
            raise Unavailable(
                "EKIDEN_NATS_URL is set, but the client for NATS is not installed.",
                hint="Install it: pip install 'ekiden[nats]'",
            ) from error
        self._tasks = [
            asyncio.ensure_future(self._connect(nats)),
            asyncio.ensure_future(self._send()),
        ]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._tasks[0]), wait_s)
        if wait_s and not self.connected:
            _log.warning("NATS is not reached yet; trying on.")

    async def _connect(self, nats: Any) -> None:
        while True:
            try:
                self._client = await nats.connect(
                    self._url,
                    name=self._name,
                    no_echo=True,
                    allow_reconnect=True,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=NATS_RETRY_S,
                    connect_timeout=NATS_CONNECT_S,
                    ping_interval=5,
                    max_outstanding_pings=2,
                    disconnected_cb=self._parted,
                    reconnected_cb=self._rejoined,
                    error_cb=self._troubled,
                )
                for subject, taker in self._takers.items():
                    await self._client.subscribe(
                        subject, cb=_awaitable(taker), pending_bytes_limit=BUS_WAITING_BYTES_MAX
                    )
                await self._client.flush(NATS_CONNECT_S)
            except asyncio.CancelledError:
                raise
            except Exception as error:  # whatever the client's own errors are, it is tried again
                _log.debug("NATS: %s", type(error).__qualname__)
                if self._client is not None:
                    client, self._client = self._client, None
                    with contextlib.suppress(Exception):
                        await client.close()
                await asyncio.sleep(NATS_RETRY_S)
            else:
                await self._rejoined()
                return

    async def _parted(self) -> None:
        if self.connected:
            _log.warning("NATS is away; what passes by between nodes waits for it.")
        self.connected = False
        self._drop_waiting()

    async def _rejoined(self) -> None:
        self.connected = True
        self.bytes_max = self._client.max_payload
        for joined in self._joined:
            joined()

    async def _troubled(self, error: Exception) -> None:
        _log.debug("NATS: %s", type(error).__qualname__)

    def publish(self, subject: str, data: bytes) -> bool:
        """Sends, without waiting; False if it was dropped."""
        if not self.connected or self._waiting_bytes + len(data) > BUS_WAITING_BYTES_MAX:
            self.dropped += 1
            return False
        self._waiting.append((subject, data))
        self._waiting_bytes += len(data)
        self._idle.clear()
        self._wake.set()
        return True

    def _drop_waiting(self) -> None:
        self.dropped += len(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0

    async def _send(self) -> None:
        while True:
            if not self._waiting:
                self._idle.set()
                self._wake.clear()
                await self._wake.wait()
            while self._waiting:
                subject, data = self._waiting.popleft()
                self._waiting_bytes -= len(data)
                try:
                    await self._client.publish(subject, data)
                except asyncio.CancelledError:
                    raise
                except Exception as error:  # away at this very moment, or the server takes less than it said
                    self.dropped += 1
                    _log.debug("NATS: %s", type(error).__qualname__)

    async def close(self) -> None:
        """Lets what waits go out within `BUS_CLOSE_S`, and ends."""
        if self.connected:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(BUS_CLOSE_S):
                    await self._idle.wait()
                    await self._client.flush(BUS_CLOSE_S)
        self.connected = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client is not None:
            client, self._client = self._client, None
            with contextlib.suppress(Exception):
                async with asyncio.timeout(BUS_CLOSE_S):
                    await client.close()


def _awaitable(taker: Taker) -> Any:
    async def take(message: Any) -> None:
        taker(message.data)

    return take
