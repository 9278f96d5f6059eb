"""Tool calls of a rollout as neutral tools: what was called, and what came of it.

A call is told in up to three rows: the model's `function_call`, the typed item or `*_end` event of what Codex
did, and the `function_call_output` that the model got back. Each function here reads one of them; the fold
joins them by the call id.
"""

import re
from dataclasses import dataclass
from urllib.parse import unquote

import msgspec

from ekiden.kernel.canonical import whole_text
from ekiden.transcript.items import Tool, ToolKind, ToolState
from ekiden.vendors.codex.contents import Cutter, images_in, plain_text
from ekiden.vendors.codex.native import (
    Record,
    decoded,
    listed,
    milliseconds_of,
    number_of,
    record,
    text_of,
)
from ekiden.vendors.codex.patches import BEGIN, diffs_of_changes, diffs_of_patch

_TITLE_CHARS_MAX = 200
_NULL = msgspec.Raw(b"null")
_SHELLS = re.compile(r"(?:.*/)?(?:ba|z|da|k|fi)?sh(?:\.exe)?|(?:.*/)?(?:powershell|pwsh|cmd)(?:\.exe)?")
_SHELL_FLAGS = frozenset({"-c", "-lc", "-ic", "-lic", "-Command", "/c"})
_EXIT_CODE = re.compile(r"(?:Process exited with code|Exit code:) (-?\d{1,10})")
_STILL_RUNS = re.compile(r"Process running with session ID")
_OUTPUT_MARK = "\nOutput:\n"
_DENIED = re.compile(
    r"(?:exec_command failed|execution error|patch rejected|rejected)\b.{0,120}rejected by user", re.I | re.S
)
_DENIED_PATCH = "patch rejected by user"
_ABORTED = "aborted by user"

_KINDS: dict[str, ToolKind] = {
    "exec_command": ToolKind.EXECUTE,
    "shell": ToolKind.EXECUTE,
    "shell_command": ToolKind.EXECUTE,
    "local_shell": ToolKind.EXECUTE,
    "container.exec": ToolKind.EXECUTE,
    "unified_exec": ToolKind.EXECUTE,
    "write_stdin": ToolKind.EXECUTE,
    "apply_patch": ToolKind.EDIT,
    "view_image": ToolKind.READ,
    "read_file": ToolKind.READ,
    "list_dir": ToolKind.SEARCH,
    "grep_files": ToolKind.SEARCH,
    "tool_search": ToolKind.SEARCH,
    "web_search": ToolKind.SEARCH,
    "spawn_agent": ToolKind.AGENT,
    "send_input": ToolKind.AGENT,
    "send_message": ToolKind.AGENT,
    "followup_task": ToolKind.AGENT,
    "resume_agent": ToolKind.AGENT,
    "wait_agent": ToolKind.AGENT,
    "close_agent": ToolKind.AGENT,
}
_STATUSES: dict[str, ToolState] = {
    "inprogress": ToolState.RUNNING,
    "completed": ToolState.COMPLETED,
    "failed": ToolState.FAILED,
    "declined": ToolState.DENIED,
}
ENDED = frozenset({ToolState.COMPLETED, ToolState.FAILED, ToolState.DENIED})


def command_line(command: object) -> str:
    """A command for people: the script itself where a shell was asked to run one."""
    if isinstance(command, str):
        return text_of(command)
    words = [text_of(word) for word in listed(command)]
    if len(words) == 3 and words[1] in _SHELL_FLAGS and _SHELLS.fullmatch(words[0]):
        return words[2]
    return " ".join(words)


def folder(cwd: object) -> str:
    """A working folder as a path: the newer rows write `file://` URLs."""
    text = text_of(cwd)
    return unquote(text[len("file://") :]) if text.startswith("file://") else text


def title_of(text: str) -> str:
    """The first line that says something, short enough for one row on a screen."""
    line = text.lstrip()[: 4 * _TITLE_CHARS_MAX].partition("\n")[0].rstrip()
    return line if len(line) <= _TITLE_CHARS_MAX else line[: _TITLE_CHARS_MAX - 1] + "…"


