"""One agent that posts from an outbox: a message is sent again under its own id until it is answered as stored.

`python _outbox.py JSON` posts for ever over a few connections, and tells each answer on its output as `INDEX
NUMBER`, a line each. It is made to be killed: what it has told stands.
"""

import json
import os
import re
import sys
import time
from collections import deque
from typing import Any

from _wire import Poll, Wire, request_bytes

CHANNELS = ("chaos-0", "chaos-1", "chaos-2", "chaos-3")
_NUMBER = re.compile(rb'"number":(\d+)')
AGAIN_S = 0.03
ANSWER_S = 8.0


def message_id(client: int, index: int) -> str:
    """The id of one of a client's messages: in the order in which they are made, as real ones are."""
    return f"msg_{client:04}{index:016}"


class Outbox:
    """Which messages are on their way, and over which connection."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._port, self._key, self._client = options["port"], options["key"], options["client"]
        self._again: deque[int] = deque(options["again"])
        self._next = options["first"]
        self._connections = options["connections"]
        self._poll = Poll()
        self._on_way: dict[Wire, tuple[int, float]] = {}

    def run(self) -> None:
        """Posts until it is killed."""
        while True:
            while len(self._on_way) < self._connections and self._connect():
                pass
            told: list[bytes] = []
            for wire in self._poll.wait(0.2 if self._on_way else AGAIN_S):
                self._take(wire, told)
            if told:
                os.write(1, b"".join(told))
            late = time.monotonic() - ANSWER_S
            for wire in [wire for wire, (_, sent_at) in self._on_way.items() if sent_at < late]:
                self._lose(wire)

    def _connect(self) -> bool:
        try:
            wire = Wire(self._port)
        except OSError:
            time.sleep(AGAIN_S)
            return False
        self._poll.add(wire)
        self._send(wire)
        return wire in self._on_way

    def _send(self, wire: Wire) -> None:
        if self._again:
            index = self._again.popleft()
        else:
            index, self._next = self._next, self._next + 1
        self._on_way[wire] = (index, time.monotonic())
        target = f"/v1/channels/{CHANNELS[index % len(CHANNELS)]}/messages"
        body = {"message_id": message_id(self._client, index), "text": f"{self._client}-{index} has this to say"}
        try:
            wire.send(request_bytes("POST", target, self._key, self._port, json.dumps(body).encode()))
        except OSError:
            self._lose(wire)

    def _take(self, wire: Wire, told: list[bytes]) -> None:
        answer = wire.answer()
        if answer is None:
            if not wire.open:
                self._lose(wire)
            return
        status, body = answer
        if status == 201:
            number = _NUMBER.search(body)
            assert number is not None, body
            told.append(b"%d %b\n" % (self._on_way[wire][0], number[1]))
            self._send(wire)
        elif status in (409, 429, 503):
            self._lose(wire)
        else:
            raise AssertionError(body.decode())

    def _lose(self, wire: Wire) -> None:
        """What was on its way there has to be sent again: whether it arrived is not known."""
        self._again.append(self._on_way.pop(wire)[0])
        self._poll.drop(wire)
        wire.socket.close()


if __name__ == "__main__":
    Outbox(json.loads(sys.argv[1])).run()
