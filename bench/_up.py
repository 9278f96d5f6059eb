"""Shared by the benchmarks of the whole program: `ekiden up` in a process of its own, on data of its own."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ekiden.client.plain import PlainClient


@dataclass(frozen=True, slots=True)
class Up:
    """A program that runs: its address, its data folder and the local key."""

    url: str
    home: Path
    key: str

    def client(self) -> PlainClient:
        """A client with the local key."""
        return PlainClient(self.url, self.key)


@contextlib.contextmanager
def an_ekiden(*words: str, **environment: str) -> Iterator[Up]:
    """`ekiden up` with further words; ended by its pid."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "data"
        process = subprocess.Popen(
            [sys.executable, "-m", "ekiden.cli", "up", "--json", "--no-open", "--port", "0", *words],
            env={"HOME": folder, "PATH": os.environ["PATH"], "EKIDEN_HOME": str(home), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        try:
            ready = json.loads(process.stdout.readline())
            yield Up(ready["url"], home, (home / "local.key").read_text().strip())
        finally:
            process.terminate()
            process.wait(20)
            process.stdout.close()
