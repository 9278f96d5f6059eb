"""`fanout_100`: stored events per second delivered to 100 subscribers, and how long a piece of growing text takes.

The rate is of events that go through the log (committed, then encoded once, then to everyone); the latency is of
pieces of a growing item, 1,100 a second, from the hub's taking them to the client's socket. Floor of the same run:
a bare loop that writes as many bytes to 100 plain sockets.
"""

from _load import GREW, STORED, a_hub, figure, plain_write_floor, run_client

CLIENTS = 100
EVENT_BYTES = 330


def main() -> None:
    with a_hub() as hub:
        flood = {
            "port": hub.port,
            "keys": hub.keys,
            "clients": CLIENTS,
            "target": "/v1/burst",
            "body": {"at_once": 64},
            "mark": STORED,
        }
        run_client("follow", {**flood, "count": 200})
        stored = run_client("follow", {**flood, "count": 6_000})
        pieces = {**flood, "target": "/v1/stretch", "body": {"per_s": 1_100}, "mark": GREW}
        grew = run_client("follow", {**pieces, "count": 2_200})
    floor = plain_write_floor(CLIENTS, 20_000, EVENT_BYTES, 8)
    figure(
        "fanout_100",
        stored["per_s"],
        "events/s",
        ">= 100000, p99 < 15 ms",
        f"ratio {stored['per_s'] / floor:.2f} of {floor:.0f}/s bare writes; pieces at {grew['per_s']:.0f}/s: "
        f"p50 {grew['p50_ms']:.1f} ms, p99 {grew['p99_ms']:.1f} ms",
    )


if __name__ == "__main__":
    main()
