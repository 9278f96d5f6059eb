"""One person's computer for a test: native session files as the vendors' programs leave them, and the real host
and hub in this process. What a test asserts is what a client of the door sees.

The vendors' programs are stand-ins that only say their version: nothing here runs them.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ekiden.client.client import Client
from ekiden.host.main import Host, HostSettings, vendors_here
from ekiden.hub.serve import Serving, start_serving
from ekiden.hub.settings import Settings
from ekiden.hub.wiring import open_hub
from ekiden.kernel.clock import SystemClock
from ekiden.sessions.wire import ItemPage, RawLine, RawPage, SearchPage, SessionPage, SessionReport
from ekiden.transcript.items import Item

T = TypeVar("T")
WAIT_S = 30.0
_PROGRAMS = {"claude": "2.1.332 (Claude Code)", "codex": "codex-cli 0.171.0"}


def thread_id(number: int) -> str:
    """A session id of the form that both vendors use; higher numbers are other sessions."""
    return f"01a00000-0000-7000-8000-{number:012d}"


def folder_name(cwd: str) -> str:
    """The name that Claude Code gives the folder of a project."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in cwd)


class Desk:
    """See the module. `up` starts hub and host; what is read waits until the host has imported everything."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.home = base / "home"
        self.project = self.home / "project"
        self.project.mkdir(parents=True)
        programs = base / "programs"
        programs.mkdir()
        for name, version in _PROGRAMS.items():
            (programs / name).write_text(f"#!/bin/sh\necho '{version}'\n")
            (programs / name).chmod(0o755)
        self.claude_root = self.home / ".claude" / "projects"
        self.codex_root = self.home / ".codex" / "sessions"
        self.environment = {
            "HOME": str(self.home),
            "PATH": f"{programs}:/usr/bin:/bin",
            "EKIDEN_HOME": str(base / "demo"),
            "EKIDEN_DEMO_DELAY_S": "0.005",
        }
        self.client = Client("http://127.0.0.1:1")
        self.port = 0
        self.host: Host | None = None
        self.host_id = ""
        self.serving: Serving | None = None
        self._host_key = ""
        self._host_task: asyncio.Task[None] | None = None
        self._clients: list[Client] = []

    # Native files

    def claude(self, session: str, data: bytes, *, cwd: str = "/home/dev/project") -> Path:
        """Writes a Claude Code session file where its program would."""
        path = self.claude_root / folder_name(cwd) / f"{session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def codex(self, thread: str, data: bytes, *, suffix: str = ".jsonl") -> Path:
        """Writes a Codex rollout where its program would."""
        folder = self.codex_root / "2026" / "01" / "01"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"rollout-2026-01-01T00-00-00-{thread}{suffix}"
        path.write_bytes(data)
        return path

    # Hub and host

    async def up(self) -> "Desk":
        """Starts both, or what of them is not running."""
        if self.serving is None:
            await self.hub_up()
        if self._host_task is None:
            await self.host_up()
        return self

    async def hub_up(self) -> None:
        settings = Settings(home=self.base / "hub", port=self.port)
        self.serving = await start_serving(await open_hub(settings, SystemClock()))
        self.port = self.serving.port
        if not self._host_key:
            self.client = self.client_with(settings.local_key.read_text().strip())
            made = await self.client.post("/v1/keys", {"name": "desk", "kind": "host"})
            self._host_key, self.host_id = made["key"], made["host_id"]

    async def hub_down(self) -> None:
        if self.serving is not None:
            await self.serving.stop()
            self.serving = None

    async def host_up(self) -> None:
        settings = HostSettings(
            self.base / "host",
            "desk",
            self.environment,
            vendors_here(self.environment),
            vendors_from="",
            import_quiet_s=0.02,
            survivor_s=1.0,
        )
        self.host = Host(settings, self.client_with(self._host_key), self.host_id)
        self._host_task = asyncio.create_task(self.host.run())
        await self.until(self._connected, "the host is connected")

    def _connected(self) -> bool:
        return self.host is not None and hasattr(self.host, "outbox") and self.host.outbox.connected.is_set()

    async def host_down(self) -> None:
        if self._host_task is not None:
            self._host_task.cancel()
            await asyncio.gather(self._host_task, return_exceptions=True)
            self._host_task = None

    async def close(self) -> None:
        await self.host_down()
        for client in self._clients:
            await client.close()
        await self.hub_down()

    def client_with(self, key: str) -> Client:
        """Another client of the door."""
        made = Client(f"http://127.0.0.1:{self.port}", key)
        self._clients.append(made)
        return made

    async def device(self, name: str, permissions: dict[str, list[str]] | None = None) -> Client:
        """A client with a key of its own."""
        body: dict[str, Any] = {"name": name, "kind": "device"}
        if permissions is not None:
            body["permissions"] = permissions
        return self.client_with((await self.client.post("/v1/keys", body))["key"])

    async def until(self, condition: Callable[[], T | Awaitable[T]], why: str = "") -> T:
        """Waits until a condition holds and gives what it gave; a host that has ended says why."""
        deadline = time.monotonic() + WAIT_S
        while True:
            value = condition()
            if isinstance(value, Awaitable):
                value = await value
            if value:
                return value
            if self._host_task is not None and self._host_task.done():
                self._host_task.result()
            assert time.monotonic() < deadline, f"not within {WAIT_S} s: {why or condition}"
            await asyncio.sleep(0.02)

    # What a client sees

    async def sessions(self) -> list[SessionReport]:
        """The reports of all sessions."""
        page = await self.client.get("/v1/sessions", limit=1_000, type=SessionPage)
        return [session.report for session in page.sessions]

    async def find(self, native_id: str) -> SessionReport | None:
        """The report of a session, or None while it is not listed."""
        found = [report for report in await self.sessions() if report.native_id == native_id]
        assert len(found) < 2, f"{native_id} is listed {len(found)} times"
        return found[0] if found else None

    async def read(self, native_id: str) -> SessionReport:
        """The report of a session once the host has read its file to the end and the hub has heard."""

        async def whole() -> SessionReport | None:
            report = await self.find(native_id)
            row = self._row(native_id)
            told = report is not None and row is not None and row.facts is not None and row.facts_whole
            facts = row.facts if told else None
            if facts is None or report is None or row.wanted:
                return None
            same = (report.rows, report.messages, report.drift) == (facts.rows, facts.messages, facts.drift.value)
            return report if same else None

        return await self.until(whole, f"{native_id} is read")

    def _row(self, native_id: str) -> Any:
        assert self.host is not None
        tracked = [one for one in self.host.catalogue.by_id.values() if one.native_id == native_id]
        return tracked[0].row if tracked else None

    async def pages(self, native_id: str, *, thread: str = "", limit: int = 200) -> list[Item]:
        """All items of a session in order, page by page from its end."""
        report = await self.find(native_id)
        assert report is not None, f"{native_id} is not listed"
        where = f"/v1/sessions/{report.session_id}/items"
        items: list[Item] = []
        before = ""
        while True:
            page = await self.client.get(where, limit=limit, before=before, thread=thread, type=ItemPage)
            items[:0] = page.items
            before = page.before
            if not before:
                return items

    async def texts(self, native_id: str, *, thread: str = "", limit: int = 200) -> list[str]:
        """The texts of all messages that somebody said, in order."""
        items = await self.pages(native_id, thread=thread, limit=limit)
        return [item.text() for item in items if item.kind == "message" and not item.injected]

    async def finds(self, text: str) -> list[str]:
        """Native ids of the sessions in which a search finds a text."""
        found = await self.client.get("/v1/search", text=text, type=SearchPage)
        natives = {report.session_id: report.native_id for report in await self.sessions()}
        return [natives[hit.session_id] for hit in found.hits]

    async def raw(self, native_id: str) -> Sequence[RawLine]:
        """The newest lines of the native file as they are."""
        report = await self.find(native_id)
        assert report is not None
        return (await self.client.get(f"/v1/sessions/{report.session_id}/raw", type=RawPage)).lines

    async def events(self, session_id: str) -> list[dict[str, Any]]:
        """All that was told of a session since the beginning."""
        assert self.serving is not None
        hub = self.serving.hub
        found = await hub.log.events(hub.rooms.team_id, 0, topics=[f"session:{session_id}"], limit=100_000)
        return [{"kind": event.kind, "body": json.loads(event.body)} for event in found]

    async def told(self, native_id: str) -> dict[str, Item]:
        """Items that followers were told, by id."""
        report = await self.find(native_id)
        if report is None:
            return {}
        return {
            item.id: item
            for event in await self.events(report.session_id)
            if event["kind"] == "items.added"
            for item in msgspec.json.decode(json.dumps(event["body"]["items"]), type=list[Item])
        }


def kinds(items: Iterable[Item]) -> list[str]:
    """What each item is."""
    return [str(item.kind) for item in items]
