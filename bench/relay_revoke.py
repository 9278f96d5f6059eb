"""`revoke_to_silence`: from the answer that a key is revoked to the last that its bearer gets or does.

Twenty streams of the key follow a channel in which somebody else posts without a pause, and eight clients post
with the key, one message after the other. Then its owner revokes it. What counts is the last byte on any of the
streams and the last post that is answered as stored, whichever is later; the worst of the rounds. All connections
are held by this process. After the silence the clients are listened to for another half second: a byte then would
count.

The same with the streams and clients at one node and the owner at another (Postgres, NOTIFY) is told beside it.
Peer of the same run: the answer to the revocation itself, from sending it.
"""

import contextlib
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from _hub import a_hub
from _load import figure
from _nodes import a_postgres, nodes
from _wire import Poll, Wire, request_bytes, stream
from ekiden.client.plain import PlainClient

ROUNDS = 5
STREAMS = 20
CLIENTS = 8
BUSY_S = 0.4
QUIET_S = 0.5
GIVE_UP_S = 5.0
CHANNEL = "bench"


class Bearer:
    """The streams and clients of one key at a port."""

    def __init__(self, port: int, key: str, poll: Poll) -> None:
        self.port, self.key, self._poll = port, key, poll
        self.streams = [stream(port, key, f"channel:{CHANNEL}") for _ in range(STREAMS)]
        self.clients = [Wire(port) for _ in range(CLIENTS)]
        self.last_byte_at = self.last_stored_at = 0.0
        self.bytes = self.stored = self.refused = 0
        for wire in (*self.streams, *self.clients):
            poll.add(wire)

    def post(self, wire: Wire) -> None:
        """Sends a message."""
        wire.send(_post(self.port, self.key))

    def read(self, wire: Wire, now: float) -> None:
        """Takes what has come on one of the wires."""
        if wire in self.streams:
            data = wire.take()
            if data:
                self.bytes += len(data)
                self.last_byte_at = now
            else:
                self._poll.drop(wire)
            return
        answer = wire.answer()
        if answer is None:
            if not wire.open:
                self._poll.drop(wire)
            return
        if answer[0] == 201:
            self.stored += 1
            self.last_stored_at = now
        else:
            assert answer[0] == 401, answer
            self.refused += 1
        if self.refused < 20 * CLIENTS:
            self.post(wire)

    def close(self) -> None:
        """Lets all of them go."""
        for wire in (*self.streams, *self.clients):
            wire.socket.close()


def _post(port: int, key: str) -> bytes:
    body = json.dumps({"text": "x" * 120}).encode()
    return request_bytes("POST", f"/v1/channels/{CHANNEL}/messages", key, port, body)


def silence_s(owner: PlainClient, owner_key: str, owner_port: int, port: int, turn: int) -> tuple[float, float]:
    """One round: seconds from the answer to silence, and from sending the revocation to its answer."""
    made = owner.post("/v1/keys", {"name": f"bearer {turn} {port}", "kind": "agent"})
    poll = Poll()
    bearer = Bearer(port, made["key"], poll)
    other, revoking = Wire(port), Wire(owner_port)
    poll.add(other)
    poll.add(revoking)
    began, sent_at, answered_at = time.perf_counter(), 0.0, 0.0
    other.send(_post(port, owner_key))
    for wire in bearer.clients:
        bearer.post(wire)
    while True:
        now = time.perf_counter()
        if not sent_at and now - began > BUSY_S:
            assert bearer.stored, "nothing was posted"
            assert bearer.bytes, "nothing was followed"
            path = f"/v1/keys/{made['key_id']}/revoke"
            revoking.send(request_bytes("POST", path, owner_key, owner_port, b"{}"))
            sent_at = now
        last = max(bearer.last_byte_at, bearer.last_stored_at, answered_at)
        if answered_at and now - last > QUIET_S:
            break
        assert not answered_at or now - answered_at < GIVE_UP_S, "it never fell silent"
        for wire in poll.wait(0.02):
            now = time.perf_counter()
            if wire is revoking:
                answer = revoking.answer()
                if answer is not None:
                    assert answer[0] == 200, answer
                    answered_at = now
            elif wire is other:
                if other.answer() is not None:
                    other.send(_post(port, owner_key))
            else:
                bearer.read(wire, now)
    assert bearer.refused >= CLIENTS, "the clients were not told"
    for wire in (other, revoking):
        wire.socket.close()
    bearer.close()
    return max(bearer.last_byte_at, bearer.last_stored_at) - answered_at, answered_at - sent_at


@contextlib.contextmanager
def two_nodes() -> Iterator[list[tuple[int, str]]]:
    """Two nodes on one Postgres: port and key of each."""
    with (
        tempfile.TemporaryDirectory() as home,
        a_postgres() as (_, database),
        nodes(database, "", Path(home), 2) as two,
    ):
        for node in two:
            node.start()
        yield [(node.port, node.ready()["key"]) for node in two]


def measured(key: str, port: int, other_port: int, rounds: int) -> tuple[float, float]:
    """The worst of the rounds, not below zero, and the median of the answers."""
    with PlainClient(f"http://127.0.0.1:{port}", key) as owner:
        with contextlib.suppress(Exception):
            owner.post("/v1/channels", {"name": CHANNEL})
        found = [silence_s(owner, key, port, other_port, turn) for turn in range(rounds)]
    return max(0.0, *(silence for silence, _ in found)), sorted(answer for _, answer in found)[rounds // 2]


def main() -> None:
    with a_hub() as hub:
        value, answer = measured(hub.key, hub.port, hub.port, ROUNDS)
    with two_nodes() as ((port, key), (other_port, _)):
        across, answer_across = measured(key, port, other_port, 3)
    figure(
        "revoke_to_silence",
        value,
        "s",
        "< 1",
        f"ratio {value / answer:.2f} to the answer itself, {answer * 1e3:.0f} ms; "
        f"across nodes {across:.3f} s (bar < 1), where the answer takes {answer_across * 1e3:.0f} ms",
    )


if __name__ == "__main__":
    main()
