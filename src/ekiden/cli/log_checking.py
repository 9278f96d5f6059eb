"""The check of a whole log: what is shown meanwhile, and how what was found is said."""

import argparse
import asyncio
import time
from pathlib import Path
from typing import assert_never

from ekiden.cli.exit_codes import NOT_VERIFIED, OK
from ekiden.cli.place import DATABASE, database_url, home_of
from ekiden.cli.screen import Screen
from ekiden.client.pins import pinned_hub_keys
from ekiden.kernel.errors import EkidenError
from ekiden.log.moment import one_moment
from ekiden.log.queries import room_queries
from ekiden.relay.log_check import Break, LogCheck, Why, check_log

_SHOWN_EVERY_S = 0.5


def check(options: argparse.Namespace) -> int:
    """Checks the logs of all teams and prints what is found.

    Raises:
        NotFound: if there is no data.
        StoreNewer, Conflict: if another Ekiden wrote it, and it is not of the form that this one reads.
        Invalid: if what was given is no hub key.
    """
    return asyncio.run(_check(options))


async def _check(options: argparse.Namespace) -> int:
    screen, home = Screen(), home_of(options)
    good = True
    async with one_moment(database_url(options) or str(home / DATABASE), room_queries("ekiden.relay")) as log:
        for team_id in await log.teams():
            pinned: str = options.hub_key or _pinned(home, team_id)
            showing = _Showing(screen, quiet=options.json)
            found = await check_log(log, team_id, pinned, progress=showing.show)
            _tell(screen, options, team_id, found, pinned=bool(pinned))
            good = good and found.good
    return OK if good else NOT_VERIFIED


def _pinned(home: Path, team_id: str) -> str:
    """The hub's key that is pinned on this computer for the team; empty if none is, or members differ."""
    try:
        pinned = pinned_hub_keys(home, team_id)
    except EkidenError:
        return ""
    return pinned.pop() if len(pinned) == 1 else ""


def _tell(screen: Screen, options: argparse.Namespace, team_id: str, found: LogCheck, *, pinned: bool) -> None:
    breaks = sorted(found.breaks, key=lambda one: (one.first, one.last))
    if options.json:
        for one in breaks:
            screen.data(
                {"team": team_id, "why": one.why, "first": one.first, "last": one.last, "says": _says(one)}
            )
        counts = {
            "team": team_id,
            "good": found.good,
            "first": found.first,
            "head": found.head,
            "checked_to": found.checked_to,
            "events": found.events,
            "checkpoints": found.checkpoints,
            "hub_key": found.hub_key,
            "pinned": pinned,
        }
        screen.data(counts)
        return
    for one in breaks:
        screen.say(f"{screen.style('error', 'red', 'bold')}  {_says(one)}")
    said = "is as the hub has signed it" if found.good else "is NOT as the hub has signed it"
    if found.good and not found.checkpoints:
        said = "has nothing yet that the hub has signed"
    screen.say(
        f"The log of {team_id} {said}: {found.events} events from {found.first} on, {found.checkpoints}"
        " checkpoints."
    )
    if found.head > found.checked_to:
        uncovered = found.head - max(found.checked_to, found.first - 1)
        screen.say(f"{uncovered} of them came after the last checkpoint: a change to these cannot be seen.")
    if not pinned:
        screen.say(
            "No key of the hub is pinned here, so signatures were checked with the one in the database. Whoever"
            " can write there can put another; name the true one with --hub-key."
        )


def _says(one: Break) -> str:
    events = f"event {one.first}" if one.first == one.last else f"events {one.first} to {one.last}"
    match one.why:
        case Why.CHANGED:
            return f"{events}: not what the hub has signed; at least one was changed"
        case Why.MISSING:
            return f"{events}: missing, and not forgotten by the hub"
        case Why.SIGNATURE:
            return f"the checkpoint after event {one.last}: not signed by the hub's key"
        case Why.REDACTED:
            return f"{events}: what was said is gone, and the hub does not say that it took it out"
    assert_never(one.why)


class _Showing:
    """Says now and then how far the check is."""

    def __init__(self, screen: Screen, *, quiet: bool) -> None:
        self._screen = screen
        self._quiet = quiet
        self._shown_at = time.monotonic()

    def show(self, found: LogCheck) -> None:
        """Hears of each page."""
        now = time.monotonic()
        if not self._quiet and now - self._shown_at >= _SHOWN_EVERY_S:
            self._shown_at = now
            whole = found.head - found.first + 1
            self._screen.say(self._screen.style(f"{found.events} of {whole} events", "dim"))
