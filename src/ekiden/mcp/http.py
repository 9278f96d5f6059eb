"""MCP over streamable HTTP, by the official `mcp` package, in both of its eras.

The package takes a second to import and tens of megabytes, so it is imported when somebody first asks for it, on
a thread, and only once. Nothing is kept between requests: no session to lose in a restart, and any node answers.
Each call goes through the door once more with the caller's own key: it may what the key may, and what is refused
is noted as always. The hub must not have members' keys, so here encrypted channels stay closed, and say so.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import ekiden
from ekiden.client.client import Client
from ekiden.client.transport import Transport
from ekiden.kernel.limits import MCP_LINE_BYTES_MAX, MCP_LIST_KEPT_MS
from ekiden.mcp.definitions import INSTRUCTIONS, NAMES, SERVER_NAME, TOOLS
from ekiden.mcp.desk import Desk, PlainVoice, tell_surfaced
from ekiden.mcp.tools import call

Scope = Any
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
DESK = "ekiden.mcp.desk"
"""Where the caller's desk is in the scope of a request."""


class Manager(Protocol):
    """What this uses of the package's session manager."""

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None: ...
    def run(self) -> Any: ...


class McpEndpoint:
    """Answers requests to `/mcp`, once they have passed the door."""

    def __init__(self) -> None:
        self._manager: asyncio.Future[Manager] | None = None
        self._running: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()

    async def serve(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        key: str,
        transport: Transport,
        gone: Callable[[], bool] = lambda: False,
    ) -> None:
        """Answers one request. `transport` leads to the door, `key` is the caller's; `gone` says whether the
        client went before all of its answer was written. Mentions in one that was written have surfaced."""
        if self._manager is None:
            self._manager = asyncio.ensure_future(self._start())
        manager = await asyncio.shield(self._manager)
        client = Client(key=key, transport=transport)
        desk = Desk(client, PlainVoice(client))
        await manager.handle_request({**scope, DESK: desk}, receive, send)
        shown = desk.take_shown()
        if shown.messages and not gone():
            await tell_surfaced(client, shown)

    async def close(self) -> None:
        """Ends what still runs."""
        self._ending.set()
        if self._running is not None:
            await self._running

    async def _start(self) -> Manager:
        manager = await asyncio.to_thread(_make)
        started = asyncio.Event()

        async def run() -> None:
            # The package wants its tasks begun and ended by one task.
            async with manager.run():
                started.set()
                await self._ending.wait()

        self._running = asyncio.ensure_future(run())
        await started.wait()
        return manager


def _make() -> Manager:
    """Imports the package and sets it up; slow the first time."""
    import mcp_types as types
    from mcp.server.caching import CacheHint
    from mcp.server.lowlevel.server import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.shared.exceptions import MCPError

    tools = [types.Tool.model_validate(tool) for tool in TOOLS]

    async def list_tools(_: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        if params is not None and params.cursor is not None:
            raise MCPError(code=types.INVALID_PARAMS, message="the list has one page")
        return types.ListToolsResult(tools=tools)

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name not in NAMES:
            raise MCPError(code=types.INVALID_PARAMS, message=f"there is no tool {params.name[:80]!r}")
        answer = await call(context.request.scope[DESK], params.name, dict(params.arguments or {}))
        text = types.TextContent(type="text", text=answer.text)
        return types.CallToolResult(content=[text], is_error=answer.is_error)

    server: Server[Any] = Server(
        SERVER_NAME,
        version=ekiden.__version__,
        instructions=INSTRUCTIONS,
        cache_hints={
            "tools/list": CacheHint(ttl_ms=MCP_LIST_KEPT_MS, scope="public"),
            "server/discover": CacheHint(ttl_ms=MCP_LIST_KEPT_MS, scope="public"),
        },
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    return StreamableHTTPSessionManager(
        server, json_response=True, stateless=True, max_request_body_size=MCP_LINE_BYTES_MAX
    )
