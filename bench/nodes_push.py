"""`cross_node_push_p99_nats`, `cross_node_push_p99_notify`: from a commit at node A to its event at a stream of
node B, over NATS and over the NOTIFY of Postgres.

Two nodes as processes on one Postgres; commands come one by one, so the figure is the way and not a queue. It is
from when node A hears from Postgres that it has committed (all processes of a machine share the clock) to when the
frame has arrived. Beside it, from before the command is sent.
"""

import asyncio
import json
import tempfile
import time
import urllib.request
from pathlib import Path

from _load import figure, percentile
from _nodes import a_postgres, nodes
from nodes_chaos import Way

COMMANDS = 400
EVERY_S = 0.02


async def measure(database: str, nats: str, home: Path) -> tuple[list[float], list[float]]:
    """Milliseconds from the commit, and from the command, to the other node; one of each for each command."""
    with nodes(database, nats, home, 2) as (a, b):
        a.start()
        hello = await asyncio.to_thread(a.ready)
        b.start()
        await asyncio.to_thread(b.ready)
        reader, writer = await asyncio.open_connection("127.0.0.1", b.port, limit=1 << 20)
        writer.write(
            f"GET /v1/stream?topics=team HTTP/1.1\r\nHost: 127.0.0.1:{b.port}\r\n"
            f"Authorization: Bearer {hello['key']}\r\n\r\n".encode()
        )
        while b"stream.hello" not in await reader.readline():
            pass
        way = Way([a.port], hello["key"], 0)
        began_at: dict[str, float] = {}
        arrived_at: dict[int, float] = {}
        took_ms: list[float] = []

        async def read() -> None:
            while len(took_ms) < COMMANDS:
                line = await reader.readline()
                if line.startswith(b'data: {"seq"'):
                    now = time.perf_counter()
                    event = json.loads(line[6:])
                    arrived_at[event["seq"]] = now
                    took_ms.append((now - began_at[event["body"]["text"]]) * 1000)

        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            group.create_task(read())
            for number in range(COMMANDS):
                name = f"{home.name}-{number}"
                began_at[name] = time.perf_counter()
                assert await way.post(name) is not None
                await asyncio.sleep(EVERY_S)
        committed_at = await asyncio.to_thread(ask_committed, a.port, hello["key"])
        pushed_ms = [(at - committed_at[seq]) * 1000 for seq, at in arrived_at.items()]
        way.leave()
        writer.close()
        a.stop()
        b.stop()
    return pushed_ms, took_ms


def ask_committed(port: int, key: str) -> dict[int, float]:
    """When the node heard of each commit."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/committed", headers={"Authorization": f"Bearer {key}"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return {int(seq): at for seq, at in json.load(answer)["at"].items()}


def main() -> None:
    from nats_server import NatsServer

    with tempfile.TemporaryDirectory() as home, a_postgres() as (_, database), NatsServer() as nats:
        by_nats = asyncio.run(measure(database, nats.url, Path(home, "nats")))
        by_notify = asyncio.run(measure(database, "", Path(home, "notify")))
    for name, bar, (pushed_ms, took_ms) in (
        ("cross_node_push_p99_nats", 25, by_nats),
        ("cross_node_push_p99_notify", 60, by_notify),
    ):
        figure(
            name,
            percentile(pushed_ms, 0.99),
            "ms",
            f"< {bar}",
            f"p50 {percentile(pushed_ms, 0.5):.1f} ms, {len(pushed_ms)} commands; from the command "
            f"p50 {percentile(took_ms, 0.5):.1f} ms, p99 {percentile(took_ms, 0.99):.1f} ms",
        )


FIGURES = "figure: cross_node_push_p99_nats=, figure: cross_node_push_p99_notify="
"""Named here, since the lines are put together above."""


if __name__ == "__main__":
    main()
