"""The demo agent's process: takes orders as lines of JSON, runs turns one after the other, keeps the file.

Promises:
- a message is in the file before it is told to be placed, once for each message id, also across a kill;
- one process per session: the holder's lock decides, a second one is refused and told the pid;
- when its driver goes (end of input), the running turn is interrupted and the process ends.
"""

import asyncio
import contextlib
import fcntl
import os
import sys
import time
from collections import deque
from pathlib import Path

import msgspec

from ekiden.vendors.demo.discover import HolderFile, read_holder
from ekiden.vendors.demo.native import (
    FORMAT_VERSION,
    Record,
    SessionFile,
    encode_record,
    holders_folder,
    now,
    read_records,
    session_path,
)
from ekiden.vendors.demo.protocol import Notice, Order, decode_order, encode_line
from ekiden.vendors.demo.turn import Turn, Voice

LINE_BYTES_MAX = 4 * 1024 * 1024
QUEUE_MAX = 1000
LOCK_TRIES = 20
REFUSED_EXIT = 3


class Refused(Exception):
    """The session cannot be had. `pid` is of the process that holds it, or 0."""

    def __init__(self, message: str, pid: int = 0) -> None:
        super().__init__(message)
        self.pid = pid


class Holder:
    """The lock on a session, with what the agent says of itself in the locked file."""

    def __init__(self, home: Path, session: str) -> None:
        folder = holders_folder(home)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = folder / f"{session}.json"
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        self._about = HolderFile(session, os.getpid(), time.time())
        for tries in range(LOCK_TRIES):
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                # One who looks whether anybody holds the session locks it for a moment; a holder stays.
                holder = read_holder(self._path)
                if holder is not None and tries == LOCK_TRIES - 1:
                    os.close(self._descriptor)
                    raise Refused("Another agent process holds this session.", holder.pid) from None
                time.sleep(0.01)
        else:
            os.close(self._descriptor)
            raise Refused("The session's lock cannot be had.")
        self.say()

    def say(self, *, busy: bool | None = None, waits_for: str | None = None) -> None:
        """Tells what the agent does now."""
        if busy is not None:
            self._about.busy = busy
        if waits_for is not None:
            self._about.waits_for = waits_for
        content = msgspec.json.encode(self._about)
        os.pwrite(self._descriptor, content, 0)
        os.ftruncate(self._descriptor, len(content))

    def close(self) -> None:
        """Gives the session free."""
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


