"""Time as a value that is handed in, so that tests can hold it still.

Order never comes from here (it comes from the log's sequence): a clock only dates things for people.
"""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Reads wall time and monotonic time."""

    def now(self) -> float:
        """Seconds since the Unix epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards, for durations and deadlines."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


def iso(seconds: float) -> str:
    """Seconds since the epoch as RFC 3339 in UTC with milliseconds: `2026-01-01T00:00:01.250Z`."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
