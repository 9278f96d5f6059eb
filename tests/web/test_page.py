"""The page in a real browser: signing in, hostile text, long sessions, keyboard, looks, no network."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from web import scenes
from web.browser import DESK, PHONE, made_from_text, to_the_top
from web.conftest import OpenPage
from web.stub_door import StubDoor

pytestmark = pytest.mark.browser

SCREENS = ["inbox", "sessions", "session/ses_run", "session/ses_held", "new", "devices", "invites", "settings"]


def test_the_links_code_is_claimed_by_post_and_leaves_no_trace(door: StubDoor, open_page: OpenPage) -> None:
    """Signed in at once, and neither the address, the history nor any request's address holds the code."""
    scenes.furnish(door)
    door.signed_in = False
    page = open_page("/#pair=K7QM-4TXR", kind=PHONE)
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
    assert "K7QM" not in page.url
    assert all("K7QM" not in path for _, path, _ in door.requests)
    assert next(body for _, path, body in door.requests if path == "/v1/pairings/claim")["code"] == "K7QM-4TXR"
    assert page.evaluate("() => history.length") <= 2
    assert "K7QM" not in page.evaluate("() => JSON.stringify([{...localStorage}, {...sessionStorage}])")


def test_a_waiting_device_shows_the_words_and_comes_in_when_it_is_confirmed(
    door: StubDoor, open_page: OpenPage
) -> None:
    """The words to compare stand there until the computer decides, over a reload too; nothing of it is left."""
    scenes.furnish(door)
    door.signed_in = False
    door.claim_state = "waiting"
    page = open_page("/#pair=K7QM-4TXR", kind=PHONE)
    expect(page.get_by_text("amber otter velvet")).to_be_visible()
    expect(page.get_by_text("This device is called “Chrome on Linux · phone” there.")).to_be_visible()
    page.reload()
    expect(page.get_by_text("amber otter velvet")).to_be_visible()
    expect(page.get_by_text("This device is called “Chrome on Linux · phone” there.")).to_be_visible()
    door.claim_state = "confirmed"
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
    assert page.evaluate("() => sessionStorage.length") == 0
    assert len([path for _, path, _ in door.requests if path == "/v1/pairings/claim"]) == 1


def test_another_device_may_be_given_a_name_before_the_code_is_used(door: StubDoor, open_page: OpenPage) -> None:
    """Typed at the form: the name that stands there is what the computer is told."""
    door.signed_in = False
    door.claim_state = "waiting"
    page = open_page("/", kind=PHONE)
    name = page.get_by_label("What this device is called")
    expect(name).to_have_value("Chrome on Linux · phone")
    name.fill("Kitchen phone")
    page.get_by_label("Code or link").fill("http://hub.example/#pair=K7QM-4TXR")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("amber otter velvet")).to_be_visible()
    claimed = next(body for _, path, body in door.requests if path == "/v1/pairings/claim")
    assert claimed == {"code": "K7QM-4TXR", "device": "Kitchen phone"}


def test_a_link_on_another_device_is_not_used_before_the_person_says_so(door: StubDoor, chromium: Browser) -> None:
    """Away from the hub's own computer the name is asked first: a mere preview does not use the link up."""
    scenes.furnish(door)
    door.signed_in = False
    context = chromium.new_context(locale="en-GB", **PHONE)
    page = context.new_page()
    page.goto(f"{door.url.replace('127.0.0.1', 'hub.localhost')}/#pair=K7QM-4TXR")
    expect(page.get_by_label("What this device is called")).to_have_value("Chrome on Linux · phone")
    assert "K7QM" not in page.url
    assert all(path != "/v1/pairings/claim" for _, path, _ in door.requests)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
    context.close()


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("denied", "This device was not let in"),
        ("expired", "The link has expired"),
        ("gone", "The link does not work"),
    ],
)
def test_a_link_that_does_not_work_says_why_and_what_to_do(
    door: StubDoor, open_page: OpenPage, state: str, says: str
) -> None:
    """Denied, expired and used links have a sentence each and a field for another code."""
    door.signed_in = False
    door.claim_state = state
    page = open_page("/#pair=K7QM-4TXR", kind=PHONE)
    if state != "gone":
        expect(page.get_by_text("amber otter velvet").or_(page.get_by_text(says))).to_be_visible()
    expect(page.get_by_role("heading", name=says)).to_be_visible()
    expect(page.get_by_label("Code or link")).to_be_visible()


