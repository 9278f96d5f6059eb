"""The page in a real browser on a phone and on a desktop, in front of the whole product with the real Claude Code
and Codex: from the printed link to a turn that two devices share, whatever dies or deceives on the way."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from scripted_model import ScriptedModel
from web.browser import DESK, PHONE, Guard, chromium, made_from_text
from whole.computer import Computer, wait_for
from whole.conftest import RESULTS
from whole.spread import OVER
from whole.test_vendors import VENDORS, asking, native_turn

__all__ = ["chromium"]

pytestmark = [pytest.mark.browser, pytest.mark.vendors, pytest.mark.timeout(180)]
SLOW_MS = 30_000
"""How long a page may wait for a vendor's program to start and answer."""


class Devices:
    """Browsers of one person: each has a profile of its own and is signed in by a link of its own."""

    def __init__(self, chromium: Browser, computer: Computer) -> None:
        self._chromium = chromium
        self._computer = computer
        self._pages: list[Page] = []
        self.guard = Guard(computer.url)

    def open(self, kind: dict[str, Any], address: str) -> Page:
        """A fresh profile at this address."""
        page = self._chromium.new_context(locale="en-GB", **kind).new_page()
        page.set_default_timeout(SLOW_MS)
        self._pages.append(page)
        self.guard.watch(page)
        page.goto(address)
        return page

    def signed_in(self, kind: dict[str, Any]) -> Page:
        """A device that was let in, at its inbox."""
        link = re.search(r"http://\S+#pair=\S+", self._computer.ekiden("pair", "--here"))
        assert link
        page = self.open(kind, link[0])
        expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
        return page

    def close(self) -> None:
        for page in self._pages:
            page.context.close()


DevicesOf = Callable[[Computer], Devices]


@pytest.fixture
def devices_of(chromium: Browser) -> Iterator[DevicesOf]:
    """Devices of a computer whose Ekiden is up. No test passes while a page has thrown or reached elsewhere."""
    made: list[Devices] = []

    def of(computer: Computer) -> Devices:
        expect.set_options(timeout=SLOW_MS)
        made.append(Devices(chromium, computer))
        return made[-1]

    yield of
    expect.set_options(timeout=5_000)
    for devices in made:
        devices.close()
        assert devices.guard.found() == []


def picture(page: Page, name: str) -> None:
    """Keeps what the page shows, for people to look at."""
    folder = RESULTS / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"{name}.png")


def said(page: Page, text: str) -> Locator:
    """What the agent said with these words."""
    return page.locator(".say", has_text=text)


def send(page: Page, text: str) -> None:
    """Types into the composer and sends."""
    page.locator("form.composer textarea").fill(text)
    page.locator("form.composer button[type=submit]").click()


def open_by_hand(page: Page, title: str) -> None:
    """From the list to the session, as a person goes."""
    sessions = page.get_by_role("link", name="Sessions")
    if sessions.count():
        sessions.click()
    page.locator("a.item", has_text=title).click()
    expect(page.locator(".session-head")).to_contain_text(title)


