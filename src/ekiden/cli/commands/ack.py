"""Say that you took note of messages, or decline what was asked. It wakes nobody.

examples:
  ekiden ack build --upto 12
  ekiden ack build 9 11
  ekiden ack build 11 --decline "not before Monday"
"""

import argparse

from ekiden.cli.place import add_door_options, door


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("channel")
    parser.add_argument("messages", nargs="*", help="single messages: numbers or ids")
    parser.add_argument("--upto", type=int, default=0, metavar="N", help="everything up to this number")
    parser.add_argument("--decline", default="", metavar="REASON", help="say no, and why")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Acks or declines."""
    from ekiden.cli.screen import Screen, line_of
    from ekiden.cli.talk_places import channel_path, message_id_of
    from ekiden.kernel.errors import Invalid
    from ekiden.relay.wire import Ack, Receipt

    if not options.upto and not options.messages:
        raise Invalid("What did you take note of?", hint="ekiden ack CHANNEL --upto N, or MESSAGE…")
    screen = Screen()
    with door(options) as client:
        named = tuple(message_id_of(client, options.channel, name) for name in options.messages)
        receipt = client.post(
            channel_path(options.channel, "/acks"),
            Ack(options.upto, named, bool(options.decline), options.decline),
            type=Receipt,
        )
    if options.json:
        screen.data(receipt)
        return 0
    also = ", ".join(f"#{low}" if low == high else f"#{low} to #{high}" for low, high in receipt.also)
    beside = f", and {also}" if also else ""
    screen.say(f"Acked in {line_of(options.channel)}: all up to #{receipt.acked_to}{beside}.")
    return 0
