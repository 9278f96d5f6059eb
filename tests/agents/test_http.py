"""The tools at the hub's own address: both eras, bearer keys, the door's checks, and a hub that comes back."""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from agents.team import Team, text_of
from ekiden.client.bridge import Bridge
from ekiden.client.transport import Request
from ekiden.hub.asgi import EXCHANGE
from ekiden.mcp.definitions import LISTING, NAMES
from ekiden.relay.wire import Delivery

pytestmark = pytest.mark.anyio
ERAS = [("legacy", "2025-11-25"), ("auto", "2026-07-28")]
HANDSHAKE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


async def posted(team: Team, body: Any, key: str = "", **headers: str) -> httpx2.Response:
    """One POST to `/mcp`, by hand."""
    heads = {
        "accept": "application/json, text/event-stream",
        **{k.replace("_", "-"): v for k, v in headers.items()},
    }
    if key:
        heads["authorization"] = f"Bearer {key}"
    async with httpx2.AsyncClient(timeout=30) as carrier:
        return await carrier.post(f"{team.url}/mcp", json=body, headers=heads)


@pytest.mark.parametrize(("mode", "version"), ERAS)
async def test_the_official_client_calls_tools_in_both_eras(team: Team, mode: str, version: str) -> None:
    await team.channel()
    agent = await team.agent("bob")
    async with agent.over_http(mode) as client:
        assert client.protocol_version == version
        listed = await client.list_tools()
        assert [tool.model_dump(by_alias=True, exclude_none=True) for tool in listed.tools] == json.loads(LISTING)[
            "tools"
        ]
        assert tuple(tool.name for tool in listed.tools) == NAMES
        assert text_of(await client.call_tool("post", {"channel": "ops", "text": "hello"})).startswith(
            "Posted #1 "
        )
        assert "| hello" in text_of(await client.call_tool("read", {"channel": "ops"}))
        refused = await client.call_tool("read", {"channel": "nowhere"})
        assert refused.is_error
        assert text_of(refused).startswith("not_found: ")


async def test_the_listing_costs_no_more_than_by_stdio(team: Team) -> None:
    answer = (await posted(team, LIST, (await team.agent("bob")).key)).json()
    assert len(json.dumps(answer["result"], separators=(",", ":"), ensure_ascii=False).encode()) <= 6_000


async def test_who_has_no_key_or_a_wrong_one_is_told_so_before_anything_else(team: Team) -> None:
    for key in ("", "ekd_wrong"):
        answer = await posted(team, HANDSHAKE, key)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
    for headers in ({"origin": "http://evil.example"}, {"host": "evil.example"}):
        assert (await posted(team, HANDSHAKE, (await team.agent(str(headers))).key, **headers)).status_code == 403


async def test_a_revoked_key_is_out_at_its_next_call(team: Team) -> None:
    agent = await team.agent("bob")
    assert (await posted(team, LIST, agent.key)).status_code == 200
    await team.owner.client.delete(f"/v1/keys/{agent.key_id}")
    assert (await posted(team, LIST, agent.key)).status_code == 401


async def test_a_hub_that_restarts_breaks_no_client(team: Team) -> None:
    """Nothing is kept between calls: the same client goes on, and a session id of before is no obstacle."""
    await team.channel()
    agent = await team.agent("bob")
    async with agent.over_http("legacy") as client:
        await client.call_tool("post", {"channel": "ops", "text": "one"})
        await team.down()
        await team.up()
        assert "| one" in text_of(await client.call_tool("read", {"channel": "ops"}))
    answer = await posted(team, LIST, agent.key, mcp_session_id="of-before", mcp_protocol_version="2025-11-25")
    assert answer.status_code == 200
    assert answer.json()["result"]["tools"]


async def test_the_caller_may_what_its_key_may_and_refusals_are_noted(team: Team) -> None:
    """The tools go through the door with the caller's own key."""
    await team.channel("secret", private=True)
    agent = await team.agent("bob")
    async with agent.over_http() as client:
        for tool, given in (("read", {}), ("post", {"text": "x"}), ("status", {}), ("ack", {"upto": 1})):
            refused = await client.call_tool(tool, {"channel": "secret", **given})
            assert refused.is_error
            assert text_of(refused).startswith("not_found: "), tool
        assert "secret" not in text_of(await client.call_tool("channels", {}))


async def test_other_methods_than_post_are_not_here(team: Team) -> None:
    agent = await team.agent("bob")
    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {agent.key}"}) as carrier:
        for method in ("GET", "DELETE"):
            answer = await carrier.request(method, f"{team.url}/mcp")
            assert answer.status_code == 405
            assert answer.headers["allow"] == "POST"


CALL_INBOX = {
    "jsonrpc": "2.0",
    "id": 3,
    "method": "tools/call",
    "params": {"name": "inbox", "arguments": {}},
}


async def state_of(team: Team, message: str = "1") -> str:
    """How far the only mention in a message came."""
    told = await team.owner.client.get("/v1/channels/ops/acks", message=message)
    [delivery] = told["deliveries"]
    return delivery["state"]


class Exchange:
    """What a server says of a request whose client may be gone."""

    def __init__(self, *, gone: bool) -> None:
        self.gone = gone

    def arrived(self) -> bytes | None:
        return None

    def answer(self, head: bytes, body: bytes) -> bool:
        return False


class Server(Bridge):
    """The hub, as a server with a client that may be gone hands requests to it."""

    def __init__(self, team: Team, *, gone: bool) -> None:
        assert team.serving is not None
        super().__init__(team.serving.hub)
        self._exchange = Exchange(gone=gone)

    def scope(self, request: Request, abort: Any) -> Any:
        scope = super().scope(request, abort)
        scope["extensions"][EXCHANGE] = self._exchange
        return scope


@pytest.mark.parametrize(("gone", "state"), [(False, "surfaced"), (True, "offered")])
async def test_a_mention_has_surfaced_when_the_reply_was_written_to_a_client_that_is_there(
    team: Team, gone: bool, state: str
) -> None:
    """The sender sees so; and a client that left before its reply got nothing."""
    await team.channel()
    bob = await team.agent("bob")
    message_id = (await team.owner.client.post("/v1/channels/ops/messages", {"text": "@bob look"}))["message"][
        "message_id"
    ]
    server = Server(team, gone=gone)
    heads = {
        "authorization": f"Bearer {bob.key}",
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
    }
    answer = await server.open(Request("POST", "/mcp", heads, json.dumps(CALL_INBOX).encode()))
    said = b"".join([piece async for piece in answer.chunks()])
    await answer.task  # what is done after the reply is done
    assert b"@bob look" in said
    assert await state_of(team, message_id) == state


async def test_the_sender_sees_over_http_what_it_sees_over_stdio(team: Team) -> None:
    """With the real server and the official client."""
    await team.channel()
    bob = await team.agent("bob")
    owner = team.owner.client
    me = await owner.get("/v1/me")
    await owner.post("/v1/channels/ops/messages", {"text": "@bob look"})
    cursor = (await owner.get("/v1/mentions"))["cursor"]
    async with bob.over_http() as client:
        assert "@bob look" in text_of(await client.call_tool("inbox", {}))
        stream = owner.stream(f"inbox:{me['principal_id']}", cursor)
        async with asyncio.timeout(20):
            async for frame in stream:
                if frame.kind == "delivery.changed" and frame.read(Delivery).state == "surfaced":
                    break
        await stream.aclose()
