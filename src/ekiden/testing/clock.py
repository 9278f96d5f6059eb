"""A clock that moves only when told, and steps or sleeps as machines do."""


class StillClock:
    """Starts at `start` (seconds since the epoch) and moves by `advance`."""

    def __init__(self, start: float = 1_767_225_600.0) -> None:
        self._now = start
        self._monotonic = 1_000.0
        self._slept = 0.0

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def steady(self) -> float:
        return self._monotonic + self._slept

    def advance(self, seconds: float) -> None:
        """Moves both times forward by `seconds`."""
        self._now += seconds
        self._monotonic += seconds

    def step(self, seconds: float) -> None:
        """Sets the wall clock forward or back; no time passes."""
        self._now += seconds

    def sleep(self, seconds: float) -> None:
        """The machine sleeps: the wall clock goes on, the monotonic one stands still."""
        self._now += seconds
        self._slept += seconds
