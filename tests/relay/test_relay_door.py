"""The relay room through the real door: what two in a channel see of each other."""

from pathlib import Path

import pytest

from sessions.door import open_house

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