@pytest.mark.parametrize(
    ("computer", "vendor"),
    [*(("", vendor) for vendor in VENDORS), *zip(OVER, VENDORS, strict=True)],
    indirect=["computer"],
)
def test_a_session_of_the_vendors_program_is_carried_on_by_two_devices(
    computer: Computer, model: ScriptedModel, devices_of: DevicesOf, vendor: str
) -> None:
    """Made in a terminal, continued on the phone: the text streams to both, the desktop answers the approval, the
    result stands on both, and the desktop stops the next turn with its text kept."""
    native_turn(computer, vendor, "Why is the build slow? @@text The cache is cold.")
    computer.up()
    devices = devices_of(computer)
    phone = devices.open(PHONE, computer.link)
    expect(phone.get_by_role("heading", name="Inbox")).to_be_visible()
    expect(devices.open(DESK, computer.link).get_by_role("heading", name="The link does not work")).to_be_visible()
    open_by_hand(phone, "Why is the build slow?")
    expect(said(phone, "The cache is cold.")).to_be_visible()
    phone.get_by_role("button", name="Continue here").click()
    expect(phone.locator(".session-head")).to_contain_text("same turn")
    desk = devices.signed_in(DESK)
    desk.goto(phone.url)
    expect(said(desk, "The cache is cold.")).to_be_visible()

    made = computer.project / "warm.txt"
    words = "First I look, then I warm the cache by a command."
    send(phone, asking(vendor, f"echo warm > {made}").replace("I will run it", f"{words} @@hold gate @@n 8"))
    for page in (phone, desk):
        expect(page.locator(".growing")).to_contain_text("then I warm the cache")
        assert "by a command." not in page.locator(".growing").inner_text()
    picture(phone, f"{vendor}-growing-phone")
    model.release("gate")
    for page, size in ((phone, "phone"), (desk, "desk")):
        card = page.locator("[data-approval]")
        expect(card).to_contain_text(f"echo warm > {made}")
        expect(page.locator(".session-head .pill")).to_have_text("asks")
        picture(page, f"{vendor}-approval-{size}")
    assert not made.exists()
    desk.get_by_role("button", name="Allow once").click()
    for page, size in ((phone, "phone"), (desk, "desk")):
        expect(page.locator("[data-approval]")).to_have_count(0)
        expect(said(page, "all done")).to_have_count(1)
        expect(said(page, words)).to_have_count(1)
        expect(page.locator(".session-head .pill")).to_have_count(0)
        expect(page.locator("[data-receipt=seen]")).to_be_visible()
        picture(page, f"{vendor}-done-{size}")
    assert made.read_text() == "warm\n"

    numbers = " ".join(str(number) for number in range(100))
    send(phone, f"Count. @@delay 0.1 @@n 100 @@text {numbers}")
    expect(desk.locator(".growing")).to_contain_text("3 4 5")
    desk.get_by_role("button", name="Stop").click()
    for page in (phone, desk):
        expect(page.get_by_role("button", name="Stop")).to_have_count(0)
        expect(said(page, "0 1 2 3 4 5")).to_have_count(1)
        expect(page.locator(".growing")).to_have_count(0)
    kept = {said(page, "0 1 2 3 4 5").locator(".prose").inner_text() for page in (phone, desk)}
    assert len(kept) == 1
    assert numbers.startswith(kept.pop().strip())
    picture(phone, f"{vendor}-stopped-phone")


def test_a_session_that_a_terminal_holds_is_named_so_and_can_be_forked_and_quoted(
    computer: Computer, model: ScriptedModel, devices_of: DevicesOf
) -> None:
    """While Claude Code writes it: who holds it, no field to write in, fork and quote. When it ends: continue."""
    native_id = native_turn(computer, "claude", "Draw the plan @@text The plan has three parts.")
    computer.up()
    devices = devices_of(computer)
    phone = devices.signed_in(PHONE)
    prompt = "And the second part? @@hold native @@n 4 @@text It is the longest one."
    process = computer.begin("claude", "-p", prompt, "--resume", native_id, "--output-format", "json")
    open_by_hand(phone, "Draw the plan")
    composer = phone.locator("form.composer")
    expect(composer).to_contain_text(f"process {process.pid}")
    expect(composer.locator("textarea")).to_have_count(0)
    expect(composer.get_by_role("button", name="Continue here")).to_have_count(0)
    expect(composer.get_by_role("button", name="Quote…")).to_be_visible()
    picture(phone, "held-phone")
    source = phone.url
    composer.get_by_role("button", name="Fork").click()
    expect(phone.locator(".session-head")).to_contain_text("same turn")
    assert phone.url != source
    send(phone, "Go on @@text In the fork.")
    for text in ("The plan has three parts.", "In the fork."):
        expect(said(phone, text)).to_have_count(1)
    picture(phone, "forked-phone")
    desk = devices.signed_in(DESK)
    desk.goto(source)
    desk.get_by_role("button", name="Quote…").click()
    dialog = desk.get_by_role("dialog")
    dialog.get_by_label("Codex").check()
    dialog.get_by_label("What to say after").fill(
        "What do you think? @@hold quoted @@text Three parts are enough."
    )
    picture(desk, "quote-desk")
    model.release("quoted")
    dialog.get_by_role("button", name="Start with the extract").click()
    expect(said(desk, "Three parts are enough.")).to_be_visible()
    expect(desk.locator(".me").first).to_contain_text("The plan has three parts.")
    picture(desk, "quoted-desk")
    phone.goto(source)
    expect(phone.locator("form.composer")).to_contain_text(f"process {process.pid}")
    assert process.poll() is None
    model.release("native")
    assert process.wait(30) == 0
    expect(said(phone, "It is the longest one.")).to_be_visible()
    expect(phone.get_by_role("button", name="Continue here")).to_be_visible()


