"""One turn of the demo agent: the stage on which a script plays.

Text is told piece by piece and written to the file as one record when it is whole. When the turn is
interrupted, what was said so far is written, marked as interrupted, before the turn's own end.
"""

import asyncio
import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ekiden.vendors.demo.native import PlanLine, Record, SessionFile, now
from ekiden.vendors.demo.protocol import Notice
from ekiden.vendors.demo.script import ALLOW, ALWAYS, DENY, TurnFailed, play
from ekiden.vendors.port import Option

PIECE_CHARS = 12
OUTPUT_BYTES_MAX = 20_000
COMMAND_S_MAX = 30.0


@dataclass(slots=True)
class Voice:
    """What a turn may use of its agent."""

    file: SessionFile
    tell: Callable[[Notice], None]
    waits_for: Callable[[str], None]
    """Says what the agent waits for; empty when it no longer does."""
    cwd: Path
    delay_s: float
    always: set[str] = field(default_factory=set[str])
    """Questions that were answered for the rest of the session."""


class Turn:
    """Runs one prompt; a stage for `ekiden.vendors.demo.script`."""

    def __init__(self, name: str, voice: Voice) -> None:
        self.name = name
        self.cwd = voice.cwd
        self.slower = 1.0
        self._voice = voice
        self._records = 0
        self._thread = ""
        self._steered: list[str] = []
        self._asked: dict[str, asyncio.Future[str]] = {}
        self._task: asyncio.Task[None] | None = None

    async def run(self, prompt: str) -> None:
        """Plays the turn, then writes and tells how it ended."""
        self._task = asyncio.create_task(self._play(prompt))
        outcome, why = "completed", ""
        try:
            await self._task
        except asyncio.CancelledError:
            outcome, why = "interrupted", "The turn was interrupted."
        except TurnFailed as error:
            outcome, why = "failed", str(error)
        except OSError as error:
            outcome, why = "failed", f"The agent could not go on: {error}"
        for ask in self._asked:
            self._voice.tell(Notice("withdrawn", ask=ask, text="The turn has ended."))
        self._asked.clear()
        self._voice.waits_for("")
        self._voice.file.append(Record("turn", now(), turn=self.name, state=outcome, text=why), durable=True)
        self._voice.tell(Notice("turn_ended", turn=self.name, outcome=outcome, text=why))

    def interrupt(self) -> None:
        """Stops the turn where it is."""
        if self._task is not None:
            self._task.cancel()

    def steer(self, text: str) -> None:
        """The rest of the answer takes `text` into account."""
        self._steered.append(text)

    def decide(self, ask: str, option: str) -> bool:
        """Gives the answer to what was asked; False if nobody waits for it."""
        waiting = self._asked.pop(ask, None)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(option)
        return True

    async def think(self, text: str) -> None:
        await self._grow("thought", _pieces(text))

    async def say(self, text: str) -> None:
        await self._grow("message", _pieces(text))

    async def clock(self, ticks: int) -> None:
        await self._grow("message", (f"{time.monotonic():.6f}\n" for _ in range(ticks)))

    async def plan(self, lines: Sequence[tuple[str, str]]) -> None:
        plan = tuple(PlanLine(text, state) for text, state in lines)
        self._voice.file.append(Record("plan", now(), id=f"{self.name}.plan", turn=self.name, plan=plan))
        await asyncio.sleep(self._voice.delay_s * self.slower)

    async def choose(self, title: str, options: Sequence[Option]) -> str:
        return await self._ask(
            Notice("asked", question="answer", text=title, name="Question", options=tuple(options))
        )

    async def run_command(self, command: str) -> int | None:
        record = self._tool("Shell", "execute", title="List the folder", command=command, cwd=str(self.cwd))
        with self._told(record):
            question = Notice("asked", question="run_command", text=f"Run {command}", name="Shell")
            if not await self._permitted(record, question):
                return None
            self._voice.file.append(msgspec.structs.replace(record, state="in_progress", at=now()))
            output, exit_code = await self._execute(command)
            state = "completed" if exit_code == 0 else "failed"
            self._voice.file.append(_ended(record, state, output, exit_code))
            return exit_code

    async def write(self, path: Path, text: str, diff: str) -> bool:
        record = self._tool("Write", "edit", title=f"Write {path.name}", path=str(path), diff=diff)
        with self._told(record):
            question = Notice("asked", question="edit_file", text=f"Write {path.name}", name="Write")
            if not await self._permitted(record, question):
                return False
            await asyncio.to_thread(path.write_text, text, "utf-8")
            self._voice.file.append(_ended(record, "completed", f"Wrote {len(text.encode())} bytes."))
            return True

    async def helper(self, task: str) -> None:
        record = self._tool("Helper", "agent", title=task, child=f"{self.name}-helper")
        with self._told(record):
            self._voice.file.append(msgspec.structs.replace(record, state="in_progress"))
            self._thread = record.child
            try:
                await self.think("A helper has a thread of its own.")
                count = sum(1 for _ in self.cwd.iterdir())
                await self.say(f"There are {count} files and folders here.")
            finally:
                self._thread = ""
            self._voice.file.append(_ended(record, "completed", f"Counted: {count}"))

    def die(self) -> None:
        os._exit(70)

    async def _play(self, prompt: str) -> None:
        await play(prompt, self)
        while self._steered:
            await self.say(f"You added: {self._steered.pop(0).strip()}")

    def _next_id(self) -> str:
        self._records += 1
        return f"{self.name}.{self._records}"

    def _tool(
        self,
        name: str,
        kind: str,
        *,
        title: str,
        command: str = "",
        cwd: str = "",
        path: str = "",
        diff: str = "",
        child: str = "",
    ) -> Record:
        record = Record(
            "tool",
            now(),
            id=self._next_id(),
            turn=self.name,
            thread=self._thread,
            name=name,
            kind=kind,
            title=title,
            command=command,
            cwd=cwd,
            path=path,
            diff=diff,
            child=child,
            state="pending",
        )
        self._voice.file.append(record)
        return record

    @contextlib.contextmanager
    def _told(self, record: Record) -> Generator[None]:
        """However the tool's use breaks off, the file has an end for it."""
        try:
            yield
        except BaseException as error:
            why = "Interrupted." if isinstance(error, asyncio.CancelledError) else str(error)
            self._voice.file.append(_ended(record, "failed", why))
            raise

    async def _permitted(self, record: Record, question: Notice) -> bool:
        if record.kind in self._voice.always:
            return True
        option = await self._ask(
            msgspec.structs.replace(
                question,
                record=record.id,
                command=record.command,
                cwd=str(self.cwd),
                diff=record.diff,
                options=(ALLOW, ALWAYS, DENY),
            )
        )
        if option == ALWAYS.id:
            self._voice.always.add(record.kind)
        if option in (ALLOW.id, ALWAYS.id):
            return True
        self._voice.file.append(_ended(record, "denied", ""))
        return False

    async def _ask(self, question: Notice) -> str:
        ask = f"{self.name}.ask{len(self._asked) + self._records + 1}"
        self._records += 1
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._asked[ask] = answer
        self._voice.waits_for(question.text)
        self._voice.tell(msgspec.structs.replace(question, ask=ask, turn=self.name))
        option = await answer
        self._voice.waits_for("")
        return option

    async def _grow(self, kind: str, pieces: Iterable[str]) -> None:
        record_id = self._next_id()
        said: list[str] = []
        whole = False
        try:
            for piece in pieces:
                said.append(piece)
                self._voice.tell(Notice("grew", turn=self.name, record=record_id, kind=kind, text=piece))
                await asyncio.sleep(self._voice.delay_s * self.slower)
            whole = True
        finally:
            if said or whole:
                self._voice.file.append(
                    Record(
                        kind,
                        now(),
                        id=record_id,
                        turn=self.name,
                        thread=self._thread,
                        role="assistant" if kind == "message" else "",
                        text="".join(said),
                        interrupted=not whole,
                    )
                )

    async def _execute(self, command: str) -> tuple[str, int]:
        """Runs the command and gives its output and exit code. The output goes through a file: a pipe would have
        to be waited for until the last process that the command left behind has let go of it."""
        with tempfile.TemporaryFile() as output:
            process = await asyncio.create_subprocess_shell(
                command,
                cwd=self.cwd,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                async with asyncio.timeout(COMMAND_S_MAX):
                    exit_code = await process.wait()
            except BaseException:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
                raise
            output.seek(0)
            return output.read(OUTPUT_BYTES_MAX).decode("utf-8", "replace"), exit_code


def _pieces(text: str) -> Iterable[str]:
    return (text[at : at + PIECE_CHARS] for at in range(0, len(text), PIECE_CHARS))


def _ended(record: Record, state: str, output: str, exit_code: int | None = None) -> Record:
    return msgspec.structs.replace(record, at=now(), state=state, text=output, exit_code=exit_code)
