"""What agents do with the tools, over a real hub: every tool, as an agent would call it."""

import asyncio
from datetime import UTC, datetime

import pytest

from agents.team import Agent, Team
from ekiden.mcp.envelope import QUOTE

pytestmark = pytest.mark.anyio


def own_lines(text: str) -> list[str]:
    """The lines of an answer that are Ekiden's."""
    return [line for line in text.split("\n") if not line.startswith(QUOTE)]


async def pair(team: Team, channel: str = "ops") -> tuple[Agent, Agent]:
    """Two agents in a channel."""
    await team.channel(channel)
    one, two = await team.agent("ann"), await team.agent("bob")
    for agent in (one, two):
        assert "is a member" in await agent.says("channels", do="join", channel=channel)
    return one, two


async def test_two_agents_agree_on_a_thing_without_a_person(team: Team) -> None:
    """Asked, seen in the inbox, answered, acked; and each step shows to the other."""
    ann, bob = await pair(team)
    assert await bob.says("inbox") == "Nothing waits for you."
    posted = await ann.says("post", channel="#ops", text="@bob may I deploy?", asks="answer")
    assert posted.startswith("Posted #1 msg_")
    assert "@bob: at its next call" in posted
    inbox = await bob.says("inbox")
    assert "from agent ann" in inbox
    assert "asks for an answer" in inbox
    assert "| @bob may I deploy?" in inbox
    asked = inbox.partition("[#1 ")[2].split()[0]
    assert "Posted #2" in await bob.says("post", channel="ops", text="yes, go", answers=asked)
    assert "Acked" in await bob.says("ack", channel="ops", upto=1)
    told = await ann.says("receipts", channel="ops", message="#1")
    assert "@bob: answered" in told
    assert "| yes, go" in await ann.says("read", channel="ops", unread=True)
    assert "@bob may I" not in await bob.says("inbox")


async def test_reading_acks_nothing(team: Team) -> None:
    """However often and by whatever tool it is read, it stays unread until it is acked."""
    ann, bob = await pair(team)
    for number in range(4):
        await ann.says("post", channel="ops", text=f"@bob number {number}")
    for _ in range(2):
        assert "4 unread" in await bob.says("inbox")
        for given in ({}, {"unread": True}, {"after": 0}):
            assert "| @bob number 3" in await bob.says("read", channel="ops", **given)
        assert "number 2" in await bob.says("search", text="number 2")
    assert "up to #4" in await bob.says("ack", channel="ops", upto=4)
    assert await bob.says("inbox") == "Nothing waits for you."


async def test_a_reply_opens_a_thread_that_can_be_read_titled_and_closed(team: Team) -> None:
    ann, bob = await pair(team)
    await ann.says("post", channel="ops", text="a task", title="Task one")
    await bob.says("post", channel="ops", text="in the thread", thread="1")
    await bob.says("post", channel="ops", text="beside it")
    thread = await ann.says("read", channel="ops", thread="#1")
    assert "| in the thread" in thread
    assert "beside it" not in thread
    assert "Task one" in await ann.says("read", channel="ops", threads=True)
    assert "is done" in await ann.says("edit", channel="ops", message="1", done=True)


async def test_an_edit_and_a_deletion_leave_a_trace(team: Team) -> None:
    ann, bob = await pair(team)
    await ann.says("post", channel="ops", text="wrong")
    await ann.says("post", channel="ops", text="gone")
    assert "Edited #1" in await ann.says("edit", channel="ops", message="#1", text="right")
    assert "Deleted #2" in await ann.says("edit", channel="ops", message="#2", delete=True)
    read = await bob.says("read", channel="ops")
    assert "| right" in read
    assert "edited" in read
    assert "deleted" in read
    assert "wrong" not in read
    assert "gone" not in read


async def test_declining_needs_and_tells_a_reason(team: Team) -> None:
    ann, bob = await pair(team)
    await ann.says("post", channel="ops", text="@bob do it", asks="ack")
    assert "Declined" in await bob.says("ack", channel="ops", messages=["#1"], decline="no rights")
    told = await ann.says("receipts", channel="ops", message="1")
    assert "declined" in told
    assert "no rights" in told


async def test_waiting_ends_when_somebody_speaks(team: Team) -> None:
    ann, bob = await pair(team)
    waiting = asyncio.ensure_future(bob.says("wait", seconds=30))
    following = asyncio.ensure_future(bob.says("wait", channel="ops", after="0", seconds=30))
    done: set[asyncio.Future[str]] = set()
    for number in range(100):
        # Whether they wait already cannot be seen from outside: said again until both have heard.
        await ann.says("post", channel="ops", text=f"@bob hello {number}")
        done, _ = await asyncio.wait((waiting, following), timeout=0.2)
        if len(done) == 2:
            break
    assert len(done) == 2
    assert "| @bob hello 0" in waiting.result()
    assert "Then: wait(after=" in waiting.result()
    assert "| @bob hello 0" in following.result()
    assert 'Then: wait(channel="ops", after=' in following.result()


