"""The link to hosts: who is connected, and asking them."""

import asyncio
from typing import Any

import msgspec
import pytest

from ekiden.hub import hosts
from ekiden.hub.hosts import HostAnswer, HostLinks, HostProblem, error_of
from ekiden.kernel.errors import EkidenError, HeldElsewhere, HostAway, NotFound
from ekiden.testing.clock import StillClock
from hub.door_kit import HOST_ID, HOST_KEY, SESSION, TEAM, Following, House, open_house, until

pytestmark = pytest.mark.anyio


async def answer(
    house: House, request: dict[str, Any], key: str = HOST_KEY, host: str = HOST_ID, **told: Any
) -> Any:
    body = {"request_id": request["body"]["request_id"], "ok": True, **told}
    return await house.ask("POST", f"/v1/hosts/{host}/answers", body, key)


def host_stream(house: House) -> Following:
    return house.follow(f"host:{HOST_ID}", HOST_KEY)


async def test_a_connected_host_is_asked_and_its_answer_comes_back() -> None:
    """As it said it, to the one who asked."""
    async with open_house() as house, host_stream(house) as stream:
        await stream.until("stream.hello")
        asking = asyncio.ensure_future(house.json("GET", "/v1/page?within_s=7"))
        request = await stream.until("host.request")
        assert request["topic"] == f"host:{HOST_ID}"
        assert request["body"]["verb"] == "page"
        assert request["body"]["arguments"] == {"session_id": SESSION}
        assert request["body"]["within_s"] == 7
        status, _, taken = await answer(house, request, result={"items": [1, {"a": None}]})
        assert (status, msgspec.json.decode(taken)) == (200, {"taken": True})
        assert await asking == {"items": [1, {"a": None}]}
        _, _, taken = await answer(house, request, result={})
        assert msgspec.json.decode(taken) == {"taken": False}


async def test_what_a_host_refuses_with_reaches_the_asker_as_it_was() -> None:
    """Code, status, message, hint and details."""
    async with open_house() as house, host_stream(house) as stream:
        await stream.until("stream.hello")
        asking = asyncio.ensure_future(house.ask("GET", "/v1/page"))
        problem = {
            "code": "held_elsewhere",
            "status": 409,
            "message": "A terminal holds it.",
            "hint": "Fork it.",
            "details": {"pid": 7},
        }
        await answer(house, await stream.until("host.request"), ok=False, problem=problem)
        status, _, body = await asking
        told = msgspec.json.decode(body)
        assert (status, told["code"], told["detail"]) == (409, "held_elsewhere", "A terminal holds it.")
        assert (told["hint"], told["details"]) == ("Fork it.", {"pid": 7})


def test_a_refusal_becomes_the_same_error_again() -> None:
    """Known codes become their own class, others keep their code, and no field of theirs breaks ours."""
    held = error_of(
        HostProblem("held_elsewhere", "m", details={"hint": "x", "message": "y", "self": 1, "who": "z"})
    )
    assert isinstance(held, HeldElsewhere)
    assert held.details == {"who": "z"}
    assert isinstance(error_of(HostProblem("not_found", "m")), NotFound)
    strange = error_of(HostProblem("disk_on_fire", "m", status=200))
    assert (strange.status, strange.details) == (502, {"host_code": "disk_on_fire"})
    assert isinstance(error_of(HostProblem("internal", "m")), EkidenError)


async def test_a_host_that_is_not_connected_is_said_to_be_away() -> None:
    """At once, with what is known of it."""
    async with open_house() as house:
        status, _, body = await house.ask("GET", "/v1/page")
        assert (status, msgspec.json.decode(body)["code"]) == (503, "host_away")


async def test_a_host_that_does_not_answer_is_said_to_be_silent() -> None:
    """After the time that the asker gave it; a late answer is not taken."""
    async with open_house() as house, host_stream(house) as stream:
        await stream.until("stream.hello")
        asking = asyncio.ensure_future(house.ask("GET", "/v1/page?within_s=0.05"))
        request = await stream.until("host.request")
        status, _, body = await asking
        assert (status, msgspec.json.decode(body)["code"]) == (504, "host_silent")
        assert msgspec.json.decode((await answer(house, request))[2]) == {"taken": False}
        assert not house.hub.live(TEAM).hosts.open_requests(HOST_ID)


async def test_a_host_is_here_while_its_stream_is_open_and_lost_a_grace_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rooms are told once each; who waits for it is told that it is away."""
    monkeypatch.setattr(hosts, "HOST_GRACE_S", 0.1)
    async with open_house() as house:
        async with host_stream(house) as stream:
            await stream.until("stream.hello")
            await until(lambda: house.hosts == [(HOST_ID, True)])
            assert house.hub.live(TEAM).hosts.here(HOST_ID)
            asking = asyncio.ensure_future(house.ask("GET", "/v1/page"))
            await stream.until("host.request")
        await until(lambda: house.hosts == [(HOST_ID, True), (HOST_ID, False)])
        status, _, body = await asking
        assert (status, msgspec.json.decode(body)["code"]) == (503, "host_away")
        assert not house.hub.live(TEAM).hosts.here(HOST_ID)


async def test_a_host_that_comes_back_in_time_was_never_lost() -> None:
    """And hears again what it has not answered."""
    async with open_house() as house:
        async with host_stream(house) as stream:
            await stream.until("stream.hello")
            asking = asyncio.ensure_future(house.json("GET", "/v1/page"))
            first = await stream.until("host.request")
        await until(lambda: len(house.hub.streams) == 0)
        async with host_stream(house) as stream:
            again = await stream.until("host.request")
            assert again == first
            await answer(house, again, result=5)
            assert await asking == 5
        assert house.hosts == [(HOST_ID, True)]


async def test_a_feed_is_a_sign_of_life_while_the_stream_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that goes on telling is not called lost because its stream broke."""
    monkeypatch.setattr(hosts, "HOST_GRACE_S", 0.2)
    async with open_house() as house:
        async with host_stream(house) as stream:
            await stream.until("stream.hello")
        loop = asyncio.get_running_loop()
        until_at = loop.time() + 0.6
        while loop.time() < until_at:
            await house.json("POST", f"/v1/hosts/{HOST_ID}/feed", {"entries": []}, HOST_KEY)
            await asyncio.sleep(0.02)
        assert house.hosts == [(HOST_ID, True)]
        await until(lambda: house.hosts == [(HOST_ID, True), (HOST_ID, False)])


