"""The stdio server as a process: what it answers to whom, however badly it is spoken to."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from ekiden.kernel.limits import MCP_LINE_BYTES_MAX
from ekiden.mcp.definitions import LISTING, NAMES
from ekiden.mcp.stdio import Lines

EKIDEN = str(Path(sys.executable).with_name("ekiden"))
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


class Talk:
    """A stdio server and what is said with it, line by line."""

    def __init__(self, home: Path) -> None:
        self._process = subprocess.Popen(
            [EKIDEN, "mcp", "--home", str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONWARNINGS": "error"},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout

    def say(self, line: bytes | dict[str, Any]) -> None:
        self._input.write((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n")
        self._input.flush()

    def hear(self) -> dict[str, Any]:
        return json.loads(self._output.readline())

    def ask(self, method: str, params: dict[str, Any] | None = None, number: Any = 1) -> dict[str, Any]:
        self.say({"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}})
        answer = self.hear()
        assert answer["id"] == number
        return answer

    def end(self) -> int:
        self._input.close()
        self._output.close()
        return self._process.wait(10)


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    talk = Talk(tmp_path)
    yield talk
    assert talk.end() == 0


@pytest.mark.anyio
@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
async def test_the_official_client_finds_the_tools_in_both_eras(tmp_path: Path, mode: str, version: str) -> None:
    parameters = StdioServerParameters(command=EKIDEN, args=["mcp", "--home", str(tmp_path)])
    async with Client(parameters, mode=mode) as client:
        assert client.protocol_version == version
        listed = await client.list_tools()
        assert tuple(tool.name for tool in listed.tools) == NAMES
        as_sent = [tool.model_dump(by_alias=True, exclude_none=True) for tool in listed.tools]
        assert as_sent == json.loads(LISTING)["tools"]
        answer = await client.call_tool("inbox", {})
        assert answer.is_error
        assert "No hub runs" in answer.content[0].text


def test_an_old_client_is_met_at_its_version_and_an_unknown_one_at_the_newest(talk: Talk) -> None:
    assert talk.ask("initialize", {**HANDSHAKE, "protocolVersion": "2024-11-05"})["result"]["protocolVersion"] == (
        "2024-11-05"
    )
    assert talk.ask("initialize", {**HANDSHAKE, "protocolVersion": "2099-01-01"})["result"]["protocolVersion"] == (
        "2025-11-25"
    )
    assert talk.ask("ping")["result"] == {}


def test_a_client_of_the_new_era_needs_no_beginning(talk: Talk) -> None:
    answer = talk.ask("tools/list", {"_meta": ENVELOPE})["result"]
    assert answer["resultType"] == "complete"
    assert answer["ttlMs"] > 0
    assert answer["cacheScope"] == "public"
    assert talk.ask("server/discover", {"_meta": ENVELOPE})["result"]["supportedVersions"] == ["2026-07-28"]
    refused = talk.ask("server/discover", {"_meta": {**ENVELOPE, next(iter(ENVELOPE)): "2099-01-01"}})["error"]
    assert refused["code"] == -32022
    assert refused["data"] == {"supported": ["2026-07-28"], "requested": "2099-01-01"}
    assert talk.ask("tools/list", {})["error"]["code"] == -32602
    assert talk.ask("ping", {"_meta": ENVELOPE})["error"]["code"] == -32601
    assert talk.ask("initialize", HANDSHAKE)["error"]["code"] == -32022


def test_the_two_eras_do_not_mix_on_one_connection(talk: Talk) -> None:
    talk.ask("initialize", HANDSHAKE)
    assert talk.ask("tools/list", {"_meta": ENVELOPE})["error"]["code"] == -32600
    assert talk.ask("tools/list")["result"]["tools"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b'"hi"', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"nothing"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"inbox","arguments":[]}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{}}}', -32602),
        (b"x" * (MCP_LINE_BYTES_MAX + 1), -32600),
    ],
    ids=lambda part: str(part)[:50],
)
def test_what_is_no_good_request_is_refused_and_the_next_is_answered(talk: Talk, line: bytes, code: int) -> None:
    talk.say(line)
    assert talk.hear()["error"]["code"] == code
    assert talk.ask("ping")["result"] == {}


def test_notifications_and_empty_lines_are_not_answered(talk: Talk) -> None:
    talk.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
    talk.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}})
    talk.say({"jsonrpc": "2.0", "method": "notifications/cancelled"})
    talk.say({"jsonrpc": "2.0", "method": "notifications/nobody/knows"})
    talk.say(b"")
    assert talk.ask("ping", number="of any kind")["result"] == {}


def test_lines_come_whole_however_the_bytes_are_cut() -> None:
    text = b"one\ntwo\n\n" + b"x" * 30 + b"\nthree\nfo"
    for size in range(1, len(text) + 1):
        lines = Lines(20)
        heard = [line for at in range(0, len(text), size) for line in lines.feed(text[at : at + size])]
        assert heard == [b"one", b"two", b"", None, b"three"]