def embedded(value: object, cutter: Cutter, name: str = "tool.input") -> msgspec.Raw:
    """`value` as JSON of bounded size; what is over the bound becomes its beginning, as text."""
    try:
        encoded = msgspec.json.encode(value)
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError):
        encoded = msgspec.json.encode(whole_text(str(value)))
    if len(encoded) <= cutter.bytes_max:
        return msgspec.Raw(encoded)
    return msgspec.Raw(msgspec.json.encode(cutter.shown(name, encoded.decode())))


def arguments_of(payload: Record) -> object:
    """The arguments of a call: parsed where they are JSON, else the text itself."""
    for name in ("arguments", "input", "action"):
        value = payload.get(name)
        if isinstance(value, str):
            try:
                return decoded(value.encode("utf-8", "surrogatepass"))
            except ValueError:
                return text_of(value)
        if value is not None:
            return value
    return None


def called(payload: Record, at: str, cutter: Cutter) -> Tool:
    """The tool of a model's call (`function_call`, `custom_tool_call`, `local_shell_call`, …)."""
    kind = text_of(payload.get("type"))
    fallback = kind.removesuffix("_call") or "tool"
    name = text_of(payload.get("name")) or ("local_shell" if kind == "local_shell_call" else fallback)
    namespace = text_of(payload.get("namespace"))
    arguments = arguments_of(payload)
    fields = record(arguments)
    patch = arguments if isinstance(arguments, str) else text_of(fields.get("input") or fields.get("patch"))
    command = ""
    tool_kind = _KINDS.get(name, ToolKind.OTHER)
    if tool_kind is ToolKind.EXECUTE:
        command = command_line(fields.get("cmd") or fields.get("command") or fields.get("chars") or "")
        patch = command if BEGIN in command else ""
    diffs = diffs_of_patch(patch, cutter) if BEGIN in patch else ()
    if diffs:
        tool_kind = ToolKind.EDIT
    query = text_of(fields.get("query") or fields.get("path") or fields.get("message") or fields.get("prompt"))
    return Tool(
        name=name if not namespace else f"{namespace}{'' if namespace.endswith('__') else '.'}{name}",
        state=ToolState.PENDING,
        kind=tool_kind,
        title=title_of(", ".join(diff.path for diff in diffs) or command or query or name),
        command=cutter.shown("tool.command", command),
        cwd=folder(fields.get("workdir") or fields.get("working_directory")),
        input=embedded(arguments, cutter),
        diffs=diffs,
        started_at=at,
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call's output says: the state, the text for people, and the exit code where there is one."""

    state: ToolState
    output: str
    exit_code: int | None
    aborted: bool
    """The turn was interrupted before the call had ended."""
    parts: tuple[object, ...] = ()


def outcome_of(output: object) -> Outcome:
    """Reads a `*_output` row's output: text, JSON in text, a list of content parts, or an object."""
    success: object = None
    exit_code: int | None = None
    value = output
    if isinstance(value, str) and value.startswith('{"output":'):
        try:
            value = decoded(value.encode("utf-8", "surrogatepass"))
        except ValueError:
            value = output
    fields = record(value)
    if fields:
        success = fields.get("success")
        exit_code = number_of(record(fields.get("metadata")).get("exit_code"))
        value = fields.get("content", fields.get("output", ""))
    parts = tuple(listed(value))
    text = plain_text(value)
    said = text
    found = _EXIT_CODE.search(text, 0, 400)
    if found is not None:
        exit_code = int(found[1])
        begin = text.find(_OUTPUT_MARK)
        said = text[begin + len(_OUTPUT_MARK) :] if begin >= 0 else text
    aborted = len(text) < 200 and text.endswith(_ABORTED)
    if _STILL_RUNS.search(text, 0, 400):
        state = ToolState.RUNNING
    elif exit_code is None and (text.startswith(_DENIED_PATCH) or _DENIED.match(text, 0, 400)):
        state = ToolState.DENIED
    elif success is False or (exit_code is not None and exit_code != 0) or aborted:
        state = ToolState.FAILED
    else:
        state = ToolState.COMPLETED
    return Outcome(state, said, exit_code, aborted, parts)


def with_outcome(tool: Tool, outcome: Outcome, at: str, cutter: Cutter) -> Tool:
    """`tool` with the outcome that the model was told."""
    return msgspec.structs.replace(
        tool,
        state=outcome.state,
        output=cutter.shown("tool.output", outcome.output),
        exit_code=outcome.exit_code,
        images=images_in(outcome.parts),
        ended_at="" if outcome.state is ToolState.RUNNING else at,
    )


def _state(fields: Record, exit_code: int | None) -> ToolState:
    state = _STATUSES.get(text_of(fields.get("status")).replace("_", "").lower())
    if state is not None:
        return state
    failed = fields.get("success") is False or (exit_code is not None and exit_code != 0)
    return ToolState.FAILED if failed else ToolState.COMPLETED


def executed(fields: Record, at: str, cutter: Cutter) -> Tool:
    """A `CommandExecution` item, or an `exec_command_end` event."""
    command = command_line(fields.get("command"))
    exit_code = number_of(fields.get("exit_code"))
    output = text_of(fields.get("aggregated_output"))
    if not output:
        output = text_of(fields.get("stdout")) + text_of(fields.get("stderr"))
    return Tool(
        name="exec_command",
        state=_state(fields, exit_code),
        kind=ToolKind.EXECUTE,
        title=title_of(command),
        command=cutter.shown("tool.command", command),
        cwd=folder(fields.get("cwd")),
        output=cutter.shown("tool.output", output),
        exit_code=exit_code,
        ended_at=at,
        duration_ms=milliseconds_of(fields.get("duration")),
    )


def changed_files(fields: Record, at: str, cutter: Cutter) -> Tool:
    """A `FileChange` item, or a `patch_apply_end` event."""
    diffs = diffs_of_changes(fields.get("changes"), cutter)
    said = text_of(fields.get("stdout")) + text_of(fields.get("stderr"))
    return Tool(
        name="apply_patch",
        state=_state(fields, None),
        kind=ToolKind.EDIT,
        title=title_of(", ".join(diff.path for diff in diffs)),
        output=cutter.shown("tool.output", said),
        diffs=diffs,
        ended_at=at,
    )


def asked_server(fields: Record, at: str, cutter: Cutter) -> Tool:
    """An `McpToolCall` item, or an `mcp_tool_call_end` event."""
    invocation = record(fields.get("invocation")) or fields
    result = record(fields.get("result"))
    good = record(result.get("Ok")) or result
    bad = text_of(result.get("Err")) or text_of(record(fields.get("error")).get("message"))
    content = listed(good.get("content"))
    failed = bool(bad) or good.get("is_error") is True or good.get("isError") is True
    name = f"{text_of(invocation.get('server'))}.{text_of(invocation.get('tool'))}"
    return Tool(
        name=name,
        state=ToolState.FAILED if failed else _state(fields, None),
        title=title_of(name),
        input=embedded(invocation.get("arguments"), cutter),
        output=cutter.shown("tool.output", bad or plain_text(content)),
        images=images_in(content),
        ended_at=at,
        duration_ms=milliseconds_of(fields.get("duration")) or number_of(fields.get("duration_ms")),
    )


def ran_dynamic(fields: Record, at: str, cutter: Cutter) -> Tool:
    """A `DynamicToolCall` item: a tool that the client of an app-server offers."""
    content = listed(fields.get("content_items"))
    return Tool(
        name=text_of(fields.get("tool")),
        state=_state(fields, None),
        title=title_of(text_of(fields.get("tool"))),
        input=embedded(fields.get("arguments"), cutter),
        output=cutter.shown("tool.output", plain_text(content)),
        images=images_in(content),
        ended_at=at,
        duration_ms=milliseconds_of(fields.get("duration")) or number_of(fields.get("duration_ms")),
    )


def searched_web(fields: Record, at: str, cutter: Cutter) -> Tool:
    """A `WebSearch` item, or a `web_search_call` of the model."""
    action = record(fields.get("action"))
    query = text_of(fields.get("query") or action.get("query") or action.get("url"))
    if not query:
        query = ", ".join(text_of(each) for each in listed(action.get("queries")))
    opened = "page" in text_of(action.get("type")).lower()
    return Tool(
        name="web_search",
        state=_state(fields, None),
        kind=ToolKind.FETCH if opened else ToolKind.SEARCH,
        title=title_of(query) or "web search",
        input=embedded(fields.get("action"), cutter),
        ended_at=at,
    )


def worked_with_agents(fields: Record, at: str, cutter: Cutter) -> Tool:
    """A `CollabAgentToolCall` or `SubAgentActivity` item: another agent was started, told or awaited."""
    threads = [text_of(each) for each in listed(fields.get("receiver_thread_ids"))]
    name = text_of(fields.get("tool")) or f"agent_{text_of(fields.get('kind')) or 'activity'}"
    prompt = text_of(fields.get("prompt") or fields.get("agent_path"))
    return Tool(
        name=name,
        state=_state(fields, None),
        kind=ToolKind.AGENT,
        title=title_of(prompt) or name,
        input=embedded(prompt, cutter) if prompt else _NULL,
        ended_at=at,
        thread=text_of(fields.get("agent_thread_id")) or (threads[0] if threads else ""),
    )


def viewed_image(fields: Record, at: str, _cutter: Cutter) -> Tool:
    """An `ImageView` item."""
    return Tool(
        name="view_image",
        state=ToolState.COMPLETED,
        kind=ToolKind.READ,
        title=title_of(text_of(fields.get("path"))),
        ended_at=at,
    )


def made_image(fields: Record, at: str, cutter: Cutter) -> Tool:
    """An `ImageGeneration` item or an `image_generation_call`; the picture is kept by its hash."""
    result = text_of(fields.get("result"))
    return Tool(
        name="image_generation",
        state=_state(fields, None),
        title=title_of(text_of(fields.get("revised_prompt"))) or "image",
        output=cutter.shown("tool.output", text_of(fields.get("saved_path"))),
        images=images_in([{"image_url": f"data:image/png;base64,{result}"}]) if result else (),
        ended_at=at,
    )


def slept(fields: Record, at: str, _cutter: Cutter) -> Tool:
    """A `Sleep` item."""
    duration_ms = milliseconds_of(fields.get("duration")) or number_of(fields.get("duration_ms"))
    return Tool("sleep", ToolState.COMPLETED, title="sleep", ended_at=at, duration_ms=duration_ms)


def told_output(fields: Record, at: str, cutter: Cutter) -> Tool:
    """A `FunctionCallOutput` item: a result that the model was given without Codex running anything."""
    tool = Tool(name=text_of(fields.get("name")), state=ToolState.COMPLETED)
    return with_outcome(tool, outcome_of(fields.get("output")), at, cutter)


TYPED = {
    "CommandExecution": executed,
    "FileChange": changed_files,
    "McpToolCall": asked_server,
    "DynamicToolCall": ran_dynamic,
    "WebSearch": searched_web,
    "CollabAgentToolCall": worked_with_agents,
    "SubAgentActivity": worked_with_agents,
    "ImageView": viewed_image,
    "ImageGeneration": made_image,
    "Sleep": slept,
    "FunctionCallOutput": told_output,
}
"""Item types of the paginated form that are tool calls, with what reads each."""

ENDS = {"exec_command_end": executed, "patch_apply_end": changed_files, "mcp_tool_call_end": asked_server}
"""Events of the legacy form that end a tool call."""


def joined(call: Tool, done: Tool) -> Tool:
    """What was called together with what was done: the doing knows more, the calling keeps the input."""
    return msgspec.structs.replace(
        done,
        name=call.name or done.name,
        title=done.title or call.title,
        command=done.command or ("" if done.kind is ToolKind.EDIT else call.command),
        cwd=done.cwd or call.cwd,
        input=done.input if bytes(done.input) != b"null" else call.input,
        output=done.output or call.output,
        diffs=done.diffs or call.diffs,
        started_at=call.started_at,
        thread=done.thread or call.thread,
    )