def test_signing_out_forgets_everything(door: StubDoor, open_page: OpenPage) -> None:
    """Nothing that was seen stays in the browser."""
    scenes.furnish(door)
    page = open_page("/#/session/ses_run")
    expect(page.get_by_text("kustomize build deploy/inventory")).to_be_visible()
    page.evaluate("() => window.dispatchEvent(new Event('pagehide'))")
    kept = "() => indexedDB.databases().then((all) => all.map((one) => one.name))"
    page.wait_for_function("() => indexedDB.databases().then((all) => all.length === 1)")
    page.goto(door.url + "/#/settings")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="Press again to sign out").click()
    expect(page.get_by_role("heading", name="Signed out")).to_be_visible()
    page.wait_for_function("() => indexedDB.databases().then((all) => all.length === 0)")
    assert page.evaluate(kept) == []


@pytest.mark.parametrize("kind", [PHONE, DESK], ids=["phone", "desk"])
def test_hostile_text_is_text_everywhere(door: StubDoor, open_page: OpenPage, kind: dict[str, Any]) -> None:
    """No dialog, no navigation, no request elsewhere, no element from text; what was typed can be read."""
    scenes.hostile(door)
    page = open_page("/#/inbox", kind=kind)
    for screen in ("inbox", "sessions", "session/ses_bad", "new", "devices"):
        page.goto(f"{door.url}/#/{screen}")
        shown = "iframe" if screen == "new" else "onerror=alert(1)"  # there a folder stands by its last part
        expect(page.locator("#page")).to_contain_text(shown)
        for button in page.locator(".note-button, .tool > .head[aria-expanded=false]").all():
            button.click()
        assert made_from_text(page) == []
        assert page.url.startswith(door.url)
    page.goto(f"{door.url}/#/session/ses_bad")
    expect(page.locator(".virtual-row").first).to_be_visible()
    to_the_top(page, "evil.example")
    said = page.locator(".say", has=page.get_by_role("button", name="safe"))
    for typed in (
        '<script>top.location="//evil.example"</script>',
        "[x](javascript:alert(1))",
        "&lt;b&gt;",
        "⟨RLO⟩",
    ):
        expect(said).to_contain_text(typed)


def test_a_link_shows_where_it_leads_before_it_opens(door: StubDoor, open_page: OpenPage) -> None:
    """The name's true form stands beside the text; the press asks, and only then there is an address to open."""
    scenes.hostile(door)
    page = open_page("/#/session/ses_bad")
    expect(page.locator(".virtual-row").first).to_be_visible()
    to_the_top(page, "xn--e1awd7f.example")
    said = page.locator(".say", has=page.get_by_role("button", name="safe"))
    expect(said).to_contain_text("(xn--e1awd7f.example)")
    said.get_by_role("button", name="safe").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("https://xn--e1awd7f.example/a")
    leave = dialog.get_by_role("link", name="Open")
    assert leave.get_attribute("rel") == "noopener noreferrer"
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def rows_drawn(page: Page) -> int:
    """How many rows of the conversation are in the document."""
    return page.locator(".virtual-row").count()


