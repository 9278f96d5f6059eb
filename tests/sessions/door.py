"""The real hub in process, and a host that tests script: it connects, tells, and answers what it is asked."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from ekiden.client.client import Client
from ekiden.client.frames import Frame
from ekiden.hub.app import Hub
from ekiden.hub.settings import Settings
from ekiden.hub.wiring import open_hub
from ekiden.kernel.clock import SystemClock
from ekiden.kernel.errors import EkidenError
from ekiden.kernel.ids import Prefix, derived_id
from ekiden.sessions.wire import (
    Feed,
    FeedAnswer,
    FeedEntry,
    FeedSession,
    Host,
    HostReport,
    Hosts,
    Rung,
    SessionReport,
    Welcome,
)
from ekiden.testing.bridge import Bridge

WAIT_S = 10.0
"""How long a test waits for what must come; none waits so long when all is well."""


class House:
    """One hub in a folder; `owner` is the command line of its computer."""

    def __init__(self, hub: Hub, folder: Path) -> None:
        self.hub = hub
        self.owner = self.client((folder / "local.key").read_text().strip())

    def client(self, key: str) -> Client:
        """A client with a key."""
        return Client(key=key, transport=Bridge(self.hub))

    async def device(self, name: str, permissions: dict[str, list[str]] | None = None) -> Client:
        """A client with a fresh key of its own."""
        body: dict[str, Any] = {"name": name, "kind": "device"}
        if permissions is not None:
            body["permissions"] = permissions
        made = await self.owner.post("/v1/keys", body)
        return self.client(made["key"])

    async def until_away(self, host: "ScriptedHost") -> None:
        """Waits until the hub counts a host, whose stream has ended, as lost."""
        cursor = (await self.owner.get("/v1/hosts", type=Hosts)).cursor
        for shown in (await self.owner.get("/v1/hosts", type=Hosts)).hosts:
            if shown.host_id == host.host_id and not shown.here:
                return
        await read_until(
            self.owner,
            "team",
            cursor,
            lambda frame: frame.kind == "host.changed" and not read(frame, Host).here,
        )

    @asynccontextmanager
    async def host(self, name: str = "Workstation") -> AsyncIterator["ScriptedHost"]:
        """A host that is connected while in the block."""
        made = await self.owner.post("/v1/keys", {"name": name, "kind": "host"})
        host = ScriptedHost(self.client(made["key"]), made["host_id"], name)
        async with host.connected():
            yield host


class ScriptedHost:
    """Answers requests with what `answers` holds for the verb: a function of the arguments, or an error."""

    def __init__(self, client: Client, host_id: str, name: str) -> None:
        self.client = client
        self.host_id = host_id
        self.name = name
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.request_ids: list[str] = []
        self.seen: list[Frame] = []
        self.answers: dict[str, Callable[[dict[str, Any]], Any] | EkidenError] = {}
        self.came = asyncio.Event()

    @asynccontextmanager
    async def connected(self) -> AsyncIterator["ScriptedHost"]:
        """Reports itself and holds its stream."""
        await self.report()
        ready = asyncio.Event()
        task = asyncio.ensure_future(self._follow(ready))
        try:
            async with asyncio.timeout(WAIT_S):
                await ready.wait()
            yield self
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def report(self) -> Welcome:
        """Says what it is."""
        report = HostReport(name=self.name, platform="linux", ekiden_version="0")
        return await self.client.put(f"/v1/hosts/{self.host_id}", report, type=Welcome)

    async def _follow(self, ready: asyncio.Event) -> None:
        async with self.client.stream(f"host:{self.host_id}") as stream:
            async for frame in stream:
                ready.set()
                self.seen.append(frame)
                self.came.set()
                if frame.kind == "host.request":
                    await self._answer(frame.read(dict[str, Any]))

    async def _answer(self, request: dict[str, Any]) -> None:
        verb, arguments = request["verb"], request["arguments"]
        self.asked.append((verb, arguments))
        self.request_ids.append(request["request_id"])
        answer = self.answers[verb]
        body: dict[str, Any] = {"request_id": request["request_id"]}
        if isinstance(answer, EkidenError):
            problem = {
                "code": answer.code,
                "status": answer.status,
                "message": answer.message,
                "hint": answer.hint,
                "details": answer.details,
            }
            body |= {"ok": False, "problem": problem}
        else:
            body |= {"ok": True, "result": answer(arguments)}
        await self.client.post(f"/v1/hosts/{self.host_id}/answers", body, repeatable=True)

    async def until(self, kind: str, count: int = 1) -> list[Frame]:
        """Waits until its stream has brought `count` frames of a kind."""
        async with asyncio.timeout(WAIT_S):
            while True:
                found = [frame for frame in self.seen if frame.kind == kind]
                if len(found) >= count:
                    return found
                self.came.clear()
                await self.came.wait()

    async def tell(self, *entries: FeedEntry) -> FeedAnswer:
        """Feeds."""
        return await self.client.post(f"/v1/hosts/{self.host_id}/feed", Feed(entries), type=FeedAnswer)

    def report_of(self, native_id: str = "native", **fields: Any) -> SessionReport:
        """The report of an owned session of its own."""
        fields.setdefault("rung", Rung.OWNED)
        vendor = fields.pop("vendor", "demo")
        session_id = derived_id(Prefix.SESSION, self.host_id, vendor, native_id)
        return SessionReport(session_id=session_id, vendor=vendor, native_id=native_id, **fields)

    async def session(self, native_id: str = "native", **fields: Any) -> str:
        """A session that the hub has taken; its id."""
        report = self.report_of(native_id, **fields)
        answer = await self.tell(FeedSession(report))
        assert not answer.refused
        return report.session_id


@asynccontextmanager
async def open_house(folder: Path, database_url: str = "") -> AsyncIterator[House]:
    """A hub with its data in `folder`, or its log in Postgres; opened again it finds what is there."""
    hub = await open_hub(Settings(home=folder, database_url=database_url), SystemClock())
    await hub.start()
    try:
        yield House(hub, folder)
    finally:
        await hub.stop()


async def read_until(client: Client, topics: str, after: str, done: Callable[[Frame], bool]) -> list[Frame]:
    """The stored frames after a cursor, up to the first that is `done`."""
    frames: list[Frame] = []
    async with asyncio.timeout(WAIT_S), client.stream(topics, after) as stream:
        async for frame in stream:
            if frame.kind.startswith("stream."):
                continue
            frames.append(frame)
            if done(frame):
                return frames
    raise AssertionError("the stream ended")


def read(frame: Frame, kind: type[Any]) -> Any:
    """A frame's body."""
    return msgspec.json.decode(frame.body, type=kind)
