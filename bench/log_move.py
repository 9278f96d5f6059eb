"""`move_rate`: events per second that move from a file into Postgres, with all that belongs to them, verified.

The source has 60,000 events on two topics each, and their commands' answers. The time is that of the whole move:
read, copied piece by piece, read again and compared.
"""

import asyncio
import tempfile
import time
from pathlib import Path

from _load import figure
from _postgres import a_postgres
from _rows import fill_sqlite
from ekiden.log.move import copy_in

EVENTS = 60_000


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ekiden-bench-") as folder, a_postgres() as url:
        source = Path(folder) / "data" / "ekiden.db"
        asyncio.run(fill_sqlite(source, EVENTS))
        began = time.perf_counter()
        moved = asyncio.run(copy_in(source, url))
        took_s = time.perf_counter() - began
    assert moved.events == EVENTS
    rows = sum(moved.rows.values())
    figure(
        "move_rate", EVENTS / took_s, "events/s", ">= 20000", f"{rows} rows in {took_s:.1f} s, verified, 0 differ"
    )


if __name__ == "__main__":
    main()