def test_fifty_thousand_items_scroll_with_few_of_them_drawn(door: StubDoor, open_page: OpenPage) -> None:
    """From the end to the beginning: every page comes when it is needed, and the document stays small."""
    scenes.long_session(door, 50_000)
    page = open_page("/#/session/ses_long", kind=PHONE)
    expect(page.get_by_text("Message 49999.")).to_be_visible()
    walked = page.evaluate(
        """async () => {
            const view = document.querySelector('.virtual');
            let most = 0, frames = 0;
            const begun = () => [...document.querySelectorAll('.virtual-row')]
                .some((row) => row.textContent.includes('The beginning of the session'));
            while (!begun() && frames < 20000) {
                view.scrollTop = frames % 3 ? Math.max(0, view.scrollTop - 3000) : 0;
                await new Promise(requestAnimationFrame);
                frames += 1;
                most = Math.max(most, document.querySelectorAll('#page *').length);
            }
            return { most, frames, begun: begun() };
        }"""
    )
    assert walked["begun"]
    assert walked["most"] < 3000
    expect(page.get_by_text("echo 0", exact=True)).to_be_visible()
    jumped = page.evaluate(
        """async () => {
            const view = document.querySelector('.virtual');
            const blank = [];
            for (let step = 1; step <= 60; step += 1) {
                view.scrollTop = (view.scrollHeight - view.clientHeight) * (step / 60);
                await new Promise(requestAnimationFrame);
                await new Promise(requestAnimationFrame);
                const box = view.getBoundingClientRect();
                const seen = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
                if (!seen || !seen.closest('.virtual-row')) blank.push(step);
            }
            return blank;
        }"""
    )
    assert jumped == []
    assert rows_drawn(page) < 120


def test_a_page_that_comes_before_does_not_move_what_is_read(door: StubDoor, open_page: OpenPage) -> None:
    """Older items are put above; the row at the top of the window stays where it is."""
    scenes.long_session(door, 1000)
    page = open_page("/#/session/ses_long")
    expect(page.get_by_text("Message 998.")).to_be_visible()
    before = len([path for _, path, _ in door.requests if "/items" in path])
    moved = page.evaluate(
        """async () => {
            const view = document.querySelector('.virtual');
            const frame = () => new Promise(requestAnimationFrame);
            const settle = async () => { for (let n = 0; n < 4; n += 1) await frame(); };
            view.scrollTop = 6000;
            await settle();
            const top = view.getBoundingClientRect().top;
            const height = view.scrollHeight;
            let key, was;
            for (let n = 0; n < 100 && view.scrollHeight - height < 5000; n += 1) {
                const row = [...document.querySelectorAll('.virtual-row')]
                    .find((one) => one.getBoundingClientRect().bottom > top + 1);
                [key, was] = [row.dataset.key, row.getBoundingClientRect().top];
                view.scrollTop -= 300;
                await settle();
            }
            const now = document.querySelector(`[data-key="${key}"]`)?.getBoundingClientRect().top;
            return { by: Math.abs(now - was - 300), grew: view.scrollHeight - height };
        }"""
    )
    assert moved["grew"] > 5000
    assert moved["by"] < 2
    assert len([path for _, path, _ in door.requests if "/items" in path]) > before


def test_the_keyboard_reaches_and_decides(door: StubDoor, open_page: OpenPage) -> None:
    """j moves, Enter opens, a needs a second press, / searches, ? helps, Escape goes back."""
    scenes.furnish(door)
    door.ask(scenes.approval("apr_1", "ses_run"))
    page = open_page("/#/inbox")
    card = page.locator("[data-approval=apr_1]")
    expect(card).to_be_visible()
    page.keyboard.press("j")
    expect(card).to_be_focused()
    page.keyboard.press("a")
    expect(page.get_by_role("button", name="Press a again to allow")).to_be_visible()
    assert door.approvals["apr_1"]["state"] == "open"
    page.keyboard.press("a")
    expect(page.locator(".decision")).to_contain_text("Allowed on phone")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator(".session-head")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".session-head")).to_have_count(0)


