"""Time as a value that is handed in, so that tests can hold it still.

Order never comes from here (it comes from the log's sequence): a clock only dates things for people.
"""

import time
from datetime import UTC, datetime
from functools import lru_cache
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
    whole, rest = divmod(seconds, 1.0)
    microseconds = round(rest * 1e6)  # first, so that the nearest float to 1.001 s is not 1.000 s
    if microseconds == 1_000_000:
        whole, microseconds = whole + 1.0, 0
    return f"{_to_the_second(whole)}.{microseconds // 1_000:03}Z"


@lru_cache(maxsize=16)
def _to_the_second(whole: float) -> str:
    """Most times that are written one after the other are of the same second."""
    return datetime.fromtimestamp(whole, UTC).isoformat()[:19]
