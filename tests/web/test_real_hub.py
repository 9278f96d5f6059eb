"""The page against the real thing: hub, host and the demo agent in one process, as `ekiden up` starts them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from web.browser import DESK, PHONE
from web.real_hub import Devices, Hub

pytestmark = pytest.mark.browser


@pytest.fixture
def link(tmp_path: Path) -> Iterator[str]:
    """The link that `ekiden up` prints, on a computer with an empty home."""
    home = tmp_path / "home"
    (home / "project").mkdir(parents=True)
    environment = {
        "HOME": str(home),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"]),
        "LANG": "C.UTF-8",
    }
    command = [sys.executable, "-m", "ekiden.cli", "up", "--json", "--no-open", "--port", "0"]
    process = subprocess.Popen(
        command, env=environment, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["link"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=20)
        process.stdout.close()


def test_from_the_printed_link_to_an_answered_approval_on_two_devices(
    chromium: Browser, link: str, tmp_path: Path
) -> None:
    """A newcomer's way: sign in, start the demo agent, answer on the other device, read on without a network."""
    phone_context = chromium.new_context(locale="en-GB", **PHONE)
    phone = phone_context.new_page()
    faults: list[str] = []
    phone.on("pageerror", lambda error: faults.append(str(error)))
    phone.goto(link)
    expect(phone.get_by_role("heading", name="Inbox")).to_be_visible()
    assert "pair=" not in phone.url
    desk = start_demo(phone, chromium, tmp_path, faults)
    card = desk.locator("[data-approval]")
    expect(card).to_contain_text("uname -s && ls")
    desk.get_by_role("button", name="Allow once").click()
    expect(phone.locator("[data-approval]")).to_have_count(0)
    expect(phone.locator(".say", has_text="The command ran and ended with 0.")).to_be_visible()
    expect(phone.locator(".session-head .pill")).to_have_count(0)
    for page in (phone, desk):
        expect(page.locator(".say", has_text="The command ran and ended with 0.")).to_have_count(1)
        expect(page.locator(".me", has_text="please ask")).to_have_count(1)

    phone.evaluate("() => navigator.serviceWorker.ready.then(() => true)")
    phone.wait_for_function("() => navigator.serviceWorker.controller !== null")
    phone.evaluate("() => window.dispatchEvent(new Event('pagehide'))")
    phone_context.set_offline(True)
    phone.reload()
    expect(phone.locator(".say", has_text="The command ran and ended with 0.")).to_be_visible()
    expect(phone.locator(".banner").first).to_contain_text("Not connected")
    phone_context.set_offline(False)
    expect(phone.locator(".banner")).to_have_count(0)
    desk.context.close()
    phone_context.close()
    assert faults == []


def start_demo(phone: Page, chromium: Browser, tmp_path: Path, faults: list[str]) -> Page:
    """Starts a session of the demo agent on the phone and opens it, by its address, on a desktop as well."""
    phone.get_by_role("link", name="New").click()
    phone.get_by_label("Demo").check()
    phone.get_by_label("Folder", exact=True).fill(str(tmp_path / "home" / "project"))
    phone.get_by_label("First message").fill("please ask")
    phone.get_by_role("button", name="Start").click()
    expect(phone.locator(".session-head")).to_be_visible()
    context = chromium.new_context(locale="en-GB", storage_state=phone.context.storage_state(), **DESK)
    desk = context.new_page()
    desk.on("pageerror", lambda error: faults.append(str(error)))
    desk.goto(phone.url)
    return desk


def test_a_receipt_outlives_a_reload_in_the_middle_of_a_turn(hub: Hub, device: Devices, tmp_path: Path) -> None:
    """What the model was seen to get says so on a page that is loaded again while the turn waits, on another
    device that comes late, and no longer at the message of a turn before."""
    computer = hub.owner.get("/v1/hosts")["hosts"][0]["host_id"]
    begun = {"host_id": computer, "vendor": "demo", "cwd": str(tmp_path / "home"), "message": "say hello"}
    session = hub.owner.post("/v1/sessions", begun)["session_id"]
    page = device(f"session/{session}", kind=PHONE)
    expect(page.locator(".say", has_text="hello")).to_be_visible()
    expect(page.locator(".session-head .pill")).to_have_count(0)
    page.locator(".composer textarea").fill("please ask")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("[data-approval]")).to_be_visible()
    for shown in (page, device(f"session/{session}", kind=DESK), page):
        shown.reload()
        expect(shown.locator("[data-approval]")).to_be_visible()
        expect(shown.locator(".me-row", has_text="please ask").locator("[data-receipt=seen]")).to_contain_text(
            "Seen by the model"
        )
        expect(shown.locator("[data-receipt]")).to_have_count(1)
