"""`reconnect_10k_events`: milliseconds from a client's reconnect, 10,000 events behind, until it has them all.

Told for a place that the ring still holds and for one that only the log holds; the figure is the worse of the two.
From the connection's being opened to the last event's last byte, with topics of its own so that nothing is shared.
Floor of the same run: the same bytes over one plain socket.
"""

from _hub import a_hub
from _load import STORED, figure, plain_write_floor, run_client

MISSED = 10_000
EVENT_BYTES = 330
TIMES = 11


def main() -> None:
    with a_hub() as hub:
        options = {"port": hub.port, "keys": hub.keys, "key": hub.key}
        store = {**options, "clients": 1, "target": "/v1/burst", "body": {"at_once": 256}, "mark": STORED}
        again = {"count": MISSED, "times": TIMES, "after": f"{hub.log_id}.{hub.head + 50}"}
        run_client("follow", {**store, "count": MISSED + 100})
        ring = run_client("reconnect", {**options, **again})
        run_client("follow", {**store, "count": 20_000})
        log = run_client("reconnect", {**options, **again})
    floor_ms = MISSED / plain_write_floor(1, MISSED, EVENT_BYTES, 100) * 1e3
    worse = max(ring["p50_ms"], log["p50_ms"])
    figure(
        "reconnect_10k_events",
        worse,
        "ms",
        "< 200",
        f"from the ring p50 {ring['p50_ms']:.0f} ms, p95 {ring['p95_ms']:.0f} ms; "
        f"from the log p50 {log['p50_ms']:.0f} ms, p95 {log['p95_ms']:.0f} ms; "
        f"ratio {worse / floor_ms:.0f} of {floor_ms:.1f} ms for the bytes alone",
    )


if __name__ == "__main__":
    main()