async def test_following_a_hosts_work_without_its_key_does_not_make_it_connected() -> None:
    """A person may look at what a host has to do; that is no host."""
    async with open_house() as house, house.follow(f"host:{HOST_ID}") as stream:
        await stream.until("stream.hello")
        assert not house.hub.live(TEAM).hosts.here(HOST_ID)
        assert (await house.ask("GET", "/v1/page"))[0] == 503


async def test_another_host_cannot_answer() -> None:
    """Neither under its own name nor under the one that was asked."""
    other = "hos_00000000000000000002"
    async with open_house() as house, host_stream(house) as stream:
        house.gate.give("ekd_host2", {f"host:{other}": ["read", "feed"]})
        await stream.until("stream.hello")
        asking = asyncio.ensure_future(house.json("GET", "/v1/page"))
        request = await stream.until("host.request")
        assert (await answer(house, request, "ekd_host2"))[0] == 404
        _, _, taken = await answer(house, request, "ekd_host2", other, result="forged")
        assert msgspec.json.decode(taken) == {"taken": False}
        await answer(house, request, result="true")
        assert await asking == "true"


async def test_so_many_requests_wait_for_a_host_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """One over the bound is refused at once."""
    monkeypatch.setattr(hosts, "HOST_REQUESTS_OPEN_MAX", 2)
    async with open_house() as house, host_stream(house) as stream:
        await stream.until("stream.hello")
        asking = [asyncio.ensure_future(house.json("GET", "/v1/page")) for _ in range(2)]
        requests = [await stream.until("host.request") for _ in range(2)]
        assert (await house.ask("GET", "/v1/page"))[0] == 429
        for request in requests:
            await answer(house, request, result=1)
        assert await asyncio.gather(*asking) == [1, 1]


async def test_a_repeated_command_asks_the_host_under_the_same_name() -> None:
    """So the host answers it from memory; at the same time it is in flight; with another body it is refused."""
    async with open_house() as house, host_stream(house) as stream:
        await stream.until("stream.hello")
        names = []
        for turn in range(2):
            asking = asyncio.ensure_future(house.json("POST", "/v1/start", {"text": "a"}, command_id="c1"))
            request = await stream.until("host.request")
            names.append(request["body"]["request_id"])
            if not turn:
                status, _, body = await house.ask("POST", "/v1/start", {"text": "a"}, command_id="c1")
                assert (status, msgspec.json.decode(body)["code"]) == (409, "command_in_flight")
            await answer(house, request, result="done")
            assert await asking == "done"
        assert names[0] == names[1]
        assert (await house.ask("POST", "/v1/start", {"text": "b"}, command_id="c1"))[0] == 422
        asking = asyncio.ensure_future(house.json("POST", "/v1/start", {"text": "a"}, command_id="c2"))
        request = await stream.until("host.request")
        assert request["body"]["request_id"] != names[0]
        await answer(house, request, result="done")
        assert await asking == "done"


async def test_a_host_that_was_here_before_the_hub_started_is_lost_if_it_stays_away() -> None:
    """And if it comes back in time, it is not."""
    told: list[tuple[str, bool]] = []
    links = HostLinks(StillClock(), lambda frame: None, lambda host_id, here, at: told.append((host_id, here)))
    links.expect("hos_gone", 0.02)
    links.expect("hos_back", 0.02)
    assert not links.here("hos_back")
    links.opened("hos_back")
    await until(lambda: len(told) == 2)
    await asyncio.sleep(0.05)
    assert told == [("hos_back", True), ("hos_gone", False)]
    links.close()


async def test_a_host_that_was_here_before_the_hub_started_is_waited_for_by_who_asks() -> None:
    """A page that is asked right after the hub came back is answered once the host is, too; if the host stays
    away, the asker is told so."""
    sent: list[Any] = []
    links = HostLinks(StillClock(), sent.append, lambda host_id, here, at: None)
    links.expect("hos_back", 30.0)
    links.expect("hos_gone", 0.02)
    asking = asyncio.ensure_future(links.request("hos_back", "page", {}, within_s=30.0))
    in_vain = asyncio.ensure_future(links.request("hos_gone", "page", {}, within_s=30.0))
    await until(lambda: len(sent) == 2)
    links.opened("hos_back")
    (frame,) = links.open_requests("hos_back")
    request_id = msgspec.json.decode(frame.data.split(b"data: ", 1)[1])["body"]["request_id"]
    assert links.answer("hos_back", HostAnswer(request_id, True, msgspec.Raw(b"7")))
    assert await asking == b"7"
    with pytest.raises(HostAway):
        await in_vain
    links.close()
