"""What an earlier run of this host has left: programs that live on, turns that ran, questions that waited.

Survivors are given a little time to finish and are then ended, before anything is started anew for their session.
A turn that ran is lost until its file says how it ended. All of it is told; nothing is taken up silently.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from ekiden.host import processes
from ekiden.host.catalogue import Catalogue
from ekiden.host.outbox import Outbox
from ekiden.host.owned import forget_asked, forget_turn
from ekiden.host.sessions import Ownership, Tracked
from ekiden.host.store import Store
from ekiden.kernel.clock import iso
from ekiden.sessions.wire import FeedApprovalEnd, FeedTurn

_log = logging.getLogger(__name__)
TOLD_S = 10.0

Spawn = Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[Any]"]


class Recovery:
    """Takes up what was left, once after a start. `run_ids` gets the runs that may still have processes."""

    def __init__(
        self,
        run_ids: set[str],
        spawn: Spawn,
        *,
        catalogue: Catalogue,
        outbox: Outbox,
        store: Store,
        survivor_s: float,
    ) -> None:
        self._run_ids = run_ids
        self._spawn = spawn
        self._catalogue = catalogue
        self._outbox = outbox
        self._store = store
        self._survivor_s = survivor_s
        self._survivors: dict[str, asyncio.Task[None]] = {}
        """By session id: the end of what a crash left alive."""

    async def run(self) -> None:
        """Takes up what an earlier run of this host has left: survivors, owned sessions, open questions."""
        runs, owned, asked = await asyncio.to_thread(self._store.read, _left_over)
        self._run_ids.update(run["run_id"] for run in runs)
        tagged = await asyncio.to_thread(processes.tagged)
        by_session: dict[str, list[str]] = {}
        for run in runs:
            if run["vendor"] in self._catalogue.vendors and run["run_id"] in tagged:
                tracked = self._catalogue.tracked(run["vendor"], run["native_id"])
                by_session.setdefault(tracked.session_id, []).append(run["run_id"])
            else:
                self.run_over(run["run_id"])
        for session_id, run_ids in by_session.items():
            self._survivors[session_id] = self._spawn(self._end_survivors(run_ids), "ending survivors")
        for row in owned:
            if row["vendor"] not in self._catalogue.vendors:
                continue
            tracked = self._catalogue.tracked(row["vendor"], row["native_id"])
            tracked.origin, tracked.parent_session_id = row["origin"], row["parent"]
            tracked.cwd, tracked.model = row["cwd"], row["model"]
            tracked.given_title = row["title"]
            if not row["released"]:
                tracked.ownership = Ownership()
            if row["turn_id"]:
                self._spawn(self._lost_turn(tracked, row["turn_id"]), "telling of a lost turn")
            self._outbox.changed(tracked)
        for row in asked:
            approval_id = str(row["approval_id"])
            self._outbox.put(
                FeedApprovalEnd(approval_id, "withdrawn", "Ekiden was started anew meanwhile."),
                partial(forget_asked, self._store, approval_id),
            )

    async def _end_survivors(self, run_ids: list[str]) -> None:
        deadline = time.monotonic() + self._survivor_s

        def alive() -> dict[int, processes.Process]:
            tagged = processes.tagged()
            return {
                pid: one for run_id in run_ids for pid, one in tagged.get(run_id, {}).items() if pid != os.getpid()
            }

        while time.monotonic() < deadline and await asyncio.to_thread(alive):  # noqa: ASYNC110 (other processes)
            await asyncio.sleep(0.25)
        left = await asyncio.to_thread(processes.end_all, alive)
        if left:
            _log.warning("Left over from before: %s", ", ".join(process.name for process in left))
        for run_id in run_ids:
            self.run_over(run_id)

    async def _lost_turn(self, tracked: Tracked, turn_id: str) -> None:
        """A turn ran when the host stopped: it is lost until its file says how it ended."""
        self._outbox.put(
            FeedTurn(tracked.session_id, turn_id, "lost", "Ekiden stopped while this turn ran.", iso(time.time()))
        )
        await self.survivors_gone(tracked.session_id)
        self._outbox.grew_file(tracked)
        await self._outbox.drained(TOLD_S)
        ended = not tracked.facts.turn_open
        self._outbox.put(
            FeedTurn(
                tracked.session_id,
                turn_id,
                "completed" if ended else "failed",
                "" if ended else "Its program ended with Ekiden before the turn was done.",
            ),
            lambda: forget_turn(self._store, tracked, turn_id),
        )

    async def survivors_gone(self, session_id: str) -> None:
        """Returns once nothing of an earlier run writes the session any more."""
        survivors = self._survivors.get(session_id)
        if survivors is not None:
            await asyncio.shield(survivors)

    def run_over(self, run_id: str) -> None:
        """No process of the run is left."""
        self._store.write(
            lambda connection: connection.execute("UPDATE runs SET ended = 1 WHERE run_id = ?", (run_id,))
        )


def _left_over(connection: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    def rows(query: str) -> list[dict[str, Any]]:
        cursor = connection.execute(query)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, values, strict=True)) for values in cursor]

    return (
        rows("SELECT * FROM runs WHERE NOT ended"),
        rows("SELECT * FROM owned"),
        rows("SELECT approval_id, session_id FROM asked"),
    )
