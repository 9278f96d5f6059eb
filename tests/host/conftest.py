"""What the host's tests share: a session folder, a store, and waiting for a condition."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from ekiden.client.client import Client
from ekiden.host.main import Host, HostSettings
from ekiden.host.store import Store
from ekiden.host.unpacked import Opener
from ekiden.hub.serve import Serving, start_serving
from ekiden.hub.settings import Settings
from ekiden.hub.wiring import open_hub
from ekiden.kernel.clock import SystemClock

from .line_vendor import LineVendor

WAIT_S = 20.0


async def until(condition: Callable[[], object | Awaitable[object]], within_s: float = WAIT_S) -> object:
    """Waits until the condition holds and returns what it gave."""
    deadline = time.monotonic() + within_s
    while True:
        value = condition()
        if isinstance(value, Awaitable):
            value = await value
        if value:
            return value
        assert time.monotonic() < deadline, "what was waited for did not come"
        await asyncio.sleep(0.02)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "sessions"
    folder.mkdir()
    return folder


@pytest.fixture
def vendor(root: Path) -> LineVendor:
    return LineVendor(root)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "home" / "host.db")
    yield opened
    opened.close()


@pytest.fixture
def opener(tmp_path: Path) -> Iterator[Opener]:
    made = Opener(tmp_path / "home" / "unpacked")
    yield made
    made.close()


class Place:
    """A real hub on a port of loopback, and hosts that are connected to it."""

    def __init__(self, base: Path, vendor: LineVendor) -> None:
        self.base = base
        self.vendor = vendor
        self.serving: Serving | None = None
        self.port = 0
        self.client = Client("http://127.0.0.1:1")
        self.host: Host | None = None
        self.host_id = ""
        self._host_key = ""
        self._task: asyncio.Task[None] | None = None
        self._host_client: Client | None = None
        self.environment = {"HOME": str(base), "PATH": "/usr/bin:/bin", "LINE_ROOT": str(vendor.root)}

    async def hub_up(self) -> None:
        settings = Settings(home=self.base / "hub", port=self.port)
        self.serving = await start_serving(await open_hub(settings, SystemClock()))
        self.port = self.serving.port
        if not self._host_key:
            self.client = Client(f"http://127.0.0.1:{self.port}", settings.local_key.read_text().strip())
            made = await self.client.post("/v1/keys", {"name": "desk", "kind": "host"})
            self._host_key, self.host_id = made["key"], made["host_id"]

    async def hub_down(self) -> None:
        if self.serving is not None:
            await self.serving.stop()
            self.serving = None

    async def host_up(self, **settings: object) -> Host:
        self._host_client = Client(f"http://127.0.0.1:{self.port}", self._host_key)
        given = {"import_quiet_s": 0.05, "vendors_from": "", "survivor_s": 1.0, **settings}
        self.host = Host(
            HostSettings(self.base / "desk", "desk", self.environment, [self.vendor], **given),
            self._host_client,
            self.host_id,
        )
        self._task = asyncio.create_task(self.host.run())
        await until(self._running)
        return self.host

    def _running(self) -> bool:
        assert self._task is not None
        if self._task.done():
            self._task.result()
        return self.host is not None and hasattr(self.host, "outbox") and self.host.outbox.connected.is_set()

    async def host_down(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if self._host_client is not None:
            await self._host_client.close()

    async def sessions(self) -> list[dict]:
        return (await self.client.get("/v1/sessions", limit=200))["sessions"]

    async def session(self, native_id: str) -> dict | None:
        return next((one for one in await self.sessions() if one["report"]["native_id"] == native_id), None)

    async def told(self, session_id: str) -> dict[str, dict]:
        """Items that the hub was told of a session, by id, as a follower from the beginning sees them."""
        items: dict[str, dict] = {}
        for event in await self.events(session_id):
            if event["kind"] == "items.added":
                for item in event["body"]["items"]:
                    items[item["id"]] = item
        return items

    async def events(self, session_id: str) -> list[dict]:
        assert self.serving is not None
        log = self.serving.hub.log
        team_id = self.serving.hub.rooms.team_id
        found = await log.events(team_id, 0, topics=[f"session:{session_id}"], limit=100_000)
        return [{"kind": event.kind, "seq": event.seq, "body": json.loads(event.body)} for event in found]


@pytest.fixture
async def place(tmp_path: Path, vendor: LineVendor) -> AsyncIterator[Place]:
    made = Place(tmp_path, vendor)
    await made.hub_up()
    yield made
    await made.host_down()
    await made.client.close()
    await made.hub_down()
