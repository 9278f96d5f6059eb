"""`list_1000_sessions_warm`: milliseconds for the whole HTTP answer with 1,000 sessions, decoded, from a warm hub.

Floor of the same run: decoding the same bytes, which the reader has to do in any case.
"""

import asyncio
import statistics
import time

import msgspec

from _up import an_ekiden
from ekiden.client.client import Client
from ekiden.kernel.ids import Prefix, derived_id
from ekiden.sessions.wire import Feed, FeedSession, HostReport, SessionPage, SessionReport

SESSIONS = 1_000
BATCH = 250
RUNS = 15


def report(host_id: str, number: int) -> SessionReport:
    """One of many sessions, with texts of usual length."""
    native_id = f"{number:08x}-0000-4000-8000-000000000000"
    at = f"2026-01-{1 + number % 28:02}T{number % 24:02}:00:00.000Z"
    return SessionReport(
        session_id=derived_id(Prefix.SESSION, host_id, "claude", native_id),
        vendor="claude",
        native_id=native_id,
        title=f"Session {number}: look at the retry loop and say what is wrong with it",
        cwd=f"/home/person/projects/project-{number % 40}",
        project=f"/home/person/projects/project-{number % 40}",
        git_branch="main",
        model="a-model",
        vendor_version="2.1.0",
        created_at=at,
        updated_at=at,
        file=f"/home/person/.claude/projects/p/{native_id}.jsonl",
        size=100_000 + number,
        rows=200,
        messages=40,
    )


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
        f"cold {times_ms[0]:.3g} ms, {len(data) / 1e3:.0f} kB; "
        f"ratio {value / floor_ms:.1f} to decoding alone, {floor_ms:.2g} ms"
    )


if __name__ == "__main__":
    main()
