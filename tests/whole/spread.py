"""A computer whose Ekiden is spread: three nodes and a host, each a process, where `ekiden up` is one for both."""

from pathlib import Path

from whole.computer import Computer
from whole.nodes import Nodes

OVER = ("nats", "notify")
"""What the nodes of a hub may tell each other through."""


class SpreadComputer(Computer):
    """As a `Computer`, with `url` and `link` at the round-robin; `nodes` is what is behind it."""

    def __init__(self, folder: Path, model_port: int, over: str) -> None:
        super().__init__(folder, model_port)
        self.nodes = Nodes(folder, self.environment, over=over)
        self.url = self.nodes.url

    def up(self, *words: str, port: int = 0) -> "SpreadComputer":
        """Starts nodes and host, again at the same addresses; there is nothing to choose."""
        assert not words
        self.nodes.start()
        self.link = self.nodes.link
        return self

    def kill_up(self) -> None:
        """SIGKILL of all of it."""
        self.nodes.kill_all()

    def close(self) -> None:
        """Ends nodes and host in order, then as every computer."""
        self.nodes.close()
        super().close()
