"""How long it takes from a line on disk to a client of the hub's stream, the whole real way: file, kernel, host,
feed, log on disk, stream.

The floor is the bare way: a write to a file that the kernel tells a program about, and a write that is made
durable on the same disk.
"""

import asyncio
import contextlib
import os
import time
import uuid
from pathlib import Path

from ekiden.client.client import Client
from ekiden.host.main import Host, HostSettings, vendors_here
from ekiden.host.watch import Watcher
from ekiden.hub.serve import start_serving
from ekiden.hub.settings import Settings
from ekiden.hub.wiring import open_hub
from ekiden.kernel.clock import SystemClock
from host_common import claude_file, claude_rows, figure, folder, percentile

LINES = 150
PAUSE_S = 0.04


async def floor_ms(base: Path) -> float:
    heard = asyncio.Event()
    watcher = Watcher(lambda _: heard.set())
    watcher.add([base])
    taken: list[float] = []
    with (base / "floor").open("ab", buffering=0) as file, (base / "durable").open("ab", buffering=0) as durable:
        for _ in range(LINES):
            heard.clear()
            began = time.perf_counter()
            file.write(b"x\n")
            await heard.wait()
            durable.write(b"x" * 500)
            os.fdatasync(durable.fileno())
            taken.append((time.perf_counter() - began) * 1e3)
    watcher.close()
    return percentile(taken, 0.95)


async def main() -> None:
    with folder() as base:
        home = base / "person"
        session = str(uuid.UUID(int=7))
        path = claude_file(home, session)
        rows = [
            row
            for row in claude_rows(session, "/bench/project", LINES + 20, bookkeeping_bytes=300)
            if b'"type": "assistant"' in row and b'"type": "text"' in row
        ]
        path.write_bytes(b"".join(claude_rows(session, "/bench/project", 20, bookkeeping_bytes=20_000, seed=1)))
        for number in range(50):
            other = str(uuid.UUID(int=number + 100))
            claude_file(home, other).write_bytes(
                b"".join(claude_rows(other, "/bench/project", 3, bookkeeping_bytes=2_000, seed=number))
            )
        settings = Settings(home=base / "hub", port=0)
        serving = await start_serving(await open_hub(settings, SystemClock()))
        client = Client(f"http://127.0.0.1:{serving.port}", settings.local_key.read_text().strip())
        made = await client.post("/v1/keys", {"name": "desk", "kind": "host"})
        environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
        host_client = Client(client.url, made["key"])
        host = Host(
            HostSettings(base / "desk", "desk", environment, vendors_here(environment)),
            host_client,
            made["host_id"],
        )
        running = asyncio.create_task(host.run())
        session_id = ""
        while not session_id:
            found = (await client.get("/v1/sessions", limit=100))["sessions"]
            if len(found) >= 51:
                session_id = next(
                    one["report"]["session_id"] for one in found if one["report"]["native_id"] == session
                )
            await asyncio.sleep(0.05)
        await asyncio.sleep(2)
        floor = await floor_ms(base)
        arrived: asyncio.Queue[float] = asyncio.Queue()

        async def follow() -> None:
            async with client.stream(f"session:{session_id}") as frames:
                async for frame in frames:
                    if frame.kind == "stream.hello":
                        arrived.put_nowait(0.0)
                    elif frame.kind == "items.added":
                        arrived.put_nowait(time.perf_counter())

        following = asyncio.create_task(follow())
        await arrived.get()
        taken: list[float] = []
        with path.open("ab", buffering=0) as file:
            for row in rows[:LINES]:
                began = time.perf_counter()
                file.write(row)
                taken.append((await asyncio.wait_for(arrived.get(), 5) - began) * 1e3)
                await asyncio.sleep(PAUSE_S)
        print(
            f"{len(taken)} lines, one by one; p50 {percentile(taken, 0.5):.1f} ms, all in one process on loopback"
        )
        figure("mirror_append_to_subscriber_p95", percentile(taken, 0.95), "ms", "<60", floor=floor)
        for task in (following, running):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await host_client.close()
        await client.close()
        await serving.stop()


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
