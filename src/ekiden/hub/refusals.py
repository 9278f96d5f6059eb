"""Refused requests on their way into the audit trail: bounded, so that knocking cannot fill the disk.

The same refusal counts once a minute, and at most `REFUSALS_RECORDED_PER_MINUTE_MAX` go in each minute; how many
more there were is told with the next that does.
"""

import asyncio
import contextlib
import logging

from ekiden.hub.gate import Gate, Refusal
from ekiden.kernel.clock import Clock
from ekiden.kernel.errors import EkidenError
from ekiden.kernel.limits import REFUSALS_RECORDED_PER_MINUTE_MAX

_log = logging.getLogger("ekiden.hub")


class Refusals:
    """Collects what the door refuses and hands it on in the background."""

    def __init__(self, gate: Gate, clock: Clock) -> None:
        self._gate = gate
        self._clock = clock
        self._minute = 0.0
        self._seen: set[Refusal] = set()
        self._waiting: list[Refusal] = []
        self._dropped = 0
        self._writer: asyncio.Task[None] | None = None

    def note(self, refusal: Refusal) -> None:
        """One refused request."""
        now = self._clock.monotonic()
        if now - self._minute >= 60.0:
            self._minute = now
            self._seen.clear()
        if refusal in self._seen or len(self._seen) >= REFUSALS_RECORDED_PER_MINUTE_MAX:
            self._dropped += 1
            return
        self._seen.add(refusal)
        self._waiting.append(refusal)
        if self._writer is None:
            self._writer = asyncio.ensure_future(self._write())

    async def _write(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            dropped, self._dropped = self._dropped, 0
            try:
                await self._gate.record(waiting, dropped)
            except EkidenError as error:
                _log.warning("%d refused requests were not recorded: %s", len(waiting), error.code)
        self._writer = None

    async def close(self) -> None:
        """Waits until what was noted is written."""
        if self._writer is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._writer
