"""How many durable commands the log takes in a second, and what each costs its writer thread.

    python bench/log_commands.py [--json] [--work-us N]

Callers in one event loop write as fast as they are answered; each command has an id, appends one event on two
topics and changes one row, as a message that is sent does. `--work-us` is what the loop itself has to do for each
command, as the door has; the writer then competes with it for the interpreter.
"""

import argparse
import asyncio
import itertools
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from ekiden.kernel.clock import SystemClock
from ekiden.log.open import open_log
from ekiden.log.port import Actor, Command
from ekiden.log.queries import load_queries
from ekiden.log.sqlite_writer import Writer

TEAM = "tem_00000000000000000000"
WHO = Actor("pri_00000000000000000000", "key_00000000000000000000", "bench")
TOPICS = ("session:ses_00000000000000000000", "host:hos_00000000000000000000")
SECONDS = 2.0
QUERIES = load_queries(
    "bench",
    """
-- name: put
-- Keeps one row.
INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: get
-- One row.
SELECT value FROM meta WHERE name = :name;
""",
)


async def verb(tx: Any) -> dict[str, object]:
    """What sending a message does to the log."""
    await tx.row("bench.get", name="x")
    await tx.run("bench.put", name="x", value="stored")
    body = {"message_id": "msg_00000000000000000000", "text": "please run the tests again", "state": "stored"}
    return {"seq": tx.append("message.stored", body, topics=TOPICS, actor=WHO)}


def work(microseconds: float) -> None:
    """Keeps the interpreter busy."""
    until = time.perf_counter() + microseconds / 1e6
    while time.perf_counter() < until:
        pass


async def measure(location: str, callers: int, work_us: float) -> dict[str, float]:
    """Commands per second, the writer's CPU per command, and the latencies."""
    spent = 0.0
    carry_out = Writer._carry_out
    batches = 0

    def timed(self: Writer, jobs: Any) -> None:
        nonlocal spent, batches
        began = time.thread_time()
        carry_out(self, jobs)
        spent += time.thread_time() - began
        batches += 1

    Writer._carry_out = timed
    try:
        log = await open_log(location, clock=SystemClock(), queries=QUERIES)
        numbers = itertools.count()
        latencies: list[float] = []
        end = time.perf_counter() + SECONDS

        async def caller() -> None:
            while (began := time.perf_counter()) < end:
                if work_us:
                    work(work_us)
                await log.write(TEAM, verb, command=Command(f"c{next(numbers)}", WHO.principal_id, "d" * 64))
                latencies.append(time.perf_counter() - began)

        began = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(callers)))
        took = time.perf_counter() - began
        await log.close()
    finally:
        Writer._carry_out = carry_out
    latencies.sort()
    count = len(latencies)
    return {
        "callers": callers,
        "work_us": work_us,
        "commands_per_s": round(count / took),
        "writer_us": round(spent / count * 1e6, 1),
        "per_commit": round(count / batches, 1),
        "p50_ms": round(latencies[count // 2] * 1e3, 2),
        "p99_ms": round(latencies[count * 99 // 100] * 1e3, 2),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("--work-us", type=float, default=0.0)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for number, callers in enumerate((1, 16, 64)):
            path = str(Path(folder) / f"{number}" / "ekiden.db")
            figures = asyncio.run(measure(path, callers, given.work_us))
            print(json.dumps(figures) if given.json else figures)


if __name__ == "__main__":
    main()
