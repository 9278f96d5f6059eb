"""How one node tells the others that a team's log has grown. It is a hint and no more: the log is the truth.

A wake-up that is lost costs a moment, for every node also looks at the heads of all teams every
`LOG_DATABASE_POLL_S`. So wake-ups are sent after the commit, are not waited for, and may be joined: only the
newest seq of a team counts.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ekiden.kernel import limits

if TYPE_CHECKING:
    from ekiden.log.postgres_connection import Connection

WakeUp = Callable[[str, int], None]
"""Called on the event loop with a team id and the seq up to which its log has grown."""

_CHANNEL = "ekiden_log"
_log = logging.getLogger(__name__)


class Wakeups(Protocol):
    """Carries wake-ups between nodes."""

    def publish(self, team_id: str, seq: int) -> None:
        """Tells all nodes, sooner or later or never; returns at once."""
        ...

    def subscribe(self, callback: WakeUp) -> None:
        """Has `callback` called for what any node publishes; perhaps also for what this one does."""
        ...

    async def close(self) -> None:
        """Tells and hears nothing more."""
        ...


class LocalWakeups:
    """Wake-ups within one process: what one publishes, all who share this object hear."""

    def __init__(self) -> None:
        self._callbacks: list[WakeUp] = []

    def publish(self, team_id: str, seq: int) -> None:
        for callback in tuple(self._callbacks):
            callback(team_id, seq)

    def subscribe(self, callback: WakeUp) -> None:
        self._callbacks.append(callback)

    async def close(self) -> None:
        self._callbacks.clear()


class NotifyWakeups:
    """Wake-ups by LISTEN and NOTIFY, on a connection of their own.

    They are not part of the commit: a transaction that notifies holds a lock of the whole database while it
    commits, and teams would wait for each other there.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._callbacks: list[WakeUp] = []
        self._heads: dict[str, int] = {}
        self._some = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def publish(self, team_id: str, seq: int) -> None:
        if seq > self._heads.get(team_id, 0):
            self._heads[team_id] = seq
            self._some.set()

    def subscribe(self, callback: WakeUp) -> None:
        self._callbacks.append(callback)

    async def close(self) -> None:
        self._callbacks.clear()
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        from ekiden.log.postgres_connection import connect, end, fault_of_database

        pause_s = limits.LOG_DATABASE_RETRY_S
        while True:
            connection: Connection | None = None
            try:
                connection = await connect(self._url)
                # The connection's end wakes the sender, which then finds it closed.
                connection.add_termination_listener(self._ended)
                # Nothing of this has to outlive a crash, so no wake-up waits for the disk.
                await connection.execute("SET synchronous_commit = off")
                await connection.add_listener(_CHANNEL, self._heard)
                pause_s = limits.LOG_DATABASE_RETRY_S
                await self._send(connection)
            except Exception as error:  # whatever it is, wake-ups must come again, and the poll does without them
                if not fault_of_database(error, connection):
                    _log.warning("wake-ups failed: %s", type(error).__name__)
            finally:
                if connection is not None:
                    await end(connection)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, limits.LOG_DATABASE_RETRY_S_MAX)

    async def _send(self, connection: "Connection") -> None:
        """Sends what is to be told, joined, until the connection ends."""
        while not connection.is_closed():
            await self._some.wait()
            self._some.clear()
            while self._heads:
                texts = ["{} {}".format(*self._heads.popitem())]
                while self._heads and len(texts) < limits.LOG_WAKEUP_TEAMS_MAX:
                    texts.append("{} {}".format(*self._heads.popitem()))
                await connection.fetchval("SELECT pg_notify($1, $2)", _CHANNEL, "\n".join(texts))
                await asyncio.sleep(limits.LOG_WAKEUP_PAUSE_S)

    def _ended(self, _connection: Any) -> None:
        self._some.set()

    def _heard(self, _connection: Any, _process: int, _channel: str, payload: str) -> None:
        for line in payload.splitlines():
            team_id, _, seq = line.rpartition(" ")
            if team_id and seq.isdecimal():
                for callback in tuple(self._callbacks):
                    callback(team_id, int(seq))
