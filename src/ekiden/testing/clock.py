"""A clock that moves only when told."""


class StillClock:
    """Starts at `start` (seconds since the epoch) and moves by `advance`."""

    def __init__(self, start: float = 1_767_225_600.0) -> None:
        self._now = start
        self._monotonic = 1_000.0

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Moves both times forward by `seconds`."""
        self._now += seconds
        self._monotonic += seconds
