"""What a running turn asks a person, and the answers that Claude Code understands.

Shapes of the answers: `{behavior: allow, updatedInput, updatedPermissions?}` or `{behavior: deny, message}`.
The answers to an AskUserQuestion go in as `updatedInput.answers`: question text -> answer text.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ekiden.kernel.limits import APPROVAL_DETAIL_BYTES_MAX, ITEM_OUTPUT_BYTES_MAX, ITEM_TITLE_CHARS_MAX
from ekiden.transcript.items import Cut, ToolKind
from ekiden.vendors.claude import diffs, ids, tools
from ekiden.vendors.claude.bounds import fitted, fitted_input
from ekiden.vendors.claude.rows import Raw, any_value, as_list, as_map, as_text
from ekiden.vendors.claude.wire import Permission
from ekiden.vendors.port import Asked, Option, OptionKind

ALLOW, ALWAYS, DENY = "allow", "always", "deny"
DENIED = "The person denied this."
_LABEL_CHARS_MAX = 120


@dataclass(frozen=True, slots=True)
class Question:
    """An open question with what its answers need."""

    asked: Asked
    input: Raw
    suggestions: list[Any]


def question(request_id: str, wanted: Permission, turn_id: str, cwd: str) -> Question:
    """What `can_use_tool` asks, in neutral words."""
    name = wanted.tool_name or ""
    fields = as_map(any_value(wanted.input))
    suggestions = as_list(any_value(wanted.permission_suggestions))
    kind = tools.KINDS.get(name, ToolKind.OTHER)
    cuts: list[Cut] = []
    changes = diffs.asked(name, fields, cuts) if kind is ToolKind.EDIT else ()
    asked = Asked(
        native_id=request_id,
        turn_id=turn_id,
        question=_kind(name, kind),
        title=_title(name, fields, wanted.description or ""),
        tool=name,
        detail=_detail(wanted.input),
        command=fitted(as_text(fields.get("command")), ITEM_OUTPUT_BYTES_MAX, "command", cuts)
        if kind is ToolKind.EXECUTE
        else "",
        cwd=cwd,
        diff="".join(change.unified for change in changes),
        options=_options(name, suggestions),
        item_id=ids.call_id(wanted.tool_use_id) if wanted.tool_use_id else "",
    )
    return Question(asked, wanted.input, suggestions)


def answer(open_question: Question, option_id: str, message: str, answers: Raw | None) -> dict[str, Any]:
    """The answer for the program. Anything but an offered permission denies."""
    if option_id not in (ALLOW, ALWAYS) or all(option.id != option_id for option in open_question.asked.options):
        return {"behavior": "deny", "message": message or DENIED}
    taken: Any = open_question.input
    if answers is not None and open_question.asked.question == "answer":
        given = {key: _spelled(value) for key, value in as_map(any_value(answers)).items()}
        taken = {**as_map(any_value(open_question.input)), "answers": given}
    reply: dict[str, Any] = {"behavior": "allow", "updatedInput": taken}
    if option_id == ALWAYS:
        reply["updatedPermissions"] = open_question.suggestions
    return reply


def _detail(raw: Raw) -> Raw:
    """The input that an answer is bound to; one that is too large to travel is cut and bound by its hash."""
    data = bytes(raw)
    if len(data) <= APPROVAL_DETAIL_BYTES_MAX:
        return raw
    shown = as_map(any_value(fitted_input(raw, [])))
    whole = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return Raw(msgspec.json.encode({**shown, "cut": whole}))


def _spelled(value: Any) -> str:
    """Several choices of one question are joined, as the program itself does."""
    if isinstance(value, list):
        return ", ".join(_spelled(one) for one in as_list(value))
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _kind(name: str, kind: ToolKind) -> str:
    if name == "AskUserQuestion":
        return "answer"
    if kind is ToolKind.EXECUTE:
        return "run_command"
    if kind is ToolKind.EDIT:
        return "edit_file"
    return "other" if name == "ExitPlanMode" else "use_tool"


def _title(name: str, fields: Mapping[str, Any], description: str) -> str:
    if name == "AskUserQuestion":
        first = as_map(next(iter(as_list(fields.get("questions"))), None))
        return as_text(first.get("question"))[:ITEM_TITLE_CHARS_MAX] or name
    if name == "ExitPlanMode":
        return "Leave plan mode and begin the work"
    return description[:ITEM_TITLE_CHARS_MAX] or tools.title_of(name, fields)


def _options(name: str, suggestions: list[Any]) -> tuple[Option, ...]:
    if name == "AskUserQuestion":
        return (
            Option(ALLOW, "Answer", OptionKind.ALLOW_ONCE),
            Option(DENY, "Do not answer", OptionKind.DENY),
        )
    plan = name == "ExitPlanMode"
    options = [Option(ALLOW, "Approve the plan" if plan else "Allow once", OptionKind.ALLOW_ONCE)]
    if suggestions:
        options.append(Option(ALWAYS, _always(suggestions), OptionKind.ALLOW_ALWAYS))
    options.append(Option(DENY, "Keep planning" if plan else "Deny", OptionKind.DENY))
    return tuple(options)


def _always(suggestions: list[Any]) -> str:
    """What the suggested permissions would allow from now on, and how long."""
    parts: list[str] = []
    for suggestion in map(as_map, suggestions):
        kind = as_text(suggestion.get("type"))
        if kind in ("addRules", "replaceRules"):
            for rule in map(as_map, as_list(suggestion.get("rules"))):
                content = as_text(rule.get("ruleContent"))
                parts.append(as_text(rule.get("toolName")) + (f"({content})" if content else ""))
        elif kind == "addDirectories":
            parts += [as_text(folder) for folder in as_list(suggestion.get("directories"))]
        elif kind == "setMode":
            parts.append(f"mode {as_text(suggestion.get('mode'))}")
    session_only = all(as_map(suggestion).get("destination") == "session" for suggestion in suggestions)
    label = "Always allow" + (" in this session" if session_only else "")
    return f"{label}: {', '.join(parts)}"[:_LABEL_CHARS_MAX] if parts else label
