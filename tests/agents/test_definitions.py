"""What the tools cost to list, and that what they say of themselves is true."""

import json

import msgspec
import pytest

from ekiden.mcp import tools
from ekiden.mcp.definitions import INSTRUCTIONS, LISTING, NAMES, TOOLS
from ekiden.mcp.protocol import Conversation

BYTES_MAX = 6_000
READING = {"inbox", "read", "search", "wait", "receipts", "status", "audit"}
DESTROYING = {"edit", "admin"}


async def no_tool(name: str, given: object) -> tuple[str, bool]:
    raise AssertionError("nothing is called here")


def test_all_tools_together_cost_at_most_1500_tokens() -> None:
    assert len(LISTING.encode()) <= BYTES_MAX


@pytest.mark.anyio
@pytest.mark.parametrize("era", ["handshake", "envelope"])
async def test_so_does_the_whole_answer_in_either_era(era: str) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"_meta": meta} if era == "envelope" else {}
    answer = await Conversation(no_tool).answer(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params}
    )
    assert len(json.dumps(answer["result"], separators=(",", ":"), ensure_ascii=False).encode()) <= BYTES_MAX


def test_instructions_fit_into_what_clients_show() -> None:
    assert len(INSTRUCTIONS) <= 800


@pytest.mark.parametrize("tool", TOOLS, ids=NAMES)
def test_a_tool_says_what_it_does_to_the_world(tool: dict) -> None:
    hints = tool["annotations"]
    name = tool["name"]
    assert hints["openWorldHint"] is False
    assert hints.get("readOnlyHint", False) is (name in READING)
    if name not in READING:
        assert hints["destructiveHint"] is (name in DESTROYING)


@pytest.mark.parametrize("tool", TOOLS, ids=NAMES)
def test_what_a_schema_offers_is_what_the_tool_takes(tool: dict) -> None:
    """Every argument of the schema exists; what the schema requires, and only that, is required."""
    kind, _ = tools.TOOLS[tool["name"]]
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    assert set(tool["inputSchema"]["properties"]) <= set(fields)
    required = {name for name, field in fields.items() if field.required}
    assert required == set(tool["inputSchema"].get("required", []))


def test_every_tool_is_there_once() -> None:
    assert list(NAMES) == list(tools.TOOLS)
    assert len(NAMES) == 15
