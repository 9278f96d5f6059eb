"""The OpenAI Responses wire format."""

import json
import time
from typing import Any

from scripted_model.script import Turn, newest_prompt, text_of
from scripted_model.server import Answer, fresh_id


def _entries(given: Any) -> list[tuple[str, str]]:
    messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
    roles = {"user": "user", "system": "skip", "developer": "skip"}
    entries: list[tuple[str, str]] = []
    for message in messages:
        kind = message.get("type", "message")
        if kind.endswith("_output"):
            entries.append(("tool", ""))
        elif kind == "message":
            entries.append((roles.get(message.get("role"), "other"), text_of(message.get("content"))))
        elif kind.endswith("_call"):
            entries.append(("other", ""))
    return entries


class _Stream:
    """Numbers the events; says nothing when the client did not ask for a stream."""

    def __init__(self, door: Answer, open_: bool) -> None:
        self.door, self.open, self.number = door, open_, 0
        if open_:
            door.begin_stream()

    def send(self, kind: str, **fields: Any) -> None:
        if self.open:
            self.door.send_event(kind, {"type": kind, "sequence_number": self.number, **fields})
            self.number += 1


def answer(door: Answer, body: dict[str, Any], facts: dict[str, Any]) -> None:
    """Answers one `POST /v1/responses`."""
    tools = {tool.get("name", tool["type"]): tool["type"] for tool in body.get("tools") or []}
    turn = Turn(*newest_prompt(_entries(body.get("input", []))), tools, door.server.delay_s)
    if not door.begin(facts, turn):
        return
    usage = {
        "input_tokens": turn.input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": turn.input_tokens + 20,
    }
    response: dict[str, Any] = {
        "id": fresh_id("resp_"),
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "model": body.get("model"),
        "output": [],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "usage": None,
    }
    stream = _Stream(door, bool(body.get("stream")))
    stream.send("response.created", response=response)
    stream.send("response.in_progress", response=response)
    output: list[dict[str, Any]] = []
    if turn.think:
        output.append(_think(stream, turn, len(output)))
    if turn.text:
        output.append(_message(door, stream, turn, len(output)))
    for name, arguments in turn.calls:
        output.append(_call(stream, name, arguments, tools, len(output)))
    response = {**response, "status": "completed", "output": output, "usage": usage}
    if not stream.open:
        door.send_json(response)
        return
    stream.send("response.completed", response=response)
    door.end_stream()


def _think(stream: _Stream, turn: Turn, place: int) -> dict[str, Any]:
    assert turn.think is not None
    item: dict[str, Any] = {"id": fresh_id("rs_"), "type": "reasoning", "summary": []}
    where = {"item_id": item["id"], "output_index": place, "summary_index": 0}
    stream.send("response.output_item.added", output_index=place, item=item)
    part = {"type": "summary_text", "text": ""}
    stream.send("response.reasoning_summary_part.added", part=part, **where)
    for word in turn.think.split(" "):
        time.sleep(turn.delay_s)
        stream.send("response.reasoning_summary_text.delta", delta=word + " ", **where)
    stream.send("response.reasoning_summary_text.done", text=turn.think, **where)
    item = {**item, "summary": [{**part, "text": turn.think}], "encrypted_content": "ZmFrZQ=="}
    stream.send("response.output_item.done", output_index=place, item=item)
    return item


def _message(door: Answer, stream: _Stream, turn: Turn, place: int) -> dict[str, Any]:
    item: dict[str, Any] = {
        "id": fresh_id("msg_"),
        "type": "message",
        "role": "assistant",
        "status": "in_progress",
        "content": [],
    }
    where = {"item_id": item["id"], "output_index": place, "content_index": 0}
    stream.send("response.output_item.added", output_index=place, item=item)
    part: dict[str, Any] = {"type": "output_text", "text": "", "annotations": []}
    stream.send("response.content_part.added", part=part, **where)
    said: list[str] = []

    def send(piece: str) -> None:
        said.append(piece)
        stream.send("response.output_text.delta", delta=piece, logprobs=[], **where)

    door.say(turn, send)
    text = "".join(said)
    stream.send("response.output_text.done", text=text, logprobs=[], **where)
    part = {**part, "text": text}
    stream.send("response.content_part.done", part=part, **where)
    item = {**item, "status": "completed", "content": [part]}
    stream.send("response.output_item.done", output_index=place, item=item)
    return item


def _call(stream: _Stream, name: str, arguments: Any, tools: dict[str, str], place: int) -> dict[str, Any]:
    custom = tools.get(name) == "custom"
    item: dict[str, Any] = {
        "id": fresh_id("ctc_" if custom else "fc_"),
        "type": "custom_tool_call" if custom else "function_call",
        "call_id": fresh_id("call_"),
        **_named(name, tools),
        "status": "in_progress",
    }
    spelled = arguments if custom and isinstance(arguments, str) else json.dumps(arguments)
    key = "input" if custom else "arguments"
    kind = "response.custom_tool_call_input.delta" if custom else "response.function_call_arguments.delta"
    stream.send("response.output_item.added", output_index=place, item={**item, key: ""})
    stream.send(kind, item_id=item["id"], output_index=place, delta=spelled)
    item = {**item, key: spelled, "status": "completed"}
    stream.send("response.output_item.done", output_index=place, item=item)
    return item


def _named(name: str, tools: dict[str, str]) -> dict[str, str]:
    """How a call names its tool: a server's (`mcp__SERVER__TOOL`) stands in the namespace of that server."""
    for namespace, kind in tools.items():
        if kind == "namespace" and name.startswith(f"{namespace}__"):
            return {"name": name.removeprefix(f"{namespace}__"), "namespace": namespace}
    return {"name": name}
