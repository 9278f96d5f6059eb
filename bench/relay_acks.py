"""`acks_5000_agents`: `GET /v1/channels/{channel}/acks?message=…`, who has not acked a message among 5,000
members.

From sending the request to the decoded answer, over one connection kept open. The answer is a page of 20 who lag
and counts; its size is compared in channels of 50, 500 and 5,000, of whom every tenth has acked. It may differ by
no more than the digits of the counts. Floor of the same run: `GET` of one message, the smallest read of the same
room.
"""

import statistics
import time
from collections.abc import Callable

import msgspec

from _hub import a_hub
from _load import figure, percentile
from ekiden.client.plain import PlainClient

SIZES = (50, 500, 5_000)
MESSAGES = 20
CALLS = 200
PAGE = 20
DIGITS = 16
"""How much longer the counts of a large channel are spelled."""


def times_ms(call: Callable[[], object]) -> list[float]:
    """Milliseconds of each of many calls."""
    times: list[float] = []
    for _ in range(CALLS):
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1e3)
    return times


def main() -> None:
    taken: dict[int, list[float]] = {}
    sizes: dict[int, int] = {}
    with a_hub() as hub, PlainClient(f"http://127.0.0.1:{hub.port}", hub.key) as client:
        path = "/v1/channels/crowd-{}".format
        posted: dict[int, list[str]] = {}
        for size in SIZES:
            client.post("/v1/channels", {"name": f"crowd-{size}"})
            texts = [{"text": f"message {number}"} for number in range(MESSAGES)]
            messages = [client.post(f"{path(size)}/messages", text)["message"] for text in texts]
            posted[size] = [message["message_id"] for message in messages]
            client.post("/v1/crowd", {"channel": f"crowd-{size}", "count": size})
        for size in SIZES:

            def ask(size: int = size) -> dict[str, object]:
                return client.get(f"{path(size)}/acks", message=posted[size][-1], limit=PAGE)

            found = ask()
            assert found["acked"] == size // 10 + 1, found  # with who sent it
            assert len(found["lagging"]) == PAGE, found
            sizes[size] = len(msgspec.json.encode(found))
            taken[size] = times_ms(ask)
        largest = SIZES[-1]
        bare = times_ms(lambda: client.get(f"{path(largest)}/messages/{posted[largest][-1]}"))
    assert max(sizes.values()) - min(sizes.values()) <= DIGITS, f"the answer grows: {sizes}"
    told = ", ".join(
        f"{statistics.median(taken[size]):.2f} ms and {sizes[size]} bytes of {size}" for size in SIZES
    )
    value = statistics.median(taken[largest])
    figure(
        "acks_5000_agents",
        value,
        "ms",
        "< 5",
        f"ratio {value / statistics.median(bare):.2f} to reading one message, {statistics.median(bare):.2f} ms; "
        f"p95 {percentile(taken[largest], 0.95):.2f} ms; {told}",
    )


if __name__ == "__main__":
    main()
