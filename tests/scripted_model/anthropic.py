"""The Anthropic Messages wire format."""

import json
import time
from typing import Any

from scripted_model.script import Turn, newest_prompt, text_of
from scripted_model.server import Answer, fresh_id


def _entries(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    entries: list[tuple[str, str]] = []
    for message in messages:
        content = message["content"]
        blocks = content if isinstance(content, list) else []
        results = [block for block in blocks if isinstance(block, dict) and block.get("type") == "tool_result"]
        entries += [("tool", "")] * len(results)
        text = text_of(content)
        if text or not results:
            if message["role"] == "user" and (not results or "@@" in text):
                kind = "user"
            else:
                kind = "skip" if results else "other"
            entries.append((kind, text))
    return entries


def answer(door: Answer, body: dict[str, Any], facts: dict[str, Any]) -> None:
    """Answers one `POST /v1/messages`."""
    tools = {tool["name"]: "function" for tool in body.get("tools") or [] if "name" in tool}
    turn = Turn(*newest_prompt(_entries(body.get("messages", []))), tools, door.server.delay_s)
    if not door.begin(facts, turn):
        return
    usage = {
        "input_tokens": turn.input_tokens,
        "output_tokens": 1,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }
    message: dict[str, Any] = {
        "id": fresh_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    stop = "tool_use" if turn.calls else "end_turn"
    calls = [{"type": "tool_use", "id": fresh_id("toolu_"), "name": name, "input": {}} for name, _ in turn.calls]
    if not body.get("stream"):
        said: list[str] = []
        door.say(turn, said.append)
        if said:
            message["content"].append({"type": "text", "text": "".join(said)})
        for block, (_, arguments) in zip(calls, turn.calls, strict=True):
            message["content"].append({**block, "input": arguments})
        door.send_json({**message, "stop_reason": stop})
        return

    def send(kind: str, **fields: Any) -> None:
        door.send_event(kind, {"type": kind, **fields})

    door.begin_stream()
    send("message_start", message=message)
    index = 0
    if turn.think:
        block = {"type": "thinking", "thinking": "", "signature": ""}
        send("content_block_start", index=index, content_block=block)
        for word in turn.think.split(" "):
            time.sleep(turn.delay_s)
            delta = {"type": "thinking_delta", "thinking": word + " "}
            send("content_block_delta", index=index, delta=delta)
        delta = {"type": "signature_delta", "signature": "ZmFrZQ=="}
        send("content_block_delta", index=index, delta=delta)
        send("content_block_stop", index=index)
        index += 1
    if turn.text:
        send("content_block_start", index=index, content_block={"type": "text", "text": ""})
        place = index
        door.say(
            turn,
            lambda piece: send("content_block_delta", index=place, delta={"type": "text_delta", "text": piece}),
        )
        send("content_block_stop", index=index)
        index += 1
    for block, (_, arguments) in zip(calls, turn.calls, strict=True):
        send("content_block_start", index=index, content_block=block)
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        send("content_block_delta", index=index, delta=delta)
        send("content_block_stop", index=index)
        index += 1
    ending = {"stop_reason": stop, "stop_sequence": None}
    send("message_delta", delta=ending, usage={**usage, "output_tokens": 20})
    send("message_stop")
    door.end_stream()