@pytest.mark.parametrize("language", ["en-GB", "zh-CN"])
@pytest.mark.parametrize("look", ["light", "dark"])
@pytest.mark.parametrize(
    "kind", [{**PHONE, "viewport": {"width": 360, "height": 640}}, PHONE, DESK], ids=["small", "phone", "desk"]
)
def test_every_screen_fits_in_both_languages_and_looks(
    door: StubDoor, open_page: OpenPage, language: str, look: str, kind: dict[str, Any]
) -> None:
    """Nothing is wider than the window, no key of a word shows, and targets are large enough to touch."""
    scenes.furnish(door)
    door.ask(scenes.approval("apr_1", "ses_run"))
    page = open_page("/#/inbox", kind=kind, locale=language, color_scheme=look)
    expect(page.locator("[data-approval=apr_1]")).to_be_visible()
    paper = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(251, 250, 247)" if look == "light" else "rgb(22, 20, 18)")
    for screen in SCREENS:
        page.goto(f"{door.url}/#/{screen}")
        expect(page.locator("main header")).to_be_visible()
        wide = page.evaluate(
            """() => [...document.querySelectorAll('#page *')].filter((node) => {
                const box = node.getBoundingClientRect();
                return box.width && box.right > innerWidth + 1 && !node.closest('.chips, .table, .cut, pre');
            }).map((node) => node.className + ' ' + node.textContent.slice(0, 40))"""
        )
        assert wide == [], screen
        words = page.locator("#page").inner_text()
        assert not re.search(
            r"\b(?:ability|approval|asked|composer|fold|inbox|item|sign|state|truth|verb|why)\.[a-z_]+\b", words
        )
        if language == "zh-CN":
            assert re.search(r"[\u4e00-\u9fff]", words)
        if kind is not DESK:
            small = page.evaluate(
                """() => [...document.querySelectorAll('button, a.button, nav a, a.item')].filter((node) => {
                    const box = node.getBoundingClientRect();
                    return box.height && box.height < 43.5 && !node.matches('.link');
                }).map((node) => node.className + ' ' + node.textContent.slice(0, 30))"""
            )
            assert small == [], screen


def test_language_and_look_can_be_set(door: StubDoor, open_page: OpenPage) -> None:
    """The choice holds over a reload, before the first paint."""
    scenes.furnish(door)
    page = open_page("/#/settings", color_scheme="light")
    page.get_by_label("简体中文").check()
    expect(page.get_by_role("heading", name="设置")).to_be_visible()
    page.get_by_label("深色").check()
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    page.reload()
    expect(page.get_by_role("heading", name="设置")).to_be_visible()
    assert page.evaluate("() => document.documentElement.lang") == "zh-CN"
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(22, 20, 18)"


def test_without_a_network_the_last_seen_state_stands_and_what_is_typed_waits(
    door: StubDoor, open_page: OpenPage
) -> None:
    """An offline reload shows what was seen, with its time; the message goes out once when the hub is back."""
    scenes.furnish(door)
    page = open_page("/#/session/ses_run", kind=PHONE)
    expect(page.get_by_text("kustomize build deploy/inventory")).to_be_visible()
    page.evaluate("() => navigator.serviceWorker.ready.then(() => true)")
    page.wait_for_function("() => caches.match('/').then(Boolean)")
    page.evaluate("() => window.dispatchEvent(new Event('pagehide'))")
    page.wait_for_function("() => navigator.serviceWorker.controller !== null")
    page.context.set_offline(True)
    page.reload()
    expect(page.get_by_text("kustomize build deploy/inventory")).to_be_visible()
    expect(page.locator(".banner").first).to_contain_text("Not connected. This was last seen")
    page.get_by_role("textbox").fill("remember the tests")
    page.get_by_role("button", name="Queue").click()
    expect(page.locator("[data-receipt=waiting]")).to_contain_text("Waits here")
    page.reload()
    expect(page.locator("[data-receipt=waiting]")).to_contain_text("Waits here")
    page.context.set_offline(False)
    expect(page.locator("[data-receipt=stored]")).to_be_visible()
    assert [message["text"] for message in door.messages.values()] == ["remember the tests"]
    expect(page.locator(".banner")).to_have_count(0)


def test_a_screen_reader_is_told_what_is_what(door: StubDoor, open_page: OpenPage) -> None:
    """Landmarks, the conversation as a feed of articles, approvals assertively, new items politely."""
    scenes.furnish(door)
    page = open_page("/#/session/ses_run")
    expect(page.get_by_role("main")).to_have_count(1)
    expect(page.get_by_role("navigation", name="Places")).to_be_visible()
    expect(page.get_by_role("feed", name="The conversation")).to_be_visible()
    door.add("ses_run", scenes.said("itm_new", "A new answer."))
    expect(page.get_by_role("log")).to_contain_text("A new answer.")
    door.ask(scenes.approval("apr_1", "ses_run"))
    expect(page.locator("[role=alert]", has_text="1 waits for you")).to_have_count(1)
