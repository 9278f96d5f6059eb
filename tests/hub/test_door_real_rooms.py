"""The door before the real rooms: pairing, revoking and a host's coming and going, as a client meets them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ekiden.hub import hosts
from ekiden.hub.settings import Settings
from ekiden.hub.wiring import open_hub
from ekiden.kernel.clock import SystemClock
from ekiden.kernel.ids import Prefix, derived_id
from ekiden.testing.bridge import Bridge
from hub.door_kit import House, KeyRing, until

pytestmark = pytest.mark.anyio


class RealHouse(House):
    """A house whose gate is the access room; `owner` is the key of the command line."""

    owner: str = ""


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[RealHouse]:
    hub = await open_hub(Settings(tmp_path / "data"), SystemClock())
    await hub.start()
    house = RealHouse(hub, KeyRing(), Bridge(hub))
    house.owner = (tmp_path / "data" / "local.key").read_text().strip()
    yield house
    await house.bridge.close()
    await hub.stop()


async def make_key(house: RealHouse, name: str, kind: str) -> Any:
    return await house.json("POST", "/v1/keys", {"name": name, "kind": kind}, house.owner)


async def test_a_browser_on_this_computer_is_signed_in_once_by_its_link(house: RealHouse) -> None:
    """The claim sets the cookie, the cookie is who I am, signing out takes it away and ends the key."""
    opened = await house.json("POST", "/v1/pairings", {"local": True}, house.owner)
    claim = {"code": opened["code"], "device": "Browser"}
    status, headers, body = await house.ask("POST", "/v1/pairings/claim", claim, key="")
    assert (status, msgspec.json.decode(body)["state"]) == (200, "confirmed")
    cookie = headers["set-cookie"].split(";")[0]
    assert cookie.removeprefix("ekiden=") not in body.decode()
    assert (await house.json("GET", "/v1/me", key="", cookie=cookie))["name"] == "Browser"
    assert (await house.ask("POST", "/v1/pairings/claim", claim, key=""))[0] >= 400
    _, headers, _ = await house.ask("POST", "/v1/sign-out", {}, key="", cookie=cookie)
    assert headers["set-cookie"].startswith("ekiden=;")
    assert "Max-Age=0" in headers["set-cookie"]
    assert (await house.ask("GET", "/v1/me", key="", cookie=cookie))[0] == 401


async def test_revoking_a_device_ends_its_stream_within_a_second_and_stays_in_the_audit(house: RealHouse) -> None:
    """Its next request is refused as well, and both are recorded."""
    made = await make_key(house, "Phone", "device")
    async with house.follow("team", made["key"]) as stream:
        await stream.until("stream.hello")
        async with asyncio.timeout(1):
            await house.json("DELETE", f"/v1/keys/{made['key_id']}", None, house.owner)
            assert (await stream.until("stream.end"))["body"] == {"reason": "revoked"}
    assert (await house.ask("GET", "/v1/me", key=made["key"]))[0] == 401
    await house.hub._refusals.close()
    audit = await house.json("GET", "/v1/audit", key=house.owner)
    kinds = [line["kind"] for line in audit["lines"]]
    assert kinds[0] == "access.refused"
    assert "key.revoked" in kinds


async def test_a_host_comes_feeds_and_goes_and_everyone_sees_it(
    house: RealHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session and its growing text appear; when its stream breaks for good, its running turn is lost."""
    monkeypatch.setattr(hosts, "HOST_GRACE_S", 0.1)
    made = await make_key(house, "Desk", "host")
    host_id, key = made["host_id"], made["key"]
    session = derived_id(Prefix.SESSION, host_id, "demo", "n")
    turn, item = "trn_0000000000000000000a", "itm_0000000000000000000a"
    report = {"name": "Desk", "platform": "linux", "ekiden_version": "0"}
    async with house.follow("team", house.owner) as person:
        await person.until("stream.hello")
        async with house.follow(f"host:{host_id}", key) as stream:
            await stream.until("stream.hello")
            await house.json("PUT", f"/v1/hosts/{host_id}", report, key)
            await until(lambda: house.hub.live(house.hub.rooms.team_id).hosts.here(host_id))
            entries = [
                {
                    "entry": "session",
                    "session": {
                        "session_id": session,
                        "vendor": "demo",
                        "native_id": "n",
                        "rung": "owned",
                        "level": 2,
                        "state": "running",
                        "turn_id": turn,
                    },
                },
                {"entry": "turn", "session_id": session, "turn_id": turn, "state": "running"},
                {
                    "entry": "grew",
                    "session_id": session,
                    "turn_id": turn,
                    "item_id": item,
                    "kind": "message",
                    "index": 0,
                    "text": "Hello",
                },
            ]
            told = await house.json("POST", f"/v1/hosts/{host_id}/feed", {"entries": entries}, key)
            assert told["boot_id"] == house.hub.facts.boot_id
            view = await house.json("GET", f"/v1/sessions/{session}", key=house.owner)
            assert view["session"]["state"] == "running"
            assert [one["text"] for one in view["growing"]] == ["Hello"]
            asking = asyncio.ensure_future(house.ask("GET", f"/v1/sessions/{session}/items", key=house.owner))
            request = await stream.until("host.request")
            answer = {
                "request_id": request["body"]["request_id"],
                "ok": True,
                "result": {"items": [], "before": ""},
            }
            await house.json("POST", f"/v1/hosts/{host_id}/answers", answer, key)
            assert (await asking)[0] == 200
        while (frame := await person.frame())["kind"] != "host.changed" or frame["body"]["here"]:
            pass
        view = await house.json("GET", f"/v1/sessions/{session}", key=house.owner)
        assert view["session"]["state"] == "lost"
        assert [one["text"] for one in view["growing"]] == ["Hello"]
        assert (await house.ask("GET", f"/v1/sessions/{session}/items", key=house.owner))[0] == 503
