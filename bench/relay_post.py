"""`relay_post_16_clients`: messages posted into channels per second, on disk when they are answered, through the
door.

Sixteen clients in another process, one post after the other each, go round eight channels; each post has a
Command-Id, as all of Ekiden's clients send one. It stores a message under the next number of its channel, tells it
in an event and keeps its answer. Nobody follows meanwhile; `relay_push_p50` is of those who do.

Peer of the same round: the spine's own `post_durable` (`POST /v1/sessions/{id}/messages`, see `door_post`). The
two take turns in short stretches, so that neighbours and the disk hit both alike. Values are medians of the
rounds, each ratio is of one round. What checking a member's signature would add to a signed post is told beside
it.
"""

import statistics
import time

from _hub import Served, a_hub
from _load import figure
from door_post import SESSIONS, stretch, sync_ms
from ekiden.client.plain import PlainClient
from ekiden.crypto import keys

ROUNDS = 7
SECONDS = 1.2
CHANNELS = tuple(f"bench-{number}" for number in range(8))


def check_us() -> float:
    """Microseconds to check one signature of a statement of usual size."""
    member = keys.MemberKeys.new()
    statement = b"x" * 500
    signature = keys.sign(member.sign_seed, statement)
    times: list[float] = []
    for _ in range(200):
        began = time.perf_counter()
        assert keys.signed_by(member.public.sign, signature, statement)
        times.append((time.perf_counter() - began) * 1e6)
    return statistics.median(times)


def make_channels(hub: Served) -> None:
    """The channels that are posted into."""
    with PlainClient(f"http://127.0.0.1:{hub.port}", hub.key) as client:
        for name in CHANNELS:
            client.post("/v1/channels", {"name": name})


def main() -> None:
    with a_hub(SESSIONS) as hub:
        make_channels(hub)
        ways = {
            "relay": ("/v1/channels/PLACE/messages", CHANNELS),
            "spine": ("/v1/sessions/PLACE/messages", hub.sessions),
        }
        for name, (target, places) in ways.items():
            stretch(hub, target, places, f"{name}-warm", 0.4)
        rounds = [
            {
                name: stretch(hub, target, places, f"{name}{turn}", SECONDS)
                for name, (target, places) in (ways.items() if turn % 2 else reversed(ways.items()))
            }
            for turn in range(ROUNDS)
        ]

    def median(way: str, what: str) -> float:
        return statistics.median(told[way][what] for told in rounds)

    ratio = statistics.median(told["relay"]["per_s"] / told["spine"]["per_s"] for told in rounds)
    best = max(told["relay"]["per_s"] for told in rounds)
    figure(
        "relay_post_16_clients",
        median("relay", "per_s"),
        "posts/s",
        ">= 3000",
        f"ratio {ratio:.2f} (bar >= 0.8) of {median('spine', 'per_s'):.0f}/s of the spine; "
        f"p50 {median('relay', 'p50_ms'):.1f} ms, p99 {median('relay', 'p99_ms'):.1f} ms (bar < 50); "
        f"best stretch {best:.0f}/s; processor {median('relay', 'processor_us'):.0f} us each "
        f"(spine {median('spine', 'processor_us'):.0f}); checking a signature takes {check_us():.0f} us; "
        f"a bare sync {sync_ms():.1f} ms",
    )


if __name__ == "__main__":
    main()
