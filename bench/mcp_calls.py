"""What the tools of agents cost. `mcp_tools_tokens`: the dearer of the two eras' listings, in bytes / 4 of compact
JSON. `mcp_start`: the stdio server, from its start to the answer to `initialize`. `mcp_call_p50`: one call of a
tool, from its line to its answer, over stdio; by HTTP beside it.

The call is `inbox` with nothing in it, so that what is measured is the way and not the mail; `post` is told too.
Floor of a call: the same question asked at the door itself. Floor of a start: an interpreter that ends at once.
Values are medians of all calls, of starts the best (the others are the neighbours' share); the hub is a process of
its own.
"""

import http.client
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from _hub import a_hub, clean_environment
from _load import figure, percentile
from ekiden.client.plain import PlainClient
from ekiden.client.requests import new_command_id

CALLS = 300
STARTS = 9
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}


class Stdio:
    """The stdio server as a process, asked one thing after the other."""

    def __init__(self, url: str, key: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ekiden.cli", "mcp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**clean_environment(), "EKIDEN_URL": url, "EKIDEN_KEY": key},
        )
        self.number = 0

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.number += 1
        request = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())["result"]

    def end(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


def asked_by_http(connection: http.client.HTTPConnection, key: str, name: str, given: dict[str, Any]) -> Any:
    """One call over a kept connection, as a client of the newest protocol makes it."""
    params = {"name": name, "arguments": given, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers = {
        "authorization": f"Bearer {key}",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": name,
    }
    connection.request("POST", "/mcp", body, headers)
    return json.loads(connection.getresponse().read())["result"]


def times_ms(call: Callable[[], Any], count: int = CALLS) -> list[float]:
    """How long each of so many calls takes."""
    for _ in range(10):
        call()
    taken: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        call()
        taken.append((time.perf_counter() - began) * 1e3)
    return taken


def start_ms(url: str, key: str) -> float:
    """From the start of the stdio server to its first answer."""
    began = time.perf_counter()
    server = Stdio(url, key)
    server.ask("initialize", HANDSHAKE)
    taken = (time.perf_counter() - began) * 1e3
    server.end()
    return taken


def bare_start_ms() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", ""], check=True, env={"PATH": os.environ["PATH"]})
    return (time.perf_counter() - began) * 1e3


def listed_bytes(result: dict[str, Any]) -> int:
    return len(json.dumps(result, separators=(",", ":"), ensure_ascii=False).encode())


def main() -> None:
    with a_hub() as hub:
        url = f"http://127.0.0.1:{hub.port}"
        with PlainClient(url, hub.key) as owner:
            owner.post("/v1/channels", {"name": "ops"})
            key = owner.post("/v1/keys", {"name": "bench", "kind": "agent"})["key"]
        old, new = Stdio(url, key), Stdio(url, key)
        old.ask("initialize", HANDSHAKE)
        listings = [listed_bytes(old.ask("tools/list", {})), listed_bytes(new.ask("tools/list", {"_meta": META}))]
        old.end()
        figure("mcp_tools_tokens", max(listings) / 4, "tokens", "<= 1500", f"{max(listings)} bytes")

        start_ms(url, key)
        starts = [start_ms(url, key) for _ in range(STARTS)]
        bare = statistics.median(bare_start_ms() for _ in range(STARTS))
        middle = statistics.median(starts)
        ratio = f"ratio {middle / bare:.1f} to a start alone, {bare:.3g} ms"
        more = f"the best of {STARTS}, median {middle:.3g} ms; {ratio}"
        figure("mcp_start", min(starts), "ms", "< 200", more)

        def stdio(name: str, given: dict[str, Any]) -> Callable[[], Any]:
            return lambda: new.ask("tools/call", {"name": name, "arguments": given, "_meta": META})

        said = {"channel": "ops", "text": "a word of usual length, said again and again"}
        by_stdio, posts = times_ms(stdio("inbox", {})), times_ms(stdio("post", said))
        new.end()
        connection = http.client.HTTPConnection("127.0.0.1", hub.port)
        by_http = times_ms(lambda: asked_by_http(connection, key, "inbox", {}))
        posts_http = times_ms(lambda: asked_by_http(connection, key, "post", said))
        connection.close()
        with PlainClient(url, key) as door:
            floor = times_ms(lambda: door.get("/v1/mentions"))
            floor_post = times_ms(
                lambda: door.post("/v1/channels/ops/messages", {"text": said["text"]}, command_id=new_command_id())
            )
    median = statistics.median
    figure(
        "mcp_call_p50",
        median(by_stdio),
        "ms",
        "< 5",
        f"http {median(by_http):.3g} ms (bar < 8); p99 {percentile(by_stdio, 0.99):.3g} and"
        f" {percentile(by_http, 0.99):.3g} ms; ratio {median(by_stdio) / median(floor):.1f} and"
        f" {median(by_http) / median(floor):.1f} to the door itself, {median(floor):.3g} ms; post"
        f" {median(posts):.3g} and {median(posts_http):.3g} ms, at the door {median(floor_post):.3g} ms",
    )


if __name__ == "__main__":
    main()
