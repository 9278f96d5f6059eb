"""A Postgres of the tests' own: started once for each process of pytest, from a wheel, with nothing to install.

Each test gets a database of its own, copied from one that is migrated already. The server does not sync to disk:
no test takes the power away, and what a killed process leaves is kept by the system either way.
"""

import asyncio
import functools
import itertools
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from ekiden.log.migrations import read_migrations
from ekiden.log.postgres_connection import connect, end
from ekiden.log.postgres_migrations import migrate, version_of

_SETTINGS = ("fsync = off", "full_page_writes = off", "autovacuum = off", "max_connections = 200", "jit = off")
T = TypeVar("T")
_numbers = itertools.count(1)


class Server:
    """One server; `url(name)` is that of one of its databases."""

    def __init__(self, pgserver: Any, folder: Path) -> None:
        self._server = pgserver.get_server(folder, cleanup_mode="delete")
        self.folder = folder
        self._program = Path(pgserver.__file__).parent / "pginstall" / "bin" / "pg_ctl"
        for setting in _SETTINGS:
            self._server.psql(f"ALTER SYSTEM SET {setting};")
        self.stop("fast")
        self.start()

    @property
    def socket_folder(self) -> str:
        """Where its Unix socket lies."""
        return str(self._server.get_postmaster_info().socket_dir)

    def url(self, database: str) -> str:
        """The address of a database on this server, by its Unix socket."""
        return f"postgresql://postgres@/{database}?host={quote(self.socket_folder, safe='')}"

    def psql(self, statement: str) -> None:
        """Runs a statement as the server's owner."""
        self._server.psql(statement)

    def stop(self, mode: str = "immediate") -> None:
        """Stops it; `immediate` is as a crash is."""
        self._control("stop", "-m", mode)

    def start(self) -> None:
        """Starts it again, at the same address."""
        self._control("start", "-o", f"-h '' -k {self.socket_folder}", "-l", str(self.folder / "log"))

    def end(self) -> None:
        """Stops it for good and takes its data away."""
        self.stop()
        self._server.cleanup()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _control(self, *words: str) -> None:
        subprocess.run(
            [self._program, "-D", str(self.folder), "-w", *words],
            user=self._server.system_user,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


@functools.cache
def server() -> Server:
    """The server of this process."""
    with warnings.catch_warnings():
        # The package looks for a place for its lock when it is imported, and warns if the usual one is not set.
        warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
        import pgserver
    return Server(pgserver, Path(tempfile.mkdtemp(prefix="ekiden-pg-")))


def end_server() -> None:
    """Ends the server of this process, if there is one."""
    if server.cache_info().currsize:
        server().end()
        server.cache_clear()


def fresh_database(*, empty: bool = False) -> str:
    """The url of a new database: migrated and without data, or quite empty. A running loop does not matter."""
    name = f"test_{next(_numbers)}"
    template = "template0" if empty else _template()
    _run(_make(name, template))
    return server().url(name)


def version_at(url: str) -> int:
    """The step at which a database's schema is."""
    return _run(_version(url))


@functools.cache
def _template() -> str:
    _run(_make("ekiden_template", "template0"))
    _run(_migrate(server().url("ekiden_template")))
    return "ekiden_template"


def _run(work: Coroutine[Any, Any, T]) -> T:
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


async def _version(url: str) -> int:
    connection = await connect(url)
    try:
        return await version_of(connection)
    finally:
        await end(connection)


async def _make(name: str, template: str) -> None:
    connection = await connect(server().url("postgres"))
    # Copying files is quicker than writing all of them to the write-ahead log first.
    await connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} ENCODING 'UTF8' STRATEGY FILE_COPY")
    await end(connection)


async def _migrate(url: str) -> None:
    connection = await connect(url)
    await migrate(
        connection, read_migrations(engine="postgres"), log_id="template", made_at="2026-01-01T00:00:00Z"
    )
    await end(connection)
