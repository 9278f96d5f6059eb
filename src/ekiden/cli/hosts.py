"""Which computer a command means."""

import time

from ekiden.cli.screen import line_of
from ekiden.client.plain import PlainClient
from ekiden.kernel.errors import HostAway, Invalid, NotFound
from ekiden.sessions.wire import Host, Hosts

HOST_COMES_S = 4.0


def host_named(client: PlainClient, name: str) -> Host:
    """The connected host with this name or id; the only one if `name` is empty. Right after a start the computer's
    host may still be on its way: it is waited for, `HOST_COMES_S` at most.

    Raises:
        NotFound, HostAway, Invalid: if there is none, none connected, or more than one.
    """
    deadline = time.monotonic() + HOST_COMES_S
    while True:
        hosts = client.get("/v1/hosts", type=Hosts).hosts
        fitting = [host for host in hosts if not name or name in (host.host_id, host.report.name)]
        if any(host.here for host in fitting) or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    if not fitting:
        raise NotFound(
            "No computer has connected to this hub." if not name else f"No computer is named {line_of(name)!r}."
        )
    here = [host for host in fitting if host.here]
    if not here:
        away = fitting[0]
        raise HostAway(
            f"{line_of(away.report.name)} is not connected.",
            hint="Start `ekiden up` (or `ekiden host`) on it.",
            last_seen_at=away.seen_at,
        )
    if len(here) > 1:
        raise Invalid(
            "Several computers are connected.",
            hint="Name one with --host.",
            candidates=[line_of(host.report.name) for host in here],
        )
    return here[0]
