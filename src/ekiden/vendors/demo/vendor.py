"""The demo vendor as one value."""

from pathlib import Path

from ekiden.transcript.reading import Fold
from ekiden.vendors.demo.discover import DemoDiscovery
from ekiden.vendors.demo.runtime import DemoRuntime
from ekiden.vendors.demo.transcript import DemoFold
from ekiden.vendors.port import Begin, Discovery, Environment, FoundFile, Runtime

DELAY_S = 0.02


class DemoVendor:
    """The scripted agent; its files lie in `demo/` below the data folder `home`. `delay_s` is the pause after
    each piece of text."""

    name = "demo"
    label = "Demo"

    def __init__(self, home: Path, *, delay_s: float = DELAY_S) -> None:
        self._home = home
        self._delay_s = delay_s
        self.discovery: Discovery = DemoDiscovery(home)

    def fold(self, file: FoundFile) -> Fold:
        """A fold for one of its session files."""
        return DemoFold(file.native_id, str(file.path))

    def runtime(self, begin: Begin, environment: Environment) -> Runtime:
        """An agent process that has not started yet."""
        return DemoRuntime(self._home, begin, environment, delay_s=self._delay_s)
