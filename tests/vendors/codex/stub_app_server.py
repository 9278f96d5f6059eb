"""A stand-in for `codex app-server`: speaks its line JSON, and misbehaves as its first prompt says.

Only the pipe, the order of messages and the process's end are its subject; what Codex itself does is tested
with the real program.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any


def tell(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def note(method: str, **params: Any) -> None:
    tell({"method": method, "params": {"threadId": "thread", "turnId": "turn"} | params, "news": True})


def finish(status: str = "completed", turn: str = "turn") -> None:
    note("turn/completed", turn={"id": turn, "status": status, "items": [], "error": None})


def big_events() -> None:
    """Events of sizes around every limit that a reader may have, each followed by a small one."""
    for size in (65_535, 65_537, 1_048_577, 12_000_000):
        note("item/agentMessage/delta", itemId="m", delta="x" * size)
        note("item/agentMessage/delta", itemId="m", delta=f"|{size}|")
    note("item/completed", item={"type": "agentMessage", "id": "m"})
    finish()


def act(prompt: str) -> None:
    if prompt == "big":
        big_events()
    elif prompt == "unended":
        finish()
        sys.stdout.write("y" * 5_000_000)
        sys.stdout.flush()
        sys.stderr.write("the last words\n")
        sys.exit(3)
    elif prompt == "nonsense":
        for line in (
            "",
            "not json",
            "42",
            "[]",
            '{"method":5}',
            '{"id":99,"result":{}}',
            '{"method":"new/thing"}',
        ):
            sys.stdout.write(line + "\n")
        note("item/started", item="odd")
        note("item/agentMessage/delta", itemId=7, delta=None)
        tell({"id": "q", "method": "item/new/request", "params": {"threadId": "thread"}})
        refused = json.loads(sys.stdin.readline())
        note("item/agentMessage/delta", itemId="m", delta=json.dumps(refused["error"]["code"]))
        note("item/completed", item={"type": "agentMessage", "id": "m"})
        finish()
    elif prompt == "ask":
        params = {
            "threadId": "thread",
            "turnId": "turn",
            "itemId": "c",
            "questions": [{"id": "q", "question": "?"}],
        }
        tell({"id": 7, "method": "item/tool/requestUserInput", "params": params})
        answer = json.loads(sys.stdin.readline())
        note("item/agentMessage/delta", itemId="m", delta=json.dumps(answer["result"]))
        note("serverRequest/resolved", requestId=7)
        note("item/completed", item={"type": "agentMessage", "id": "m"})
        finish()
    elif prompt == "ask and withdraw":
        asked = {"threadId": "thread", "turnId": "turn", "itemId": "c", "permissions": {"network": True}}
        tell({"id": 8, "method": "item/permissions/requestApproval", "params": asked})
        note("serverRequest/resolved", requestId=8)
        finish()
    elif prompt == "agent asks":
        note("item/completed", item={"type": "collabAgentToolCall", "id": "a", "receiverThreadIds": ["child"]})
        note("item/agentMessage/delta", threadId="child", turnId="child turn", itemId="x", delta="not mine")
        note("turn/completed", threadId="child", turn={"id": "other", "status": "completed"})
        asked = {"threadId": "child", "turnId": "child turn", "itemId": "c", "command": "ls"}
        tell({"id": 9, "method": "item/commandExecution/requestApproval", "params": asked})
        answer = json.loads(sys.stdin.readline())
        note("serverRequest/resolved", threadId="child", requestId=9)
        note("item/agentMessage/delta", itemId="m", delta=answer["result"]["decision"])
        note("item/completed", item={"type": "agentMessage", "id": "m"})
        finish()
    elif prompt == "hang":
        time.sleep(60)


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method"), message.get("id")
        if number is None:
            continue
        if method == "thread/start":
            if Path("silent").exists():
                continue
            tell({"id": number, "result": {"thread": {"id": "thread", "path": ""}}})
        elif method == "turn/start":
            tell({"id": number, "result": {"turn": {"id": "turn"}}})
            act(message["params"]["input"][0]["text"])
        else:
            tell({"id": number, "result": {}})


main()
