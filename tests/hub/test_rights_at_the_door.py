"""Rights as a client meets them at the door: taken away from open streams, explained, and each one's own inbox."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ekiden.client.client import Client
from ekiden.kernel.errors import Forbidden, NotFound, Unauthenticated
from sessions.door import House, open_house

pytestmark = pytest.mark.anyio

TALK = ["read", "post", "mention", "ack"]


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path) as house:
        for name in ("a", "b"):
            await house.owner.post("/v1/channels", {"name": name})
        yield house


async def agent(
    house: House, name: str, permissions: dict[str, list[str]] | None = None, by: Client | None = None
):
    body: dict[str, Any] = {"name": name, "kind": "agent"}
    if permissions is not None:
        body["permissions"] = permissions
    made = await (by or house.owner).post("/v1/keys", body)
    return made, house.client(made["key"])


async def say(house: House, channel: str, text: str) -> Any:
    return await house.owner.post(f"/v1/channels/{channel}/messages", {"text": text})


async def hello(stream: Any) -> None:
    """From here on nothing is missed."""
    async with asyncio.timeout(10):
        async for frame in stream:
            if frame.kind == "stream.hello":
                return


async def texts_until(stream: Any, last: str) -> list[str]:
    """The texts of posts on a stream, up to this one."""
    found: list[str] = []
    async with asyncio.timeout(10):
        async for frame in stream:
            if frame.kind == "message.posted":
                found.append(frame.read(dict[str, Any])["text"])
                if found[-1] == last:
                    return found
    raise AssertionError(found)


async def test_a_channel_that_is_taken_away_goes_quiet_and_the_others_do_not(house: House) -> None:
    made, reader = await agent(house, "reader", {"channel:a": TALK, "channel:b": TALK})
    async with reader.stream("channel:a,channel:b") as stream:
        await hello(stream)
        await say(house, "a", "a1")
        await say(house, "b", "b1")
        assert await texts_until(stream, "b1") == ["a1", "b1"]
        await house.owner.patch(f"/v1/keys/{made['key_id']}", {"permissions": {"channel:a": TALK}})
        with pytest.raises(NotFound):
            await reader.get("/v1/channels/b")
        await say(house, "b", "b2")
        await say(house, "a", "a2")
        assert await texts_until(stream, "a2") == ["a2"]


async def test_a_stream_of_a_key_below_ends_with_the_key_above(house: House) -> None:
    lead, lead_client = await agent(house, "lead", {"channel:a": TALK})
    _, helper = await agent(house, "helper", by=lead_client)
    async with helper.stream("channel:a") as stream:
        await hello(stream)
        async with asyncio.timeout(10):
            await house.owner.delete(f"/v1/keys/{lead['key_id']}")
            ends = [frame.read(dict[str, Any]) async for frame in stream if frame.kind == "stream.end"]
    assert ends == [{"reason": "revoked"}]
    with pytest.raises(Unauthenticated):
        await helper.get("/v1/me")


async def test_two_of_the_same_rights_follow_their_own_inbox_only(house: House) -> None:
    """Streams of equal rights share what they choose; an inbox is nobody else's."""
    one, one_client = await agent(house, "one")
    two, two_client = await agent(house, "two")
    both = f"inbox:{one['principal_id']},inbox:{two['principal_id']}"
    async with one_client.stream(both) as first, two_client.stream(both) as second:
        await hello(first)
        await hello(second)
        await say(house, "a", "@one hello")
        await say(house, "a", "@two hello")

        async def mentioned(stream: Any) -> str:
            async with asyncio.timeout(10):
                async for frame in stream:
                    if frame.kind == "delivery.changed":
                        return str(frame.read(dict[str, Any])["name"])
            raise AssertionError

        assert await mentioned(first) == "one"
        assert await mentioned(second) == "two"


async def test_a_refusal_inside_a_room_is_explained_in_the_audit(house: House) -> None:
    made, reader = await agent(house, "reader", {"channel:a": ["read"]})
    with pytest.raises(Forbidden):
        await reader.post("/v1/channels/a/messages", {"text": "may I"})
    with pytest.raises(NotFound):
        await reader.get("/v1/channels/b")
    await house.hub._refusals.close()
    lines = (await house.owner.get("/v1/audit"))["lines"]
    refused = [line["body"] for line in lines if line["kind"] == "access.refused"]
    asked = [(body["verb"], body["resource"], body["near"], body["would_allow"]) for body in refused[::-1]]
    assert asked == [
        ("post", "channel:a", "other_verbs", {"pattern": "channel:a", "verb": "post"}),
        ("read", "channel:b", "other_resources", {"pattern": "channel:b", "verb": "read"}),
    ]
    why = await house.owner.get("/v1/access/explain", key=made["key_id"], verb="post", resource="channel:a")
    assert (why["allowed"], why["near"]) == (False, "other_verbs")


async def test_a_guest_comes_in_by_an_invite_and_talks(house: House) -> None:
    await house.owner.post("/v1/channels", {"name": "plans", "private": True})
    invited = await house.owner.post("/v1/invites", {"channels": ["a", "plans"]})
    joined = await house.client("").post("/v1/invites/claim", {"code": invited["code"], "name": "guest"})
    assert joined["channels"] == ["channel:a", "private:plans"]
    guest = house.client(joined["key"])
    members = (await guest.get("/v1/channels/plans/members"))["members"]
    assert "guest" in [member["name"] for member in members]
    await guest.post("/v1/channels/plans/messages", {"text": "here I am"})
    with pytest.raises(NotFound):
        await guest.get("/v1/channels/b")
    with pytest.raises(NotFound):
        await house.client("").post("/v1/invites/claim", {"code": invited["code"], "name": "another"})


async def test_what_a_key_in_wrong_hands_wrote_since_a_time_is_marked_and_put_back(house: House) -> None:
    """In one step, with the key's end: the answer lists it."""
    made, writer = await agent(house, "writer")
    await writer.put("/v1/channels/a/status/build", {"value": "red"})
    await writer.post("/v1/channels/a/messages", {"text": "true"})
    before = (await house.owner.get("/v1/channels/a/messages"))["messages"][-1]["at"]
    while (since := (await writer.put("/v1/channels/a/status/build", {"value": "green"}))["at"]) <= before:
        await writer.put("/v1/channels/a/status/build", {"value": "red"})
    forged = await writer.post("/v1/channels/a/messages", {"text": "forged"})
    answer = await house.owner.post(f"/v1/keys/{made['key_id']}/revoke", {"since": since})
    [tainted] = answer["tainted"]
    assert tainted["messages"] == 1
    assert [(status["key"], status["kind"]) for status in tainted["statuses"]] == [("build", "reverted")]
    assert (await house.owner.get("/v1/channels/a/status/build"))["value"] == "red"
    suspect = {
        message["text"]: message.get("suspect", False)
        for message in (await house.owner.get("/v1/channels/a/messages"))["messages"]
    }
    assert suspect == {"true": False, forged["message"]["text"]: True}
    with pytest.raises(Unauthenticated):
        await writer.get("/v1/me")
