"""A hub of three nodes as an operator runs it: processes on one Postgres, a plain round-robin before them, and a
host that knows the round-robin's address only. With NATS between the nodes, or without.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ekiden.client.plain import PlainClient
from nats_server import NatsServer, free_port
from postgres_server import fresh_database, version_at
from whole.computer import wait_for
from whole.round_robin import RoundRobin

COUNT = 3
_END_S = 20.0
_PROGRAM = ("-m", "ekiden.cli")


class Nodes:
    """`url` is what people and hosts use; `urls` are the nodes' own addresses, which they need not know.

    Args:
        folder: where the nodes keep their data folders; `ekiden` in it is the first one's.
        environment: of every process; `EKIDEN_HOME` and what names the database are set here.
        over: `nats` or `notify`: what the nodes tell each other through.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str], *, over: str) -> None:
        self.folder = folder
        self.environment = dict(environment)
        self._nats = NatsServer() if over == "nats" else None
        self._database_url = fresh_database()
        self.round_robin = RoundRobin([free_port() for _ in range(COUNT)])
        self.url = self.round_robin.url
        self.urls = [f"http://127.0.0.1:{port}" for port in self.round_robin.ports]
        self.link = ""
        self.host_id = ""
        self._host_key = ""
        self._clients: list[PlainClient] = []
        self._nodes: list[subprocess.Popen[str]] = []
        self._host: subprocess.Popen[str] | None = None
        if self._nats is not None:
            self._nats.start()

    def home(self, number: int) -> Path:
        """A node's data folder."""
        return self.folder / ("ekiden" if number == 0 else f"ekiden-node-{number}")

    def start(self, *, host: bool = True) -> None:
        """Starts all nodes, then the host, and returns when the hub can ask the host."""
        self._nodes = [self._start_node(number, port) for number, port in enumerate(self.round_robin.ports)]
        ready = [self._ready(node) for node in self._nodes]
        self.link = ready[0]["link"]
        if host:
            self._start_host()

    def _start_host(self) -> None:
        if not self._host_key:
            with self.client() as client:
                made = client.post("/v1/keys", {"name": "workstation", "kind": "host"})
            self.host_id, self._host_key = made["host_id"], made["key"]
        self._host = self._begin(
            ["host", self.url, "--host-id", self.host_id],
            {"EKIDEN_HOME": str(self.folder / "ekiden-host"), "EKIDEN_KEY": self._host_key},
        )
        with self.client() as client:
            wait_for(lambda: any(host["here"] for host in client.get("/v1/hosts")["hosts"]), "the host is here")

    def start_again(self, number: int, *, program: Sequence[str] = _PROGRAM, refused: bool = False) -> None:
        """Starts a node that was stopped, with another program perhaps; `refused` if that must not come up."""
        node = self._start_node(number, self.round_robin.ports[number], program)
        self._nodes[number] = node
        if refused:
            assert node.wait(_END_S) != 0
        else:
            self._ready(node)

    def version(self) -> int:
        """The step at which the database's schema is."""
        return version_at(self._database_url)

    def _start_node(self, number: int, port: int, program: Sequence[str] = _PROGRAM) -> subprocess.Popen[str]:
        more = {"EKIDEN_HOME": str(self.home(number)), "EKIDEN_DATABASE_URL": self._database_url}
        if self._nats is not None:
            more["EKIDEN_NATS_URL"] = self._nats.url
        words = ["up", "--no-host", "--url", self.url, "--port", str(port), "--json", "--no-open"]
        return self._begin(words, more, program)

    def _begin(
        self, words: list[str], more: Mapping[str, str], program: Sequence[str] = _PROGRAM
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-u", *program, *words],
            env={**self.environment, **more},
            cwd=self.environment["HOME"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )

    @staticmethod
    def _ready(node: subprocess.Popen[str]) -> dict[str, str]:
        assert node.stdout is not None
        return json.loads(node.stdout.readline())

    def client(self, number: int | None = None) -> PlainClient:
        """A client with the first node's command line key: through the round-robin, or at one node. It is closed
        with the nodes, if nobody did so before."""
        key = (self.home(0) / "local.key").read_text().strip()
        client = PlainClient(self.url if number is None else self.urls[number], key)
        self._clients.append(client)
        return client

    def where(self, *words: str) -> int | None:
        """The number of the node that now streams to whoever has all these words in the head of the request."""
        found = self.round_robin.where("/v1/stream", *words)
        return self.round_robin.ports.index(found[-1]) if found else None

    def prefer(self, number: int, *words: str) -> None:
        """Has this node, while it can be reached, stream to whoever has all these words in the request's head."""
        self.round_robin.prefer(self.round_robin.ports[number], "/v1/stream", *words)

    def host_at(self) -> int:
        """The number of the node that the host has dialled."""
        return wait_for(lambda: [at] if (at := self.where(self.host_id)) is not None else None, "the host")[0]

    def stop(self, number: int) -> None:
        """SIGTERM of one node."""
        _gone(self._nodes[number], signal.SIGTERM)

    def kill(self, number: int) -> None:
        """SIGKILL of one node."""
        _gone(self._nodes[number], signal.SIGKILL)

    def kill_all(self) -> None:
        """SIGKILL of all nodes and of the host, as when the power goes."""
        for process in self._processes():
            _gone(process, signal.SIGKILL)

    def close(self) -> None:
        """Ends all of it in order, as an operator does."""
        for client in self._clients:
            client.close()
        for process in self._processes():
            _gone(process, signal.SIGTERM)
        self.round_robin.stop()
        if self._nats is not None:
            self._nats.stop()

    def _processes(self) -> list[subprocess.Popen[str]]:
        """The host first: it ends its turns while there is somebody to tell."""
        return [*([self._host] if self._host is not None else []), *self._nodes]


def _gone(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Sends the signal and waits for the end. One that does not end is killed, and the test fails."""
    if process.poll() is None:
        process.send_signal(number)
    try:
        process.wait(_END_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert process.stdout is not None
        process.stdout.close()
