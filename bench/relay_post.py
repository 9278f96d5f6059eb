"""`relay_post_16_clients`: messages per second that are on disk when they are answered, posted into channels.

Sixteen clients in another process, one message after the other each, go round eight channels: plain text under a
Command-Id, without mentions. In the same rounds the spine's message verb
(`post_durable_16_clients`), for the ratio. Values are medians of the rounds, each ratio is of one round.
"""

import json
import statistics
import urllib.request

from _hub import Served, a_hub
from _load import figure, run_client

ROUNDS = 3
SECONDS = 1.5
SESSIONS = 640
CHANNELS = 8


def make_channels(hub: Served) -> list[str]:
    """Channels to post into; their names."""
    names = [f"channel{number}" for number in range(CHANNELS)]
    for name in names:
        request = urllib.request.Request(
            f"http://127.0.0.1:{hub.port}/v1/channels",
            json.dumps({"name": name}).encode(),
            {"Authorization": f"Bearer {hub.key}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert answer.status == 201
    return names


def posts(hub: Served, target: str, places: list[str], tag: str, seconds: float = SECONDS) -> dict[str, float]:
    """One stretch of messages: what the clients saw, and the hub's processor time for each."""
    options = {"port": hub.port, "key": hub.key, "clients": 16, "bytes": 120, "sessions": places}
    began = hub.processor_s()
    told = run_client("posts", {**options, "verb": "messages", "target": target, "seconds": seconds, "tag": tag})
    return {**told, "processor_us": (hub.processor_s() - began) / told["count"] * 1e6}


def main() -> None:
    channel, session = "/v1/channels/SESSION/VERB", "/v1/sessions/SESSION/VERB"
    with a_hub(SESSIONS) as hub:
        names = make_channels(hub)
        posts(hub, channel, names, "warm", 0.4)
        posts(hub, session, hub.sessions, "warm-spine", 0.4)
        rounds = [
            (
                posts(hub, channel, names, f"relay{turn}"),
                posts(hub, session, hub.sessions, f"spine{turn}"),
            )
            for turn in range(ROUNDS)
        ]

    def median(which: int, what: str) -> float:
        return statistics.median(told[which][what] for told in rounds)

    ratio = statistics.median(relay["per_s"] / spine["per_s"] for relay, spine in rounds)
    figure(
        "relay_post_16_clients",
        median(0, "per_s"),
        "messages/s",
        ">= 3000",
        f"ratio {ratio:.2f} (bar >= 0.8) of {median(1, 'per_s'):.0f}/s of the spine's message verb; "
        f"p50 {median(0, 'p50_ms'):.1f} ms, p95 {median(0, 'p95_ms'):.1f} ms, p99 {median(0, 'p99_ms'):.1f} ms "
        f"(bar < 50); processor {median(0, 'processor_us'):.0f} us each "
        f"({median(1, 'processor_us'):.0f} the spine)",
    )


if __name__ == "__main__":
    main()