class Agent:
    """One session in one process."""

    def __init__(self, home: Path, session: str, cwd: Path, delay_s: float) -> None:
        self._holder = Holder(home, session)
        self._queue: deque[tuple[str, str]] = deque()
        self._known: dict[str, tuple[str, str]] = {}
        """Message id -> (turn, how)."""
        self._turns = 0
        self._turn: Turn | None = None
        self._work = asyncio.Event()
        self._closing = False
        path = session_path(home, session)
        records = read_records(path) if path.exists() else []
        self._voice = Voice(SessionFile(path), self._tell, self._waits_for, cwd, delay_s)
        self._recall(records)

    def _recall(self, records: list[Record]) -> None:
        """Takes up what the file says: messages that were taken, the turn that never ended, what still waits."""
        queued: dict[str, str] = {}
        unended = ""
        for record in records:
            if record.type == "queued":
                queued[record.message_id] = record.text
                self._known[record.message_id] = ("", "queued")
            elif record.type == "message" and record.message_id:
                queued.pop(record.message_id, None)
                self._known[record.message_id] = (record.turn, "new_turn")
            elif record.type == "turn":
                self._turns = max(self._turns, int(record.turn.removeprefix("t") or 0))
                unended = record.turn if record.state == "started" else ""
        if unended:
            why = "The process ended in the middle of this turn."
            self._voice.file.append(Record("turn", now(), turn=unended, state="failed", text=why), durable=True)
        self._queue.extend(queued.items())
        if self._queue:
            self._work.set()

    async def serve(self) -> None:
        """Runs until `close` or the end of input."""
        reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        turns = asyncio.create_task(self._run_turns())
        self._tell(Notice("ready", pid=os.getpid()))
        try:
            while line := await reader.readline():
                order = decode_order(line)
                if order.op == "close":
                    break
                self._take(order)
        finally:
            transport.close()
            self._closing = True
            if self._turn is not None:
                self._turn.interrupt()
            self._work.set()
            await turns
            self._voice.file.close()
            self._holder.close()

    def _take(self, order: Order) -> None:
        match order.op:
            case "say":
                self._say(order)
            case "interrupt":
                if self._turn is not None:
                    self._turn.interrupt()
            case "decide":
                taken = self._turn is not None and self._turn.decide(order.ask, order.option)
                self._tell(Notice("decided", ask=order.ask, taken=taken))
            case _:
                self._tell(Notice("refused", text=f"The order {order.op!r} is not known."))

    def _say(self, order: Order) -> None:
        known = self._known.get(order.message_id)
        if known == ("", "new_turn"):
            return  # its turn begins at once, and then it is told
        if known is not None:
            self._tell(Notice("placed", message_id=order.message_id, turn=known[0], how=known[1]))
        elif order.steer and self._turn is not None:
            self._place(order.message_id, order.text, self._turn.name, "steered")
            self._turn.steer(order.text)
        elif self._turn is None and not self._queue:
            self._known[order.message_id] = ("", "new_turn")
            self._queue.append((order.message_id, order.text))
            self._work.set()
        elif len(self._queue) < QUEUE_MAX:
            queued = Record("queued", now(), message_id=order.message_id, text=order.text)
            self._voice.file.append(queued, durable=True)
            self._known[order.message_id] = ("", "queued")
            self._queue.append((order.message_id, order.text))
            self._tell(Notice("placed", message_id=order.message_id, how="queued"))
        else:
            self._tell(Notice("refused", message_id=order.message_id, text="Too many messages wait."))

    def _place(self, message_id: str, text: str, turn: str, how: str) -> None:
        self._voice.file.append(
            Record(
                "message",
                now(),
                id=f"{turn}.{message_id}",
                turn=turn,
                role="user",
                text=text,
                message_id=message_id,
            ),
            durable=True,
        )
        told = self._known.get(message_id) == ("", "queued")
        self._known[message_id] = (turn, how)
        if not told:
            self._tell(Notice("placed", message_id=message_id, turn=turn, how=how))

    async def _run_turns(self) -> None:
        while not self._closing:
            await self._work.wait()
            while self._queue and not self._closing:
                message_id, text = self._queue.popleft()
                self._turns += 1
                name = f"t{self._turns}"
                self._turn = Turn(name, self._voice)
                self._voice.file.append(Record("turn", now(), turn=name, state="started"))
                self._place(message_id, text, name, "new_turn")
                self._holder.say(busy=True)
                self._tell(Notice("turn_started", turn=name))
                await self._turn.run(text)
                self._turn = None
                self._holder.say(busy=False)
            self._work.clear()

    def _tell(self, notice: Notice) -> None:
        """Writes one line. A driver that no longer reads is noticed by the end of its orders."""
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.buffer.write(encode_line(notice) + b"\n")
            sys.stdout.buffer.flush()

    def _waits_for(self, what: str) -> None:
        self._holder.say(waits_for=what)


def prepare(home: Path, session: str, cwd: Path, *, resume: bool, fork_of: str) -> None:
    """Makes the session's file where it has to be made.

    Raises:
        Refused: if what is to be resumed or forked is not there.
    """
    path = session_path(home, session)
    origin = session_path(home, fork_of) if fork_of else path
    if (resume or fork_of) and not origin.exists():
        raise Refused("There is no such session.")
    if resume:
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    head = Record("session", now(), id=session, cwd=str(cwd), version=FORMAT_VERSION, forked_from=fork_of)
    records = [record for record in read_records(origin) if record.type != "session"] if fork_of else []
    content = b"".join(encode_record(record) + b"\n" for record in [head, *_settled(records)])
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _settled(records: list[Record]) -> list[Record]:
    """A fork takes the history, not what still waits in the other session or the ids of its messages."""
    return [msgspec.structs.replace(record, message_id="") for record in records if record.type != "queued"]
