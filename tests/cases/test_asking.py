"""Questions to a person and messages from several devices, with the demo agent's real process."""

import asyncio
import time
from typing import Any

import pytest

from cases.desk import Desk
from ekiden.client.client import Client
from ekiden.kernel.errors import AlreadyAnswered, EkidenError, Forbidden
from ekiden.sessions.wire import Approval, SessionView

pytestmark = pytest.mark.anyio


async def begun(desk: Desk, message: str) -> str:
    body = {"host_id": desk.host_id, "vendor": "demo", "cwd": str(desk.project), "message": message}
    return (await desk.client.post("/v1/sessions", body))["session_id"]


async def view(client: Client, session_id: str) -> SessionView:
    return await client.get(f"/v1/sessions/{session_id}", type=SessionView)


async def open_approval(client: Client, session_id: str) -> Approval | None:
    shown = (await view(client, session_id)).approvals
    return next((one for one in shown if one.state == "open"), None)


async def answer(client: Client, asked: Approval, option: str, **more: Any) -> Approval | EkidenError:
    """What became of an answer: the approval, or the refusal."""
    body = {"option": option, "digest": asked.digest, **more}
    try:
        return await client.post(f"/v1/approvals/{asked.approval_id}/answer", body, type=Approval)
    except EkidenError as refusal:
        return refusal


async def test_a_question_that_nobody_saw_waits_for_whoever_comes(desk: Desk) -> None:
    """Asked while no device is there: one that comes later has it, also after it reads anew, with all that an
    answer is bound to; so has the inbox; one that may only read sees it and cannot answer."""
    await desk.up()
    session_id = await begun(desk, "ask")
    asked = await desk.until(lambda: open_approval(desk.client, session_id))
    late = await desk.device("Late")
    reader = await desk.device("Reader", {"*": ["read"]})
    for device in (late, late, reader):
        shown = await open_approval(device, session_id)
        assert shown == asked
        entries = (await device.get("/v1/inbox"))["entries"]
        assert [entry["id"] for entry in entries if entry["kind"] == "approval"] == [asked.approval_id]
    assert isinstance(await answer(reader, asked, "allow"), Forbidden)
    assert await open_approval(late, session_id) == asked
    assert isinstance(await answer(late, asked, "deny"), Approval)

    async def closed() -> bool:
        return not (await view(late, session_id)).approvals

    await desk.until(closed)


@pytest.mark.parametrize("gone", ["host", "hub and host"])
async def test_a_question_whose_asker_is_gone_is_no_dead_button(desk: Desk, gone: str) -> None:
    """The computer is started anew while a question is open: the old card is closed and says why, an answer to it
    is refused in words, the turn does not run for ever, and the session goes on."""
    await desk.up()
    session_id = await begun(desk, "ask")
    asked = await desk.until(lambda: open_approval(desk.client, session_id))
    await desk.host_down()
    if gone == "hub and host":
        await desk.hub_down()
    await desk.up()

    async def over() -> bool:
        shown = await view(desk.client, session_id)
        return not [one for one in shown.approvals if one.state == "open"] and shown.session.state != "waiting"

    await desk.until(over, "the old question is over")
    refusal = await answer(desk.client, asked, "allow")
    assert isinstance(refusal, EkidenError)
    assert refusal.status == 409
    entries = (await desk.client.get("/v1/inbox"))["entries"]
    assert [entry for entry in entries if entry["kind"] == "approval"] == []
    ends = [one["body"] for one in await desk.events(session_id) if one["kind"] == "approval.ended"]
    assert {(one["approval_id"], bool(one["reason"])) for one in ends} == {(asked.approval_id, True)}
    turns = [one["body"]["state"] for one in await desk.events(session_id) if one["kind"] == "turn.changed"]
    assert turns[-1] != "running"
    await desk.client.post(f"/v1/sessions/{session_id}/continue")
    await desk.client.post(f"/v1/sessions/{session_id}/messages", {"text": "say on we go"})
    (report,) = await desk.sessions()

    async def goes_on() -> bool:
        return "on we go" in await desk.texts(report.native_id)

    await desk.until(goes_on)


async def test_of_many_answers_one_reaches_the_agent_and_all_others_are_told_which(desk: Desk) -> None:
    """Ten questions, each answered by two devices at once; before them one that was not offered and one to other
    arguments, after them a late one: the command runs exactly where it was allowed, and every card closes."""
    await desk.up()
    session_id = await begun(desk, "ask")
    phone, computer = await desk.device("Phone"), await desk.device("Computer")
    allowed = 0
    for number in range(10):
        asked = await desk.until(lambda: open_approval(desk.client, session_id))
        for strange in (
            await answer(phone, asked, "always?"),
            await answer(phone, asked, "allow", digest="0" * 64),
        ):
            assert isinstance(strange, EkidenError)
            assert strange.status in (409, 422)
        first, second = await asyncio.gather(answer(phone, asked, "allow"), answer(computer, asked, "deny"))
        (won,) = [one for one in (first, second) if isinstance(one, Approval)]
        (lost,) = [one for one in (first, second) if isinstance(one, AlreadyAnswered)]
        assert (lost.details["option"], lost.details["device"]) == (won.answer, won.answered_by)
        allowed += won.answer == "allow"

        async def closed(number: int = number) -> bool:
            shown = await view(desk.client, session_id)
            return not shown.approvals and shown.session.state == "idle"

        await desk.until(closed)
        late = await answer(computer, asked, "allow")
        assert isinstance(late, AlreadyAnswered)
        assert late.details["option"] == won.answer
        if number < 9:
            await desk.client.post(f"/v1/sessions/{session_id}/messages", {"text": "ask"})
    (report,) = await desk.sessions()
    tools = [item.tool for item in await desk.pages(report.native_id) if item.tool]
    assert len(tools) == 10
    assert sum(tool.state == "completed" for tool in tools) == allowed
    assert sum(tool.state == "denied" for tool in tools) == 10 - allowed


async def test_order_and_number_of_answers_do_not_depend_on_a_clients_clock(desk: Desk) -> None:
    """Message ids as clients with skewed clocks make them, two in one millisecond, each told twice: each prompt
    has one answer, in the order in which the hub took them."""
    await desk.up()
    session_id = await begun(desk, "say begin")
    path = f"/v1/sessions/{session_id}/messages"
    now_ms = int(time.time() * 1000)
    made_at = [now_ms + 600_000, now_ms + 600_001, now_ms - 600_000, now_ms - 599_999, now_ms, now_ms]
    for number, at in enumerate(made_at):
        made_id = f"{at:019d}{number if at == now_ms else 0}".translate(str.maketrans("0123456789", "abcdefghjk"))
        for _ in range(2):
            await desk.client.post(path, {"text": f"say answer {number}", "message_id": f"msg_{made_id}"})
    expected = ["begin", *(f"answer {number}" for number in range(len(made_at)))]

    async def all_there() -> bool:
        (report,) = await desk.sessions()
        items = await desk.pages(report.native_id)
        return [item.text() for item in items if item.kind == "message" and item.role == "assistant"] == expected

    await desk.until(all_there)
    (report,) = await desk.sessions()
    prompts = [item.text() for item in await desk.pages(report.native_id) if item.role == "user"]
    assert prompts == [f"say {text}" for text in expected]
