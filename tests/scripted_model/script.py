"""The script of a turn: directives in the person's own prompt say what the model is to answer.

Directives stand anywhere in the prompt, on one line or several:

    @@text WORDS      what to say (default: counted words)         @@n N         number of pieces (8)
    @@delay S         seconds before each delta                    @@think WORDS a reasoning block first
    @@sh COMMAND      call the client's shell tool                 @@write PATH CONTENT   call its writing tool
    @@raw NAME JSON   call tool NAME with these arguments (write `%%` for a directive meant for a sub-agent)
    @@also            the next call belongs to the same model answer as the one before it (parallel calls)
    @@say WORDS       text spoken before the next tool call        @@final WORDS the text after the last result
    @@hold NAME       stop before the last delta until `release(NAME)`
    @@error CODE MSG  answer this HTTP status once per prompt      @@usage N     input tokens to report
    @@refuse CODE MSG answer this HTTP status every time

Tool calls are made one per model request, in order: the number of tool results after the last prompt tells
which comes next. A request that offers no tools (titles, summaries) gets a short text at once.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

DIRECTIVE = re.compile(
    r"@@(text|n|delay|think|sh|write|raw|also|say|hold|error|refuse|usage|final)\b[ \t]*(.*?)(?=\s*@@|\n|$)"
)
SHELLS = ("Bash", "bash", "shell_command", "exec_command", "shell", "local_shell", "run_shell_command")
WRITERS = ("Write", "write", "write_file", "apply_patch")

Call = tuple[str, Any]
"""A tool's name and its arguments."""


class Turn:
    """What is to be done for one request. `tools` maps the offered tools' names to their wire kinds."""

    def __init__(self, prompt: str, results: int, tools: Mapping[str, str], delay_s: float) -> None:
        self.prompt, self.results, self.tools = prompt, results, tools
        found: list[tuple[str, str]] = DIRECTIVE.findall(prompt)
        last = {name: argument.strip() for name, argument in found}
        self.delay_s = float(last.get("delay", delay_s))
        self.pieces_max = int(last.get("n", 8))
        self.hold = last.get("hold")
        self.error = last.get("error")
        self.refuse = last.get("refuse")
        self.input_tokens = int(last.get("usage", 0) or 0) or 100
        self.think: str | None = None
        self.calls: list[Call] = []
        if not tools:
            self.text, self.pieces_max, self.delay_s, self.hold = "Fake short text", 2, 0.0, None
            if re.search(r"compact|summar", prompt, re.IGNORECASE):
                self.text = "<summary>Fake summary: the user asked, the model answered.</summary>"
            return
        self.think = last.get("think") if results == 0 else None
        answers = self._answers(found)
        made = 0
        for said, calls in answers:
            if made == results:
                self.calls = [self._call(kind, argument) for kind, argument in calls]
                self.text = said
                if not said:
                    self.hold = None
                return
            made += len(calls)
        if answers:
            self.text = last.get("final", f"Done: {results} tool call(s) returned.")
        else:
            self.text = last.get("text", " ".join(f"word{number}" for number in range(1, self.pieces_max + 1)))

    @staticmethod
    def _answers(found: Sequence[tuple[str, str]]) -> list[tuple[str, list[tuple[str, str]]]]:
        """The model's answers that call tools: what is said first, and the calls."""
        answers: list[tuple[str, list[tuple[str, str]]]] = []
        said, joins = "", False
        for name, argument in found:
            if name == "say":
                said = argument
            elif name == "also":
                joins = True
            elif name in ("sh", "write", "raw"):
                if joins and answers:
                    answers[-1][1].append((name, argument.strip()))
                else:
                    answers.append((said, [(name, argument.strip())]))
                said, joins = "", False
        return answers

    def _offered(self, names: Sequence[str]) -> str:
        return next((name for name in names if name in self.tools), names[0])

    def _call(self, kind: str, argument: str) -> Call:
        if kind == "raw":
            name, _, arguments = argument.partition(" ")
            return name, json.loads(arguments.replace("%%", "@@") or "{}")
        if kind == "sh":
            name = self._offered(SHELLS)
            if name in ("shell", "local_shell"):
                return name, {"command": ["bash", "-lc", argument]}
            if name == "exec_command":
                return name, {"cmd": argument}
            return name, {"command": argument, "description": "Run a scripted command"}
        path, _, content = argument.partition(" ")
        patch = f"*** Begin Patch\n*** Add File: {path}\n+{content}\n*** End Patch"
        if not any(name in self.tools for name in WRITERS):
            return self._call("sh", f"apply_patch <<'EOF'\n{patch}\nEOF")
        name = self._offered(WRITERS)
        if name == "apply_patch":
            return name, (patch + "\n" if self.tools.get(name) == "custom" else {"input": patch + "\n"})
        if name == "write":
            return name, {"filePath": path, "content": content}
        return name, {"file_path": path, "content": content + "\n"}

    def parts(self) -> list[str]:
        """The text in at most `pieces_max` pieces."""
        words = re.findall(r"\S+\s*", self.text)
        size = max(1, -(-len(words) // max(1, self.pieces_max)))
        return ["".join(words[start : start + size]) for start in range(0, len(words), size)]


def newest_prompt(entries: Sequence[tuple[str, str]]) -> tuple[str, int]:
    """`entries`: (kind, text) with kind user, tool, other or skip -> (prompt, tool results after it).

    The prompt is the newest run of user texts. Clients add reminder messages of their own, so a text with
    directives wins over texts without any.
    """
    results, prompt = 0, list[str]()
    seen = False
    for kind, text in reversed(entries):
        if kind == "tool" and not seen:
            results += 1
        elif kind == "user":
            prompt.insert(0, text)
            seen = True
            if "@@" in text:
                break
        elif kind == "other" and seen:
            break
    return "\n".join(prompt), results


def text_of(content: Any) -> str:
    """The text of a message's content, a string or a list of blocks."""
    if isinstance(content, str):
        return content
    blocks = [block for block in content or [] if isinstance(block, dict)]
    return "\n".join(block["text"] for block in blocks if isinstance(block.get("text"), str))
