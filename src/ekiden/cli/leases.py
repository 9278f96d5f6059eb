"""Leases on the terminal."""

import argparse

from ekiden.cli.screen import Screen, line_of
from ekiden.cli.talk_places import channel_path
from ekiden.client.member import Member
from ekiden.kernel.errors import Invalid
from ekiden.relay.wire_state import Lease, Leases, TakeLease


async def run(member: Member, screen: Screen, options: argparse.Namespace) -> int:
    """Takes, renews, releases or lists."""
    channel: str = options.channel.removeprefix("#")
    if options.what == "list":
        page = await member.client.get(channel_path(channel, "/leases"), type=Leases)
        for lease in page.leases:
            _print(screen, lease, options)
        if not page.leases and not options.json:
            screen.say("No leases.")
        return 0
    if not options.lease:
        raise Invalid("Which lease?", hint=f"ekiden lease {options.what} CHANNEL NAME")
    if options.what != "take" and not options.fence:
        raise Invalid("With which fence?", hint="`ekiden lease take` said it: --fence N")
    if options.what == "release":
        lease = await member.release_lease(channel, options.lease, options.fence)
    else:
        wanted = TakeLease(options.seconds, options.fence if options.what == "renew" else 0, options.note)
        lease = await member.take_lease(channel, options.lease, wanted)
    if options.ticket and lease.ticket:
        screen.say(line_of(lease.ticket))
    else:
        _print(screen, lease, options)
    return 0


def _print(screen: Screen, lease: Lease, options: argparse.Namespace) -> None:
    if options.json:
        screen.data(lease)
        return
    name = screen.style(line_of(lease.name), "cyan")
    if not lease.held:
        screen.say(f"{name}  free; the last fence was {lease.fence}")
        return
    suspect = screen.style("  taken with a key that is not trusted any more", "red") if lease.suspect else ""
    note = f"  {line_of(lease.note)}" if lease.note else ""
    until = line_of(lease.expires_at)
    screen.say(f"{name}  {line_of(lease.holder)} until {until}, fence {lease.fence}{note}{suspect}")
    if lease.ticket:
        screen.say(f"  ticket {line_of(lease.ticket)}")
