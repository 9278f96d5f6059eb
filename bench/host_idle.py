"""What `ekiden up` takes while nothing happens: resident memory and processor share, with 200 sessions mirrored.

The floor is a bare Python process with the same libraries loaded.
"""

import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

from host_common import claude_file, claude_rows, figure, folder

SESSIONS = 200
SETTLE_S = 8.0
WATCH_S = 5.0
LIBRARIES = "import uvicorn, uvloop, httptools, h11, msgspec, zstandard, sqlite3, time"


def resident_mb(pid: int) -> float:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def processor_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(one) for one in file.read().split()]


def main() -> None:
    with folder() as base:
        home = base / "person"
        for number in range(SESSIONS):
            session = str(uuid.UUID(int=number + 1))
            path = claude_file(home, session, f"-bench-{number % 10}")
            rows = claude_rows(session, f"/bench/{number % 10}", 4, bookkeeping_bytes=20_000, seed=number)
            path.write_bytes(b"".join(rows))
        environment = {
            "HOME": str(home),
            "PATH": "/usr/bin:/bin",
            "EKIDEN_HOME": str(base / "ekiden"),
            "LANG": "C.UTF-8",
        }
        bare = subprocess.Popen(
            [sys.executable, "-c", f"{LIBRARIES}; print(1, flush=True); time.sleep(60)"], stdout=-1
        )
        up = subprocess.Popen(
            [sys.executable, "-m", "ekiden.cli", "up", "--json", "--port", "0", "--no-open"],
            env=environment,
            stdout=subprocess.PIPE,
        )
        try:
            assert bare.stdout is not None
            assert up.stdout is not None
            bare.stdout.readline()
            floor = resident_mb(bare.pid)
            ready = json.loads(up.stdout.readline())
            key = Path(ready["home"], "local.key").read_text().strip()
            total = wait_for_sessions(ready["url"], key)
            time.sleep(SETTLE_S)
            began = processor_s(up.pid)
            time.sleep(WATCH_S)
            share = (processor_s(up.pid) - began) / WATCH_S * 100
            print(f"{total} sessions; processes beside it: {len(children(up.pid))}")
            figure("idle_rss", resident_mb(up.pid), "MB", "<90", floor=floor, digits=1)
            figure("idle_processor", share, "%", "<2")
        finally:
            for process in (up, bare):
                process.terminate()
                process.wait(20)
                assert process.stdout is not None
                process.stdout.close()


def wait_for_sessions(url: str, key: str) -> int:
    from ekiden.client.plain import PlainClient

    client = PlainClient(url, key)
    deadline = time.monotonic() + 25
    total = 0
    while total < SESSIONS and time.monotonic() < deadline:
        time.sleep(0.2)
        total = client.get("/v1/sessions", limit=1)["total"]
    client.close()
    return total


if __name__ == "__main__":
    main()
