"""A real Chromium, the two sizes of screen that the page is tested at, and a guard over what a page does."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, Page, Request, sync_playwright

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PHONE: dict[str, Any] = {
    "viewport": {"width": 412, "height": 839},
    "device_scale_factor": 2,
    "has_touch": True,
    "is_mobile": True,
}
DESK: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}}
UNSEEN = frozenset("\u202e\u202c\u200b\x1b\x00\x07\U000e0041")
"""What may never stand in the page as it is: it turns text around, hides it or drives a terminal."""

_browsers: list[Browser] = []


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One browser for the whole run, whichever folders' tests are in it; every page gets a fresh profile."""
    if _browsers:
        yield _browsers[0]
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        _browsers.append(browser)
        yield browser
        _browsers.clear()
        browser.close()


@dataclass
class Guard:
    """What pages did that no page may do: faults of its scripts, dialogs, other windows, requests elsewhere."""

    origin: str
    faults: list[str] = field(default_factory=list[str])
    dialogs: list[str] = field(default_factory=list[str])
    elsewhere: list[str] = field(default_factory=list[str])

    def watch(self, page: Page) -> None:
        """From now on."""
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("dialog", self._dialog)
        page.on("request", self._request)
        page.on("popup", lambda popup: self.elsewhere.append(popup.url))

    def _dialog(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _request(self, request: Request) -> None:
        if not request.url.startswith(f"{self.origin}/"):
            self.elsewhere.append(request.url)

    def found(self) -> list[str]:
        """All of it; empty when all is well."""
        return [*self.faults, *self.dialogs, *self.elsewhere]


def made_from_text(page: Page) -> list[str]:
    """Elements in the page that only text from outside can have made, and unseen characters in its text."""
    made = page.evaluate(
        """() => [...document.querySelectorAll('body *')].filter((node) =>
            ['IMG', 'SCRIPT', 'IFRAME', 'OBJECT', 'EMBED', 'BASE', 'STYLE', 'META', 'LINK'].includes(node.tagName)
            || [...node.attributes].some((one) => /^on/i.test(one.name) || /^\\s*javascript:/i.test(one.value))
            || (node.tagName === 'svg' && !node.classList.contains('qr'))).map((node) => node.outerHTML)"""
    )
    raw = page.evaluate(
        """() => document.body.textContent + [...document.querySelectorAll('body *')].flatMap((node) =>
            [node.title, node.getAttribute('aria-label'), node.getAttribute('placeholder')]).join(' ')"""
    )
    return [*made, *(ascii(one) for one in UNSEEN if one in raw)]


def to_the_top(page: Page, text: str) -> None:
    """Sends a long list to its top until `text` is drawn. The list goes to its end when it is first drawn, perhaps
    only after the first try."""
    page.wait_for_function(
        """(text) => {
            const list = document.querySelector('.virtual');
            if (list) list.scrollTop = 0;
            return list !== null && list.textContent.includes(text);
        }""",
        arg=text,
    )
