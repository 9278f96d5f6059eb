"""MCP as an exchange of JSON values, in both of its eras; no input or output here.

Up to 2025-11-25 a connection begins with `initialize`. From 2026-07-28 on there is no beginning: each request
names its version and the client's abilities in `_meta`, `server/discover` says what is here, and every result says
that it is complete and, where a client may keep it, for how long. The connection is of the era of its first
request; a request of the other era is refused as the official package does.

Sources: modelcontextprotocol.io, specification 2025-11-25 and 2026-07-28, basic protocol, lifecycle and tools;
the error numbers of 2026-07-28 (-32020 to -32022).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeGuard, cast

import ekiden
from ekiden.kernel.limits import MCP_LIST_KEPT_MS
from ekiden.mcp.definitions import INSTRUCTIONS, NAMES, SERVER_NAME, TOOLS

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
ENVELOPE_VERSIONS = ("2026-07-28",)

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UNSUPPORTED_VERSION = -32022

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_ABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
_SERVER_KEY = "io.modelcontextprotocol/serverInfo"
_SERVER = {"name": SERVER_NAME, "version": ekiden.__version__}
_ABILITIES = {"tools": {"listChanged": False}}
_KEPT = {"ttlMs": MCP_LIST_KEPT_MS, "cacheScope": "public"}

Json = dict[str, Any]
CallTool = Callable[[str, Json], Awaitable[tuple[str, bool]]]
"""Carries out a tool: from its name and arguments to a text and whether it is an error."""


class Era(StrEnum):
    """What the connection speaks, once its first request has come."""

    UNKNOWN = "unknown"
    HANDSHAKE = "handshake"
    ENVELOPE = "envelope"


@dataclass(frozen=True, slots=True)
class Refused(Exception):
    """A request that is answered with an error of JSON-RPC."""

    code: int
    message: str
    data: Any = None


class Conversation:
    """One connection's side of the protocol."""

    def __init__(self, call_tool: CallTool) -> None:
        self._call_tool = call_tool
        self.era = Era.UNKNOWN

    async def answer(self, request: Json) -> Json:
        """The response to a request (an object with `id` and `method`), result or error."""
        number = request["id"]
        try:
            return {"jsonrpc": "2.0", "id": number, "result": await self._result(request)}
        except Refused as refused:
            return error_response(number, refused.code, refused.message, refused.data)

    async def _result(self, request: Json) -> Json:
        method = request["method"]
        params = object_of(request.get("params", {}))
        if params is None:
            raise Refused(INVALID_PARAMS, "params must be an object")
        if method == "initialize":
            return self._initialize(params)
        enveloped = _in_envelope(params)
        if self.era is Era.UNKNOWN:
            self.era = Era.ENVELOPE if enveloped or method == "server/discover" else Era.HANDSHAKE
        if self.era is Era.HANDSHAKE:
            if enveloped:
                raise Refused(INVALID_REQUEST, "this connection began with the handshake of an earlier protocol")
            return await self._dispatch(method, params)
        _check_envelope(params)
        result = await self._dispatch(method, params)
        return {"resultType": "complete", **result, "_meta": {_SERVER_KEY: _SERVER}}

    def _initialize(self, params: Json) -> Json:
        asked = params.get("protocolVersion")
        if self.era is Era.ENVELOPE:
            data = {"supported": list(ENVELOPE_VERSIONS), "requested": str(asked)}
            raise Refused(UNSUPPORTED_VERSION, "this connection began without a handshake", data)
        if not isinstance(asked, str):
            raise Refused(INVALID_PARAMS, "protocolVersion must be a string")
        self.era = Era.HANDSHAKE
        return {
            "protocolVersion": asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1],
            "capabilities": _ABILITIES,
            "serverInfo": _SERVER,
            "instructions": INSTRUCTIONS,
        }

    async def _dispatch(self, method: str, params: Json) -> Json:
        match method:
            case "tools/call":
                return await self._tool(params)
            case "tools/list":
                if params.get("cursor") is not None:
                    raise Refused(INVALID_PARAMS, "the list has one page")
                return {"tools": TOOLS, **(_KEPT if self.era is Era.ENVELOPE else {})}
            case "server/discover" if self.era is Era.ENVELOPE:
                return {
                    "supportedVersions": list(ENVELOPE_VERSIONS),
                    "capabilities": _ABILITIES,
                    "instructions": INSTRUCTIONS,
                    **_KEPT,
                }
            case "ping" if self.era is Era.HANDSHAKE:
                return {}
            case _:
                raise Refused(METHOD_NOT_FOUND, f"there is no method {method[:80]!r}")

    async def _tool(self, params: Json) -> Json:
        name = params.get("name")
        arguments = object_of({} if params.get("arguments") is None else params["arguments"])
        if not isinstance(name, str) or arguments is None:
            raise Refused(INVALID_PARAMS, "a call has a name, and arguments that are an object")
        if name not in NAMES:
            raise Refused(INVALID_PARAMS, f"there is no tool {name[:80]!r}")
        text, is_error = await self._call_tool(name, arguments)
        return {"content": [{"type": "text", "text": text}], "isError": is_error}


def error_response(number: Any, code: int, message: str, data: Any = None) -> Json:
    """A response that is an error; `number` is the id of the request, None if that is not known."""
    error: Json = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": number, "error": error}


def object_of(value: Any) -> Json | None:
    """`value` if it is a JSON object."""
    return cast(Json, value) if isinstance(value, dict) else None


def is_request(value: Any) -> TypeGuard[Json]:
    """Whether a decoded message is a request that is owed an answer."""
    message = object_of(value)
    return (
        message is not None
        and message.get("jsonrpc") == "2.0"
        and isinstance(message.get("method"), str)
        and isinstance(message.get("id"), str | int)
        and not isinstance(message.get("id"), bool)
    )


def is_notification(value: Any) -> TypeGuard[Json]:
    """Whether a decoded message is one that nobody answers."""
    message = object_of(value)
    return message is not None and "id" not in message and isinstance(message.get("method"), str)


def cancelled_id(notification: Json) -> str | int | None:
    """The id of the request that a notification cancels, if it cancels one."""
    params = object_of(notification.get("params"))
    if notification["method"] != "notifications/cancelled" or params is None:
        return None
    number = params.get("requestId")
    return number if isinstance(number, str | int) else None


def _in_envelope(params: Json) -> bool:
    return _VERSION_KEY in (object_of(params.get("_meta")) or {})


def _check_envelope(params: Json) -> None:
    meta = object_of(params.get("_meta")) or {}
    missing = [key for key in (_VERSION_KEY, _ABILITIES_KEY) if key not in meta]
    if missing:
        raise Refused(INVALID_PARAMS, f"params._meta is missing {', '.join(missing)}")
    version = meta[_VERSION_KEY]
    if not isinstance(version, str):
        raise Refused(INVALID_PARAMS, "the protocol version must be a string")
    if version not in ENVELOPE_VERSIONS:
        data = {"supported": list(ENVELOPE_VERSIONS), "requested": version}
        raise Refused(UNSUPPORTED_VERSION, "unsupported protocol version", data)
