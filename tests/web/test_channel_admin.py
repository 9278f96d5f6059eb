"""What whoever administers a channel does on the page, over the real hub: rules, an export, a purge."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from ekiden.testing.relay.door import Door
from web.browser import DESK, PHONE
from web.real_hub import Devices, Hub

pytestmark = pytest.mark.browser

BOTH = pytest.mark.parametrize("kind", [PHONE, DESK], ids=["phone", "desk"])


@BOTH
def test_rules_are_made_seen_and_taken_away(hub: Hub, device: Devices, kind: dict[str, Any]) -> None:
    """A rule holds the next writer to it; what is no JSON, or no pattern, is said, and what was typed stays."""
    hub.owner.post("/v1/channels", {"name": "gate"})
    agent = hub.agent("ci", {"channel:gate": ["read", "status:*"]})
    page = device("channel/gate?tab=admin", kind=kind)
    expect(page.get_by_text("Values need nothing yet.")).to_be_visible()
    page.get_by_text("A rule for status values…").click()
    page.get_by_label("Keys: one").fill("tests.*")
    page.get_by_label("a commit").check()
    page.get_by_label("JSON Schema").fill("{")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("form [role=alert]")).to_contain_text("not JSON")
    page.get_by_label("JSON Schema").fill('{"type": "object"}')
    page.get_by_role("button", name="Save").click()
    rule = page.locator("[data-rule]")
    expect(rule).to_contain_text("tests.*")
    expect(rule).to_contain_text("a commit")
    expect(rule).to_contain_text('"type": "object"')
    expect(page.locator("form [role=alert]")).to_have_count(0)
    assert agent.put("/v1/channels/gate/status/tests.unit", {"value": 1}).status == 422
    page.get_by_label("Keys: one").fill("* *")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("form [role=alert]")).to_contain_text("not a pattern")
    expect(rule).to_have_count(1)
    rule.get_by_role("button", name="Take away").click()
    rule.get_by_role("button", name="Press again").click()
    expect(page.get_by_text("Values need nothing yet.")).to_be_visible()
    assert agent.put("/v1/channels/gate/status/tests.unit", {"value": 1}).ok


def test_an_export_is_a_file_that_verifies(hub: Hub, device: Devices, tmp_path: Path) -> None:
    """What the browser saves is what `ekiden verify` takes."""
    hub.owner.post("/v1/channels", {"name": "build"})
    page = device("channel/build", kind=DESK)
    page.locator(".composer textarea").fill("the release is ready")
    page.locator(".composer").get_by_role("button", name="Send").click()
    expect(page.locator(".message")).to_contain_text("signature checked")
    page.get_by_role("link", name="Administer").click()
    page.get_by_role("button", name="Export the channel").click()
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save the file").click()
    assert saved.value.suggested_filename == "build.export"
    saved.value.save_as(tmp_path / "build.export")
    command = [sys.executable, "-m", "ekiden.cli", "verify", str(tmp_path / "build.export")]
    ran = subprocess.run(command, env=hub.environment, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, "1 messages, 1 signed" in ran.stdout) == (0, True), ran.stdout + ran.stderr


@BOTH
def test_a_purge_names_what_will_be_gone_and_takes_just_that(
    hub: Hub, device: Devices, kind: dict[str, Any]
) -> None:
    """Nothing that is young; then a range by its numbers, which can be left alone; then gone, with its note."""
    hub.owner.post("/v1/channels", {"name": "old"})
    for number in range(5):
        hub.owner.post("/v1/channels/old/messages", {"text": f"message {number + 1}"})
    page = device("channel/old?tab=admin", kind=kind)
    expect(page.get_by_text("Nothing was purged here yet.")).to_be_visible()
    day = page.get_by_label("All messages from before")
    day.fill("2001-01-01")
    page.get_by_role("button", name="See what would go…").click()
    expect(page.get_by_text("Nothing here is older than that.")).to_be_visible()
    day.fill("2999-01-01")
    page.get_by_role("button", name="See what would go…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Delete 5 messages for good?")
    expect(dialog).to_contain_text("#1 to #5 will be gone")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert len(hub.owner.get("/v1/channels/old/messages")["messages"]) == 5
    page.get_by_role("button", name="See what would go…").click()
    hub.owner.post("/v1/channels/old/messages", {"text": "said while the question stood"})
    dialog.get_by_role("button", name="Delete 5 messages for good").click()
    expect(page.locator("[data-purged]")).to_contain_text("#1 to #5 are gone.")
    expect(dialog).to_have_count(0)
    left = hub.owner.get("/v1/channels/old/messages")["messages"]
    assert [message["number"] for message in left] == [6]
    hub.owner.patch("/v1/channels/old", {"retention": {"held": True}})
    expect(page.get_by_role("button", name="See what would go…")).to_have_count(0)


def test_who_does_not_administer_has_no_such_tab(hub: Hub, device: Devices) -> None:
    """Not in the row of tabs, and not by its address."""
    hub.owner.post("/v1/channels", {"name": "gate"})
    page = device("channel/gate?tab=admin", kind=DESK)
    expect(page.get_by_role("link", name="Administer")).to_be_visible()
    mine = page.evaluate("() => fetch('/v1/me').then((answer) => answer.json())")
    narrow(hub.owner, mine["key_id"])
    page.reload()
    expect(page.get_by_role("link", name="Members")).to_be_visible()
    expect(page.get_by_role("link", name="Administer")).to_have_count(0)
    expect(page.locator(".composer")).to_be_visible()


def narrow(owner: Door, key_id: str) -> None:
    """Leaves a key reading and writing in channels."""
    changed = owner.patch(f"/v1/keys/{key_id}", {"permissions": {"*": ["read", "post"]}})
    assert changed.ok
