"""`inbox_10k_unread`: milliseconds for a call of the inbox tool by an agent with 10,000 unread messages in 20
channels, 400 of which mention it, half of these with a question: from the call to its text.

With each of several budgets the text is held to it to the character, and what is shown and what is said to be left
out must make up all 400. The hub is a process of its own. Floor of the same run: the same page of mentions as the
door gives it, bare.
"""

import asyncio
import re
import statistics
import time

from _hub import a_hub
from _load import figure
from ekiden.client.client import Client
from ekiden.mcp.desk import Desk, PlainVoice
from ekiden.mcp.tools import call

CHANNELS = 20
UNREAD = 10_000
MENTIONS = 400
CALLS = 40
BUDGETS = (100, 300, 1_500, 8_000)
AT_ONCE = 16


async def fill(owner: Client, reader: Client) -> None:
    """The channels with their messages."""
    for number in range(CHANNELS):
        await owner.post("/v1/channels", {"name": f"c{number}"})
        await reader.put(f"/v1/channels/c{number}/members/me", {})
    numbers = iter(range(UNREAD))

    async def post() -> None:
        for number in numbers:
            mentions = number % (UNREAD // MENTIONS) == 0
            body = {
                "text": f"{'@reader ' if mentions else ''}message {number} {'with some words ' * 8}",
                "asks": "answer" if mentions and number % (2 * UNREAD // MENTIONS) == 0 else "",
            }
            await owner.post(f"/v1/channels/c{number % CHANNELS}/messages", body)

    await asyncio.gather(*(post() for _ in range(AT_ONCE)))


def check(text: str, budget: int) -> None:
    """The reply is within its budget, and nothing is missing without being counted."""
    assert len(text) <= budget * 4, (len(text), budget)
    shown = len(re.findall(r"^\[#", text, re.MULTILINE))
    left = re.search(r"(\d+) more mention", text)
    assert left is not None
    assert shown + int(left[1]) == MENTIONS, (shown, left[0])
    assert f"{UNREAD} unread in {CHANNELS} channels" in text


async def measured(url: str, key: str) -> None:
    owner = Client(url, key)
    made = await owner.post("/v1/keys", {"name": "reader", "kind": "agent"})
    reader = Client(url, made["key"])
    await fill(owner, reader)
    desk = Desk(reader, PlainVoice(reader))
    for budget in BUDGETS:
        check((await call(desk, "inbox", {"budget": budget})).text, budget)
    taken: list[float] = []
    bare: list[float] = []
    for _ in range(CALLS):
        began = time.perf_counter()
        await call(desk, "inbox", {})
        taken.append((time.perf_counter() - began) * 1e3)
        began = time.perf_counter()
        await reader.get_bytes("/v1/mentions", limit=50)
        bare.append((time.perf_counter() - began) * 1e3)
    await owner.close()
    await reader.close()
    value, floor = statistics.median(taken), statistics.median(bare)
    more = f"worst {max(taken):.3g} ms; ratio {value / floor:.2f} to the door's own page, {floor:.3g} ms"
    figure("inbox_10k_unread", value, "ms", "< 20", f"{more}; within budgets {BUDGETS} to the character")


def main() -> None:
    with a_hub() as hub:
        asyncio.run(measured(f"http://127.0.0.1:{hub.port}", hub.key))


if __name__ == "__main__":
    main()
