"""What `ekiden doctor` looks at. Each check is one function that gives findings; none changes anything."""

import os
import platform
import shutil
import socket
import sqlite3
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ekiden import __version__
from ekiden.cli.place import DATABASE, LOCAL_KEY, running_url
from ekiden.kernel.errors import EkidenError
from ekiden.log.lock import holder_of

GOOD, NOTE, BAD = "good", "note", "bad"
_DISK_BYTES_MIN = 500_000_000
_WATCHES_MIN = 8_192


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `state` is good, note (works, but you should know) or bad (will not work)."""

    state: str
    about: str
    says: str
    advice: str = ""


def examine(home: Path) -> Iterator[Finding]:
    """All findings, in the order in which a person wants them. A check that fails is a finding too."""
    for check in (
        _program,
        _data_folder,
        _database,
        _disk,
        _hub,
        _port,
        _watches,
        _compression,
        _vendors,
        _network,
    ):
        try:
            yield from check(home)
        except (EkidenError, OSError, sqlite3.Error, ImportError) as error:
            yield Finding(BAD, check.__name__.strip("_").replace("_", " "), f"could not be looked at: {error}")


def _program(_: Path) -> Iterable[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding(GOOD, "Ekiden", f"{__version__} on Python {version}, {platform.system()} {platform.machine()}")


def _data_folder(home: Path) -> Iterable[Finding]:
    if not home.exists():
        yield Finding(NOTE, "data folder", f"{home} is not there yet", "`ekiden up` makes it")
        return
    mode = stat.S_IMODE(home.stat().st_mode)
    if mode & 0o077:
        yield Finding(NOTE, "data folder", f"others may look into {home} ({mode:03o})", f"chmod 700 '{home}'")
    elif not os.access(home, os.W_OK):
        yield Finding(BAD, "data folder", f"{home} cannot be written")
    else:
        yield Finding(GOOD, "data folder", str(home))
    key = home / LOCAL_KEY
    if key.exists() and stat.S_IMODE(key.stat().st_mode) & 0o077:
        yield Finding(BAD, "local key", f"others may read {key}", f"chmod 600 '{key}'")


def _database(home: Path) -> Iterable[Finding]:
    yield Finding(GOOD, "SQLite", f"{sqlite3.sqlite_version}{_full_text()}")
    database = home / DATABASE
    if not database.exists():
        return
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        from ekiden.log.migrations import read_migrations, refuse_newer, version_of

        version = version_of(connection)
        refuse_newer(version, read_migrations()[-1].number)
    finally:
        connection.close()
    size = sum(file.stat().st_size for file in home.glob("*.db*"))
    yield Finding(GOOD, "database", f"schema {version}, {size / 1e6:.1f} MB")


def _full_text() -> str:
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5(x)")
    except sqlite3.OperationalError:
        return " without full-text search (FTS5): search is slower"
    finally:
        connection.close()
    return " with full-text search"


def _disk(home: Path) -> Iterable[Finding]:
    folder = home
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < _DISK_BYTES_MIN:
        yield Finding(BAD, "disk", f"only {free / 1e6:.0f} MB are free", "make room: writes will be refused")
    else:
        yield Finding(GOOD, "disk", f"{free / 1e9:.1f} GB free")


def _hub(home: Path) -> Iterable[Finding]:
    holder = holder_of(home / DATABASE)
    if holder is None:
        yield Finding(NOTE, "hub", "none runs on this data", "`ekiden up` starts it")
        return
    from ekiden.cli.place import local_key
    from ekiden.client.plain import PlainClient

    with PlainClient(running_url(home) or "http://127.0.0.1:0", local_key(home)) as client:
        me = client.get("/v1/me")
        hosts = client.get("/v1/hosts")["hosts"]
    yield Finding(GOOD, "hub", f"runs as process {holder.pid} at {holder.url}, version {me['hub']['version']}")
    if not hosts:
        yield Finding(NOTE, "computer", "none has connected yet", "the terminal of `ekiden up` says why")
    for host in hosts:
        name = host["report"]["name"]
        here = host.get("here", False)
        yield Finding(GOOD if here else NOTE, "computer", f"{name} is {'connected' if here else 'away'}")
        for notice in host["report"].get("notices", ()):
            yield Finding(NOTE, f"computer {name}", str(notice))


def _port(home: Path) -> Iterable[Finding]:
    if holder_of(home / DATABASE) is not None:
        return
    from ekiden.hub.settings import DEFAULT_PORT

    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", DEFAULT_PORT))
        except OSError:
            yield Finding(
                NOTE, "port", f"{DEFAULT_PORT} is taken", "another free port will be used, or name one: --port"
            )
        else:
            yield Finding(GOOD, "port", f"{DEFAULT_PORT} is free")


def _watches(_: Path) -> Iterable[Finding]:
    if sys.platform != "linux":
        return
    limit = int(Path("/proc/sys/fs/inotify/max_user_watches").read_text())
    if limit < _WATCHES_MIN:
        yield Finding(
            NOTE,
            "watching files",
            f"the system allows only {limit} watches; folders beyond that are looked at in turns",
            "sysctl fs.inotify.max_user_watches=65536",
        )
    else:
        yield Finding(GOOD, "watching files", f"{limit} watches allowed")


def _compression(_: Path) -> Iterable[Finding]:
    try:
        import zstandard
    except ImportError as error:
        yield Finding(BAD, "zstd", f"compressed Codex sessions cannot be read: {error}", "pip install zstandard")
    else:
        yield Finding(GOOD, "zstd", f"{zstandard.__version__}")


def _vendors(home: Path) -> Iterable[Finding]:
    from ekiden.cli.vendor_list import vendors_here

    for vendor in vendors_here(home):
        discovery = vendor.discovery
        program = discovery.program()
        count = sum(1 for file in discovery.files() if not file.thread)
        roots = ", ".join(str(root) for root in discovery.roots())
        if program is None:
            says = f"not installed; {count} sessions in {roots}"
            advice = "its sessions can be read, not continued" if count else ""
            yield Finding(NOTE, vendor.label, says, advice)
        else:
            yield Finding(GOOD, vendor.label, f"{program.version} at {program.path}; {count} sessions in {roots}")
        for native_id, owner in discovery.owners().items():
            yield Finding(NOTE, vendor.label, f"{owner.program} (process {owner.pid}) holds session {native_id}")
        for notice in discovery.notices():
            yield Finding(NOTE, vendor.label, notice)


def _network(_: Path) -> Iterable[Finding]:
    from ekiden.cli.network_address import lan_address

    address = lan_address()
    if not address:
        yield Finding(NOTE, "network", "no address in a local network was found: --lan has nothing to show")
    else:
        yield Finding(GOOD, "network", f"with --lan, other devices reach this computer at {address}")
