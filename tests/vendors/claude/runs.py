"""A runtime under test, with all that it has told."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from ekiden.vendors.claude import ClaudeVendor
from ekiden.vendors.port import Asked, Begin, Grew, Placed, Runtime, RuntimeEvent, ToolServer, TurnEnded

WITHIN_S = 20.0
Until = Callable[[Callable[[], bool]], Awaitable[None]]
E = TypeVar("E")


class Run:
    """Started on entry, closed on exit; `told` grows with each event."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.told: list[RuntimeEvent] = []
        self._more = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Run":
        await self.runtime.start()
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.runtime.close()
        if self._reader is not None:
            await self._reader

    async def _read(self) -> None:
        async for event in self.runtime.events():
            self.told.append(event)
            self._more.set()

    async def event(self, kind: type[E], matches: Callable[[E], bool] = lambda _: True, *, after: int = 0) -> E:
        """The first event of this kind that matches, from the `after`-th on; waits for it."""
        try:
            async with asyncio.timeout(WITHIN_S):
                while True:
                    self._more.clear()
                    for event in self.told[after:]:
                        if isinstance(event, kind) and matches(event):
                            return event
                    await self._more.wait()
        except TimeoutError:
            raise AssertionError(f"no such {kind.__name__} in {self.told}") from None

    async def turn(self, message_id: str, text: str) -> TurnEnded:
        """Sends a message and waits for the end of the turn that it began."""
        await self.runtime.send(message_id, text)
        placed = await self.event(Placed, lambda one: one.message_id == message_id and one.how == "new_turn")
        return await self.event(TurnEnded, lambda one: one.turn_id == placed.turn_id)

    async def asked(self, tool: str) -> Asked:
        """The question about this tool; waits for it."""
        return await self.event(Asked, lambda one: one.tool == tool)

    def grown(self) -> dict[str, str]:
        """What grew, by item id."""
        texts: dict[str, str] = {}
        for event in self.told:
            if isinstance(event, Grew):
                texts[event.item_id] = texts.get(event.item_id, "") + event.text
        return texts


@dataclass
class Claude:
    """A home with a project in it, and the means to run Claude Code there."""

    home: Path
    project: Path
    environment: dict[str, str]
    stack: AsyncExitStack
    vendor: ClaudeVendor = field(init=False)

    def __post_init__(self) -> None:
        self.vendor = ClaudeVendor(self.home, self.environment)

    async def run(self, *, resume: str = "", fork_of: str = "", tools: ToolServer | None = None) -> Run:
        """A started runtime that is closed at the test's end."""
        begin = Begin(self.project, resume=resume, fork_of=fork_of, tools=tools)
        run = Run(self.vendor.runtime(begin, self.environment))
        await self.stack.enter_async_context(run)
        return run

    def session_file(self, native_id: str) -> Path:
        """The session's file, which must be there."""
        (found,) = [
            file.path for file in self.vendor.discovery.files() if file.native_id == native_id and not file.thread
        ]
        return found