@pytest.mark.parametrize("computer", ["", "notify"], indirect=True)
def test_an_open_page_says_that_the_hub_died_and_comes_back_by_itself_with_all(
    computer: Computer, devices_of: DevicesOf
) -> None:
    """SIGKILL of hub and host under an open page: it says so, and what is typed waits. After the start everything
    is there once: what was said before, what a terminal did meanwhile, and the message that waited."""
    native_id = native_turn(computer, "claude", "Keep a list @@text one, two, three")
    computer.up()
    phone = devices_of(computer).signed_in(PHONE)
    open_by_hand(phone, "Keep a list")
    computer.kill_up()
    banner = phone.locator(".banner").first
    expect(banner).to_contain_text("The connection was lost")
    expect(said(phone, "one, two, three")).to_be_visible()
    native_turn(computer, "claude", "And more @@text four, five", resume=native_id)
    send(phone, "And then? @@text six")
    expect(phone.locator("[data-receipt=waiting]")).to_contain_text("Waits here")
    picture(phone, "hub-gone-phone")
    computer.up(port=int(computer.url.rsplit(":", 1)[1]))
    expect(phone.locator(".banner")).to_have_count(0)
    for text in ("one, two, three", "four, five", "six"):
        expect(said(phone, text)).to_have_count(1)
    expect(phone.locator(".me", has_text="And then?")).to_have_count(1)
    expect(phone.locator("[data-receipt=seen]")).to_be_visible()
    picture(phone, "hub-back-phone")
    session_id = computer.session(native_id)["report"]["session_id"]
    assert computer.texts(session_id) == ["one, two, three", "four, five", "six"]


def test_what_a_sub_agent_did_can_be_read(computer: Computer, devices_of: DevicesOf) -> None:
    """Claude Code's sub-agent has a file of its own: its command and its last words stand under its call."""
    asked = {
        "description": "Look around",
        "prompt": "sub %%sh ls %%final I looked: nothing odd.",
        "subagent_type": "general-purpose",
    }
    prompt = f"Is all well? @@raw Task {json.dumps(asked)} @@final All is well."
    computer.run("claude", "-p", prompt, "--allowedTools", "Task", "Bash(ls:*)")
    computer.up()
    phone = devices_of(computer).signed_in(PHONE)
    open_by_hand(phone, "Is all well?")
    phone.locator(".tool > .head", has_text="Look around").click()
    phone.get_by_role("button", name="What the sub-agent did").click()
    thread = phone.locator(".thread .nested")
    expect(thread).to_contain_text("I looked: nothing odd.")
    expect(thread.locator(".tool > .head")).to_contain_text("ls")
    picture(phone, "sub-agent-phone")


HOSTILE = (
    "<img src=x onerror=alert(1)><svg onload=alert(2)></svg><script>alert(3)</script></script> "
    "[here](javascript:alert(4)) ![p](https://elsewhere.example/p.png) ![q](//elsewhere.example/q.png) "
    "[ref]: javascript:alert(5) <iframe src=//elsewhere.example></iframe> <a href=javascript:alert(6)>go</a> "
    "\u202egnp.exe\u202c \x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m \u200bhidden\U000e0041 &lt;b&gt;"
)


