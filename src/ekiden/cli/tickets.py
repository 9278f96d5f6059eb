"""Checking a lease's ticket with no hub: only the pinned key of the hub is needed."""

import argparse
import sys
import time
from pathlib import Path

from ekiden.cli.place import home_of
from ekiden.cli.screen import Screen, line_of
from ekiden.client.pins import pinned_hub_keys
from ekiden.crypto import tickets
from ekiden.crypto.keys import KEY_BYTES, read
from ekiden.kernel.clock import iso
from ekiden.kernel.errors import NotFound


def check(options: argparse.Namespace) -> int:
    """Prints what a good ticket says.

    Raises:
        TicketRefused: if it is not good.
        NotFound: if no hub was met from this data folder.
    """
    text = sys.stdin.read() if options.channel == "-" else options.channel
    ticket = tickets.check(
        text,
        _hub_key(home_of(options), text),
        now=iso(time.time()),
        name=options.name,
        channel=options.in_channel.removeprefix("#"),
        at_least=options.at_least,
    )
    screen = Screen()
    if options.json:
        screen.data(ticket)
    else:
        screen.say(
            f"{line_of(ticket.holder_name)} holds {line_of(ticket.name)} in {line_of(ticket.channel_name)}"
            f" until {line_of(ticket.expires_at)}, fence {ticket.fence}."
        )
    return 0


def _hub_key(home: Path, text: str) -> bytes:
    """The pinned key of the hub that the ticket says it is of; whether it is, its signature shows."""
    keys = pinned_hub_keys(home, tickets.team_named(text))
    if not keys:
        raise NotFound(
            "No hub is pinned on this computer for this ticket.",
            hint="Meet it once with `ekiden identity`; it needs no connection from then on.",
        )
    if len(keys) > 1:
        raise NotFound("Several keys of this hub are pinned here.", hint="`ekiden trust` shows them.")
    return read(keys.pop(), KEY_BYTES)
