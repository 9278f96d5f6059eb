"""The demo agent's own session file: one JSON record to a line, appended only.

Everything that the agent has taken or done is in the file before it is told to anyone, so that a process that
is killed leaves an honest account: a message that was taken, a turn that never ended, a tool without a result.
"""

import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ekiden.kernel.ids import Prefix, derived_id

FORMAT_VERSION = 1


class PlanLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a plan; `state` is pending, in_progress or completed."""

    text: str
    state: str = "pending"


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line. `type` says which fields matter:

    - session: id, cwd, version, forked_from
    - title: text
    - queued: message_id, text (a message that waits for the running turn to end)
    - turn: turn, state (started, completed, interrupted, failed), text (why)
    - message: id, role, text, turn, thread, message_id (the sender's), interrupted
    - thought: id, text, turn, thread
    - plan: id, plan, turn
    - tool: id, name, kind, title, command, cwd, path, diff, child, state, text (output), exit_code, turn, thread
    """

    type: str
    at: str = ""
    id: str = ""
    turn: str = ""
    thread: str = ""
    role: str = ""
    text: str = ""
    message_id: str = ""
    state: str = ""
    interrupted: bool = False
    plan: tuple[PlanLine, ...] = ()
    name: str = ""
    kind: str = ""
    title: str = ""
    command: str = ""
    cwd: str = ""
    path: str = ""
    diff: str = ""
    child: str = ""
    exit_code: int | None = None
    version: int = 0
    forked_from: str = ""


encode_record = msgspec.json.Encoder().encode
decode_record = msgspec.json.Decoder(Record).decode


def item_id(native_id: str, record_id: str) -> str:
    """The neutral id of a record, as the live stream and the file's reader both give it."""
    return derived_id(Prefix.ITEM, "demo", native_id, record_id)


def turn_id(native_id: str, turn: str) -> str:
    """The neutral id of a turn."""
    return derived_id(Prefix.TURN, "demo", native_id, turn)


def sessions_folder(home: Path) -> Path:
    """Where session files lie; `home` is Ekiden's data folder."""
    return home / "demo" / "sessions"


def holders_folder(home: Path) -> Path:
    """Where a running agent says which session it holds; the file is locked while it lives."""
    return home / "demo" / "running"


def session_path(home: Path, native_id: str) -> Path:
    """The file of one session."""
    return sessions_folder(home) / f"{native_id}.jsonl"


def now() -> str:
    """The time for a record."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_records(path: Path) -> list[Record]:
    """All records of a file that can be read; damaged lines are left out here (readers show them)."""
    records: list[Record] = []
    for line in path.read_bytes().split(b"\n"):
        try:
            records.append(decode_record(line))
        except msgspec.DecodeError:
            continue
    return records


class SessionFile:
    """An open session file that is appended to. Made 0600 in a 0700 folder."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            # The last writer was killed within a line: close the line, so that the next one is not lost with it.
            os.write(self._file, b"\n")

    def append(self, record: Record, *, durable: bool = False) -> None:
        """Adds one line in one write. `durable` waits until it is on disk."""
        os.write(self._file, encode_record(record) + b"\n")
        if durable:
            os.fsync(self._file)

    def close(self) -> None:
        """Lets the file go."""
        os.close(self._file)
