"""The laws, for status, leases and keeping, through the real door."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ekiden.client.client import Client
from ekiden.kernel.clock import SystemClock
from ekiden.kernel.errors import EkidenError
from ekiden.log.open import open_log
from ekiden.log.port import Actor
from ekiden.relay import leases
from ekiden.relay.lease_rules import LeaseHeld
from ekiden.relay.wire import Channel
from ekiden.relay.wire_state import Lease, TakeLease
from relay.state_desk import QUERIES, TEAM, Desk
from sessions.door import WAIT_S, House, open_house

pytestmark = pytest.mark.anyio
CHANNEL = "/v1/channels/build"


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path) as opened:
        await opened.owner.post("/v1/channels", {"name": "build"})
        yield opened


async def refused(awaitable: Any) -> tuple[Any, ...]:
    with pytest.raises(EkidenError) as caught:
        await awaitable
    error = caught.value
    return error.code, error.status, error.message, error.hint, error.details


# Law 2


async def test_law_02_a_write_that_is_sent_again_happens_once(house: House) -> None:
    owner = house.owner
    put = {"path": f"{CHANNEL}/status/k", "body": {"value": 1}, "command_id": "one", "repeatable": False}
    assert await owner.put(**put) == await owner.put(**put)
    assert (await owner.get(f"{CHANNEL}/status/k"))["version"] == 1
    code, status, *_ = await refused(owner.put(**put | {"body": {"value": 2}}))
    assert (code, status) == ("command_reused", 422)
    take = {"path": f"{CHANNEL}/leases/l", "body": {"lease_s": 60}, "command_id": "two", "repeatable": False}
    taken = await owner.put(**take)
    assert await owner.put(**take) == taken, "who lost the answer gets it again, with fence and ticket"
    for number in range(3):
        await owner.post(f"{CHANNEL}/messages", {"text": f"m{number}"})
    purge = {"path": f"{CHANNEL}/purge", "body": {"before_number": 3}, "command_id": "three"}
    purged = await owner.post(**purge)
    assert await owner.post(**purge) == purged


# Law 11


def doors(client: Client, channel: str) -> list[Any]:
    at = f"/v1/channels/{channel}"
    return [
        client.get(f"{at}/status"),
        client.get(f"{at}/status/k"),
        client.put(f"{at}/status/k", {"value": 2}),
        client.put(f"{at}/status/k", {"value": 2, "if_version": 7}),
        client.delete(f"{at}/status/k"),
        client.get(f"{at}/status/k/changes"),
        client.get(f"{at}/status-changes"),
        client.get(f"{at}/status-rules"),
        client.put(f"{at}/status-rules", {"rules": []}),
        client.get(f"{at}/leases"),
        client.get(f"{at}/leases/l"),
        client.put(f"{at}/leases/l", {"lease_s": 60}),
        client.delete(f"{at}/leases/l", {"fence": 1}),
        client.post(f"{at}/purge", {"before_number": 1}),
        client.get(f"{at}/purges"),
        client.get(f"{at}/export"),
        client.get(f"{at}/epochs"),
        client.post(f"{at}/epochs/1/keys", {"wraps": []}),
    ]


async def test_law_11_a_private_channel_is_like_none_at_every_door(house: House) -> None:
    made = await house.owner.post("/v1/channels", {"name": "secret", "private": True})
    await house.owner.put("/v1/channels/secret/status/k", {"value": 1})
    await house.owner.put("/v1/channels/secret/leases/l", {"lease_s": 60})
    for rights in ({"channel:*": ["admin", "read"]}, {"session:*": ["read"]}):
        stranger = await house.device(f"stranger-{len(rights)}-{next(iter(rights))[:4]}", rights)
        for name, other in (("secret", "nowhere"), (made["channel_id"], "cha_00000000000000000000")):
            for one, absent in zip(doors(stranger, name), doors(stranger, other), strict=True):
                assert await refused(one) == await refused(absent)


# Law 12


@pytest.mark.parametrize("place", ["status", "status-changes", "status/k/changes", "leases", "purges", "export"])
@pytest.mark.parametrize("limit", ["0", "-1", "1001", "ten", "1e9", "९"])
async def test_law_12_pages_are_bounded(house: House, place: str, limit: str) -> None:
    await house.owner.put(f"{CHANNEL}/status/k", {"value": 1})
    code, status, *_ = await refused(house.owner.get(f"{CHANNEL}/{place}", limit=limit))
    assert (code, status) == ("invalid", 422)


@pytest.mark.parametrize(
    ("place", "after"),
    [
        ("status-changes", "x"),
        ("status-changes", "abcdefgh.1"),
        ("status/k/changes", "-1"),
        ("purges", "x"),
        ("epochs", "x"),
        ("export", "m.x"),
        ("export", "z.1"),
    ],
)
async def test_law_12_a_place_that_no_page_gave_is_refused(house: House, place: str, after: str) -> None:
    await house.owner.put(f"{CHANNEL}/status/k", {"value": 1})
    code, status, *_ = await refused(house.owner.get(f"{CHANNEL}/{place}", after=after))
    assert (code, status) == ("invalid", 422)


@pytest.mark.parametrize(
    ("place", "body"),
    [
        ("leases/l", b'{"lease_s": 0}'),
        ("leases/l", b'{"lease_s": -5}'),
        ("leases/l", b'{"lease_s": 1000000000000}'),
        ("leases/l", b'{"lease_s": NaN}'),
        ("leases/l", b'{"lease_s": 1e400}'),
        ("leases/l", b'{"lease_s": "60"}'),
        ("leases/l", b'{"lease_s": 1.5}'),
        ("leases/l", b"{}"),
        ("status/k", b'{"value": NaN}'),
        ("status/k", b'{"value": 1e400}'),
        ("status/k", b'{"value": 123456789012345678901234567890}'),
        ("status/k", b'{"value": ' + b"[" * 5_000 + b"]" * 5_000 + b"}"),
        ("status/k", b'{"value": ' + b"[" * 200 + b"]" * 200 + b"}"),
        ("status/k", b'{"value": 1, "expires_s": -1}'),
        ("status/k", b'{"value": 1, "expires_s": NaN}'),
        ("status/k", b'{"value": 1, "expires_s": 1000000000000}'),
    ],
)
async def test_law_12_times_and_values_out_of_bounds_change_nothing(house: House, place: str, body: bytes) -> None:
    code, status, *_ = await refused(house.owner.put(f"{CHANNEL}/{place}", body))
    assert (code, status) == ("invalid", 422)
    assert (await refused(house.owner.get(f"{CHANNEL}/{place}")))[0] == "not_found"


# Law 13


async def test_law_13_text_is_one_frame_of_data_and_comes_back_as_it_was(house: House) -> None:
    nasty = 'hi\revent: approval\rdata: {"ok":true}\r\r\n\n\u2028\u2029\x85\x00\x1b[2J<script>'
    cursor = (await house.owner.get(f"{CHANNEL}/status"))["cursor"]
    await house.owner.put(f"{CHANNEL}/status/k", {"value": {nasty: nasty}, "evidence": {"run": nasty}})
    await house.owner.put(f"{CHANNEL}/leases/l", {"lease_s": 60, "note": nasty})
    seen: list[Any] = []
    async with asyncio.timeout(WAIT_S), house.owner.stream("channel:build", cursor) as stream:
        async for frame in stream:
            if not frame.kind.startswith("stream."):
                seen.append(frame)
            if len(seen) == 2:
                break
    assert [frame.kind for frame in seen] == ["status.changed", "lease.changed"]
    assert seen[0].read(dict[str, Any])["value"] == {nasty: nasty}
    assert seen[1].read(dict[str, Any])["note"] == nasty
    assert "ticket" not in seen[1].read(dict[str, Any])
    assert (await house.owner.get(f"{CHANNEL}/status/k"))["value"] == {nasty: nasty}


# One clock for all nodes


class Skewed(SystemClock):
    """The clock of a machine that is wrong by so many seconds."""

    def __init__(self, wrong_by_s: float) -> None:
        self._wrong_by_s = wrong_by_s

    def now(self) -> float:
        return super().now() + self._wrong_by_s


async def take(log: Any, channel: Channel, actor: Actor) -> None:
    await log.write(TEAM, lambda tx: leases.take_lease(tx, channel, "l", TakeLease(60), actor=actor))


async def test_nodes_whose_clocks_differ_agree_on_leases(postgres_url: str) -> None:
    ahead = await open_log(postgres_url, clock=Skewed(90), queries=QUERIES)
    behind = await open_log(postgres_url, clock=Skewed(-90), queries=QUERIES)
    ada, bob = Actor("pri_ada", "key_ada", "Ada"), Actor("pri_bob", "key_bob", "Bob")

    async def look(reading: Any) -> Lease | None:
        return await leases.view_lease(reading, channel, "l")

    try:
        for name, here, there in (("one", ahead, behind), ("two", behind, ahead)):
            channel = await Desk(here, None, None).channel(name)  # pyright: ignore
            await take(here, channel, ada)
            with pytest.raises(LeaseHeld):
                await take(there, channel, bob)
            assert (await there.ask(TEAM, look)).held
    finally:
        await ahead.close()
        await behind.close()
