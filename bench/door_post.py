"""`post_durable_16_clients`: commands per second that are on disk when they are answered, through the whole door.

The command is the one that people and agents send most: `POST /v1/sessions/{id}/messages`, which stores a message,
says so in two events on four topics, counts it in its session and keeps its answer under its Command-Id. Sixteen
clients in another process, one command after the other each, go round 640 sessions.

Peers, in the same round: the same server without a database (the same verb over dictionaries: no SQL, no disk, no
thread; the bar is for this ratio), and the same request with no verb at all. Told beside them is what the disk
takes to sync as many bytes as one commit writes. Values are medians of the rounds, each ratio is of one round.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Sequence

from _hub import Served, a_hub
from _load import figure, run_client

ROUNDS = 3
SECONDS = 1.5
SESSIONS = 640
COMMIT_BYTES = 256 * 1024


def sync_ms() -> float:
    """The median time of a bare sync of a commit's bytes, on the disk of the hub's data."""
    times: list[float] = []
    with tempfile.TemporaryFile(prefix="ekiden-bench-") as file:
        for number in range(40):
            os.pwrite(file.fileno(), os.urandom(COMMIT_BYTES), (number % 8) * COMMIT_BYTES)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times)


def posts(hub: Served, verb: str, tag: str, seconds: float = SECONDS) -> dict[str, float]:
    """One stretch of commands: what the clients saw, and the hub's processor time for each."""
    return stretch(hub, f"/v1/sessions/PLACE/{verb}", hub.sessions, f"{verb}{tag}", seconds)


def stretch(hub: Served, target: str, places: Sequence[str], tag: str, seconds: float) -> dict[str, float]:
    """One stretch of commands to a path in which `PLACE` stands for each of `places` in turn."""
    options = {"port": hub.port, "key": hub.key, "clients": 16, "bytes": 120, "seconds": seconds, "tag": tag}
    began = hub.processor_s()
    told = run_client("posts", {**options, "target": target, "places": list(places)})
    return {**told, "processor_us": (hub.processor_s() - began) / told["count"] * 1e6}


def main() -> None:
    with a_hub(SESSIONS) as hub:
        for verb in ("messages", "memory", "nothing"):
            posts(hub, verb, "warm", 0.4)
        rounds = [
            {verb: posts(hub, verb, str(turn)) for verb in ("memory", "messages", "nothing")}
            for turn in range(ROUNDS)
        ]

    def median(verb: str, what: str) -> float:
        return statistics.median(told[verb][what] for told in rounds)

    def ratio(verb: str) -> float:
        return statistics.median(told["messages"]["per_s"] / told[verb]["per_s"] for told in rounds)

    figure(
        "post_durable_16_clients",
        median("messages", "per_s"),
        "commands/s",
        ">= 3000",
        f"ratio {ratio('memory'):.2f} (bar >= 0.5) of {median('memory', 'per_s'):.0f}/s without a database; "
        f"{ratio('nothing'):.2f} of {median('nothing', 'per_s'):.0f}/s without a verb; "
        f"p50 {median('messages', 'p50_ms'):.1f} ms, p95 {median('messages', 'p95_ms'):.1f} ms, "
        f"p99 {median('messages', 'p99_ms'):.1f} ms; processor {median('messages', 'processor_us'):.0f} us each "
        f"({median('memory', 'processor_us'):.0f} without a database); "
        f"a bare sync of {COMMIT_BYTES // 1024} KiB {sync_ms():.1f} ms",
    )


if __name__ == "__main__":
    main()
