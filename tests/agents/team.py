"""A real hub on a port, a person with the key of the command line, and agents with keys of their own."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client as McpClient
from mcp import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from ekiden.client.client import Client
from ekiden.hub.serve import Serving, start_serving
from ekiden.hub.settings import Settings
from ekiden.hub.wiring import open_hub
from ekiden.kernel.clock import SystemClock
from ekiden.mcp.desk import Desk, PlainVoice
from ekiden.mcp.tools import Answer, call

EKIDEN = str(Path(sys.executable).with_name("ekiden"))


class Agent:
    """One agent with a key: calls tools by itself, or through a client of MCP."""

    def __init__(self, team: "Team", name: str, key: str, key_id: str, principal_id: str) -> None:
        self.team = team
        self.name, self.key, self.key_id, self.principal_id = name, key, key_id, principal_id
        self.client = Client(team.url, key)
        self.desk = Desk(self.client, PlainVoice(self.client))

    async def call(self, tool: str, **given: Any) -> Answer:
        return await call(self.desk, tool, given)

    async def says(self, tool: str, **given: Any) -> str:
        """The text of a call that is expected to go well."""
        answer = await self.call(tool, **given)
        assert not answer.is_error, answer.text
        return answer.text

    async def refused(self, tool: str, **given: Any) -> str:
        """The text of a call that is expected to be refused."""
        answer = await self.call(tool, **given)
        assert answer.is_error, answer.text
        return answer.text

    def over_stdio(self, mode: str = "auto") -> McpClient:
        parameters = StdioServerParameters(
            command=EKIDEN,
            args=["mcp", "--home", str(self.team.home)],
            env={"EKIDEN_URL": self.team.url, "EKIDEN_KEY": self.key, "PYTHONWARNINGS": "error"},
        )
        return McpClient(parameters, mode=mode)  # type: ignore[arg-type]

    @asynccontextmanager
    async def over_http(self, mode: str = "auto") -> AsyncIterator[McpClient]:
        headers = {"authorization": f"Bearer {self.key}"}
        async with httpx2.AsyncClient(headers=headers, timeout=30) as carrier:
            transport = streamable_http_client(f"{self.team.url}/mcp", http_client=carrier)
            async with McpClient(transport, mode=mode) as client:  # type: ignore[arg-type]
                yield client


class Team:
    """The hub and its people."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.serving: Serving | None = None
        self.port = 0
        self.agents: list[Agent] = []
        self.owner: Agent

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def up(self) -> None:
        """Starts the hub, at the port where it was before if it was up."""
        hub = await open_hub(Settings(self.home, port=self.port), SystemClock())
        self.serving = await start_serving(hub)
        self.port = self.serving.port
        key = (self.home / "local.key").read_text().strip()
        self.owner = Agent(self, "owner", key, "", "")
        self.agents.append(self.owner)

    async def down(self) -> None:
        if self.serving is not None:
            await self.serving.stop()
            self.serving = None

    async def close(self) -> None:
        for agent in self.agents:
            await agent.client.close()
        await self.down()

    async def agent(self, name: str, permissions: dict[str, list[str]] | None = None) -> Agent:
        body: dict[str, Any] = {"name": name, "kind": "agent"}
        if permissions is not None:
            body["permissions"] = permissions
        made = await self.owner.client.post("/v1/keys", body)
        agent = Agent(self, name, made["key"], made["key_id"], made["principal_id"])
        self.agents.append(agent)
        return agent

    async def channel(self, name: str = "ops", **more: Any) -> None:
        await self.owner.client.post("/v1/channels", {"name": name, **more})


def text_of(result: Any) -> str:
    """What a tool said to the official client."""
    assert len(result.content) == 1
    return result.content[0].text


def as_json(value: Any) -> str:
    return json.dumps(value)
