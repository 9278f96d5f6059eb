"""A runtime under test: started, read to its end, and waited on with a bound."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import msgspec

from ekiden.vendors.codex.runtime import CodexRuntime
from ekiden.vendors.port import RuntimeEvent

E = TypeVar("E")
WAIT_S = 30.0


async def eventually(holds: Callable[[], bool]) -> None:
    """Waits, with a bound, for what no event tells: files and processes of other programs."""
    with anyio.fail_after(WAIT_S):
        while not holds():  # noqa: ASYNC110 - nothing announces it
            await anyio.sleep(0.02)


class Run:
    """Starts `runtime`, collects its events in `seen`, and closes it at the end."""

    def __init__(self, runtime: CodexRuntime) -> None:
        self.runtime = runtime
        self.seen: list[RuntimeEvent] = []
        self._taken = 0
        self._changed = asyncio.Condition()
        self._reader: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.runtime.start()
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.runtime.close()
        assert self._reader is not None
        await self._reader

    async def _read(self) -> None:
        async for event in self.runtime.events():
            async with self._changed:
                self.seen.append(event)
                self._changed.notify_all()

    async def until(self, kind: type[E]) -> E:
        """The next event of this kind that has not been waited for."""
        with anyio.fail_after(WAIT_S):
            async with self._changed:
                while True:
                    for index in range(self._taken, len(self.seen)):
                        event = self.seen[index]
                        if isinstance(event, kind):
                            self._taken = index + 1
                            return event
                    await self._changed.wait()

    @staticmethod
    def raw(value: Any) -> msgspec.Raw:
        """A value as the door hands answers on."""
        return msgspec.Raw(msgspec.json.encode(value))
