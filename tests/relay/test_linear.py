"""Status and leases under clients that come at once, through the real door: one order explains what they saw."""

import contextlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ekiden.client.plain import PlainClient
from ekiden.kernel.errors import Conflict, NotFound
from relay.linear import Operation, linearizable

CLIENTS = 6
OPERATIONS = 40
"""Of each client."""

PROGRAM = """
import asyncio, json, sys
from pathlib import Path
from ekiden.hub.serve import serve
from ekiden.hub.settings import Settings
from ekiden.hub.wiring import open_hub
from ekiden.kernel.clock import SystemClock

async def main():
    hub = await open_hub(Settings(Path(sys.argv[1]), port=0, database_url=sys.argv[2]), SystemClock())
    await serve(hub, started=lambda serving: print(json.dumps({"port": serving.port}), flush=True))

asyncio.run(main())
"""


@contextlib.contextmanager
def hub_of(home: Path, database_url: str) -> Iterator[tuple[str, str]]:
    """A hub in a process of its own: its address, and its owner's key."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(home), database_url],
        stdout=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "HOME": str(home.parent)},
    )
    try:
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["port"]
        yield f"http://127.0.0.1:{port}", (home / "local.key").read_text().strip()
    finally:
        process.terminate()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture(params=["sqlite", "postgres"])
def door(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    database_url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""
    with hub_of(tmp_path / "data", database_url) as served:
        with contextlib.closing(PlainClient(*served)) as client:
            client.post("/v1/channels", {"name": "build"})
        yield served


def at_once(
    door: tuple[str, str], seed: int, act: Callable[..., tuple[Any, Any, Any]]
) -> dict[str, list[Operation]]:
    """What each of several clients did to each of a few names, as they saw it."""
    histories: dict[str, list[Operation]] = {}
    failed: list[BaseException] = []
    together = threading.Barrier(CLIENTS)

    def run(number: int) -> None:
        chance = random.Random(seed * CLIENTS + number)
        client, memory = PlainClient(*door), dict[str, int]()
        try:
            together.wait(30)
            for step in range(OPERATIONS):
                name = chance.choice(("one", "two"))
                called_at = time.perf_counter()
                asked, answer = act(client, name, chance, memory, f"{number}.{step}")
                done = Operation(called_at, time.perf_counter(), asked, answer)
                histories.setdefault(name, []).append(done)
        except BaseException as error:
            failed.append(error)
        finally:
            client.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failed, f"seed {seed}: {failed}"
    return histories


# --- status: a register with compare-and-set ----------------------------------------------------------------


def write_status(
    client: PlainClient, name: str, chance: random.Random, memory: dict[str, int], value: str
) -> tuple[Any, Any]:
    """One operation on a key: (what was asked, what was answered)."""
    place = f"/v1/channels/build/status/{name}"
    kind = chance.choice(("read", "set", "swap", "swap"))
    if kind == "read":
        try:
            shown = client.get(place)
        except NotFound:
            return ("read",), (0, None)
        memory[name] = shown["version"]
        return ("read",), (shown["version"], shown["value"])
    if kind == "set":
        shown = client.put(place, {"value": value})
        return ("set", value), shown["version"]
    expected = memory.get(name, 0)
    try:
        shown = client.put(place, {"value": value, "if_version": expected})
    except Conflict as error:
        memory[name] = int(str(error.details["version"]))
        return ("swap", expected, value), ("moved", error.details["version"])
    memory[name] = shown["version"]
    return ("swap", expected, value), ("done", shown["version"])


def register(state: tuple[int, str | None], asked: Any, answer: Any) -> tuple[int, str | None] | None:
    """The model: a version that grows by one with each value."""
    version, _ = state
    match asked:
        case ("read",):
            return state if answer == state else None
        case ("set", value):
            return (version + 1, value) if answer == version + 1 else None
        case ("swap", expected, value):
            if expected != version:
                return state if answer == ("moved", version) else None
            return (version + 1, value) if answer == ("done", version + 1) else None
    raise AssertionError(asked)


# --- leases: a lock with a fence ----------------------------------------------------------------------------


def use_lease(
    client: PlainClient, name: str, chance: random.Random, memory: dict[str, int], _: str
) -> tuple[Any, Any]:
    """One operation on a lease."""
    place = f"/v1/channels/build/leases/{name}"
    fence = memory.get(name, 0)
    if fence and chance.random() < 0.6:
        kind = chance.choice(("renew", "release"))
        try:
            if kind == "renew":
                client.put(place, {"lease_s": 600, "fence": fence})
            else:
                client.delete(place, {"fence": fence})
        except Conflict:
            return (kind, fence), "gone"
        if kind == "release":
            # Sometimes the old fence is kept, and tried again when it is nobody's or another's.
            memory[name] = 0 if chance.random() < 0.7 else fence
        return (kind, fence), "done"
    try:
        taken = client.put(place, {"lease_s": 600})
    except Conflict:
        return ("take",), "held"
    memory[name] = taken["fence"]
    return ("take",), taken["fence"]


def lock(state: tuple[int, bool], asked: Any, answer: Any) -> tuple[int, bool] | None:
    """The model: a fence that grows by one with each holder."""
    fence, held = state
    match asked:
        case ("take",):
            if held:
                return state if answer == "held" else None
            return (fence + 1, True) if answer == fence + 1 else None
        case ("renew" | "release" as kind, with_fence):
            if not held or with_fence != fence:
                return state if answer == "gone" else None
            if answer != "done":
                return None
            return (fence, kind == "renew")
    raise AssertionError(asked)


@pytest.mark.parametrize(
    ("act", "first", "model"),
    [(write_status, (0, None), register), (use_lease, (0, False), lock)],
    ids=["status", "leases"],
)
def test_one_order_explains_what_all_saw(door: tuple[str, str], act: Any, first: Any, model: Any) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    histories = at_once(door, seed, act)
    assert sum(len(history) for history in histories.values()) == CLIENTS * OPERATIONS
    for name, history in histories.items():
        overlapping = sum(
            one.called_at < other.called_at < one.returned_at for one in history for other in history
        )
        assert overlapping, f"seed {seed}: nobody came at once to {name}"
        assert linearizable(history, first, model), f"seed {seed}: no order explains what was seen of {name}"


# --- the checker itself -------------------------------------------------------------------------------------


def seen(called_at: float, returned_at: float, asked: Any, answer: Any) -> Operation:
    return Operation(called_at, returned_at, asked, answer)


def test_the_checker_finds_an_order_where_there_is_one() -> None:
    history = [
        seen(0, 9, ("set", "a"), 2),
        seen(1, 8, ("set", "b"), 1),
        seen(2, 3, ("read",), (1, "b")),
        seen(4, 5, ("read",), (2, "a")),
    ]
    assert linearizable(history, (0, None), register)


@pytest.mark.parametrize(
    "history",
    [
        [seen(0, 1, ("set", "a"), 1), seen(2, 3, ("read",), (0, None))],
        [seen(0, 9, ("swap", 0, "a"), ("done", 1)), seen(0, 9, ("swap", 0, "b"), ("done", 1))],
        [seen(0, 9, ("set", "a"), 1), seen(1, 2, ("read",), (1, "a")), seen(3, 4, ("read",), (0, None))],
        [seen(0, 1, ("set", "a"), 2)],
    ],
    ids=["a stale read", "two winners", "back in time", "a gap"],
)
def test_the_checker_finds_none_where_there_is_none(history: list[Operation]) -> None:
    assert not linearizable(history, (0, None), register)


def test_two_holders_are_found() -> None:
    assert not linearizable([seen(0, 5, ("take",), 1), seen(0, 5, ("take",), 2)], (0, False), lock)
    assert not linearizable([seen(0, 5, ("take",), 1), seen(0, 5, ("take",), 1)], (0, False), lock)
