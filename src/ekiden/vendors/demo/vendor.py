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


def demo_vendor(environment: Environment) -> DemoVendor:
    """The demo vendor of the data folder that `environment` names (`EKIDEN_HOME`). `EKIDEN_DEMO_DELAY_S` sets the
    pause after each piece of text."""
    delay_s = float(environment.get("EKIDEN_DEMO_DELAY_S") or DELAY_S)
    return DemoVendor(Path(environment["EKIDEN_HOME"]), delay_s=delay_s)