async def test_waiting_for_nothing_says_so(team: Team) -> None:
    _, bob = await pair(team)
    assert "Nobody mentioned you within 0 s." in await bob.says("wait", seconds=0)
    assert "Nothing new within 0 s." in await bob.says("wait", channel="ops", seconds=0)
    assert "Waits 0 to 50 seconds" in await bob.refused("wait", seconds=51)


async def test_an_attachment_goes_and_comes(team: Team) -> None:
    ann, bob = await pair(team)
    await ann.says("post", channel="ops", text="see", attach={"log.txt": "line one\nline two"})
    read = await bob.says("read", channel="ops")
    sha256 = read.partition('attachment "log.txt" 17 bytes ')[2][:64]
    text = await bob.says("read", channel="ops", attachment=sha256)
    assert "| line one\n| line two" in text


async def test_a_post_that_is_repeated_is_one_message(team: Team) -> None:
    ann, bob = await pair(team)
    first = await ann.says("post", channel="ops", text="once", id="msg_00000000000000000001")
    assert await ann.says("post", channel="ops", text="once", id="msg_00000000000000000001") == first
    assert (await bob.says("read", channel="ops")).count("| once") == 1
    await ann.refused("post", channel="ops", text="other", id="msg_00000000000000000001")


async def test_channels_are_made_changed_archived_and_deleted(team: Team) -> None:
    owner = team.owner
    assert "Made dev:" in await owner.says("channels", do="create", channel="dev", topic="where we build")
    assert "| where we build" in await owner.says("channels")
    assert "30 days" in await owner.says("admin", do="change", channel="dev", keep_days=30)
    assert "archived" in await owner.says("admin", do="archive", channel="dev")
    assert "archived" in await owner.refused("post", channel="dev", text="x")
    await owner.says("admin", do="reopen", channel="dev")
    await owner.says("post", channel="dev", text="x")
    bob = await team.agent("bob")
    assert "bob is a member of dev as tester" in await owner.says(
        "channels", do="add", channel="dev", member=bob.principal_id, role="tester"
    )
    assert "bob, agent as tester" in await bob.says("channels", channel="dev")
    await owner.says("admin", do="remove", channel="dev", member="bob")
    await owner.says("admin", do="delete", channel="dev")
    assert "not_found" in await owner.refused("read", channel="dev")


async def test_an_agent_may_not_make_a_channel_and_is_told_what_is_missing(team: Team) -> None:
    bob = await team.agent("bob")
    refused = await bob.refused("channels", do="create", channel="mine")
    assert refused.split(":")[0] in ("forbidden", "not_found")


async def test_the_sender_is_the_keys_and_nobody_elses(team: Team) -> None:
    """Under whatever name a caller says who it is: refused, not ignored."""
    ann, bob = await pair(team)
    for name in ("sender", "sender_name", "from", "as"):
        assert (await bob.refused("post", channel="ops", text="hi", **{name: "ann"})).startswith("forbidden")
    assert "No messages" in await ann.says("read", channel="ops")


async def test_names_that_agents_guess_are_understood_and_others_are_told(team: Team) -> None:
    ann, bob = await pair(team)
    assert "Posted #1" in await ann.says("post", channel_name="ops", content="@bob hi", mention="bob")
    assert "| @bob hi" in await bob.says("read", channel_id="ops", message_id="1")
    near = await bob.refused("read", room="opps")
    assert "no channel opps that you may read.\nnext: Did you mean ops?" in near
    refused = await bob.refused("read", channel="ops", colour="red")
    assert "colour" in refused
    assert "It takes channel, thread" in refused
    assert "There is no tool" in await bob.refused("send_mail")


async def test_keys_are_listed_made_narrower_and_revoked(team: Team) -> None:
    owner = team.owner
    bob = await team.agent("bob")
    assert "bob" in await owner.says("keys")
    made = await bob.says("keys", do="make", name="bobs helper", allow={"channel:ops": ["read"]}, expires_s=600)
    assert made.splitlines()[-1].startswith("ekd_")
    assert "key_" in made
    assert (await bob.refused("keys", do="make", name="too much", allow={"*": ["admin"]})).split(":")[0] in (
        "forbidden",
        "invalid",
    )
    assert "Changed" in await owner.says("admin", do="permit", key=bob.key_id, allow={"channel:ops": ["read"]})
    since = datetime.now(UTC).isoformat()
    assert "Revoked" in await owner.says("admin", do="revoke", key="bob", since=since)
    assert (await bob.refused("inbox")).startswith("unauthenticated")


async def test_the_audit_trail_shows_rights_that_changed(team: Team) -> None:
    await team.agent("bob")
    audit = await team.owner.says("audit")
    assert "key.made by" in audit
    assert "not_found" in await (await team.agent("ann")).refused("audit")


async def test_a_hub_that_is_away_is_an_error_that_helps(team: Team) -> None:
    ann, _ = await pair(team)
    await team.down()
    refused = await ann.refused("post", channel="ops", text="lost?")
    assert refused.startswith("unavailable: ")
    again = refused.partition('id="')[2].partition('"')[0]
    await team.up()
    assert "Posted #1" in await ann.says("post", channel="ops", text="lost?", id=again)
