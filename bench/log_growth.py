"""`growth_ratio`: how much longer a post and a page take when the log is long, SQLite and Postgres; the worst of
four.

A post is a command with an id that appends one event; a page is fifty events of one topic of a hundred, from
somewhere in the middle. Each is measured on a log of 20,000 events and on one of 400,000, in turns: the median of
many. (Longer logs only take longer to fill: what would grow would be seen at twenty times the length.)
"""

import itertools
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop

from _load import figure, percentile
from _postgres import a_postgres
from _rows import TEAM, fill_postgres, fill_sqlite
from ekiden.kernel.clock import SystemClock
from ekiden.log.open import open_log
from ekiden.log.port import Actor, Command

SHORT, LONG = 20_000, 400_000
ROUNDS, TIMES = 8, 40
_numbers = itertools.count()
WHO = Actor("pri_00000000000000000000", "key_00000000000000000000", "bench")


async def verb(tx: Any) -> int:
    return tx.append("message.stored", {"text": "please"}, topics=("session:ses_0", "team"), actor=WHO)


async def posts(log: Any) -> list[float]:
    spent = []
    for _ in range(TIMES):
        began = time.perf_counter()
        await log.write(TEAM, verb, command=Command(f"n{next(_numbers)}", WHO.principal_id, "d" * 64))
        spent.append(time.perf_counter() - began)
    return spent


async def read_pages(log: Any, events: int) -> list[float]:
    spent = []
    for _ in range(TIMES):
        topic, after = f"session:ses_{random.randrange(100):020}", random.randrange(events // 2)
        began = time.perf_counter()
        page = await log.events(TEAM, after, topics=[topic], limit=50)
        spent.append(time.perf_counter() - began)
        assert page
    return spent


async def measure(short: str, long: str) -> dict[str, float]:
    """The ratio of medians, long over short."""
    logs = {
        events: await open_log(place, clock=SystemClock(), queries={})
        for events, place in ((SHORT, short), (LONG, long))
    }
    spent: dict[tuple[str, int], list[float]] = {}
    for _ in range(ROUNDS):
        for events, log in logs.items():
            spent.setdefault(("post", events), []).extend(await posts(log))
            spent.setdefault(("page", events), []).extend(await read_pages(log, events))
    for log in logs.values():
        await log.close()
    return {
        what: percentile(spent[what, LONG], 0.5) / percentile(spent[what, SHORT], 0.5) for what in ("post", "page")
    }


async def on_sqlite(folder: Path) -> dict[str, float]:
    await fill_sqlite(folder / "short" / "ekiden.db", SHORT)
    await fill_sqlite(folder / "long" / "ekiden.db", LONG)
    return await measure(str(folder / "short" / "ekiden.db"), str(folder / "long" / "ekiden.db"))


async def on_postgres(short: str, long: str) -> dict[str, float]:
    await fill_postgres(short, SHORT)
    await fill_postgres(long, LONG)
    return await measure(short, long)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ekiden-bench-") as folder, a_postgres() as short:
        sqlite = uvloop.run(on_sqlite(Path(folder)))
        postgres = uvloop.run(on_postgres(short, short.replace("/bench?", "/more?")))
    ratios = {f"{what} on SQLite": ratio for what, ratio in sqlite.items()}
    ratios |= {f"{what} on Postgres": ratio for what, ratio in postgres.items()}
    figure(
        "growth_ratio",
        max(ratios.values()),
        "times",
        "<= 1.2",
        f"{LONG} events over {SHORT}: " + ", ".join(f"{what} {ratio:.2f}" for what, ratio in ratios.items()),
    )


if __name__ == "__main__":
    main()
