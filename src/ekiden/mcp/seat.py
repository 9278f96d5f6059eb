"""Where an agent of this computer sits: the file with its key, the hub that it speaks to, and what it calls with.

The file lies under the data folder, one for each agent by name, for its owner only. The hub is looked for anew
after it was not there: it may have come back at another port.
"""

import asyncio
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ekiden.client.client import Client
from ekiden.client.member import Member
from ekiden.kernel.errors import EkidenError, Invalid, Unauthenticated, Unavailable
from ekiden.mcp.desk import Desk, tell_surfaced
from ekiden.mcp.envelope import plain
from ekiden.mcp.tools import call, refusal_text, room_for, within

AGENTS_FOLDER = "agents"
_LOOK_AGAIN_AFTER = (Unavailable.code, Unauthenticated.code)
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}\Z")


class SeatFile(msgspec.Struct, frozen=True):
    """What the file of an agent holds. `url` empty: the hub that runs on this computer."""

    key: str
    url: str = ""
    key_id: str = ""


def seat_path(home: Path, name: str) -> Path:
    """Where the file of the agent `name` lies.

    Raises:
        Invalid: if it is no name for one.
    """
    if not _NAME.match(name):
        raise Invalid(
            f"{name[:60]!r} is no name for an agent's file.", hint="Small letters, digits, dots and dashes."
        )
    return home / AGENTS_FOLDER / f"{name}.json"


def read_seat(path: Path) -> SeatFile | None:
    """What the file holds; None if there is none.

    Raises:
        Unauthenticated: if others may read it, or it holds something else.
    """
    try:
        mode = path.stat().st_mode
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    if stat.S_IMODE(mode) & 0o077:
        raise Unauthenticated(
            f"Others on this computer may read {path}.", hint=f"Close it with: chmod 600 '{path}'"
        )
    try:
        return msgspec.json.decode(data, type=SeatFile)
    except msgspec.DecodeError:
        raise Unauthenticated(
            f"{path} is no file of an agent's key.", hint="Remove it, and make a new one."
        ) from None


def write_seat(path: Path, seat: SeatFile) -> None:
    """Puts it into the file, whole or not at all, for its owner only."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(seat) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


class Seat:
    """Calls tools in the name of one agent. `find` says at which url and with which key, each time it is asked.

    `find` may raise what keeps the agent from speaking: then each call is answered with that. What the agent says
    is signed, and sealed where a channel is encrypted, with keys that lie under `home`; `label` is how others see
    this program. That the agent calls again shows that its model has got the mentions of the answer before.
    """

    def __init__(self, find: Callable[[], tuple[str, str]], home: Path, *, label: str = "") -> None:
        self._find = find
        self._home = home
        self._label = label
        self._place: tuple[str, str] = ("", "")
        self._member: Member | None = None
        self._desk: Desk | None = None
        self._look_again = False
        self._sitting_down = asyncio.Lock()
        self._telling: set[asyncio.Task[None]] = set()

    async def call_tool(self, name: str, given: dict[str, Any]) -> tuple[str, bool]:
        """One call of a tool: the text, and whether it is an error."""
        try:
            async with self._sitting_down:
                desk = await self._at_desk()
        except EkidenError as error:
            return within(refusal_text(error), room_for(given)), True
        self._tell_surfaced(desk)
        answer = await call(desk, name, given)
        self._look_again = answer.code in _LOOK_AGAIN_AFTER
        notices = self._member.take_notices() if self._member is not None else ()
        if not notices:
            return answer.text, answer.is_error
        room = room_for(given)
        note = within(f"Note: {plain(' '.join(notices))}", room // 2)
        return f"{within(answer.text, room - len(note) - 1)}\n{note}", answer.is_error

    async def close(self) -> None:
        """Closes its connections, and keeps what was learned of others."""
        if self._telling:
            await asyncio.gather(*self._telling)
        if self._member is not None:
            await self._member.close()
            await self._member.client.close()
            self._member = self._desk = None

    async def _at_desk(self) -> Desk:
        if self._desk is not None and not self._look_again:
            return self._desk
        place = await asyncio.to_thread(self._find)
        if self._desk is None or place != self._place:
            await self.close()
            self._place, self._member = place, Member(Client(*place), self._home, label=self._label)
            # Its key must be in the directory before others can seal anything for it.
            await self._member.meet()
            self._desk = Desk(self._member.client, self._member)
        self._look_again = False
        return self._desk

    def _tell_surfaced(self, desk: Desk) -> None:
        shown = desk.take_shown()
        if shown.messages:
            task = asyncio.ensure_future(tell_surfaced(desk.client, shown))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)
