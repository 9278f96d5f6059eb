"""How fast session files are imported: facts, line starts, copy and search, from cold, on one core.

The rate counts seconds of processor time, so that other work on the machine does not change what is measured; the
wall time is told beside it. The floor is reading the same bytes and cutting them into lines. Files are half Claude
Code's, half Codex', with their usual share of bookkeeping.
"""

import os
import time
import uuid
from pathlib import Path

from ekiden.host.importing import import_all
from ekiden.host.lines import lines_forward, open_inside
from ekiden.host.main import vendors_here
from ekiden.host.store import Store, put_files
from ekiden.host.unpacked import Opener
from host_common import claude_file, claude_rows, codex_file, codex_rows, figure, folder

FILE_BYTES = 10_000_000
FILES_EACH = 4


def made(home: Path) -> int:
    total = 0
    for number in range(FILES_EACH):
        for path, rows in (
            (claude_file(home, str(uuid.UUID(int=number + 1))), claude_rows),
            (codex_file(home, str(uuid.UUID(int=number + 101))), codex_rows),
        ):
            size = 0
            with path.open("wb") as file:
                for row in rows(path.stem[-36:], "/bench/project", 100_000, bookkeeping_bytes=20_000, seed=number):
                    size += file.write(row)
                    if size >= FILE_BYTES:
                        break
            total += size
    return total


def main() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with folder() as base:
        home = base / "person"
        total = made(home)
        vendors = {one.name: one for one in vendors_here({"HOME": str(home), "PATH": "/usr/bin:/bin"})}
        store = Store(base / "host.db")
        opener = Opener(base / "unpacked")
        files = {name: list(vendor.discovery.files()) for name, vendor in vendors.items()}
        began = time.process_time()
        for name, vendor in vendors.items():
            for file in files[name]:
                source = open_inside(file.path, vendor.discovery.roots())
                for _ in lines_forward(source, 0, file.size):
                    pass
                source.close()
        floor = total / (time.process_time() - began) / 1e6
        for name in vendors:
            store.write(lambda connection, name=name: put_files(connection, name, files[name])).result()
        began, began_wall = time.process_time(), time.perf_counter()
        import_all(store, opener, vendors, copy_bytes_max=2**31)
        rate = total / (time.process_time() - began) / 1e6
        wall = total / (time.perf_counter() - began_wall) / 1e6
        items = store.read(lambda connection: connection.execute("SELECT COUNT(*) FROM items").fetchone()[0])
        assert items > 1000, "nothing was read out of the files"
        count = sum(map(len, files.values()))
        print(f"{total / 1e6:.0f} MB, {count} files, {items} items; {wall:.0f} MB/s by the wall clock")
        figure("index_rate", rate, "MB/s", ">=60", floor=floor, digits=1)
        opener.close()
        store.close()


if __name__ == "__main__":
    main()
