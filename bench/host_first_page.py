"""How fast the newest page of a session of 1 GB opens, not imported yet, and what memory that takes.

The floor is reading the last 256 KiB of the file.
"""

import json
import os
import re
import time
import uuid
from pathlib import Path

from ekiden.host.main import vendors_here
from ekiden.host.pages import Pages
from ekiden.host.store import Store, put_files
from ekiden.host.unpacked import Opener
from host_common import claude_file, claude_rows, figure, folder, percentile

FILE_BYTES = 1_000_000_000
TRIES = 20


def made(path: Path, session: str) -> None:
    """Repeats a block of turns with other ids each time, so that no item is there twice."""
    block = b"".join(claude_rows(session, "/bench/project", 200, bookkeeping_bytes=20_000))
    size = number = 0
    with path.open("wb") as file:
        while size < FILE_BYTES:
            mark = f"{number:04d}".encode()
            size += file.write(re.sub(rb'"(m|t|s|r-m)(\d+)', rb'"\g<1>' + mark + rb"\2", block))
            number += 1


def resident_mb() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    with folder() as base:
        home = base / "person"
        session = str(uuid.UUID(int=7))
        path = claude_file(home, session)
        made(path, session)
        vendors = {one.name: one for one in vendors_here({"HOME": str(home), "PATH": "/usr/bin:/bin"})}
        store = Store(base / "host.db")
        opener = Opener(base / "unpacked")
        pages = Pages(store, opener, vendors.__getitem__)
        found = list(vendors["claude"].discovery.files())
        [row] = store.write(lambda connection: put_files(connection, "claude", found)).result()
        before = resident_mb()
        taken: list[float] = []
        for _ in range(TRIES):
            began = time.perf_counter()
            page = pages.page(row, limit=50)
            taken.append((time.perf_counter() - began) * 1e3)
            assert len(page.items) == 50
        grown = resident_mb() - before
        older: list[float] = []
        for _ in range(TRIES):
            began = time.perf_counter()
            page = pages.page(row, before=page.before, limit=50)
            older.append((time.perf_counter() - began) * 1e3)
        floors: list[float] = []
        for _ in range(TRIES):
            began = time.perf_counter()
            with path.open("rb") as file:
                file.seek(-256 * 1024, 2)
                file.read()
            floors.append((time.perf_counter() - began) * 1e3)
        print(
            f"{path.stat().st_size / 1e9:.2f} GB; page of {len(json.dumps([i.id for i in page.items]))} id bytes"
        )
        figure("first_page_1gb", taken[0], "ms", "<50", floor=percentile(floors, 0.5))
        figure("first_page_1gb_p95", percentile(taken, 0.95), "ms", "<50")
        figure("older_page_1gb_p95", percentile(older, 0.95), "ms", "<50")
        figure("first_page_1gb_memory", grown, "MB", "<50")
        opener.close()
        store.close()


if __name__ == "__main__":
    main()
