"""`reconnect_10k_events`: milliseconds from a client's reconnect, 10,000 events behind, until it has them all.

Told for a place that the ring still holds and for one that only the log holds. Floor of the same run: the same
bytes over one plain socket.
"""

from _load import STORED, a_hub, figure, plain_write_floor, run_client

MISSED = 10_000
EVENT_BYTES = 330


def main() -> None:
    with a_hub() as hub:
        options = {"port": hub.port, "keys": hub.keys, "key": hub.key}
        store = {**options, "clients": 1, "target": "/v1/burst", "body": {"at_once": 256}, "mark": STORED}
        run_client("follow", {**store, "count": MISSED + 100})
        ring = run_client("reconnect", {**options, "count": MISSED, "times": 9, "after": f"{hub.log_id}.50"})
        run_client("follow", {**store, "count": 20_000})
        log = run_client("reconnect", {**options, "count": MISSED, "times": 9, "after": f"{hub.log_id}.50"})
    floor_ms = MISSED / plain_write_floor(1, MISSED, EVENT_BYTES, 100) * 1e3
    figure(
        "reconnect_10k_events",
        ring["ms"],
        "ms",
        "< 200",
        f"worst {ring['worst_ms']:.0f} ms; from the log {log['ms']:.0f} ms, worst {log['worst_ms']:.0f} ms; "
        f"ratio {ring['ms'] / floor_ms:.1f} of {floor_ms:.1f} ms for the bytes alone",
    )


if __name__ == "__main__":
    main()
