"""The seats of this computer's agents: found, or made with the key of this computer's command line."""

import os
import time
from pathlib import Path

from ekiden.cli.place import local_key, running_url
from ekiden.client.plain import PlainClient
from ekiden.kernel.errors import Unavailable
from ekiden.kernel.limits import SEAT_TAKEN_S
from ekiden.mcp.seat import SeatFile, read_seat, seat_path, write_seat

_LOOK_S = 0.02


def find_seat(home: Path, name: str) -> tuple[str, str]:
    """Address and key for the agent `name`: from the file that `EKIDEN_SEAT` names (a session that Ekiden owns),
    from `EKIDEN_URL` and `EKIDEN_KEY`, else from its own file; an agent that has none yet gets one, if this
    computer's own hub runs.

    Raises:
        Unavailable: if there is no hub.
        Unauthenticated: if there is no key, and none can be made.
    """
    of_session = os.environ.get("EKIDEN_SEAT", "")
    if of_session:
        return _seat_of_session(Path(of_session))
    key = os.environ.get("EKIDEN_KEY", "")
    named_url = os.environ.get("EKIDEN_URL", "")
    if key:
        return named_url or local_url(home), key
    seat = read_seat(seat_path(home, name)) or make_seat(home, name)
    return named_url or seat.url or local_url(home), seat.key


def _seat_of_session(path: Path) -> tuple[str, str]:
    """Address and key of a session; its host may still be getting them, since sessions start without waiting."""
    end_at = time.monotonic() + SEAT_TAKEN_S
    while (taken := read_seat(path)) is None:
        if time.monotonic() >= end_at:
            raise Unavailable("This session has no key for its tools.", hint="Ask the person who runs it.")
        time.sleep(_LOOK_S)
    return taken.url, taken.key


def local_url(home: Path) -> str:
    """Where the hub that runs here answers.

    Raises:
        Unavailable: if none does.
    """
    url = running_url(home)
    if not url:
        raise Unavailable(f"No hub runs on {home}.", hint="Start it with `ekiden up`, or set EKIDEN_URL.")
    return url


def make_seat(home: Path, name: str) -> SeatFile:
    """A key for a new agent of that name, with what agents usually may, in its file. It is made with the person's
    own key: of this computer's command line, or the one in `EKIDEN_KEY`.

    Raises:
        Unavailable: if there is no hub.
        Unauthenticated: if there is no key that may make one.
        EkidenError: what the hub refuses with.
    """
    path = seat_path(home, name)
    named_url = os.environ.get("EKIDEN_URL", "")
    with PlainClient(named_url or local_url(home), local_key(home)) as client:
        made = client.post("/v1/keys", {"name": name, "kind": "agent"})
    seat = SeatFile(key=made["key"], key_id=made["key_id"], url=named_url)
    write_seat(path, seat)
    return seat


def end_seat(home: Path, name: str) -> str:
    """Ends the key of the agent and removes its file; says so.

    Raises:
        EkidenError: what the hub refuses with; then the file stays.
    """
    path = seat_path(home, name)
    seat = read_seat(path)
    if seat is None:
        return f"The agent {name} has no key here."
    if seat.key_id:
        with PlainClient(seat.url or local_url(home), local_key(home)) as client:
            client.delete(f"/v1/keys/{seat.key_id}")
    path.unlink()
    return f"The key of the agent {name} is revoked and its file removed."
