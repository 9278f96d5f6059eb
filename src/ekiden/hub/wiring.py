"""Puts the real rooms behind the door: the log in its file, access, sessions, the page."""

import os
from pathlib import Path

from ekiden.access import routes as access_routes
from ekiden.access import routes_invites as access_invites
from ekiden.access import routes_keys as access_keys
from ekiden.access import routes_seats as access_seats
from ekiden.access.gate import AccessGate, open_home
from ekiden.access.port import Ports as AccessPorts
from ekiden.hub import telemetry
from ekiden.hub.app import Hub, Rooms, build
from ekiden.hub.bells import Bells
from ekiden.hub.bus import Bus, new_node_id
from ekiden.hub.bus_link import nats_bus, notify_bus
from ekiden.hub.chores import Chores
from ekiden.hub.inviting import RelayPlaces
from ekiden.hub.pages import own_pages
from ekiden.hub.people import TeamPeople
from ekiden.hub.settings import Settings
from ekiden.hub.tidying import own_chores
from ekiden.hub.waking import HandedOver, SessionWaker, Surfacing, WaitingWaker
from ekiden.kernel.clock import Clock, iso
from ekiden.kernel.door import Endpoint
from ekiden.log.lock import take_lock
from ekiden.log.open import open_log
from ekiden.log.port import Log, Transaction
from ekiden.log.queries import joined, room_queries
from ekiden.log.sqlite_files import make_private_folder
from ekiden.log.wakeups_nats import NatsWakeups
from ekiden.relay import routes as relay_routes
from ekiden.relay import routes_state as relay_state
from ekiden.relay.notary import TeamNotary
from ekiden.relay.port import Ports
from ekiden.relay.tainting import taint
from ekiden.sessions import routes as sessions_routes
from ekiden.sessions import verbs as sessions_verbs

_PRIVATE_FILE = 0o600
ROOMS = ("ekiden.access", "ekiden.sessions", "ekiden.relay", "ekiden.hub")


def endpoints_with(ports: Ports) -> tuple[Endpoint, ...]:
    """All places of all rooms, with what the relay room is given."""
    access_ports = AccessPorts(taint=taint, places=RelayPlaces(ports))
    return (
        *access_routes.ENDPOINTS,
        *access_keys.endpoints(access_ports),
        *access_invites.endpoints(access_ports),
        *access_seats.ENDPOINTS,
        *sessions_routes.ENDPOINTS,
        *relay_routes.endpoints(ports),
        *relay_state.endpoints(ports),
    )


ENDPOINTS = endpoints_with(Ports(TeamPeople()))
"""The same, where nothing but the rooms is there: mentions are found at the next call."""


async def open_hub(settings: Settings, clock: Clock) -> Hub:
    """Opens the data in `settings.home` (makes it, if there is none) and stands the door before it.

    The key of this computer's command line is put into `settings.local_key`. The hub is not started yet; its
    `stop` closes the log.

    Raises:
        StoreHeld: if another hub has the data.
        StoreNewer: if a newer Ekiden wrote it.
        Unavailable: if the folder cannot be used.
    """
    telemetry.begin(os.environ)
    queries = joined(*(room_queries(room) for room in ROOMS))
    wakeups = NatsWakeups(settings.nats_url) if settings.nats_url and settings.database_url else None
    if settings.database_url:
        make_private_folder(settings.home)
        # The data is elsewhere, but one hub to a home still: it has the key, and says where it answers.
        lock = take_lock(settings.database, since=iso(clock.now()))
        try:
            log = await open_log(settings.database_url, clock=clock, queries=queries, lock=lock, wakeups=wakeups)
        except BaseException:
            lock.release()
            raise
    else:
        log = await open_log(str(settings.database), clock=clock, queries=queries)
    try:
        if wakeups is not None:
            await wakeups.open(log.log_id)
        held = _read_key(settings.local_key)
        team_id, key = await open_home(log, clock, local_key=held, alone=not settings.database_url)
        if key != held:
            _write_key(settings.local_key, key)
        hosts_before = await log.ask(team_id, sessions_verbs.hosts_marked_here)
    except BaseException:
        await log.close()
        raise
    bus = _bus(settings, log.log_id)
    owner = bus.node_id if bus is not None else new_node_id()
    bells = Bells()
    surfacing = Surfacing(log)
    in_session = SessionWaker()
    handed_over = HandedOver(log, in_session)
    ports = Ports(TeamPeople(), (WaitingWaker(bells), in_session), TeamNotary())
    rooms = Rooms(
        endpoints_with(ports),
        AccessGate(log, clock),
        team_id,
        host_changed=_Connections(log).changed,
        hosts_before=hosts_before,
        pages=own_pages(),
        announce=log.announce,
        bus=bus,
        bells=bells,
        closing=(surfacing.close, handed_over.close),
        chores=Chores(
            log, team_id, owner, clock, own_chores(clock, settings.events_kept_s, settings.ended_kept_s, ports)
        ),
    )
    return build(settings, log, clock, rooms)


def _bus(settings: Settings, log_id: str) -> Bus | None:
    """What this node tells others through; None where the log is in a file, which has one node."""
    if not settings.database_url:
        return None
    if settings.nats_url:
        return nats_bus(settings.nats_url, log_id)
    return notify_bus(settings.database_url, log_id)


class _Connections:
    """Tells the sessions room which hosts come and go."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def changed(self, team_id: str, host_id: str, here: bool, seen_at: str) -> None:
        async def verb(tx: Transaction) -> None:
            if here:
                await sessions_verbs.host_back(tx, host_id, seen_at)
            else:
                await sessions_verbs.host_lost(tx, host_id, seen_at)

        await self._log.write(team_id, verb)


def _read_key(path: Path) -> str:
    """The key in the file, or nothing."""
    try:
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _write_key(path: Path, key: str) -> None:
    """Puts the key into a file that only its owner may read, whole or not at all."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE_FILE)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(key + "\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
