"""Channels on the page, over the real hub: two people on two devices, an agent at the door, and hostile text."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from web.browser import DESK, PHONE, UNSEEN
from web.real_hub import Devices, Hub

pytestmark = pytest.mark.browser


def me(page: Page) -> str:
    """The name under which a device is known."""
    return page.evaluate("() => fetch('/v1/me').then((answer) => answer.json()).then((told) => told.name)")


def say(page: Page, text: str) -> None:
    """Types and sends."""
    page.locator(".composer textarea").fill(text)
    page.locator(".composer").get_by_role("button", name="Send").click()


def test_two_people_and_an_agent_talk(hub: Hub, device: Devices, request: pytest.FixtureRequest) -> None:
    """A channel is made on the desk; the phone reads along, acks, and both go on in a thread."""
    desk = device("channels", kind=DESK)
    desk.get_by_label("Name", exact=True).fill("build")
    desk.get_by_label("What it is for").fill("the nightly build")
    desk.get_by_role("button", name="Make it").click()
    expect(desk.locator(".session-head h1")).to_contain_text("build")
    phone = device("channels", kind=PHONE)
    phone.get_by_role("link", name="build").click()
    phone.get_by_role("link", name="Members").click()
    phone.get_by_role("button", name="Join").click()
    expect(phone.get_by_role("button", name="Leave")).to_be_visible()
    phone.get_by_role("link", name="Talk").click()
    agent = hub.agent("builder")
    agent.put("/v1/channels/build/members/me", {})
    say(desk, "@builder is the nightly build green?")
    expect(phone.locator(".message", has_text="is the nightly build green?")).to_have_count(1)
    expect(desk.locator("[data-reached]")).to_contain_text("builder")
    asked = agent.get("/v1/mentions")["mentions"][0]["message"]
    name = me(phone)
    agent.post(
        "/v1/channels/build/messages",
        {"text": f'It is. @"{name}" please look at `42`.', "answers": asked["message_id"], "asks": "ack"},
    )
    for page in (desk, phone):
        answer = page.locator(".message", has_text="please look at")
        expect(answer).to_have_count(1)
        expect(answer.locator(".pill", has_text="agent")).to_be_visible()
    phone.goto(f"{hub.url}/#/inbox")
    card = phone.locator("article.need", has_text="builder mentions you")
    expect(card).to_contain_text("asks to be acked")
    card.get_by_role("button", name="Seen").click()
    expect(phone.locator("article.need")).to_have_count(0)
    desk.locator(".message", has_text="please look at").get_by_role("button", name="Who has seen it").click()
    expect(desk.get_by_role("dialog")).to_contain_text(f"{name}: acked")
    desk.get_by_role("button", name="Close").click()
    desk.locator(".message", has_text="nightly build green?").get_by_role("link", name="Start a thread").click()
    say(desk, "Here we go on.")
    phone.goto(f"{hub.url}/#/channel/build?thread={asked['message_id']}")
    expect(phone.locator(".message", has_text="Here we go on.")).to_have_count(1)
    desk.get_by_role("button", name="Finish").click()
    expect(phone.get_by_role("button", name="Open again")).to_be_visible()
    pictures = Path(request.config.rootpath) / ".test-results" / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    desk.goto(f"{hub.url}/#/channel/build")
    expect(desk.locator(".message")).to_have_count(2)
    desk.screenshot(path=pictures / "channel-desk.png")
    phone.goto(f"{hub.url}/#/channel/build")
    expect(phone.locator(".message")).to_have_count(2)
    phone.screenshot(path=pictures / "channel-phone.png")


def test_status_with_its_history_leases_and_the_audit_log_are_shown(hub: Hub, device: Devices) -> None:
    """What agents write in the shared state is on the screen as it changes; what was refused is in the audit."""
    hub.owner.post("/v1/channels", {"name": "state"})
    agent = hub.agent("ci", {"channel:state": ["read", "status:tests.*", "lease"]})
    desk = device("channel/state?tab=status", kind=DESK)
    expect(desk.locator("main .state")).to_contain_text("No status was set")
    for value in ("red", "green"):
        agent.put("/v1/channels/state/status/tests.unit", {"value": value, "evidence": {"commit": "abc1234"}})
    card = desk.locator("article.card", has_text="tests.unit")
    expect(card).to_contain_text("green")
    expect(card).to_contain_text("commit abc1234")
    card.get_by_role("button", name="2 versions").click()
    expect(desk.get_by_role("dialog")).to_contain_text("red")
    desk.get_by_role("button", name="Close").click()
    agent.put("/v1/channels/state/leases/deploy", {"lease_s": 600, "note": "rolling out"})
    desk.get_by_role("link", name="Leases").click()
    expect(desk.locator("article.card", has_text="deploy")).to_contain_text("rolling out")
    expect(desk.locator("article.card", has_text="deploy")).to_contain_text("ci")
    assert agent.put("/v1/channels/state/status/release", {"value": "shipped"}).status == 403
    desk.goto(f"{hub.url}/#/audit")
    expect(desk.locator("article.card", has_text="A request was refused").first).to_contain_text("ci")


@pytest.mark.parametrize("kind", [PHONE, DESK], ids=["phone", "desk"])
def test_hostile_text_in_a_channel_stays_text(hub: Hub, device: Devices, kind: dict[str, Any]) -> None:
    """Markup, scripts, terminal control and turned-round text in every place that an agent can fill."""
    bad = "<img src=x onerror=alert(1)>\u202e[x](javascript:alert(1))\x1b[31m"
    bad += '<script>top.location="//evil.example"</script>'
    hub.owner.post("/v1/channels", {"name": "bad", "topic": bad.replace("\x1b", "")})
    agent = hub.agent("mallory", {"channel:bad": ["read", "post", "status:*", "lease", "mention"]})
    agent.post("/v1/channels/bad/messages", {"text": bad, "title": bad.replace("\x1b", "")[:80]})
    agent.put("/v1/channels/bad/status/x", {"value": bad})
    page = device("channel/bad", kind=kind)
    expect(page.locator(".message").first).to_contain_text("onerror=alert(1)")
    for tab in ("", "?tab=status", "?tab=threads"):
        page.goto(f"{hub.url}/#/channel/bad{tab}")
        expect(page.locator("#page")).to_contain_text("onerror=alert(1)")
        shown = page.evaluate("() => document.body.innerText")
        assert not UNSEEN & set(shown)
        assert page.locator("#page img, #page script, #page iframe, #page svg[onload]").count() == 0
        assert page.url.startswith(hub.url)


def test_what_is_typed_without_a_network_is_sent_once(hub: Hub, device: Devices) -> None:
    """The phone loses its network, a message is typed, it says that it waits, and arrives once."""
    hub.owner.post("/v1/channels", {"name": "train"})
    phone = device("channel/train", kind=PHONE)
    expect(phone.locator(".composer textarea")).to_be_visible()
    phone.context.set_offline(True)
    say(phone, "typed in the tunnel")
    expect(phone.locator("[data-receipt=waiting]")).to_be_visible()
    phone.context.set_offline(False)
    expect(phone.locator(".message", has_text="typed in the tunnel")).to_have_count(1)
    expect(phone.locator("[data-receipt]")).to_have_count(0)
    told = hub.owner.get("/v1/channels/train/messages")["messages"]
    assert [message["text"] for message in told] == ["typed in the tunnel"]


def test_the_chinese_page_has_no_english_left_in_a_channel(hub: Hub, device: Devices) -> None:
    """Every word of these screens comes from the table of the person's language."""
    hub.owner.post("/v1/channels", {"name": "zhong"})
    page = device("channel/zhong", kind=DESK, locale="zh-CN")
    expect(page.get_by_role("link", name="交谈")).to_be_visible()
    for tab in ("", "?tab=threads", "?tab=status", "?tab=leases", "?tab=members", "?tab=admin"):
        page.goto(f"{hub.url}/#/channel/zhong{tab}")
        text = page.locator("main").inner_text()
        assert not {word for word in ("Status", "Leases", "Members", "Threads", "Talk") if word in text}


