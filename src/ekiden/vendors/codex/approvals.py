"""What Codex asks a person, and what each answer is in its own words.

Codex offers its decisions with the question; only those, and a plain no, are passed on. An option's id is
Codex's own word for the decision. Source: the `ServerRequest` part of the app-server's schema.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from ekiden.kernel.errors import Invalid
from ekiden.kernel.limits import ITEM_TEXT_BYTES_MAX
from ekiden.vendors.codex.contents import Cutter
from ekiden.vendors.codex.native import Record, decoded, listed, record, text_of
from ekiden.vendors.codex.tools import command_line, embedded, folder, title_of
from ekiden.vendors.port import Asked, Option, OptionKind

COMMAND = "item/commandExecution/requestApproval"
FILE_CHANGE = "item/fileChange/requestApproval"
PERMISSIONS = "item/permissions/requestApproval"
USER_INPUT = "item/tool/requestUserInput"
ELICITATION = "mcpServer/elicitation/request"

_LABELS: Mapping[str, tuple[str, OptionKind]] = {
    "accept": ("Allow", OptionKind.ALLOW_ONCE),
    "acceptForSession": ("Allow in this session", OptionKind.ALLOW_ALWAYS),
    "acceptWithExecpolicyAmendment": ("Allow, and do not ask again for", OptionKind.ALLOW_ALWAYS),
    "applyNetworkPolicyAmendment": ("Allow this host from now on", OptionKind.ALLOW_ALWAYS),
    "decline": ("Deny, and go on", OptionKind.DENY),
    "cancel": ("Deny, and stop the turn", OptionKind.DENY),
}
_USUAL_DECISIONS = ("accept", "acceptForSession", "decline", "cancel")


@dataclass(frozen=True, slots=True)
class Question:
    """An open request: how it is shown, and what each option answers."""

    request_id: int | str
    method: str
    asked: Asked
    answers: Mapping[str, object]
    """Option id -> the result to send; for questions with fields, `None` stands for the fields' answers."""


def question_of(
    request_id: int | str, method: str, params: Record, *, turn: str, item: str, diff: str
) -> Question | None:
    """A request of the app-server as a question, or None if it is of no kind that a person can answer."""
    if method == COMMAND:
        return _command(request_id, params, turn, item)
    if method == FILE_CHANGE:
        return _file_change(request_id, params, turn, item, diff)
    if method == PERMISSIONS:
        return _permissions(request_id, params, turn, item)
    if method == USER_INPUT:
        return _user_input(request_id, params, turn, item)
    if method == ELICITATION:
        return _elicitation(request_id, params, turn)
    return None


def result_for(question: Question, option_id: str, answers: msgspec.Raw | None) -> object:
    """What to send for the chosen option.

    Raises:
        Invalid: if the option was not offered, or the answers are not of the form asked for.
    """
    if option_id not in question.answers:
        raise Invalid("This answer was not offered.", hint="Answer with one of the offered options.")
    result = question.answers[option_id]
    if result is not None:
        return result
    try:
        fields = record(decoded(bytes(answers))) if answers is not None else {}
    except ValueError:
        raise Invalid("The answers are not JSON.") from None
    if question.method == ELICITATION:
        return {"action": "accept", "content": fields}
    told = {
        name: {"answers": [text_of(each) for each in (listed(value) or [value])]} for name, value in fields.items()
    }
    return {"answers": told}


def _decisions(offered: object) -> tuple[tuple[Option, ...], dict[str, object]]:
    options: list[Option] = []
    results: dict[str, object] = {}
    decisions: list[object] = listed(offered) or list(_USUAL_DECISIONS)
    if "decline" not in decisions:
        # Codex takes a plain no whether it is in the list or not; without it a person could only stop the turn.
        last = decisions.index("cancel") if "cancel" in decisions else len(decisions)
        decisions = [*decisions[:last], "decline", *decisions[last:]]
    for decision in decisions:
        fields = record(decision)
        word = next(iter(fields), "") if fields else text_of(decision)
        if not word:
            continue
        label, kind = _LABELS.get(word, (word, OptionKind.ALLOW_ONCE))
        inner = record(fields.get(word))
        if word == "acceptWithExecpolicyAmendment":
            label = f"{label}: {command_line(inner.get('execpolicy_amendment'))}"
        elif word == "applyNetworkPolicyAmendment":
            rule = record(inner.get("network_policy_amendment"))
            if text_of(rule.get("action")) == "deny":
                label, kind = "Deny this host from now on", OptionKind.DENY
            label = f"{label}: {text_of(rule.get('host'))}"
        option_id = word if word not in results else f"{word}.{len(results)}"
        options.append(Option(option_id, title_of(label), kind))
        results[option_id] = {"decision": decision}
    return tuple(options), results