def native_lines(vendor: str, native_id: str, text: str) -> list[dict[str, Any]]:
    """A native session that says `text` wherever a program may put text."""
    at = "2026-01-01T00:00:00.000Z"
    if vendor == "codex":
        call = {
            "name": "exec_command",
            "arguments": json.dumps({"cmd": text, "workdir": text}),
            "call_id": "call_1",
        }
        user = [{"type": "input_text", "text": text}]
        assistant = [{"type": "output_text", "text": text}]
        other = {"type": "function_call", "name": text, "arguments": text, "call_id": "call_2"}
        meta = {"id": native_id, "timestamp": at, "cwd": f"/{text}", "originator": text, "cli_version": text}
        payloads: list[tuple[str, dict[str, Any]]] = [
            ("session_meta", {**meta, "source": "cli", "model_provider": "fake", "git": {"branch": text}}),
            ("response_item", {"type": "message", "role": "user", "content": user}),
            ("event_msg", {"type": "user_message", "message": text, "kind": "plain"}),
            ("response_item", {"type": "function_call", **call}),
            ("response_item", {"type": "function_call_output", "call_id": "call_1", "output": text}),
            ("response_item", other),
            ("response_item", {"type": "function_call_output", "call_id": "call_2", "output": text}),
            ("response_item", {"type": "message", "role": "assistant", "content": assistant}),
            (text, {"type": text}),
        ]
        return [{"timestamp": at, "type": kind, "payload": payload} for kind, payload in payloads]
    edit = {"file_path": f"/tmp/{text}", "old_string": text, "new_string": f"{text}!"}
    calls = [
        {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": text, "description": text}},
        {"type": "tool_use", "id": "toolu_2", "name": text, "input": {"any": text}},
        {"type": "tool_use", "id": "toolu_3", "name": "Edit", "input": edit},
    ]
    results = [{"type": "tool_result", "tool_use_id": call["id"], "content": text} for call in calls]
    spoken: list[tuple[str, Any]] = [
        ("user", text),
        ("assistant", [{"type": "thinking", "thinking": text}, {"type": "text", "text": text}, *calls]),
        ("user", results),
        ("assistant", [{"type": "text", "text": text}]),
    ]
    lines: list[dict[str, Any]] = []
    for number, (role, content) in enumerate(spoken):
        message: dict[str, Any] = {"role": role, "content": content}
        if role == "assistant":
            message |= {"id": f"msg_{number}", "type": "message", "model": text, "usage": {}}
        lines.append(
            {
                "parentUuid": lines[-1]["uuid"] if lines else None,
                "isSidechain": False,
                "cwd": f"/{text}",
                "gitBranch": text,
                "sessionId": native_id,
                "version": "2.1.0",
                "type": role,
                "uuid": f"00000000-0000-4000-8000-00000000000{number}",
                "timestamp": at,
                "message": message,
            }
        )
    return [
        *lines,
        {"type": "custom-title", "customTitle": text, "sessionId": native_id},
        {"type": text, "uuid": text},
    ]


def hostile_file(computer: Computer, vendor: str, native_id: str) -> Path:
    if vendor == "codex":
        name = f"rollout-2026-01-01T00-00-00-{native_id}.jsonl"
        return computer.home / ".codex" / "sessions" / "2026" / "01" / "01" / name
    return computer.home / ".claude" / "projects" / "-<img src=x onerror=alert(7)>" / f"{native_id}.jsonl"


@pytest.mark.parametrize(
    ("vendor", "kind"), [("claude", PHONE), ("codex", DESK)], ids=["claude on a phone", "codex on a desktop"]
)
def test_hostile_text_in_a_native_session_is_text(
    computer: Computer, devices_of: DevicesOf, vendor: str, kind: dict[str, Any]
) -> None:
    """In the title, folder, branch, words, thoughts, tool names, commands, outputs, diffs and unknown lines: no
    dialog, no navigation, no request elsewhere, and no element that it made."""
    native_id = "01a00000-0000-7000-8000-ef78fcdb10c0"
    file = hostile_file(computer, vendor, native_id)
    file.parent.mkdir(parents=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in native_lines(vendor, native_id, HOSTILE)))
    computer.up()
    session_id = computer.session(native_id)["report"]["session_id"]
    page = devices_of(computer).signed_in(kind)
    page.goto(f"{computer.url}/#/sessions")
    row = page.locator("a.item")
    expect(row).to_contain_text("onerror=alert(1)")
    assert made_from_text(page) == []
    row.click()
    conversation = page.locator(".virtual")
    expect(conversation).to_contain_text("<script>alert(3)</script>")
    closed = page.locator(".note-button[aria-expanded=false], .tool > .head[aria-expanded=false]")
    wait_for(lambda: closed.count() == 0 or closed.first.click(), "everything is unfolded")
    expect(conversation).to_contain_text("[here](javascript:alert(4))")
    expect(conversation).to_contain_text("⟨RLO⟩")
    expect(conversation).to_contain_text("&lt;b&gt;")
    assert made_from_text(page) == []
    picture(page, f"hostile-{vendor}")
    truth = page.get_by_role("complementary", name="What is true of this session")
    if kind is PHONE:
        page.get_by_role("button", name="Details").click()
        truth = page.get_by_role("dialog")
    truth.get_by_role("button", name="See the native lines").click()
    expect(truth.locator(".raw-line").first).to_contain_text("onerror=alert(1)")
    assert made_from_text(page) == []
    picture(page, f"hostile-{vendor}-details")
    page.goto(f"{computer.url}/#/sessions")
    page.get_by_role("searchbox").fill("onerror")
    expect(page.locator(".excerpt").first).to_contain_text("onerror")
    assert made_from_text(page) == []
    page.goto(f"{computer.url}/#/new")
    expect(page.get_by_label("Folder", exact=True)).to_be_visible()
    assert made_from_text(page) == []
    assert page.url.startswith(computer.url)
    assert computer.session(native_id)["report"]["session_id"] == session_id
