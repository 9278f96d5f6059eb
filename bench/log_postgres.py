"""`pg_append_64_callers`: commands per second in process that are on the disk of Postgres when they are answered.

Sixty-four callers in one event loop, each as fast as it is answered. Each command has an id, appends one event on
two topics and is answered. Beside it, in turns in the same run, the same with one command to a commit.
"""

import asyncio
import itertools
import time
from typing import Any

import uvloop

from _load import figure, percentile
from _postgres import a_postgres
from ekiden.kernel import limits
from ekiden.kernel.clock import SystemClock
from ekiden.log.open import open_log
from ekiden.log.port import Actor, Command

TEAM = "tem_00000000000000000000"
WHO = Actor("pri_00000000000000000000", "key_00000000000000000000", "bench")
TOPICS = ("session:ses_00000000000000000000", "host:hos_00000000000000000000")
CALLERS = 64
SECONDS = 2.5
_numbers = itertools.count()


async def verb(tx: Any) -> dict[str, int]:
    body = {"message_id": "msg_00000000000000000000", "text": "please run the tests again", "state": "stored"}
    return {"seq": tx.append("message.stored", body, topics=TOPICS, actor=WHO)}


async def measure(url: str, per_commit: int) -> tuple[float, list[float]]:
    """Commands per second, and how long each took."""
    limits.LOG_BATCH_COMMANDS_MAX = per_commit
    log = await open_log(url, clock=SystemClock(), queries={})
    latencies: list[float] = []
    end = time.perf_counter() + SECONDS

    async def caller() -> None:
        while (began := time.perf_counter()) < end:
            await log.write(TEAM, verb, command=Command(f"c{next(_numbers)}", WHO.principal_id, "d" * 64))
            latencies.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    took = time.perf_counter() - began
    await log.close()
    return len(latencies) / took, latencies


def main() -> None:
    together, each = [], []
    with a_postgres() as url:
        uvloop.run(measure(url, 512))
        for _ in range(3):
            each.append(uvloop.run(measure(url, 1))[0])
            together.append(uvloop.run(measure(url, 512)))
    per_s, latencies = sorted(together, key=lambda told: told[0])[1]
    each_per_s = sorted(each)[1]
    figure(
        "pg_append_64_callers",
        per_s,
        "commands/s",
        ">= 20000, ratio >= 8",
        f"ratio {per_s / each_per_s:.1f} of {each_per_s:.0f}/s with a commit each; "
        f"p50 {percentile(latencies, 0.5) * 1e3:.1f} ms, p99 {percentile(latencies, 0.99) * 1e3:.1f} ms",
    )


if __name__ == "__main__":
    main()
