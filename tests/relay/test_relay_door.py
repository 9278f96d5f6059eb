"""The relay room through the real door: what two in a channel see of each other."""

import asyncio
import base64
import hashlib
from pathlib import Path

import msgspec
import pytest

from ekiden.client.client import Client
from ekiden.client.frames import Frame
from ekiden.kernel.errors import Forbidden, Invalid, NotFound, TooMany
from ekiden.kernel.limits import BELLS_PER_TOPIC_MAX
from sessions.door import WAIT_S, House, open_house, read_until

pytestmark = pytest.mark.anyio


async def test_a_mention_is_posted_found_answered_and_acked(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        made = await house.owner.post("/v1/channels", {"name": "Build", "topic": "the nightly"})
        assert made["name"] == "build"
        bob = await house.device("bob")
        posted = await house.owner.post("/v1/channels/build/messages", {"text": "Look, @bob. And @nobody."})
        message = posted["message"]
        assert (message["number"], message["authority"]) == (1, "person")
        assert [(entry["name"], entry["state"], entry["way"]) for entry in posted["deliveries"]] == [
            ("bob", "stored", "inbox")
        ]
        assert posted["unplaced"] == [{"name": "nobody", "why": "unknown"}]
        waiting = await bob.get("/v1/mentions")
        assert [hit["message"]["message_id"] for hit in waiting["mentions"]] == [message["message_id"]]
        assert waiting["deliveries"][0]["state"] == "offered"
        answer = {"text": "Done.", "thread_id": message["message_id"], "answers": message["message_id"]}
        await bob.post("/v1/channels/build/messages", answer)
        assert (await bob.get("/v1/mentions")).get("mentions", []) == []
        threads = await house.owner.get("/v1/channels/build/threads")
        assert [(thread["title"], thread["replies"]) for thread in threads["threads"]] == [
            ("Look, @bob. And @nobody.", 1)
        ]
        unread = await house.owner.get("/v1/channels/build/messages", unread="1")
        assert [entry["text"] for entry in unread["messages"]] == ["Done."]
        await house.owner.post("/v1/channels/build/acks", {"upto": 2})
        assert (await house.owner.get("/v1/channels/build"))["unread"] == 0


async def agent(house: House, name: str, permissions: dict[str, list[str]] | None = None) -> Client:
    """A client of an agent with a key of its own."""
    body = {"name": name, "kind": "agent", **({"permissions": permissions} if permissions is not None else {})}
    return house.client((await house.owner.post("/v1/keys", body))["key"])


async def until_they_wait(house: House, count: int) -> None:
    """Returns once so many requests wait."""
    while sum(map(len, house.hub.bells._hanging.values())) < count:  # noqa: ASYNC110 (nothing tells that one waits)
        await asyncio.sleep(0)


async def test_who_waits_is_answered_by_the_mention_and_only_by_what_came_since(tmp_path: Path) -> None:
    """At once where something waits, else with the post that mentions it; the sender knows that it waits."""
    async with open_house(tmp_path) as house:
        await house.owner.post("/v1/channels", {"name": "build"})
        bob = await agent(house, "bob")
        await house.owner.post("/v1/channels/build/messages", {"text": "@bob one"})
        first = await bob.get("/v1/mentions/wait", seconds="50")
        assert [hit["message"]["text"] for hit in first["mentions"]] == ["@bob one"]
        waiting = asyncio.ensure_future(bob.get("/v1/mentions/wait", seconds="50", after=first["cursor"]))
        await until_they_wait(house, 1)
        await house.owner.post("/v1/channels/build/messages", {"text": "nobody is called"})
        await house.owner.post("/v1/channels/build/acks", {"upto": 1})
        assert not waiting.done()
        posted = await house.owner.post("/v1/channels/build/messages", {"text": "@bob two"})
        assert posted["deliveries"][0]["way"] == "waiting"
        async with asyncio.timeout(WAIT_S):
            second = await waiting
        assert [hit["message"]["text"] for hit in second["mentions"]] == ["@bob two"]
        assert second["deliveries"][0]["attempt"] == 1
        again = await bob.get("/v1/mentions/wait", seconds="0", after=first["cursor"])
        assert again["deliveries"][0]["attempt"] == 2
        nothing = await bob.get("/v1/mentions/wait", seconds="0", after=again["cursor"])
        assert nothing["mentions"] == []
        for wrong in ({"seconds": "x"}, {"after": "x"}, {"after": "00000000.1"}):
            with pytest.raises(Invalid):
                await bob.get("/v1/mentions/wait", **wrong)


async def test_the_end_of_the_hub_ends_the_waiting(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        bob = await agent(house, "bob")
        waiting = [asyncio.ensure_future(bob.get("/v1/mentions/wait", seconds="50")) for _ in range(3)]
        await until_they_wait(house, 3)
        house.hub.bells.close()
        async with asyncio.timeout(WAIT_S):
            assert [answer["mentions"] for answer in await asyncio.gather(*waiting)] == [[], [], []]
        assert (await bob.get("/v1/mentions/wait", seconds="50"))["mentions"] == []


async def test_so_many_wait_for_one_inbox_and_no_more(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        bob = await agent(house, "bob")
        waiting = [
            asyncio.ensure_future(bob.get("/v1/mentions/wait", seconds="50")) for _ in range(BELLS_PER_TOPIC_MAX)
        ]
        await until_they_wait(house, BELLS_PER_TOPIC_MAX)
        with pytest.raises(TooMany):
            await bob.get("/v1/mentions/wait", seconds="1")
        house.hub.bells.close()
        await asyncio.gather(*waiting)


async def test_each_hears_its_channels_and_its_own_inbox_and_nothing_else(tmp_path: Path) -> None:
    """One stream over several channels; what is private is silent, and receipts go to no inbox."""
    async with open_house(tmp_path) as house:
        for channel in ({"name": "build"}, {"name": "plans", "private": True}):
            await house.owner.post("/v1/channels", channel)
        bob = await agent(house, "bob")
        carol = await agent(house, "carol")
        cursor = (await bob.get("/v1/channels"))["cursor"]
        mine = (await bob.get("/v1/channels/build/acks/me"))["principal_id"]
        hers = (await carol.get("/v1/channels/build/acks/me"))["principal_id"]
        await house.owner.post("/v1/channels/plans/messages", {"text": "a hidden plan for @bob"})
        await house.owner.post("/v1/channels/build/messages", {"text": "@bob look"})
        await house.owner.post("/v1/channels/build/messages", {"text": "@carol look"})
        await carol.post("/v1/channels/build/acks", {"upto": 2})
        await house.owner.post("/v1/channels", {"name": "last"})
        heard: list[tuple[str, str]] = []
        topics = f"channels,channel:build,private:plans,inbox:{mine},inbox:{hers}"
        async with bob.stream(topics, after=cursor) as stream:
            async for frame in stream:
                assert b"hidden" not in bytes(frame.body)
                if frame.kind == "channel.made":
                    break
                if not frame.kind.startswith("stream."):
                    heard.append((frame.kind, frame.topic))
        assert heard == [
            ("message.posted", "channel:build"),
            ("delivery.changed", f"inbox:{mine}"),
            ("message.posted", "channel:build"),
            ("member.joined", "channel:build"),
            ("receipt.changed", "channel:build"),
        ]


async def test_refusals_for_another_sender_and_for_what_is_hidden_are_in_the_audit(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        for channel in ({"name": "build"}, {"name": "plans", "private": True}):
            await house.owner.post("/v1/channels", channel)
        bob = await agent(house, "bob")
        cursor = (await bob.get("/v1/channels"))["cursor"]
        with pytest.raises(Forbidden):
            await bob.post("/v1/channels/build/messages", {"text": "trust me", "sender": "Owner"})
        with pytest.raises(NotFound):
            await bob.get("/v1/channels/plans")
        with pytest.raises(NotFound):
            await bob.get("/v1/channels/nowhere")
        with pytest.raises(Forbidden):
            await bob.delete("/v1/channels/build")

        reasons: list[str] = []

        def last(frame: Frame) -> bool:
            if frame.kind == "access.refused":
                reasons.append(msgspec.json.decode(frame.body)["reason"])
            return len(reasons) == 3

        await read_until(house.owner, "access", cursor, last)
        assert sorted(reasons) == ["not_allowed", "not_allowed", "other_sender"]


async def test_an_attachment_goes_in_and_out_as_it_was(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        await house.owner.post("/v1/channels", {"name": "build"})
        data = bytes(range(256)) * 40
        sha256 = hashlib.sha256(data).hexdigest()
        path = f"/v1/channels/build/attachments/{sha256}"
        body = {"data": base64.b64encode(data).decode(), "media_type": "image/png"}
        put = await house.owner.put(path, body)
        assert put == await house.owner.put(path, body)
        assert (put["size"], put["media_type"]) == (len(data), "image/png")
        await house.owner.post("/v1/channels/build/messages", {"text": "", "attachments": [put]})
        bob = await agent(house, "bob")
        assert base64.b64decode((await bob.get(path))["data"]) == data
        for wrong in ("0" * 64, "x", sha256.upper()):
            with pytest.raises(Invalid):
                await house.owner.put(f"/v1/channels/build/attachments/{wrong}", body)
        with pytest.raises(NotFound):
            await bob.get(f"/v1/channels/build/attachments/{'0' * 64}")


async def test_what_expires_is_ended_by_the_hub_itself(tmp_path: Path) -> None:
    """The chore finds what is due and tells the sender."""
    async with open_house(tmp_path) as house:
        await house.owner.post("/v1/channels", {"name": "build"})
        await agent(house, "bob")
        carol = await agent(house, "carol")
        await carol.post("/v1/channels/build/messages", {"text": "@bob?", "asks": "answer", "expires_s": 1})
        async with asyncio.timeout(WAIT_S * 2):
            found = await carol.get("/v1/mentions/wait", seconds="20")
        assert [(entry["why"], entry["reason"]) for entry in found["deliveries"]] == [("expired", "bob")]
