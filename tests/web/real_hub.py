"""A hub as a newcomer starts it, and devices with a real Chromium that are signed in to it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from ekiden.testing.relay.door import Door
from web.browser import Guard

SLOW_MS = 30_000
Devices = Callable[..., Page]


@dataclass
class Hub:
    """A running hub as its owner's command line sees it."""

    url: str
    owner: Door
    environment: dict[str, str]
    """In which a program of the owner's runs."""

    def link(self) -> str:
        """A link that signs a device of this computer in, once."""
        return self.owner.post("/v1/pairings", {"local": True})["link"]

    def agent(self, name: str, permissions: dict[str, list[str]] | None = None) -> Door:
        """The door as a new agent sees it."""
        body = {"name": name, "kind": "agent"} | ({"permissions": permissions} if permissions else {})
        return Door(self.url, self.owner.post("/v1/keys", body)["key"])


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """`ekiden up`, as a newcomer starts it, on a computer with an empty home."""
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        "HOME": str(home),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"]),
        "LANG": "C.UTF-8",
        "EKIDEN_HOME": str(home / "ekiden"),
    }
    command = [sys.executable, "-m", "ekiden.cli", "up", "--json", "--no-open", "--port", "0"]
    process = subprocess.Popen(
        command, env=environment, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        url = json.loads(process.stdout.readline())["link"].split("/#")[0].rstrip("/")
        key = next((home / "ekiden").rglob("local.key")).read_text().strip()
        yield Hub(url, Door(url, key), environment)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=20)
        process.stdout.close()


@pytest.fixture
def device(chromium: Browser, hub: Hub) -> Iterator[Devices]:
    """Opens the page on a device of its own, signed in by a fresh link."""
    contexts: list[BrowserContext] = []
    guard = Guard(hub.url)
    expect.set_options(timeout=SLOW_MS)

    def open_one(at: str, *, kind: dict[str, Any], locale: str = "en-GB") -> Page:
        context = chromium.new_context(locale=locale, **kind)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(SLOW_MS)
        guard.watch(page)
        page.goto(hub.link())
        expect(page.locator("nav.places")).to_be_visible()
        page.goto(f"{hub.url}/#/{at}")
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert guard.found() == []
