"""Who took note of a message, and who not; and how each that it mentions got it.

examples:
  ekiden who-acked build 12
"""

import argparse

from ekiden.cli.place import add_door_options, door


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("channel")
    parser.add_argument("message", help="its number or id")
    parser.add_argument("--after", default="", metavar="CURSOR", help="`next` of the page before")
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="how many (default 50)")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Prints who lags."""
    from ekiden.cli.message_text import print_deliveries
    from ekiden.cli.screen import Screen, line_of
    from ekiden.cli.talk_places import channel_path, message_id_of
    from ekiden.relay.wire import Laggards

    screen = Screen()
    with door(options) as client:
        message_id = message_id_of(client, options.channel, options.message)
        found = client.get(
            channel_path(options.channel, "/acks"),
            type=Laggards,
            message=message_id,
            after=options.after,
            limit=options.limit,
        )
    if options.json:
        screen.data(found)
        return 0
    screen.say(f"#{found.number}: {found.acked} of {found.members} members have acked.")
    print_deliveries(screen, found.deliveries)
    for receipt in found.lagging:
        screen.say(f"  {line_of(receipt.name)} lags: acked to #{receipt.acked_to}")
    if found.next:
        screen.say(screen.style(f"more: --after {line_of(found.next)}", "dim"))
    return 0
