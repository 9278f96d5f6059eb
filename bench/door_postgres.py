"""`pg_post_16_clients`: commands per second through the whole door that are on the disk of Postgres when answered.

The command is `POST /v1/sessions/{id}/messages`, as people and agents send it; sixteen clients in another process,
one command after the other each, go round 640 sessions of one team. Beside it, in turns in the same run, the same
request with no verb at all.
"""

import statistics

from _hub import Served, a_hub
from _load import figure
from _postgres import a_postgres
from door_post import stretch

ROUNDS = 3
SECONDS = 1.5
SESSIONS = 640


def posts(hub: Served, verb: str, tag: str, seconds: float = SECONDS) -> dict[str, float]:
    """One stretch of commands, as the clients saw them."""
    return stretch(hub, f"/v1/sessions/PLACE/{verb}", hub.sessions, f"{verb}{tag}", seconds)


def main() -> None:
    with a_postgres() as url, a_hub(SESSIONS, url) as hub:
        for verb in ("messages", "nothing"):
            posts(hub, verb, "warm", 0.4)
        rounds = [
            {verb: posts(hub, verb, str(turn)) for verb in ("messages", "nothing")} for turn in range(ROUNDS)
        ]

    def median(verb: str, what: str) -> float:
        return statistics.median(told[verb][what] for told in rounds)

    figure(
        "pg_post_16_clients",
        median("messages", "per_s"),
        "commands/s",
        ">= 2500",
        f"{median('nothing', 'per_s'):.0f}/s without a verb; p50 {median('messages', 'p50_ms'):.1f} ms, "
        f"p99 {median('messages', 'p99_ms'):.1f} ms",
    )


if __name__ == "__main__":
    main()
