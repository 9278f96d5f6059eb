"""What the host's measurements share: a folder, realistic session files, and one way to print a figure."""

import json
import os
import random
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TALK = "the agent reads a file then writes tests and runs them before it says what changed and why it matters"
WORDS = TALK.split(" ")
TIME = "2026-01-01T00:00:{:02d}.000Z"


def figure(name: str, value: float, unit: str, bar: str, *, floor: float | None = None, digits: int = 2) -> None:
    """Prints one figure; `floor` is what the same work costs at least, measured in the same run."""
    ratio = f", {value / floor:.1f} x its floor of {floor:.{digits}f}" if floor else ""
    print(f"figure: {name}={value:.{digits}f} {unit} (bar {bar}{ratio})")


@contextmanager
def folder() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="ekiden-bench-", dir=os.environ.get("EKIDEN_BENCH_FOLDER")))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def prose(count: int, seed: int) -> str:
    chosen = random.Random(seed)
    return " ".join(chosen.choice(WORDS) for _ in range(count))


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def claude_rows(session: str, cwd: str, turns: int, *, bookkeeping_bytes: int, seed: int = 0) -> Iterator[bytes]:
    """Turns as Claude Code 2.1.3xx writes them: about a tenth is visible, the rest is prompts and snapshots."""
    parent: str | None = None
    filler = prose(bookkeeping_bytes // 6, seed)

    def line(kind: str, **more: object) -> bytes:
        nonlocal parent
        own = str(uuid.UUID(int=random.Random(f"{session}{seed}{len(more)}{parent}{kind}").getrandbits(128)))
        head = {
            "parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": cwd, "sessionId": session,
            "version": "2.1.332", "gitBranch": "main", "type": kind, "uuid": own,
            "timestamp": TIME.format(seed % 60),
        }  # fmt: skip
        parent = own
        return json.dumps({**head, **more}).encode() + b"\n"

    def answer(block: dict[str, object], message: str) -> bytes:
        body = {
            "id": message, "type": "message", "role": "assistant", "model": "m", "content": [block],
            "usage": {"input_tokens": 10, "output_tokens": 20},
        }  # fmt: skip
        return line("assistant", message=body, requestId=f"r-{message}")

    for turn in range(turns):
        number = seed * 1_000_003 + turn
        yield line("user", message={"role": "user", "content": f"question {number}: {prose(30, number)}"})
        yield json.dumps({"type": "api-request-shape", "id": f"s{number}", "params": filler}).encode() + b"\n"
        attachment = {"type": "prompt_snapshot", "text": filler[: bookkeeping_bytes // 3]}
        yield line("attachment", attachment=attachment, rendered="")
        yield answer({"type": "thinking", "thinking": prose(40, number), "signature": "x" * 200}, f"m{number}a")
        tool = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": f"run {number}"}}
        yield answer(tool, f"m{number}a")
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": prose(60, number)}
        yield line(
            "user", message={"role": "user", "content": [result]}, toolUseResult={"stdout": prose(60, number)}
        )
        yield answer({"type": "text", "text": f"answer {number}: {prose(120, number)}"}, f"m{number}b")


def codex_rows(thread: str, cwd: str, turns: int, *, bookkeeping_bytes: int, seed: int = 0) -> Iterator[bytes]:
    """Turns as Codex 0.171 writes them: typed items beside the model's own rows and world states."""
    ordinal = 0
    filler = prose(bookkeeping_bytes // 6, seed)

    def line(kind: str, payload: dict[str, object]) -> bytes:
        nonlocal ordinal
        row = {"timestamp": TIME.format(seed % 60), "ordinal": ordinal, "type": kind, "payload": payload}
        ordinal += 1
        return json.dumps(row).encode() + b"\n"

    yield line(
        "session_meta",
        {
            "id": thread,
            "session_id": thread,
            "timestamp": TIME.format(0),
            "cwd": cwd,
            "originator": "bench",
            "cli_version": "0.171.0",
            "source": "cli",
            "model_provider": "m",
            "history_mode": "paginated",
        },
    )

    def completed(turn_id: str, item: dict[str, object]) -> bytes:
        payload = {"type": "item_completed", "thread_id": thread, "turn_id": turn_id, "item": item}
        return line("event_msg", payload)

    for turn in range(turns):
        number = seed * 1_000_003 + turn
        turn_id = f"turn-{number}"
        asked, said = f"question {number}: {prose(30, number)}", f"answer {number}: {prose(120, number)}"
        yield line("event_msg", {"type": "task_started", "turn_id": turn_id})
        content = [{"type": "input_text", "text": asked}]
        yield line("response_item", {"type": "message", "role": "user", "content": content})
        yield completed(
            turn_id, {"type": "UserMessage", "id": f"u{number}", "content": [{"type": "text", "text": asked}]}
        )
        yield line("world_state", {"state": filler})
        call = {
            "type": "function_call",
            "name": "exec_command",
            "arguments": '{"cmd":"ls"}',
            "call_id": f"c{number}",
        }
        yield line("response_item", call)
        output = {"type": "function_call_output", "call_id": f"c{number}", "output": prose(60, number)}
        yield line("response_item", output)
        command = {
            "type": "CommandExecution", "id": f"c{number}", "command": ["bash", "-lc", f"run {number}"],
            "cwd": cwd,
            "status": "completed", "aggregated_output": prose(60, number), "exit_code": 0,
        }  # fmt: skip
        yield completed(turn_id, command)
        content = [{"type": "output_text", "text": said}]
        yield line("response_item", {"type": "message", "role": "assistant", "content": content})
        yield completed(
            turn_id, {"type": "AgentMessage", "id": f"a{number}", "content": [{"type": "Text", "text": said}]}
        )
        yield line("event_msg", {"type": "token_count", "info": {"total": number}})
        yield line("event_msg", {"type": "task_complete", "turn_id": turn_id})


def claude_file(home: Path, session: str, project: str = "-bench-project") -> Path:
    """Where a session file of Claude Code lies."""
    path = home / ".claude" / "projects" / project / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def codex_file(home: Path, thread: str) -> Path:
    """Where a rollout of Codex lies."""
    path = home / ".codex" / "sessions" / "2026" / "01" / "01" / f"rollout-2026-01-01T00-00-00-{thread}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
