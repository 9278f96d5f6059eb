"""A computer's key as a host, in a file (0600) with the id that the hub gave it."""

from dataclasses import dataclass
from pathlib import Path

from ekiden.cli.place import read_key, write_key
from ekiden.client.client import Client
from ekiden.kernel.errors import Conflict, Unauthenticated

_NAMES_TRIED_MAX = 20


@dataclass(frozen=True, slots=True)
class HostKey:
    """What a host shows to its hub, and its id there."""

    key: str
    host_id: str


def read_host_key(path: Path) -> HostKey | None:
    """The key in `path`, or None if there is none.

    Raises:
        Unauthenticated: if others on this computer may read it.
    """
    if not path.exists():
        return None
    key, _, host_id = read_key(path).partition(" ")
    return HostKey(key, host_id) if key and host_id else None


def write_host_key(path: Path, key: HostKey) -> None:
    """Puts the key into its file."""
    write_key(path, f"{key.key} {key.host_id}")


async def host_key_at_hub(client: Client, name: str) -> HostKey:
    """Makes a host of this name at the hub; a name that is taken gets a number.

    Raises:
        Conflict: if very many names are taken.
    """
    for number in range(1, _NAMES_TRIED_MAX + 1):
        shown = name if number == 1 else f"{name} {number}"
        try:
            made = await client.post("/v1/keys", {"name": shown, "kind": "host"})
        except Conflict:
            continue
        if not made["key"]:
            raise Unauthenticated("The hub's answer with this computer's key was lost.", hint="Start again.")
        return HostKey(made["key"], made["host_id"])
    raise Conflict(f"The name {name} and its numbers are taken at the hub.", hint="Revoke hosts that are gone.")
