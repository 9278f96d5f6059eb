"""Invites, keys and seats on the page, over the real hub; the guest is the real command line."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from ekiden.crypto import invites
from web.browser import DESK, PHONE
from web.real_hub import Devices, Hub

pytestmark = pytest.mark.browser

BOTH = pytest.mark.parametrize("kind", [PHONE, DESK], ids=["phone", "desk"])


def join(hub: Hub, home: Path, invite: str, *more: str) -> Any:
    """What `ekiden join -` says, on a computer of the guest's own."""
    command = [sys.executable, "-m", "ekiden.cli", "join", "-", "--json", "--home", str(home), *more]
    environment = {**hub.environment, "HOME": str(home.parent), "EKIDEN_HOME": str(home)}
    ran = subprocess.run(command, input=f"{invite}\n", env=environment, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def make(page: Page, **fields: str) -> str:
    """Makes the invite whose form is open, and returns its string."""
    for label, text in fields.items():
        page.get_by_label(label).fill(text)
    page.get_by_role("button", name="Make the invite").click()
    return page.locator("[data-invite] pre").inner_text()


@BOTH
def test_an_invite_brings_a_guest_and_both_see_the_same_digits(
    hub: Hub, device: Devices, tmp_path: Path, kind: dict[str, Any]
) -> None:
    """Made from a channel's members, taken by `ekiden join`; the page knows the guest's key by the invite, shows
    the digits that the guest was shown, and keeps that a person has compared them."""
    hub.owner.post("/v1/channels", {"name": "build"})
    page = device("channel/build?tab=members", kind=kind)
    page.get_by_role("link", name="Invite…").click()
    expect(page.get_by_role("checkbox", name="build")).to_be_checked()
    text = make(page, **{"What the guest will be called": "ben"})
    expect(page.locator("[data-invite]")).to_contain_text("ekiden join -")
    invite = invites.read_invite(text)
    assert (invite.hub, bool(invite.secret), bool(invite.hub_key)) == (hub.url, True, True)
    card = page.locator("article[data-state]", has_text="ben")
    page.get_by_role("button", name="Done").click()
    expect(card).to_have_attribute("data-state", "open")
    told = join(hub, tmp_path / "guest" / "data", text)
    assert told["name"] == "ben"
    expect(card).to_have_attribute("data-state", "claimed")
    expect(card.get_by_role("button", name="Take back")).to_have_count(0)
    card.get_by_role("button", name="Compare keys").click()
    key = page.locator("dialog [data-trust]")
    expect(key).to_have_attribute("data-trust", "invited")
    expect(key).to_contain_text(told["compare"])
    expect(key).to_contain_text(told["fingerprint"])
    key.get_by_role("button", name="They are the same").click()
    key.get_by_role("button", name="Press again").click()
    expect(key).to_have_attribute("data-trust", "compared")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    page.goto(f"{hub.url}/#/channel/build?tab=members")
    page.locator("article.card", has_text="ben").get_by_role("button", name="Compare keys").click()
    expect(page.locator("dialog [data-trust]")).to_have_attribute("data-trust", "compared")


def test_an_invite_can_be_narrow_and_is_taken_back(hub: Hub, device: Devices, tmp_path: Path) -> None:
    """Rights by pattern and verb go into the guest's key; an invite that was taken back lets nobody in."""
    for name in ("build-1", "build-2", "other"):
        hub.owner.post("/v1/channels", {"name": name})
    page = device("invites?channel=build-1", kind=DESK)
    page.get_by_label("May do there what agents usually do").uncheck()
    page.get_by_label("Where: a resource").fill("channel:build-*")
    for verb in ("mention", "take leases"):
        page.get_by_label(verb, exact=True).uncheck()
    page.get_by_label("Status keys it may set").fill("tests.*")
    page.get_by_label("The invite works for").select_option(label="an hour")
    told = join(hub, tmp_path / "one" / "data", make(page), "--name", "ci")
    assert told["permissions"] == {"channel:build-*": ["read", "post", "ack", "status:tests.*"]}
    page.get_by_role("button", name="Done").click()
    page.get_by_role("checkbox", name="other").check()
    text = make(page, **{"What the guest will be called": "eve"})
    page.get_by_role("button", name="Done").click()
    card = page.locator("article[data-state]", has_text="eve")
    card.get_by_role("button", name="Take back").click()
    card.get_by_role("button", name="Press again to take it back").click()
    expect(card).to_have_attribute("data-state", "cancelled")
    command = [sys.executable, "-m", "ekiden.cli", "join", "-", "--home", str(tmp_path / "two")]
    ran = subprocess.run(
        command, input=text, env=hub.environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 3
    assert "does not work" in ran.stderr


def test_what_cannot_be_invited_to_says_what_to_do(hub: Hub, device: Devices) -> None:
    """No channel: a way to make one. A name that is taken: the door's own words, and the form stays filled."""
    page = device("invites", kind=PHONE)
    expect(page.get_by_text("Make one first")).to_be_visible()
    expect(page.get_by_text("No invite was made yet.")).to_be_visible()
    hub.owner.post("/v1/channels", {"name": "build"})
    hub.agent("ben")
    page.get_by_text("Invite somebody…").click()
    page.get_by_role("checkbox", name="build").check()
    page.get_by_label("What the guest will be called").fill("ben")
    page.get_by_role("button", name="Make the invite").click()
    expect(page.locator("form [role=alert]")).to_contain_text("ben")
    expect(page.get_by_role("checkbox", name="build")).to_be_checked()


def test_a_key_is_narrowed_by_keyboard(hub: Hub, device: Devices) -> None:
    """What is taken away is refused at once, and shown as it is now when the dialog opens again."""
    hub.owner.post("/v1/channels", {"name": "build"})
    agent = hub.agent("ben", {"channel:*": ["read", "post", "status:*"], "team": ["read"]})
    page = device("devices", kind=DESK)
    card = page.locator("article.key", has_text="ben")
    card.get_by_role("button", name="Rights…").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("write", exact=True).first.focus()
    page.keyboard.press("Space")
    dialog.get_by_label("Status keys it may set").first.fill("tests.*")
    dialog.get_by_role("button", name="Save").focus()
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    [key] = [one for one in hub.owner.get("/v1/keys")["keys"] if one["name"] == "ben"]
    assert key["permissions"] == {"channel:*": ["read", "status:tests.*"], "team": ["read"]}
    assert agent.post("/v1/channels/build/messages", {"text": "still?"}).status == 403
    card.get_by_role("button", name="Rights…").click()
    expect(dialog.get_by_label("write", exact=True).first).not_to_be_checked()


@BOTH
def test_a_seat_is_seen_narrowed_and_revoked(hub: Hub, device: Devices, kind: dict[str, Any]) -> None:
    """A session's agent stands among the seats, leads to its session, and ends for good when it is revoked."""
    made = hub.owner.post("/v1/keys", {"name": "desk", "kind": "host"})
    host = type(hub.owner)(hub.url, made["key"])
    page = device("devices", kind=kind)
    expect(page.get_by_text("No session has a seat.")).to_be_visible()
    seats = f"/v1/hosts/{made['host_id']}/seats"
    body = {"vendor": "demo", "native_id": "one", "project": "webshop"}
    seat = host.post(seats, body)
    card = page.locator(f"article[data-key={seat['key_id']}]")
    expect(card).to_contain_text(seat["name"])
    expect(card.get_by_role("link", name="its session")).to_have_attribute(
        "href", f"#/session/{seat['session_id']}"
    )
    card.get_by_role("button", name="Rights…").click()
    page.get_by_role("dialog").get_by_role("button", name="Take away").last.click()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    narrowed = host.post(seats, body)
    [key] = [one for one in hub.owner.get("/v1/keys")["keys"] if one["key_id"] == narrowed["key_id"]]
    assert (key["session_id"], len(key["permissions"])) == (seat["session_id"], 2)
    card = page.locator(f"article[data-key={narrowed['key_id']}]")
    card.get_by_role("button", name="Revoke").click()
    expect(card).to_contain_text("gets no key again")
    card.get_by_role("button", name="Press again to revoke").click()
    expect(page.get_by_text("No session has a seat.")).to_be_visible()
    assert host.post(seats, body).status == 403


def test_the_chinese_page_has_no_english_left_in_invites(hub: Hub, device: Devices) -> None:
    """Every word of these screens comes from the table of the person's language."""
    hub.owner.post("/v1/channels", {"name": "zhong"})
    page = device("invites?channel=zhong", kind=PHONE, locale="zh-CN")
    page.get_by_label("在那里可做代理通常做的事").uncheck()
    shown = page.locator("main").inner_text()
    assert "邀请" in shown
    words = ("Invite", "invite", "Rights", "write", "read", "Agent", "day", "Channels")
    assert not [word for word in words if word in shown]
