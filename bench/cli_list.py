"""`list_1000_sessions_warm`: milliseconds for the whole HTTP answer with 1,000 sessions, decoded, from a warm hub.

Floor of the same run: decoding the same bytes, which the reader has to do in any case.
"""

import asyncio
import statistics
import time

import msgspec

from _hub import report
from _up import an_ekiden
from ekiden.client.client import Client
from ekiden.sessions.wire import Feed, FeedSession, HostReport, SessionPage

SESSIONS = 1_000
BATCH = 250
RUNS = 15


def greet(url: str, key: str, path: str) -> None:
    """A host says what it is."""

    async def greeting() -> None:
        async with Client(url, key) as client:
            await client.put(path, HostReport("many", "Linux", "0"))

    asyncio.run(greeting())


def main() -> None:
    with an_ekiden("--no-host") as up, up.client() as client:
        made = client.post("/v1/keys", {"name": "many", "kind": "host"})
        host_id, client.key = made["host_id"], made["key"]
        request = f"/v1/hosts/{host_id}"
        greet(up.url, client.key, request)
        for start in range(0, SESSIONS, BATCH):
            entries = tuple(FeedSession(report(host_id, number)) for number in range(start, start + BATCH))
            client.post(f"{request}/feed", Feed(entries), command_id="")
        client.key = up.key
        times_ms: list[float] = []
        for _ in range(RUNS):
            started = time.perf_counter()
            page = client.get("/v1/sessions", type=SessionPage, limit=SESSIONS)
            times_ms.append((time.perf_counter() - started) * 1e3)
            assert len(page.sessions) == SESSIONS
    data = msgspec.json.encode(page)
    started = time.perf_counter()
    msgspec.json.decode(data, type=SessionPage)
    floor_ms = (time.perf_counter() - started) * 1e3
    value = statistics.median(times_ms[1:])
    print(
        f"figure: list_1000_sessions_warm={value:.3g} ms (bar < 300) "
        f"p95 {sorted(times_ms[1:])[-2]:.3g} ms, cold {times_ms[0]:.3g} ms, {len(data) / 1e3:.0f} kB; "
        f"ratio {value / floor_ms:.1f} to decoding alone, {floor_ms:.2g} ms"
    )


if __name__ == "__main__":
    main()
