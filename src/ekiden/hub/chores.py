"""What has to be done now and then, by one node at a time: expiry, retention.

Who does a chore is said by its lease in the database: an owner, a time, and a fence that grows whenever it is
taken. A node takes it when the time is over, works, and then puts the time at which the chore is due again, for
whichever node. When it dies at work, the lease runs out and another node takes it. A chore writes in transactions
that look at the fence first, so a node that slept through the end of its lease changes nothing any more.

An idle node reads each lease once when it is due, and writes nothing in between.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from ekiden.kernel.clock import Clock
from ekiden.kernel.errors import Conflict, EkidenError
from ekiden.kernel.limits import CHORE_LEASE_S, CHORE_LOOK_S
from ekiden.log.port import Log, Reading, Transaction

_MS_PER_S = 1_000
_log = logging.getLogger("ekiden.hub")


class LeaseLost(Conflict):
    """Another node does the chore by now."""

    code = "lease_lost"


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease that was held when it was taken; `fence` says whether it still is."""

    log: Log
    team_id: str
    name: str
    fence: int

    async def write(self, verb: Callable[[Transaction], Awaitable[object]]) -> None:
        """Runs a verb, if the lease is still held when it runs.

        Raises:
            LeaseLost: if it is not; nothing was written.
        """

        async def fenced(tx: Transaction) -> object:
            row = await tx.row("hub.lease", name=self.name)
            if row is None or row["fence"] != self.fence:
                raise LeaseLost("Another node does this by now.")
            return await verb(tx)

        await self.log.write(self.team_id, fenced)


@dataclass(frozen=True, slots=True)
class Chore:
    """Something to be done every `every_s` seconds; with `waits`, only when that finds something to do, so that
    nothing is written otherwise."""

    name: str
    every_s: float
    run: Callable[[Lease], Awaitable[None]]
    waits: Callable[[Reading], Awaitable[bool]] | None = None


@dataclass(slots=True)
class Chores:
    """The chores of a hub, as the node `owner` takes part in them."""

    log: Log
    team_id: str
    owner: str
    clock: Clock
    chores: Sequence[Chore]
    _not_before_ms: dict[str, int] = field(default_factory=dict[str, int])
    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Looks every `CHORE_LOOK_S` from now on."""
        self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        """Ends; what was being done is due for another node once the lease has run out."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(CHORE_LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Does what is due and is not being done by another node."""
        for chore in self.chores:
            if self._now_ms() < self._not_before_ms.get(chore.name, 0):
                continue
            try:
                await self._do(chore)
            except EkidenError as error:
                _log.info("The chore %s waits: %s", chore.name, error.code)
            except Exception as error:
                _log.error("The chore %s failed: %s", chore.name, type(error).__qualname__)

    def _now_ms(self) -> int:
        return int(self.clock.now() * _MS_PER_S)

    async def _do(self, chore: Chore) -> None:
        if chore.waits is not None and not await self.log.ask(self.team_id, chore.waits):
            return
        lease = await self._take(chore)
        if lease is None:
            return
        await chore.run(lease)
        due_ms = self._now_ms() + int(chore.every_s * _MS_PER_S)

        async def done(tx: Transaction) -> None:
            await tx.run("hub.end_lease", name=chore.name, fence=lease.fence, until_ms=due_ms)

        await self.log.write(self.team_id, done)
        self._not_before_ms[chore.name] = due_ms

    async def _take(self, chore: Chore) -> Lease | None:
        now_ms = self._now_ms()

        async def question(reading: Reading) -> int:
            row = await reading.row("hub.lease", name=chore.name)
            return row["until_ms"] if row is not None else 0

        until_ms: int = await self.log.ask(self.team_id, question)
        if until_ms > now_ms:
            self._not_before_ms[chore.name] = until_ms
            return None
        fences: list[int] = []

        async def verb(tx: Transaction) -> None:
            fences.clear()
            end_ms = now_ms + int(CHORE_LEASE_S * _MS_PER_S)
            if await tx.run("hub.take_lease", name=chore.name, owner=self.owner, until_ms=end_ms, now_ms=now_ms):
                row = await tx.row("hub.lease", name=chore.name)
                assert row is not None
                fences.append(row["fence"])

        await self.log.write(self.team_id, verb)
        return Lease(self.log, self.team_id, chore.name, fences[0]) if fences else None
