"""A hub of three nodes is upgraded one node after the other while people write: no answer is lost or given twice,
the old and the new program are both right while they run side by side, and afterwards the old one is kept out."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from ekiden.client.plain import PlainClient
from ekiden.kernel.errors import EkidenError
from ekiden.kernel.ids import Prefix, derived_id
from whole.computer import wait_for
from whole.newer_program import NEWEST
from whole.nodes import Nodes

pytestmark = pytest.mark.timeout(180)
NEWER = (str(Path(__file__).with_name("newer_program.py")),)
ENOUGH = 15
"""How many more answers say that the traffic goes on."""


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    home = tmp_path / "home"
    home.mkdir()
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONWARNINGS": "error"}
    made = Nodes(tmp_path, environment, over="notify")
    yield made
    made.close()


class Traffic:
    """Callers who send a message and take it back, over and over, each under its own command; what is refused
    because no node could be reached is sent again under the same one. A follower goes on by its cursor."""

    def __init__(self, nodes: Nodes, callers: int = 2) -> None:
        self._nodes = nodes
        self._ending = threading.Event()
        self.host_id = self._make_session()
        self.acknowledged: list[str] = []
        self.told: list[tuple[int, str, str, str]] = []
        self.faults: list[BaseException] = []
        works: list[Callable[[], None]] = [self._follow]
        works += [lambda number=number: self._call(number) for number in range(callers)]
        self._threads = [threading.Thread(target=self._run, args=(work,), daemon=True) for work in works]
        for thread in self._threads:
            thread.start()

    def _make_session(self) -> str:
        with self._nodes.client() as client:
            made = client.post("/v1/keys", {"name": "workstation", "kind": "host"})
            host_id: str = made["host_id"]
            self.session_id = derived_id(Prefix.SESSION, host_id, "demo", "native")
            report = {"session_id": self.session_id, "vendor": "demo", "native_id": "native", "rung": "owned"}
            report_host(f"{self._nodes.url}/v1/hosts/{host_id}", made["key"])
            with PlainClient(self._nodes.url, made["key"]) as host:
                host.post(f"/v1/hosts/{host_id}/feed", {"entries": [{"entry": "session", "session": report}]})
            return host_id

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self.faults.append(error)

    def _call(self, number: int) -> None:
        count = 0
        with self._nodes.client() as client:
            while not self._ending.is_set():
                text = f"{number}.{count}"
                path = f"/v1/sessions/{self.session_id}/messages"
                sent = self._until_answered(
                    lambda path=path, text=text: client.post(path, {"text": text}, command_id=text)
                )
                self.acknowledged.append(text)
                gone = f"/v1/messages/{sent['message_id']}"
                assert self._until_answered(lambda gone=gone: client.delete(gone))["state"] == "cancelled"
                count += 1

    def _until_answered(self, ask: Callable[[], Any]) -> Any:
        while True:
            try:
                return ask()
            except EkidenError as error:
                if not error.retry_helps:
                    raise

    def _follow(self) -> None:
        with self._nodes.client() as client:
            for frame in client.stream((f"session:{self.session_id}",), after=self.beginning()):
                if frame.id:
                    self.told.append(told(frame))
                if self.told and self.told[-1][3] == "the end":
                    return

    def beginning(self) -> str:
        with self._nodes.client() as client:
            return client.get("/v1/sessions")["cursor"].partition(".")[0] + ".0"

    def goes_on(self) -> None:
        """Waits for more answers."""
        before = len(self.acknowledged)
        wait_for(lambda: self.faults or len(self.acknowledged) >= before + ENOUGH, "the traffic goes on")
        assert self.faults == []

    def at(self, number: int) -> list[tuple[int, str, str, str]]:
        """What a node tells from the beginning, up to what is acknowledged at this moment."""
        last = len(self.acknowledged) - 1
        text = self.acknowledged[last]
        found: list[tuple[int, str, str, str]] = []
        with self._nodes.client(number) as client:
            for frame in client.stream((f"session:{self.session_id}",), after=self.beginning(), for_ever=False):
                if frame.id:
                    found.append(told(frame))
                    if found[-1][3] == text:
                        return found
        raise AssertionError(f"{text} was acknowledged and is not told by node {number}")

    def end(self) -> None:
        self._ending.set()
        for thread in self._threads[1:]:
            thread.join(30.0)
        with self._nodes.client() as client:
            client.post(f"/v1/sessions/{self.session_id}/messages", {"text": "the end"})
        self._threads[0].join(30.0)
        assert self.faults == []


def report_host(url: str, key: str) -> None:
    """Says what a host is; the synchronous client has no verb for it."""
    body = json.dumps({"name": "workstation", "platform": "linux", "ekiden_version": "0"}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    with urlopen(Request(url, body, headers, method="PUT"), timeout=30) as answer:
        assert answer.status == 200


def told(frame: Any) -> tuple[int, str, str, str]:
    """Seq, kind, message and text of a stored frame."""
    body = frame.read(dict[str, Any])
    seq = int(frame.id.partition(".")[2])
    text = body.get("text", "") if frame.kind == "message.stored" else ""
    return seq, frame.kind, body.get("message_id", ""), text


def test_an_upgrade_one_node_after_the_other_loses_and_doubles_nothing(nodes: Nodes) -> None:
    nodes.start(host=False)
    traffic = Traffic(nodes)
    traffic.goes_on()
    assert nodes.version() == NEWEST
    for number in range(3):
        nodes.stop(number)
        traffic.goes_on()
        nodes.start_again(number, program=NEWER)
        traffic.goes_on()
        # What only adds is there with the first new node; what takes away waits for the last old one.
        assert nodes.version() == (NEWEST + 1 if number < 2 else NEWEST + 2)
        seen = [traffic.at(node) for node in range(3)]
        shortest = min(map(len, seen))
        assert seen[0][:shortest] == seen[1][:shortest] == seen[2][:shortest]
    traffic.end()
    seqs = [seq for seq, *_ in traffic.told]
    assert seqs == sorted(set(seqs))
    texts = [line[3] for line in traffic.told if line[3]]
    assert sorted(texts[:-1]) == sorted(traffic.acknowledged)
    cancelled = [line[2] for line in traffic.told if line[1] == "message.changed"]
    assert len(cancelled) == len(set(cancelled)) == len(traffic.acknowledged)
    nodes.stop(0)
    nodes.start_again(0, refused=True)
