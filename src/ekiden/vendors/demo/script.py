"""What the demo agent does, chosen by words in the prompt. Same words, same turn.

| word | what happens |
|---|---|
| (none) | a short thought, then an answer that repeats the prompt |
| `say TEXT` | the answer is exactly TEXT (all that follows) |
| `long` | an answer of 60 paragraphs |
| `slow` | pieces come ten times slower |
| `markdown` | an answer with a heading, a list, a table and code |
| `plan` | a plan of three steps that are ticked off |
| `ask` | asks to run a harmless command, and runs it in the session's folder if allowed |
| `write NAME` | asks to write the file NAME in the session's folder, showing the change |
| `choose` | asks a question with two answers |
| `helper` | starts a helper whose work is a nested thread |
| `fail` | the turn fails in the middle |
| `crash` | the process dies in the middle, as if it were killed |
| `clock` | 200 pieces, each the monotonic time at which it was told, one to a line: for measuring |
| `hostile` | an answer with markup, terminal escapes and text that runs backwards |

Words combine; the order is that of this table from `plan` on. `say` takes the rest of the prompt and stands alone.
"""

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ekiden.vendors.port import Option, OptionKind

COMMAND = "uname -s && ls"
PARAGRAPHS = 60
TICKS = 200
SLOWER = 10.0
FILE_NAME = re.compile(r"\bwrite\s+([\w][\w.-]{0,80})", re.IGNORECASE)

ALLOW = Option("allow", "Allow once", OptionKind.ALLOW_ONCE)
ALWAYS = Option("always", "Allow in this session", OptionKind.ALLOW_ALWAYS)
DENY = Option("deny", "Deny", OptionKind.DENY)
TEA = Option("tea", "Tea", OptionKind.ALLOW_ONCE)
COFFEE = Option("coffee", "Coffee", OptionKind.ALLOW_ONCE)

HOSTILE = (
    "<script>document.title='taken'</script><img src=x onerror=alert(1)> "
    "[a link](javascript:alert(1)) \x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J "
    "left \u202eright to left\u202c end \u2066isolated\u2069 zero\u200bwidth \x00 nul \x9b31m c1"
)
MARKDOWN = """# A heading

Some *emphasis*, some **strength**, and `code`.

1. first
2. second
   - nested

| column | value |
|---|---:|
| a | 1 |
| b | 2 |

```python
def greet(name: str) -> str:
    return f"Hello, {name}"
```

> And a quotation.
"""


class TurnFailed(Exception):
    """The script says that the turn fails; the message is why."""


class Stage(Protocol):
    """What a script may do. Each call ends when it has happened and is in the session file."""

    cwd: Path
    slower: float

    async def think(self, text: str) -> None: ...

    async def say(self, text: str) -> None: ...

    async def clock(self, ticks: int) -> None: ...

    async def plan(self, lines: Sequence[tuple[str, str]]) -> None: ...

    async def choose(self, title: str, options: Sequence[Option]) -> str:
        """Asks, and returns the id of the option that was chosen."""
        ...

    async def run_command(self, command: str) -> int | None:
        """Asks and runs; the exit code, or None if it was denied."""
        ...

    async def write(self, path: Path, text: str, diff: str) -> bool:
        """Asks and writes; whether it was allowed."""
        ...

    async def helper(self, task: str) -> None: ...

    def die(self) -> None: ...


def has(prompt: str, word: str) -> bool:
    """Whether `word` stands in the prompt as a word of its own."""
    return re.search(rf"\b{word}\b", prompt, re.IGNORECASE) is not None


async def play(prompt: str, stage: Stage) -> None:
    """Plays the turn that `prompt` asks for.

    Raises:
        TurnFailed: if the prompt says so.
    """
    if has(prompt, "slow"):
        stage.slower = SLOWER
    verbatim = re.match(r"\s*say\s(.*)\Z", prompt, re.IGNORECASE | re.DOTALL)
    if verbatim is not None:
        await stage.say(verbatim[1])
        return
    await stage.think("The prompt is read for words that this agent knows.")
    acted = await _act(prompt, stage)
    if has(prompt, "long"):
        await stage.say(
            "\n\n".join(
                f"Paragraph {number} of {PARAGRAPHS}. An agent with nothing to say can still say it at length."
                for number in range(1, PARAGRAPHS + 1)
            )
        )
    elif has(prompt, "clock"):
        await stage.clock(TICKS)
    elif has(prompt, "markdown"):
        await stage.say(MARKDOWN)
    elif has(prompt, "hostile"):
        await stage.say(HOSTILE)
    elif not acted:
        await stage.say(
            f"You wrote: {prompt.strip()}\n\nI am a scripted agent without a model. "
            "Words that I know: say, long, slow, markdown, plan, ask, write NAME, choose, helper, fail."
        )


async def _act(prompt: str, stage: Stage) -> bool:
    acted = False
    steps = ("Read the request", "Do what it asks", "Say what was done")
    if has(prompt, "plan"):
        acted = True
        for done in range(len(steps) + 1):
            await stage.plan([(step, _step_state(number, done)) for number, step in enumerate(steps)])
        await stage.say("The plan is done.")
    if has(prompt, "ask"):
        acted = True
        exit_code = await stage.run_command(COMMAND)
        await stage.say(
            "You denied the command, so nothing ran."
            if exit_code is None
            else f"The command ran and ended with {exit_code}."
        )
    name = FILE_NAME.search(prompt)
    if name is not None:
        acted = True
        await _write(name[1], stage)
    if has(prompt, "choose"):
        acted = True
        choice = await stage.choose("Tea or coffee?", (TEA, COFFEE, DENY))
        await stage.say("As you like: nothing, then." if choice == DENY.id else f"You chose {choice}.")
    if has(prompt, "helper"):
        acted = True
        await stage.helper("Count the files")
        await stage.say("The helper is done.")
    if has(prompt, "fail"):
        await stage.say("This goes well up to this point.")
        raise TurnFailed("The prompt asked for a failure.")
    if has(prompt, "crash"):
        await stage.say("These are my last words.")
        stage.die()
    return acted


def _step_state(number: int, done: int) -> str:
    if number < done:
        return "completed"
    return "in_progress" if number == done else "pending"


async def _write(name: str, stage: Stage) -> None:
    path = stage.cwd / name
    try:
        before = path.read_text("utf-8") if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        await stage.say(f"I cannot change {name}: {error}")
        return
    after = before + f"Hello from the demo agent, line {before.count(chr(10)) + 1}.\n"
    diff = "".join(
        difflib.unified_diff(
            before.splitlines(keepends=True),
            after.splitlines(keepends=True),
            fromfile=f"a/{name}" if before else "/dev/null",
            tofile=f"b/{name}",
        )
    )
    written = await stage.write(path, after, diff)
    await stage.say(f"I wrote {name}." if written else f"You denied it, so {name} is as it was.")
