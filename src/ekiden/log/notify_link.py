"""Messages between nodes by LISTEN and NOTIFY, for those who have Postgres and nothing else.

A notification holds at most 8,000 bytes (Postgres manual, NOTIFY). What is larger, or is no text, lies in the
unlogged table `bus_frames` for a while, and its number goes out. What is told while Postgres
is away is dropped, never kept. Same shape as `nats_link.NatsLink`.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from ekiden.kernel.limits import (
    BUS_CLOSE_S,
    BUS_FRAMES_KEPT_S,
    BUS_PART_BYTES_MAX,
    BUS_WAITING_BYTES_MAX,
    LOG_DATABASE_RETRY_S,
    LOG_DATABASE_RETRY_S_MAX,
    NATS_CONNECT_S,
    NOTIFICATIONS_AT_ONCE_MAX,
    NOTIFY_BYTES_MAX,
)

if TYPE_CHECKING:
    from ekiden.log.postgres_connection import Connection

_log = logging.getLogger("ekiden.log")
_CHANNEL = "ekiden_bus"
_KEEP = "INSERT INTO bus_frames (at_s, body) VALUES (extract(epoch FROM now())::bigint, $1) RETURNING frame_id"
_TAKE = "SELECT body FROM bus_frames WHERE frame_id = $1"
_TIDY = "DELETE FROM bus_frames WHERE at_s < extract(epoch FROM now())::bigint - $1"
_TELL = "SELECT pg_notify($1, told) FROM unnest($2::text[]) AS told"
Taker = Callable[[bytes], None]


class NotifyLink:
    """Two connections of this node, one that tells and one that hears. Used on the event loop only."""

    def __init__(self, url: str) -> None:
        self.connected = False
        self.dropped = 0
        """Messages that could not go out."""
        self.bytes_max = BUS_PART_BYTES_MAX
        self._url = url
        self._takers: dict[str, Taker] = {}
        self._joined: list[Callable[[], None]] = []
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._waiting_bytes = 0
        self._heard: deque[str] = deque()
        self._some = asyncio.Event()
        self._some_heard = asyncio.Event()
        self._there = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._task: asyncio.Task[None] | None = None
        self._tidied_at = float("-inf")

    def subscribe(self, subject: str, taker: Taker) -> None:
        """Hands what comes at `subject` (a last `*` stands for any ending) to `taker`; before `open`."""
        self._takers[subject] = taker

    def on_joined(self, joined: Callable[[], None]) -> None:
        """Calls `joined` each time the link is there (again)."""
        self._joined.append(joined)

    async def open(self) -> None:
        """Connects, or goes on trying in the background after a bounded time."""
        self._task = asyncio.ensure_future(self._run())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(NATS_CONNECT_S):
                await self._there.wait()

    def publish(self, subject: str, data: bytes) -> bool:
        """Sends, without waiting; False if it was dropped."""
        if not self.connected or self._waiting_bytes + len(data) > BUS_WAITING_BYTES_MAX:
            self.dropped += 1
            return False
        self._waiting.append((subject, data))
        self._waiting_bytes += len(data)
        self._idle.clear()
        self._some.set()
        return True

    async def close(self) -> None:
        """Lets what waits go out within `BUS_CLOSE_S`, and ends."""
        if self.connected:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BUS_CLOSE_S):
                    await self._idle.wait()
        self.connected = False
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        from ekiden.log.postgres_connection import connect, end, fault_of_database

        pause_s = LOG_DATABASE_RETRY_S
        while True:
            held: list[Connection] = []
            try:
                telling = await connect(self._url)
                held.append(telling)
                hearing = await connect(self._url)
                held.append(hearing)
                # Nothing of this has to outlive a crash, so no notification waits for the disk.
                await telling.execute("SET synchronous_commit = off")
                for connection in held:
                    connection.add_termination_listener(self._ended)
                await hearing.add_listener(_CHANNEL, self._hear)
                self._join()
                pause_s = LOG_DATABASE_RETRY_S
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._send(telling))
                    group.create_task(self._take_heard(hearing))
            except Exception as error:  # whatever it is, the bus must come again
                cause: BaseException = error
                if isinstance(error, ExceptionGroup):
                    cause = cast("ExceptionGroup[Exception]", error).exceptions[0]
                if not fault_of_database(cause, held[0] if held else None):
                    _log.warning("The bus between nodes failed: %s", type(cause).__name__)
            finally:
                self._part()
                for connection in held:
                    await end(connection)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LOG_DATABASE_RETRY_S_MAX)

    def _join(self) -> None:
        self.connected = True
        self._there.set()
        for joined in self._joined:
            joined()

    def _part(self) -> None:
        self.connected = False
        self.dropped += len(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        self._heard.clear()
        self._idle.set()

    def _ended(self, _connection: Any) -> None:
        self._some.set()
        self._some_heard.set()

    async def _send(self, connection: "Connection") -> None:
        while True:
            while not self._waiting:
                if connection.is_closed():
                    raise OSError
                self._idle.set()
                self._some.clear()
                await self._some.wait()
            told: list[str] = []
            while self._waiting and len(told) < NOTIFICATIONS_AT_ONCE_MAX:
                subject, data = self._waiting.popleft()
                self._waiting_bytes -= len(data)
                told.append(f"{subject}\n{await self._text_of(connection, data)}")
            await connection.fetch(_TELL, _CHANNEL, told)

    async def _text_of(self, connection: "Connection", data: bytes) -> str:
        """What goes into the notification: the message itself, or where it lies."""
        if len(data) <= NOTIFY_BYTES_MAX:
            with contextlib.suppress(UnicodeDecodeError):
                return "=" + data.decode()
        now = asyncio.get_running_loop().time()
        if now - self._tidied_at > BUS_FRAMES_KEPT_S:
            self._tidied_at = now
            await connection.execute(_TIDY, int(BUS_FRAMES_KEPT_S))
        return f"#{await connection.fetchval(_KEEP, data)}"

    def _hear(self, _connection: Any, _process: int, _channel: str, payload: str) -> None:
        self._heard.append(payload)
        self._some_heard.set()

    async def _take_heard(self, connection: "Connection") -> None:
        """Hands over what was heard, in order."""
        while True:
            while not self._heard:
                if connection.is_closed():
                    raise OSError
                self._some_heard.clear()
                await self._some_heard.wait()
            subject, _, text = self._heard.popleft().partition("\n")
            taker = self._takers.get(subject) or self._takers.get(f"{subject.rpartition('.')[0]}.*")
            if taker is None:
                continue
            data: bytes | None = text[1:].encode()
            if text.startswith("#") and text[1:].isdecimal():
                data = await connection.fetchval(_TAKE, int(text[1:]))
            if data is not None:
                taker(data)
