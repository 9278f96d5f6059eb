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

    def steady(self) -> float:
        """Seconds that neither step with the wall clock nor stand still while the machine sleeps, for locks."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def steady(self) -> float:
        return time.clock_gettime(_STEADY) if _STEADY is not None else time.monotonic()


_STEADY: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
"""Linux counts sleep in CLOCK_BOOTTIME only, macOS in CLOCK_MONOTONIC, Windows in its one counter."""


class SteadyTime:
    """Milliseconds since the epoch that go on evenly through steps and sleep: the wall clock's reading when this
    was made (or what another clock said that it follows), and what has passed since."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.now() - clock.steady()

    def follow(self, other_now: float) -> None:
        """Goes on from what another machine's clock says at this moment, in seconds since the epoch. A clock that
        is moved by hand follows none."""
        if isinstance(self._clock, SystemClock):
            self._began = other_now - self._clock.steady()

    def now_ms(self) -> int:
        """The time now."""
        return int((self._began + self._clock.steady()) * 1_000)


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