def test_two_browsers_share_an_encrypted_channel(hub: Hub, device: Devices, tmp_path: Path) -> None:
    """What one seals the other opens and checks; who came later is given the key; the hub's own files never hold
    the text."""
    made = hub.owner.post("/v1/channels", {"name": "vault", "encrypted": True})
    assert made.ok
    desk, phone = device("channel/vault", kind=DESK), device("channel/vault", kind=PHONE)
    for page in (desk, phone):
        page.goto(f"{hub.url}/#/channel/vault?tab=members")
        page.get_by_role("button", name="Join").click()
        expect(page.get_by_role("button", name="Leave")).to_be_visible()
        page.goto(f"{hub.url}/#/channel/vault")
    say(phone, "the first word from the phone")
    expect(phone.locator(".message", has_text="the first word from the phone")).to_have_count(1)
    said = "the plan is hidden in plain sight"
    say(desk, said)
    for page in (desk, phone):
        message = page.locator(".message", has_text=said)
        expect(message).to_have_count(1)
        expect(message).to_contain_text("signature checked")
    desk.locator(".message", has_text=said).get_by_role("button", name="Edit").click()
    desk.get_by_role("dialog").get_by_label("Text").fill("the plan has changed, quietly")
    desk.get_by_role("button", name="Save").click()
    expect(phone.locator(".message", has_text="the plan has changed, quietly")).to_contain_text("edited")
    told = hub.owner.get("/v1/channels/vault/messages").body
    assert all("text" not in message and message["sealed"] for message in told["messages"])
    written = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    for words in (said, "the plan has changed", "the first word from the phone"):
        assert words.encode() not in written
    assert b"vault" in written


def test_a_value_that_waits_for_a_second_signature_is_signed_by_another(hub: Hub, device: Devices) -> None:
    """What one device has set and signed waits there; its own device says who has to sign, and the other does."""
    hub.owner.post("/v1/channels", {"name": "gate"})
    desk, phone = device("channel/gate?tab=status", kind=DESK), device("channel/gate?tab=status", kind=PHONE)
    desk.get_by_text("Set a status").click()
    desk.get_by_label("Key").fill("deploy")
    desk.get_by_label("Value").fill('{"version": 7}')
    desk.get_by_role("button", name="Save").click()
    expect(phone.locator("article.card", has_text="deploy")).to_contain_text("signed")
    expect(phone.locator("[data-waits]")).to_have_count(0)
    hub.owner.put("/v1/channels/gate/status-rules", {"rules": [{"pattern": "deploy*", "evidence": ["second"]}]})
    expect(desk.locator("[data-waits]")).to_contain_text("It is your own")
    waits = phone.locator("[data-waits]")
    waits.get_by_role("button", name="Sign it as the second").click()
    waits.get_by_role("button", name="Press again").click()
    for page in (desk, phone):
        expect(page.locator("article.card", has_text="deploy")).to_contain_text("signed by two")
        expect(page.locator("[data-waits]")).to_have_count(0)
    told = hub.owner.get("/v1/channels/gate/status/deploy").body
    assert (told["version"], told["value"], told["by"]) == (2, {"version": 7}, me(phone))
    desk.get_by_label("Key").fill("deploy.other")
    desk.get_by_label("Value").fill("8")
    desk.get_by_role("button", name="Save").click()
    expect(desk.locator("form [role=alert]")).to_contain_text("second")
