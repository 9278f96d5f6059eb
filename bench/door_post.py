"""`post_durable_16_clients`: commands per second that are on disk when they are answered, through the whole door.

Sixteen clients in another process, one command after the other each, with a Command-Id. Floor of the same run: the
same server and request with the verb replaced by nothing.
"""

from _load import a_hub, figure, run_client


def main() -> None:
    with a_hub() as hub:
        options = {"port": hub.port, "key": hub.key, "clients": 16, "bytes": 120}
        run_client("posts", {**options, "target": "/v1/append", "seconds": 0.5, "tag": "warm"})
        durable, floor = [], []
        for turn in range(3):
            floor.append(
                run_client("posts", {**options, "target": "/v1/nothing", "seconds": 2, "tag": f"n{turn}"})
            )
            durable.append(
                run_client("posts", {**options, "target": "/v1/append", "seconds": 2, "tag": f"d{turn}"})
            )
    best = sorted(durable, key=lambda told: told["per_s"])[1]
    floor_per_s = sorted(told["per_s"] for told in floor)[1]
    figure(
        "post_durable_16_clients",
        best["per_s"],
        "commands/s",
        ">= 3000, ratio >= 0.5",
        f"ratio {best['per_s'] / floor_per_s:.2f} of {floor_per_s:.0f}/s without a database; "
        f"p50 {best['p50_ms']:.1f} ms, p99 {best['p99_ms']:.1f} ms",
    )


if __name__ == "__main__":
    main()
