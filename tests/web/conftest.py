"""A stub door and a real Chromium for the page's tests."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from web.browser import DESK, PHONE, Guard, chromium
from web.real_hub import device, hub
from web.stub_door import StubDoor

OpenPage = Callable[..., Page]

SLOW_MS = 30_000
"""How long a page may take on a machine that is busy with other work."""

__all__ = ["DESK", "PHONE", "OpenPage", "chromium", "device", "hub"]


@pytest.fixture
def door() -> Iterator[StubDoor]:
    """A stub door that serves."""
    stub = StubDoor()
    stop = stub.start()
    yield stub
    stop()


@pytest.fixture
def open_page(chromium: Browser, door: StubDoor) -> Iterator[OpenPage]:
    """Opens the page in a fresh profile. No test passes while the page has thrown, or did what no page may do."""
    contexts: list[Any] = []
    guard = Guard(door.url)
    expect.set_options(timeout=SLOW_MS)

    def open_one(path: str = "/", *, kind: dict[str, Any] = DESK, **more: Any) -> Page:
        context = chromium.new_context(**{"locale": "en-GB", **kind, **more})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(SLOW_MS)
        guard.watch(page)
        page.goto(door.url + path)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert guard.found() == []
