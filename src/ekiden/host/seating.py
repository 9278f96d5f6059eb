"""The tools of owned sessions: each session is an agent of the hub's and gets Ekiden's tools without any set-up.

The program that serves them is started by the vendor's program. It finds its key in a file that only the person
may read (0600); the file's path is all that it is told, so that no key stands in an argument list or in the
environment of the commands that an agent runs. A session whose seat cannot be had runs without: its tools say so
when called.
"""

import asyncio
import contextlib
import logging
import os
import sys
from pathlib import Path

import msgspec

from ekiden.access.routes_seats import NewSeat, SeatTaken
from ekiden.client.client import Client
from ekiden.host.environment import RUN_TAG, SEAT_FILE
from ekiden.kernel.errors import EkidenError
from ekiden.kernel.limits import SEAT_TAKEN_S
from ekiden.mcp.seat import SeatFile, write_seat
from ekiden.vendors.port import ToolServer

_log = logging.getLogger(__name__)
TOOLS = "ekiden"
"""What the server is called in the vendors' programs, and so before each tool's name."""


class Seating:
    """Takes and leaves the seats of one host's sessions. The files with their keys lie in `seats` of the data
    folder `home`; what signs for a session lies there as well."""

    def __init__(self, client: Client, host_id: str, home: Path) -> None:
        self._client = client
        self._host_id = host_id
        self._home = home
        self._folder = home / "seats"
        self._runs: set[str] = set()

    def server(self, run_id: str) -> ToolServer:
        """The server of the tools for a run. Its file comes with `take`; a call that is earlier waits for it."""
        self._runs.add(run_id)
        return ToolServer(
            TOOLS,
            sys.executable,
            # -P: the folder that an agent works in is no place to import from.
            ("-P", "-m", "ekiden.cli", "mcp"),
            {SEAT_FILE: str(self._file(run_id)), "EKIDEN_HOME": str(self._home), RUN_TAG: run_id},
        )

    async def take(self, run_id: str, vendor: str, native_id: str, folder: Path) -> None:
        """Gets the session's key and puts it where the run's tools look for it."""
        seat = NewSeat(vendor, native_id, folder.name)
        try:
            async with asyncio.timeout(SEAT_TAKEN_S):
                taken = await self._client.post(f"/v1/hosts/{self._host_id}/seats", seat, type=SeatTaken)
        except (EkidenError, TimeoutError) as error:
            _log.warning("A session has no tools: %s", getattr(error, "message", "the hub did not answer"))
            return
        file = SeatFile(taken.key, self._client.url, taken.key_id)
        if run_id in self._runs:
            await asyncio.to_thread(write_seat, self._file(run_id), file)
        if run_id not in self._runs:
            self.over(run_id)

    async def leave(self, session_id: str) -> None:
        """The session is let go: its key ends."""
        with contextlib.suppress(EkidenError, TimeoutError):
            async with asyncio.timeout(SEAT_TAKEN_S):
                await self._client.delete(f"/v1/hosts/{self._host_id}/seats/{session_id}", type=msgspec.Raw)

    def over(self, run_id: str) -> None:
        """The run has ended: nobody needs its file any more."""
        self._runs.discard(run_id)
        self._file(run_id).unlink(missing_ok=True)

    def clear(self) -> None:
        """Removes what an earlier process of this host has left."""
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                os.unlink(entry.path)

    def _file(self, run_id: str) -> Path:
        return self._folder / f"{run_id}.json"
