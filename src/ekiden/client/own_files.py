"""Small files that only their owner may read: written whole or not at all, in folders of mode 0700."""

import os
import stat
from pathlib import Path

from ekiden.kernel.errors import Unavailable


def own_folder(path: Path) -> Path:
    """Makes a folder that only its owner may enter; those above it are made the same way."""
    for folder in reversed([path, *path.parents]):
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
    return path


def write_own(path: Path, data: bytes, *, keep: bool = False) -> bool:
    """Puts `data` into a file of mode 0600, whole or not at all. `keep`: one that is there already stays, and this
    says False."""
    own_folder(path.parent)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if not keep:
        fresh.replace(path)
        return True
    try:
        path.hardlink_to(fresh)
    except FileExistsError:
        return False
    finally:
        fresh.unlink()
    return True


def read_own(path: Path) -> bytes | None:
    """What the file holds, None if there is none.

    Raises:
        Unavailable: if others may read it, or it cannot be read.
    """
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            data = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}.") from error
    if mode & 0o077:
        raise Unavailable(f"Others on this computer may read {path}.", hint=f"Close it with: chmod 600 '{path}'")
    return data
