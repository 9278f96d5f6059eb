"""`growth_ratio`: how much longer a post and a page take when the log is long, SQLite and Postgres; the worst of
four.

A post is a command with an id that appends one event; a page is fifty events of one topic of a hundred, at one of
`PLACES` all over the log. Each is measured on a log of 20,000 events and on one of 2,000,000, in turns: the median
of many. A place is read once before it is measured, for what has never been read waits for the machine's memory
and disk; how much longer that takes in the long log is told beside it.

Filling the long logs takes a minute or two, more than a run has. So they are kept in `.test-results/growth`, and
each run makes them longer for `FILL_S` until they are long enough; the figure's line says how long they were.
`python bench/log_growth.py fill` fills them at once. A log of another schema is thrown away.
"""

import asyncio
import random
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvloop

from _load import figure, percentile
from _postgres import a_postgres
from _rows import TEAM, TOPICS, fill_postgres, fill_sqlite, topic_of
from ekiden.kernel.clock import SystemClock
from ekiden.log.migrations import read_migrations
from ekiden.log.open import open_log
from ekiden.log.port import Actor, Command

SHORT, LONG = 20_000, 2_000_000
ROUNDS, TIMES, PLACES = 8, 48, 12
FILL_S = 18.0
KEPT = Path(__file__).parents[1] / ".test-results" / "growth"
WHO = Actor("pri_00000000000000000000", "key_00000000000000000000", "bench")


async def verb(tx: Any) -> int:
    return tx.append("message.stored", {"text": "please"}, topics=(topic_of(0), "team"), actor=WHO)


async def posts(log: Any) -> list[float]:
    spent = []
    for _ in range(TIMES):
        command = Command(secrets.token_hex(8), WHO.principal_id, "d" * 64)
        began = time.perf_counter()
        await log.write(TEAM, verb, command=command)
        spent.append(time.perf_counter() - began)
    return spent


async def read_pages(log: Any, places: Sequence[tuple[str, int]]) -> list[float]:
    spent = []
    for topic, after in places:
        began = time.perf_counter()
        page = await log.events(TEAM, after, topics=[topic], limit=50)
        spent.append(time.perf_counter() - began)
        assert len(page) == 50
    return spent


def places(events: int) -> list[tuple[str, int]]:
    """Topics, and seqs from the first events to the last."""
    last = events - 50 * TOPICS - 1
    return [(topic_of(random.randrange(TOPICS)), last * number // (PLACES - 1)) for number in range(PLACES)]


async def measure(short: str, long: str, events: int) -> dict[str, float]:
    """The ratio of medians, long over short."""
    logs = {
        count: await open_log(place, clock=SystemClock(), queries={})
        for count, place in ((SHORT, short), (events, long))
    }
    at = {count: places(count) for count in logs}
    spent: dict[tuple[str, int], list[float]] = {}
    for count, log in logs.items():
        await posts(log)
        spent["cold page", count] = await read_pages(log, at[count])
    for _ in range(ROUNDS):
        for count, log in logs.items():
            spent.setdefault(("post", count), []).extend(await posts(log))
            for _ in range(TIMES // PLACES):
                spent.setdefault(("page", count), []).extend(await read_pages(log, at[count]))
    for log in logs.values():
        await log.close()
    return {
        what: percentile(spent[what, events], 0.5) / percentile(spent[what, SHORT], 0.5)
        for what in ("post", "page", "cold page")
    }


async def fill(file: Path, url: str, within_s: float) -> int:
    """Makes the long logs longer, both at once; how many events each holds at least."""
    loop = asyncio.get_running_loop()
    in_file = loop.run_in_executor(None, lambda: asyncio.run(fill_sqlite(file, LONG, within_s=within_s)))
    return min(LONG, await fill_postgres(url, LONG, within_s=within_s), await in_file)


async def figures(folder: Path, file: Path, url: str) -> tuple[int, dict[str, float]]:
    """How long the long logs are, and the four ratios."""
    events = await fill(file, url, FILL_S)
    short_file, short_url = folder / "short" / "ekiden.db", url.replace("/bench?", "/more?")
    await fill_sqlite(short_file, SHORT)
    await fill_postgres(short_url, SHORT)
    ratios: dict[str, float] = {}
    for engine, short, long in (("SQLite", str(short_file), str(file)), ("Postgres", short_url, url)):
        for what, ratio in (await measure(short, long, events)).items():
            ratios[f"{what} on {engine}"] = ratio
    return events, ratios


def main() -> None:
    schema = str(read_migrations()[-1].number)
    for other in KEPT.glob("*"):
        if other.name != schema:
            shutil.rmtree(other)
    kept = KEPT / schema
    with tempfile.TemporaryDirectory(prefix="ekiden-bench-") as folder, a_postgres(kept / "postgres") as url:
        if sys.argv[1:] == ["fill"]:
            print(uvloop.run(fill(kept / "sqlite" / "ekiden.db", url, float("inf"))), "events")
            return
        events, ratios = uvloop.run(figures(Path(folder), kept / "sqlite" / "ekiden.db", url))
    figure(
        "growth_ratio",
        max(ratio for what, ratio in ratios.items() if not what.startswith("cold")),
        "times",
        "<= 1.2",
        f"{events} events over {SHORT}: " + ", ".join(f"{what} {ratio:.2f}" for what, ratio in ratios.items()),
    )


if __name__ == "__main__":
    main()
