"""`fanout_100`: stored events per second delivered to 100 subscribers, and how long a piece of growing text takes.

The rate is of events that go through the log (committed, encoded once, then to everyone), from the request that
makes them to the last byte at the last subscriber. The latency is of pieces of a growing item, 1,100 a second,
from the hub's taking one to its reading at a client, at every fourth of them. A subscriber that does not get each
frame exactly once fails the run. Floor of the same round: a bare loop that writes as many bytes to 100 plain
sockets. Medians of the rounds.
"""

import statistics

from _hub import a_hub
from _load import GREW, STORED, figure, plain_write_floor, run_client

CLIENTS = 100
ROUNDS = 3
EVENT_BYTES = 330


def main() -> None:
    rates: list[float] = []
    ratios: list[float] = []
    grown: list[dict[str, float]] = []
    with a_hub() as hub:
        common = {"port": hub.port, "keys": hub.keys, "clients": CLIENTS}
        flood = {**common, "target": "/v1/burst", "body": {"at_once": 64}, "mark": STORED}
        pieces = {**common, "target": "/v1/stretch", "body": {"per_s": 1_100}, "mark": GREW, "count": 1_650}
        run_client("follow", {**flood, "count": 200})
        for _ in range(ROUNDS):
            rates.append(run_client("follow", {**flood, "count": 3_000})["per_s"])
            ratios.append(rates[-1] / plain_write_floor(CLIENTS, 5_000, EVENT_BYTES, 8))
            grown.append(run_client("follow", pieces))

    def latency(share: str) -> float:
        return statistics.median(told[share] for told in grown)

    rate = statistics.median(rates)
    figure(
        "fanout_100",
        rate,
        "events/s",
        ">= 100000",
        f"ratio {statistics.median(ratios):.2f} of bare writes; pieces at "
        f"{statistics.median(told['per_s'] for told in grown):.0f}/s: p50 {latency('p50_ms'):.1f} ms, "
        f"p95 {latency('p95_ms'):.1f} ms, p99 {latency('p99_ms'):.1f} ms (bar < 15)",
    )


if __name__ == "__main__":
    main()
