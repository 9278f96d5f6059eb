"""The app-servers that Ekiden runs: one per environment, shared by all threads that are begun with it.

A host that gives each session an environment of its own (with a tag by which the session's processes are
found again) thereby gives it a process of its own; then letting a session go frees Codex's lock on it at once.
"""

import asyncio
from collections.abc import Callable, Mapping

from ekiden import __version__
from ekiden.kernel.errors import VendorFailed
from ekiden.vendors.codex.appserver import AppServer
from ekiden.vendors.port import Environment, Owner, Program

_Key = frozenset[tuple[str, str]]


class SharedServers:
    """Hands out app-servers and ends each with its last thread. `find_program` is asked at each start,
    `find_owners` when Codex says that somebody else holds a thread."""

    def __init__(
        self,
        find_program: Callable[[], Program | None],
        find_owners: Callable[[], Mapping[str, Owner]] = dict[str, Owner],
    ) -> None:
        self._find_program = find_program
        self._find_owners = find_owners
        self._servers: dict[_Key, AppServer] = {}
        self._threads: dict[AppServer, int] = {}
        self._locks: dict[_Key, asyncio.Lock] = {}

    def pids(self) -> frozenset[int]:
        """The processes that run now."""
        return frozenset(server.pid for server in self._threads if server.alive)

    async def join(self, environment: Environment) -> AppServer:
        """A running app-server for this environment, started if there is none.

        Raises:
            VendorFailed: if Codex is not installed or does not start.
        """
        key = frozenset(environment.items())
        lock = self._locks.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                server = self._servers.get(key)
                if server is None or not server.alive:
                    program = self._find_program()
                    if program is None:
                        raise VendorFailed(
                            "Codex is not installed on this computer.", hint="Install it, then try again."
                        )
                    server = AppServer(program.path, environment)
                    await server.start(version=__version__)
                    self._servers[key] = server
                self._threads[server] = self._threads.get(server, 0) + 1
                return server
        finally:
            if not lock.locked() and key not in self._servers:
                self._locks.pop(key, None)

    def holder(self, thread_id: str) -> Owner | None:
        """The process outside Ekiden that holds a thread, where that can be seen."""
        return self._find_owners().get(thread_id)

    async def leave(self, server: AppServer) -> None:
        """One thread less; with the last one the process ends."""
        left = self._threads.get(server, 1) - 1
        if left > 0:
            self._threads[server] = left
            return
        for key, known in list(self._servers.items()):
            if known is server:
                del self._servers[key]
                self._locks.pop(key, None)
        try:
            await server.close()
        finally:
            self._threads.pop(server, None)
