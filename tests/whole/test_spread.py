"""A hub of three nodes behind real browsers: the node that the host has dialled dies in the middle of a turn."""

import pytest
from playwright.sync_api import expect

from scripted_model import ScriptedModel
from web.browser import DESK, PHONE, chromium
from whole.computer import wait_for
from whole.spread import SpreadComputer
from whole.test_browser import DevicesOf, devices_of, open_by_hand, picture, said, send
from whole.test_vendors import native_turn

__all__ = ["chromium", "devices_of"]

pytestmark = [pytest.mark.browser, pytest.mark.vendors, pytest.mark.timeout(180)]
WORDS = " ".join(f"w{number}" for number in range(80))


@pytest.mark.parametrize("computer", ["nats"], indirect=True)
def test_a_turn_is_watched_to_its_end_though_the_node_of_its_host_dies(
    computer: SpreadComputer, model: ScriptedModel, devices_of: DevicesOf
) -> None:
    """A phone at node B watches; a desktop is at node A, as the host is. SIGKILL of A: the host and the desktop go
    on at another node by themselves, the phone notices nothing, and both end with the whole text, once."""
    computer.up()
    nodes = computer.nodes
    native_turn(computer, "claude", "Count for me @@text ready")
    a = nodes.host_at()
    b = (a + 1) % len(nodes.urls)
    nodes.prefer(b, "the phone")
    nodes.prefer(a, "the desktop")
    devices = devices_of(computer)
    phone = devices.signed_in({**PHONE, "user_agent": "the phone"})
    open_by_hand(phone, "Count for me")
    phone.get_by_role("button", name="Continue here").click()
    expect(phone.locator(".session-head")).to_contain_text("same turn")
    desk = devices.signed_in({**DESK, "user_agent": "the desktop"})
    desk.goto(phone.url)

    send(phone, f"Begin @@hold end @@delay 0.05 @@n 80 @@text {WORDS}")
    for page in (phone, desk):
        expect(page.locator(".growing")).to_contain_text("w5 ")
    assert (nodes.host_at(), nodes.where("the desktop"), nodes.where("the phone")) == (a, a, b)
    nodes.kill(a)
    picture(phone, "node-killed-phone")
    for page in (phone, desk):
        expect(page.locator(".growing")).to_contain_text("w78")
    assert nodes.where("the phone") == b
    assert nodes.host_at() != a
    wait_for(lambda: nodes.where("the desktop") not in (None, a), "the desktop is at another node")
    picture(phone, "node-gone-phone")
    model.release("end")
    for page, size in ((phone, "phone"), (desk, "desk")):
        expect(page.locator("[data-receipt=seen]")).to_be_visible()
        expect(page.locator(".growing")).to_have_count(0)
        expect(said(page, "w79")).to_have_count(1)
        assert said(page, "w79").locator(".prose").inner_text().strip() == WORDS
        expect(page.locator(".me", has_text="Begin")).to_have_count(1)
        expect(page.locator(".banner")).to_have_count(0)
        picture(page, f"node-gone-done-{size}")
    (session,) = computer.sessions()
    assert computer.texts(session["report"]["session_id"]) == ["ready", WORDS]
