"""Where Ekiden's data lies on this computer, and how the command line reaches the hub.

The address comes from `--url`, `EKIDEN_URL`, the lock of the hub that runs on this data, or the hub that was
joined; the key from `EKIDEN_KEY` or the file `local.key` (0600) that the hub writes beside its data. A key is
never an argument: what stands on a command line is seen by every process of the computer.
"""

import argparse
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ekiden.kernel.errors import Invalid, Unauthenticated, Unavailable

if TYPE_CHECKING:
    from ekiden.client.plain import PlainClient

LOCAL_KEY = "local.key"
HOST_KEY = "host.key"
JOINED_URL = "hub.url"
DATABASE = "ekiden.db"
POSTGRES_SCHEMES = ("postgresql://", "postgres://")


def default_home() -> Path:
    """`$EKIDEN_HOME`, else `ekiden` in the person's data folder, as the platform has it."""
    named = os.environ.get("EKIDEN_HOME")
    if named:
        return Path(named).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "ekiden"
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "ekiden"


def home_of(options: argparse.Namespace) -> Path:
    """The data folder that the options name, absolute."""
    named: Path | None = getattr(options, "home", None)
    return (named or default_home()).expanduser().absolute()


def add_home_option(parser: argparse.ArgumentParser) -> None:
    """`--home`."""
    parser.add_argument("--home", type=Path, metavar="FOLDER", help="the data folder (default: $EKIDEN_HOME)")


def add_database_option(parser: argparse.ArgumentParser) -> None:
    """`--database`."""
    parser.add_argument(
        "--database",
        default="",
        metavar="URL",
        help="keep the log in Postgres: postgresql://USER@HOST/NAME (default: $EKIDEN_DATABASE_URL; put a password"
        " there only, for what stands on a command line is seen by others)",
    )


def database_url(options: argparse.Namespace) -> str:
    """The Postgres database that the log is in; empty if it is in the data folder.

    Raises:
        Invalid: if it is the url of something else.
    """
    url: str = options.database or os.environ.get("EKIDEN_DATABASE_URL", "")
    if url and not url.startswith(POSTGRES_SCHEMES):
        raise Invalid("The database is named by postgresql://USER@HOST/NAME.", hint="Other databases do not fit.")
    return url


def add_door_options(parser: argparse.ArgumentParser) -> None:
    """What every command that speaks to a hub takes."""
    add_home_option(parser)
    parser.add_argument(
        "--url", metavar="URL", help="the hub's address (default: $EKIDEN_URL, or the one that runs here)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, one value to a line")


def running_url(home: Path) -> str:
    """Where the hub that runs on this data answers; empty if none runs or it is not yet known."""
    from ekiden.log.lock import holder_of

    holder = holder_of(home / DATABASE)
    return holder.url if holder is not None else ""


def door(options: argparse.Namespace) -> "PlainClient":
    """A client of the hub that the options mean.

    Raises:
        Unavailable: if no hub is named and none runs here.
        Unauthenticated: if there is no key.
    """
    from ekiden.client.plain import PlainClient

    return PlainClient(*address_and_key(options))


def address_and_key(options: argparse.Namespace) -> tuple[str, str]:
    """The hub that the options mean, and the key for it.

    Raises:
        Unavailable: if no hub is named and none runs here.
        Unauthenticated: if there is no key.
    """
    home = home_of(options)
    url: str = options.url or os.environ.get("EKIDEN_URL", "") or running_url(home) or joined_url(home)
    if not url:
        raise Unavailable(f"No hub runs on {home}.", hint="Start it with `ekiden up`, or name one with --url.")
    return url, local_key(home)


def joined_url(home: Path) -> str:
    """The hub that was joined from this data folder by an invite; empty if none was."""
    try:
        return (home / JOINED_URL).read_text("utf-8").strip()
    except OSError:
        return ""


def local_key(home: Path) -> str:
    """The key of the command line.

    Raises:
        Unauthenticated: if there is none, or others may read its file.
    """
    named = os.environ.get("EKIDEN_KEY")
    if named:
        return named
    return read_key(home / LOCAL_KEY)


def read_key(path: Path) -> str:
    """The key in a file of its own.

    Raises:
        Unauthenticated: if there is none, or others may read it.
    """
    try:
        mode = path.stat().st_mode
        key = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Unauthenticated(
            f"There is no key in {path}.", hint="`ekiden up` makes one; or set EKIDEN_KEY to a key of the hub."
        ) from error
    if stat.S_IMODE(mode) & 0o077:
        raise Unauthenticated(
            f"Others on this computer may read {path}.", hint=f"Close it with: chmod 600 '{path}'"
        )
    return key


def write_key(path: Path, key: str) -> None:
    """Puts a key into a file that only its owner may read, whole or not at all."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(key + "\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
