"""`relay_push_p50`, `relay_push_p99`: how long a message takes from its commit to each of 100 who follow its
channel.

From when the hub's loop is told that the post is on disk (before it does anything else with it) to when its frame
can be read at a subscriber, on the clock that all processes share. Forty posts a second by one client: a busy
channel, no flood; `fanout_100` is of floods. All 100 streams are read by one process. A frame that does not come
to each subscriber exactly once fails the run.

Floor of the same round: a bare loop that writes as many bytes to 100 plain sockets as often, read by the same
reader.
"""

import asyncio
import statistics
import time
from collections import Counter

from _hub import Served, a_hub
from _load import figure, percentile
from _relay import run_role
from ekiden.client.plain import PlainClient

CLIENTS = 100
ROUNDS = 3
COUNT = 200
PER_S = 40.0
CHANNEL = "bench"
FRAME_BYTES = 560


def pushed(hub: Served, count: int = COUNT) -> tuple[list[float], float]:
    """Milliseconds from its commit to each subscriber, for each frame; and the hub's processor time for each."""
    began_s = hub.processor_s()
    with PlainClient(f"http://127.0.0.1:{hub.port}", hub.key) as client:
        client.get("/v1/committed")
        options = {"port": hub.port, "keys": hub.keys, "clients": CLIENTS, "channel": CHANNEL}
        options["tag"] = str(time.monotonic_ns())
        came = run_role("push", {**options, "count": count, "per_s": PER_S, "posts": True})["came"]
        committed = {int(seq): at for seq, at in client.get("/v1/committed")["at"].items()}
    assert set(Counter(seq for seq, _ in came).values()) == {CLIENTS}, "a frame came twice to one, or never"
    spent_us = (hub.processor_s() - began_s) / len(came) * 1e6
    return [(at - committed[seq]) * 1e3 for seq, at in came], spent_us


def floor() -> list[float]:
    """The same of bare writes."""
    written: dict[int, float] = {}

    async def serve() -> list[tuple[int, float]]:
        writers: list[asyncio.StreamWriter] = []

        async def one(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.append(writer)

        server = await asyncio.start_server(one, "127.0.0.1", 0)
        options = {"port": server.sockets[0].getsockname()[1], "clients": CLIENTS, "channel": CHANNEL, "keys": []}
        options |= {"count": COUNT // 2, "per_s": PER_S, "posts": False}
        reading = asyncio.create_task(asyncio.to_thread(run_role, "push", options))
        while len(writers) < CLIENTS:  # noqa: ASYNC110 - they come from another process
            await asyncio.sleep(0.02)
        for number in range(COUNT // 2):
            frame = b"id: floor.%d\n%b\n\n" % (number, b"x" * FRAME_BYTES)
            written[number] = time.perf_counter()
            for writer in writers:
                writer.write(frame)
            await asyncio.sleep(1 / PER_S)
        told = await reading
        for writer in writers:
            writer.close()
        server.close()
        return told["came"]

    return [(at - written[seq]) * 1e3 for seq, at in asyncio.run(serve())]


def main() -> None:
    rounds: list[list[float]] = []
    spent_us: list[float] = []
    floors: list[list[float]] = []
    with a_hub() as hub:
        with PlainClient(f"http://127.0.0.1:{hub.port}", hub.key) as client:
            client.post("/v1/channels", {"name": CHANNEL})
        pushed(hub, 20)
        for _ in range(ROUNDS):
            times, spent = pushed(hub)
            rounds.append(times)
            spent_us.append(spent)
            floors.append(floor())

    def told(share: float) -> tuple[float, str]:
        values = [percentile(of_round, share) for of_round in rounds]
        bare = [percentile(of_round, share) for of_round in floors]
        ratio = statistics.median(value / other for value, other in zip(values, bare, strict=True))
        words = (
            f"ratio {ratio:.1f} to bare writes, {statistics.median(bare):.2f} ms; best round {min(values):.2f} ms"
        )
        words += (
            f"; {CLIENTS} subscribers, {PER_S:.0f} posts/s; processor {statistics.median(spent_us):.0f} us a frame"
        )
        return statistics.median(values), words

    p50, p99 = told(0.50), told(0.99)
    figure("relay_push_p50", p50[0], "ms", "< 2", p50[1])
    figure("relay_push_p99", p99[0], "ms", "< 15", p99[1])


if __name__ == "__main__":
    main()
