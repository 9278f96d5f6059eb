"""The stdio server with a real hub behind it: signed, sealed, and still there when the hub comes back."""

import asyncio
import json
from pathlib import Path

import pytest

from agents.team import EKIDEN, Team, text_of

pytestmark = pytest.mark.anyio
ERAS = ["legacy", "auto"]
SECRET = "the launch word is zanzibar-9941"


def held_on_disk(folder: Path, text: str) -> list[str]:
    """Files under `folder` that hold this text."""
    return [str(path) for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.mark.parametrize("mode", ERAS)
async def test_the_official_client_calls_tools_and_what_is_said_is_signed(team: Team, mode: str) -> None:
    await team.channel()
    ann, bob = await team.agent("ann"), await team.agent("bob")
    async with ann.over_stdio(mode) as at_ann, bob.over_stdio(mode) as at_bob:
        said = text_of(await at_ann.call_tool("post", {"channel": "ops", "text": "@bob are you there?"}))
        assert said.startswith("Posted #1 ")
        inbox = text_of(await at_bob.call_tool("inbox", {}))
        assert "from agent ann, verified" in inbox
        refused = await at_bob.call_tool("read", {"channel": "nowhere"})
        assert refused.is_error
        # It goes on: so its model has got what the inbox said.
        await at_bob.call_tool("read", {"channel": "ops"})
        told = ""
        for _ in range(100):
            told = text_of(await at_ann.call_tool("receipts", {"channel": "ops", "message": "#1"}))
            if "surfaced" in told:
                break
        assert "@bob: surfaced" in told


async def test_an_encrypted_channel_is_read_by_its_members_and_by_nobody_else(team: Team) -> None:
    """Text, file, status: members read them; the hub says at its own address how to join; its disk has none."""
    await team.channel("vault", encrypted=True)
    ann, bob = await team.agent("ann"), await team.agent("bob")
    team.owner.client.key = team.owner.key
    async with ann.over_stdio() as at_ann, bob.over_stdio() as at_bob:
        for client in (at_ann, at_bob):
            joined = await client.call_tool("channels", {"do": "join", "channel": "vault"})
            assert "is a member" in text_of(joined)
        posted = await at_ann.call_tool(
            "post", {"channel": "vault", "text": f"@bob {SECRET}", "attach": {"plan.txt": f"file: {SECRET}"}}
        )
        assert text_of(posted).startswith("Posted #1 "), text_of(posted)
        status = await at_ann.call_tool("set_status", {"channel": "vault", "key": "word", "value": SECRET})
        assert "version 1" in text_of(status), text_of(status)
        read = text_of(await at_bob.call_tool("read", {"channel": "vault"}))
        assert f"| @bob {SECRET}" in read
        assert "from agent ann, verified" in read
        assert SECRET in text_of(await at_bob.call_tool("inbox", {}))
        assert SECRET in text_of(await at_bob.call_tool("status", {"channel": "vault"}))
        sha256 = read.partition('attachment "plan.txt" ')[2].split()[2][:64]
        file = await at_bob.call_tool("read", {"channel": "vault", "message": "#1", "attachment": sha256})
        assert f"| file: {SECRET}" in text_of(file)
    async with bob.over_http() as client:
        read = text_of(await client.call_tool("read", {"channel": "vault"}))
        assert SECRET not in read
        assert "`ekiden mcp install`" in read
        refused = await client.call_tool("post", {"channel": "vault", "text": SECRET})
        assert refused.is_error
        assert "`ekiden mcp install`" in text_of(refused)
    await team.down()
    hub_files = [path for path in team.home.iterdir() if path.name.startswith("ekiden.db")]
    assert hub_files
    assert not [path for path in hub_files if SECRET.encode() in path.read_bytes()]
    assert not held_on_disk(team.home, "zanzibar-9941")


async def test_the_server_outlives_its_hub(team: Team) -> None:
    """While the hub is away each call says so; when it is back the next one works, and nothing was said twice."""
    await team.channel()
    ann = await team.agent("ann")
    async with ann.over_stdio("legacy") as client:
        assert "Posted #1" in text_of(await client.call_tool("post", {"channel": "ops", "text": "one"}))
        await team.down()
        away = await client.call_tool("post", {"channel": "ops", "text": "two"})
        assert away.is_error
        assert text_of(away).startswith("unavailable: ")
        again = text_of(away).partition('id="')[2].partition('"')[0]
        await team.up()
        for _ in range(2):
            repeated = await client.call_tool("post", {"channel": "ops", "text": "two", "id": again})
            assert text_of(repeated).startswith("Posted #2 ")
        assert text_of(await client.call_tool("read", {"channel": "ops"})).count("| two") == 1


async def test_a_call_that_is_cancelled_ends_and_others_go_on(team: Team) -> None:
    await team.channel()
    ann = await team.agent("ann")
    process = await asyncio.create_subprocess_exec(
        EKIDEN, "mcp", "--home", str(team.home),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        env={"EKIDEN_URL": team.url, "EKIDEN_KEY": ann.key, "PYTHONWARNINGS": "error"},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None

    def say(**message: object) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    handshake = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    say(id=1, method="initialize", params=handshake)
    say(id=2, method="tools/call", params={"name": "wait", "arguments": {"seconds": 50}})
    say(id=3, method="tools/call", params={"name": "channels", "arguments": {}})
    heard = [json.loads(await process.stdout.readline())["id"] for _ in range(2)]
    assert heard == [1, 3]
    say(method="notifications/cancelled", params={"requestId": 2})
    say(id=4, method="ping")
    assert json.loads(await process.stdout.readline())["id"] == 4
    # The id is free again: the call is really over.
    say(id=2, method="ping")
    assert json.loads(await process.stdout.readline()) == {"jsonrpc": "2.0", "id": 2, "result": {}}
    process.stdin.close()
    assert await process.wait() == 0


async def test_a_lease_in_a_signed_channel_is_taken_renewed_and_let_go(team: Team) -> None:
    """By stdio with the member's own signature; at the hub, which has no key of an agent, it says how to join."""
    await team.channel("vows", signed=True)
    ann = await team.agent("ann")
    async with ann.over_stdio() as at_ann:
        lock = {"channel": "vows", "name": "deploy"}
        taken = text_of(await at_ann.call_tool("lease", {**lock, "do": "take", "note": "mine"}))
        assert taken.startswith("You hold deploy until "), taken
        [held] = (await team.owner.client.get("/v1/channels/vows/leases"))["leases"]
        fence = held["fence"]
        renewed = text_of(await at_ann.call_tool("lease", {**lock, "do": "renew", "fence": fence}))
        assert f"fence {fence}" in renewed, renewed
        let_go = text_of(await at_ann.call_tool("lease", {**lock, "do": "release", "fence": fence}))
        assert let_go == "Released deploy."
    refused = await ann.refused("lease", **lock, do="take")
    assert "stdio" in refused, refused