def _asked(
    request_id: int | str,
    params: Record,
    turn: str,
    item: str,
    *,
    question: str,
    title: str,
    tool: str,
    options: tuple[Option, ...],
    command: str = "",
    diff: str = "",
) -> Asked:
    cutter = Cutter(ITEM_TEXT_BYTES_MAX)
    return Asked(
        native_id=f"{text_of(params.get('turnId'))}/{request_id}",  # request ids begin anew in each process
        turn_id=turn,
        question=question,
        title=title_of(title) or tool,
        tool=tool,
        detail=embedded(params, cutter, "detail"),
        command=cutter.shown("command", command),
        cwd=folder(params.get("cwd")),
        diff=cutter.shown("diff", diff),
        options=options,
        item_id=item,
    )


def _command(request_id: int | str, params: Record, turn: str, item: str) -> Question:
    options, results = _decisions(params.get("availableDecisions"))
    command = text_of(params.get("command"))
    network = record(params.get("networkApprovalContext"))
    title = text_of(params.get("reason")) or command
    if network:
        title = f"Network access to {text_of(network.get('host'))}"
    asked = _asked(
        request_id, params, turn, item, question="run_command", title=title, tool="exec_command",
        options=options, command=command,
    )  # fmt: skip
    return Question(request_id, COMMAND, asked, results)


def _file_change(request_id: int | str, params: Record, turn: str, item: str, diff: str) -> Question:
    options, results = _decisions(params.get("availableDecisions"))
    root = text_of(params.get("grantRoot"))
    title = text_of(params.get("reason")) or (f"Write below {root}" if root else "Change files")
    asked = _asked(
        request_id, params, turn, item, question="edit_file", title=title, tool="apply_patch",
        options=options, diff=diff,
    )  # fmt: skip
    return Question(request_id, FILE_CHANGE, asked, results)


def _permissions(request_id: int | str, params: Record, turn: str, item: str) -> Question:
    wanted = params.get("permissions")
    options = (
        Option("turn", "Allow in this turn", OptionKind.ALLOW_ONCE),
        Option("session", "Allow in this session", OptionKind.ALLOW_ALWAYS),
        Option("decline", "Deny", OptionKind.DENY),
    )
    results: dict[str, object] = {
        "turn": {"permissions": wanted, "scope": "turn"},
        "session": {"permissions": wanted, "scope": "session"},
        "decline": {"permissions": {}, "scope": "turn"},
    }
    title = text_of(params.get("reason")) or "More permissions"
    asked = _asked(
        request_id, params, turn, item, question="other", title=title, tool="request_permissions", options=options
    )
    return Question(request_id, PERMISSIONS, asked, results)


def _user_input(request_id: int | str, params: Record, turn: str, item: str) -> Question:
    questions = [record(each) for each in listed(params.get("questions"))]
    title = "; ".join(text_of(each.get("question")) for each in questions)
    options = (
        Option("answer", "Answer", OptionKind.ALLOW_ONCE),
        Option("skip", "Go on without an answer", OptionKind.DENY),
    )
    asked = _asked(
        request_id, params, turn, item, question="answer", title=title, tool="request_user_input", options=options
    )
    return Question(request_id, USER_INPUT, asked, {"answer": None, "skip": {"answers": {}}})


def _elicitation(request_id: int | str, params: Record, turn: str) -> Question:
    options = (
        Option("accept", "Answer", OptionKind.ALLOW_ONCE),
        Option("decline", "Decline", OptionKind.DENY),
        Option("cancel", "Cancel", OptionKind.DENY),
    )
    title = text_of(params.get("message") or params.get("title"))
    tool = text_of(params.get("serverName")) or "MCP"
    asked = _asked(request_id, params, turn, "", question="answer", title=title, tool=tool, options=options)
    results: dict[str, object] = {"accept": None, "decline": {"action": "decline"}, "cancel": {"action": "cancel"}}
    return Question(request_id, ELICITATION, asked, results)
