"""The clients of the relay's benchmarks: bare sockets that a poll watches, each role in a process of its own.

What is readable when the poll returns gets the time of its return, so that one who is read after ninety-nine
others does not seem late. See `_load` for the others.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from _hub import clean_environment
from _wire import Poll, Wire, request_bytes, stream


def run_role(role: str, options: dict[str, Any], within_s: float = 45.0) -> dict[str, Any]:
    """Runs one of the roles below in a process of its own and returns what it found."""
    done = subprocess.run(
        [sys.executable, __file__, role, json.dumps(options)],
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
        env=clean_environment(),
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def push(options: dict[str, Any]) -> dict[str, Any]:
    """`clients` streams of a channel, and `count` posts into it, `per_s` of them a second: [seq, time] of each
    frame that came, once all have come. Where `posts` is false, whoever holds the other ends writes by itself."""
    port, keys, poll = options["port"], options["keys"], Poll()
    posting: Wire | None = None
    readers: list[Wire] = []
    for client in range(options["clients"]):
        if options["posts"]:
            readers.append(stream(port, keys[client % len(keys)], f"channel:{options['channel']}"))
        else:
            readers.append(Wire(port))
    for reader in readers:
        poll.add(reader)
    target = f"/v1/channels/{options['channel']}/messages"
    body = json.dumps({"text": "x" * 120}).encode()
    if options["posts"]:
        posting = Wire(port)
        poll.add(posting)
    came: list[tuple[int, float]] = []
    began, sent, wanted = time.perf_counter(), 0, options["clients"] * options["count"]
    while len(came) < wanted:
        due_s = began + sent / options["per_s"] - time.perf_counter()
        if posting is not None and sent < options["count"] and due_s <= 0:
            posting.send(
                request_bytes("POST", target, keys[0], port, body, f"Command-Id: {options['tag']}-{sent}\r\n")
            )
            sent += 1
            continue
        ready = list(poll.wait(due_s if posting is not None and sent < options["count"] else 10.0))
        now = time.perf_counter()
        assert ready or sent < options["count"], f"{wanted - len(came)} frames never came"
        for wire in ready:
            if wire is posting:
                wire.take()
            else:
                came.extend((seq, now) for seq in wire.seqs())
                assert wire.open, "a stream ended"
    return {"came": came}


_ROLES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {"push": push}

if __name__ == "__main__":
    role, argument = sys.argv[1:]
    print(json.dumps(_ROLES[role](json.loads(argument))))
