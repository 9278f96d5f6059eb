"""A vendor in a hundred lines: one JSON object to a line, and an agent that is a small script.

Rows: `{"k":"user"|"say"|"call"|"result"|"noise","id":…,"text":…}`; `result` names its call by `id`. A session's
native id is the file's name.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from ekiden.kernel.errors import VendorFailed
from ekiden.kernel.ids import Prefix, derived_id
from ekiden.transcript.items import Item, ItemKind, Role, Source, Text, Tool, ToolState
from ekiden.transcript.reading import Drift, Facts, Line
from ekiden.vendors.port import (
    Asked,
    Begin,
    Ended,
    Environment,
    FoundFile,
    Grew,
    Option,
    OptionKind,
    Owner,
    Placed,
    Program,
    RuntimeEvent,
    TurnEnded,
    TurnStarted,
)

AGENT = Path(__file__).with_name("line_agent.py")


def row(kind: str, row_id: str, text: str = "", **more: object) -> bytes:
    return json.dumps({"k": kind, "id": row_id, "text": text, **more}, ensure_ascii=False).encode() + b"\n"


def item_id(native_id: str, row_id: str) -> str:
    return derived_id(Prefix.ITEM, "line", native_id, row_id)


class LineFold:
    def __init__(self, file: FoundFile) -> None:
        self._file = file
        self._calls: dict[str, Item] = {}
        self.facts = Facts(native_id=file.native_id)

    def feed(self, line: Line) -> list[Item]:
        facts = self.facts
        facts.rows += 1
        source = Source(str(self._file.path), line.number, line.start, line.end)
        try:
            read = json.loads(line.raw)
            kind, row_id, text = read["k"], read["id"], read["text"]
        except (ValueError, KeyError, TypeError):
            facts.unreadable_rows += 1
            return [Item(id=f"itm_bad{line.start}", kind=ItemKind.UNREADABLE, source=source)]
        facts.cwd = read.get("cwd", facts.cwd)
        facts.is_helper = facts.is_helper or bool(read.get("helper"))
        if "base" in read:
            facts.history_base = (read["base"][0], read["base"][1])
        if "open" in read:
            facts.turn_open = read["open"]
        own = item_id(self._file.native_id, row_id)
        at = read.get("at", "2026-01-01T00:00:00.000Z")
        if kind in ("user", "say"):
            facts.messages += 1
            facts.first_prompt = facts.first_prompt or (text if kind == "user" else "")
            role = Role.USER if kind == "user" else Role.ASSISTANT
            content, thread = (Text(text),), self._file.thread
            message = Item(own, ItemKind.MESSAGE, source, at=at, role=role, content=content, thread=thread)
            return [message]
        if kind == "call":
            tool = Tool(name="run", state=ToolState.PENDING, title=text)
            self._calls[own] = Item(id=own, kind=ItemKind.TOOL, source=source, tool=tool, at=at)
            return [self._calls[own]]
        if kind == "result":
            call = self._calls.pop(own, None)
            if call is None or call.tool is None:
                facts.wants_earlier += 1
                return []
            tool = msgspec.structs.replace(call.tool, state=ToolState.COMPLETED, output=text)
            return [msgspec.structs.replace(call, tool=tool)]
        if kind != "noise":
            facts.unknown_rows += 1
        return []

    def finish(self) -> list[Item]:
        ended = [
            msgspec.structs.replace(call, tool=msgspec.structs.replace(call.tool, state=ToolState.UNRECORDED))
            for call in self._calls.values()
            if call.tool is not None
        ]
        if self.facts.rows and not self.facts.messages and self.facts.unknown_rows:
            self.facts.drift = Drift.NOTHING_PARSED
        return ended


class LineDiscovery:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.held: dict[str, Owner] = {}
        self.installed: Program | None = Program(AGENT, "1")

    def roots(self) -> Sequence[Path]:
        return (self.root,)

    def files(self) -> Iterable[FoundFile]:
        found = [file for path in self.root.rglob("*") if (file := self.recognise(path)) is not None]
        return sorted(found, key=lambda file: -file.modified_at)

    def recognise(self, path: Path) -> FoundFile | None:
        compressed = path.name.endswith(".jsonl.zst")
        if not (compressed or path.suffix == ".jsonl"):
            return None
        try:
            status = path.lstat()
        except OSError:
            return None
        name = path.name.split(".")[0]
        native_id, _, thread = name.partition("@")
        file = FoundFile(path, native_id, status.st_size, status.st_mtime, compressed=compressed)
        return replace(file, thread=thread)

    def owners(self) -> Mapping[str, Owner]:
        return dict(self.held)

    def titles(self) -> Mapping[str, str]:
        return {}

    def program(self) -> Program | None:
        return self.installed

    def notices(self) -> Sequence[str]:
        return ()


class LineRuntime:
    """Drives `line_agent.py`, which writes the session's file itself."""

    def __init__(self, root: Path, begin: Begin, environment: Environment) -> None:
        self.native_id = begin.resume or os.urandom(6).hex()
        self.pid = 0
        self._root = root
        self._begin = begin
        self._environment = dict(environment)
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(AGENT),
            str(self._root / f"{self.native_id}.jsonl"),
            cwd=self._begin.cwd,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2**20,
        )
        self.pid = self._process.pid
        assert self._process.stdout is not None
        if not await self._process.stdout.readline():
            raise VendorFailed("The agent did not start.", vendor="line")

    async def events(self) -> AsyncIterator[RuntimeEvent]:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        while line := await process.stdout.readline():
            told = json.loads(line)
            turn = derived_id(Prefix.TURN, self.native_id, told.get("turn", ""))
            match told["e"]:
                case "placed":
                    yield Placed(told["message"], turn, told["how"])
                case "started":
                    yield TurnStarted(turn)
                case "ended":
                    yield TurnEnded(turn, told["outcome"])
                case "grew":
                    yield Grew(turn, item_id(self.native_id, told["id"]), ItemKind.MESSAGE, told["text"])
                case "asked":
                    options = (
                        Option("yes", "Yes", OptionKind.ALLOW_ONCE),
                        Option("no", "No", OptionKind.DENY),
                    )
                    detail = msgspec.Raw(b'{"run":"it"}')
                    yield Asked(told["id"], turn, "run_command", "Run it?", "run", detail, options=options)
        yield Ended(await process.wait())

    async def _order(self, order: dict[str, object]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError) as error:
            raise VendorFailed("The agent has ended.", vendor="line") from error

    async def send(self, message_id: str, text: str, *, steer: bool = False) -> None:
        await self._order({"o": "say", "message": message_id, "text": text, "steer": steer})

    async def interrupt(self) -> None:
        await self._order({"o": "interrupt"})

    async def decide(
        self, native_id: str, option_id: str, *, message: str = "", answers: msgspec.Raw | None = None
    ) -> bool:
        await self._order({"o": "decide", "id": native_id, "option": option_id})
        return True

    async def close(self) -> None:
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 2)
        except TimeoutError:
            process.kill()
            await process.wait()


class LineVendor:
    name = "line"
    label = "Line"

    def __init__(self, root: Path) -> None:
        self.root = root
        self.discovery = LineDiscovery(root)

    def fold(self, file: FoundFile) -> LineFold:
        return LineFold(file)

    def runtime(self, begin: Begin, environment: Environment) -> LineRuntime:
        return LineRuntime(self.root, begin, environment)


def vendors_of(environment: Environment) -> list[LineVendor]:
    """For the importing process."""
    return [LineVendor(Path(environment["LINE_ROOT"]))]
