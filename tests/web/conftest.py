"""A stub door and a real Chromium for the page's tests."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from web.stub_door import StubDoor

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

OpenPage = Callable[..., Page]


@pytest.fixture
def door() -> Iterator[StubDoor]:
    """A stub door that serves."""
    stub = StubDoor()
    stop = stub.start()
    yield stub
    stop()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One browser for the whole run; every page gets a fresh profile."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Browser, door: StubDoor) -> Iterator[OpenPage]:
    """Opens the page in a fresh profile; no test passes while the page has thrown."""
    contexts: list[Any] = []
    faults: list[str] = []

    def open_one(path: str = "/", *, kind: dict[str, Any] = DESK, **more: Any) -> Page:
        context = chromium.new_context(**{"locale": "en-GB", **kind, **more})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(door.url + path)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert faults == []
