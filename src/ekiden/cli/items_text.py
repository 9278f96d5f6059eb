"""Items of a session as text for a terminal."""

from collections.abc import Iterable

from ekiden.cli.screen import Screen, line_of, visible
from ekiden.transcript.items import Image, Item, ItemKind, Reference, Role, Tool, ToolState

OUTPUT_LINES_SHOWN = 12
_TICKS = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}
_TOOL_STATES = {
    ToolState.PENDING: ("waits", "yellow"),
    ToolState.RUNNING: ("runs", "blue"),
    ToolState.COMPLETED: ("done", "green"),
    ToolState.FAILED: ("failed", "red"),
    ToolState.DENIED: ("denied", "yellow"),
    ToolState.UNRECORDED: ("outcome not recorded", "yellow"),
}


def heading_of(screen: Screen, kind: ItemKind, role: Role | None, thread: str = "") -> str:
    """The line above an item."""
    match kind:
        case ItemKind.MESSAGE:
            name, colour = {
                Role.USER: ("You", "cyan"),
                Role.ASSISTANT: ("Agent", "green"),
                Role.SYSTEM: ("System", "yellow"),
                None: ("Agent", "green"),
            }[role]
        case ItemKind.THOUGHT:
            name, colour = "Thought", "dim"
        case ItemKind.PLAN:
            name, colour = "Plan", "blue"
        case ItemKind.TOOL:
            name, colour = "Tool", "blue"
        case _:
            name, colour = str(kind).capitalize(), "yellow"
    where = f" ({line_of(thread)})" if thread else ""
    return screen.style(f"{name}{where}", "bold", colour)


def print_item(screen: Screen, item: Item, *, whole: bool = False) -> None:
    """Prints one item with its heading. Long tool output is shortened, and says by how much, unless `whole`."""
    marks = [
        word
        for word, there in (
            ("interrupted", item.interrupted),
            ("abandoned branch", item.abandoned),
            ("not in the model's history", item.not_in_model_history),
            ("still being written", item.provisional),
        )
        if there
    ]
    suffix = f"  {screen.style('[' + ', '.join(marks) + ']', 'yellow')}" if marks else ""
    if item.tool is not None:
        _print_tool(screen, item.tool, suffix, whole=whole)
    else:
        screen.say(heading_of(screen, item.kind, item.role, item.thread) + suffix)
        for line in _content(item, whole=whole):
            screen.say(screen.style(line, "dim") if item.kind is ItemKind.THOUGHT else line)
        for entry in item.plan:
            screen.say(f"{_TICKS.get(entry.state, '[?]')} {visible(entry.text)}")
        if item.note:
            screen.say(line_of(item.note))
    for cut in item.cut:
        screen.say(screen.style(f"({line_of(cut.field)} is {cut.bytes} bytes in whole)", "dim"))
    screen.say()


def _content(item: Item, *, whole: bool) -> Iterable[str]:
    shown = item.kind not in (ItemKind.UNREADABLE, ItemKind.UNKNOWN)
    for block in item.content:
        if isinstance(block, Image):
            yield f"(image, {line_of(block.media_type)}, {block.size} bytes)"
        elif isinstance(block, Reference):
            yield f"({line_of(block.name)}: {line_of(block.uri)})"
        elif shown or whole:
            yield visible(block.text)
        else:
            yield line_of(block.text)[:200]


def _print_tool(screen: Screen, tool: Tool, suffix: str, *, whole: bool) -> None:
    state, colour = _TOOL_STATES[tool.state]
    if tool.exit_code:
        state += f", exit {tool.exit_code}"
    head = f"{screen.style('Tool', 'bold', 'blue')} {line_of(tool.name)}: {screen.style(state, colour)}"
    screen.say(head + suffix)
    if tool.title and tool.title != tool.command:
        screen.say(line_of(tool.title))
    if tool.command:
        screen.say(f"$ {visible(tool.command)}")
    print_diff(screen, "\n".join(diff.unified for diff in tool.diffs))
    print_output(screen, tool.output, whole=whole)
    if tool.thread:
        screen.say(screen.style(f"(its work is in the thread {line_of(tool.thread)})", "dim"))


def print_diff(screen: Screen, diff: str) -> None:
    """Prints a unified diff, added and removed lines in colour."""
    for line in visible(diff).split("\n") if diff else ():
        colour = ("green",) if line.startswith("+") else ("red",) if line.startswith("-") else ()
        screen.say(screen.style(line, *colour))


def print_output(screen: Screen, output: str, *, whole: bool) -> None:
    """Prints a tool's output, the last lines of it unless `whole`."""
    if not output:
        return
    lines = visible(output.rstrip("\n")).split("\n")
    left_out = 0 if whole else max(0, len(lines) - OUTPUT_LINES_SHOWN)
    if left_out:
        screen.say(screen.style(f"  … {left_out} lines before (--whole shows them)", "dim"))
    for line in lines[left_out:]:
        screen.say(f"  {line}")
