"""Let a phone or another browser in: shows a code, a link and a QR code, then the device that came, with words to
compare, and asks you. Nothing is let in that you do not confirm here.
"""

import argparse

from ekiden.cli.place import add_door_options, door


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("--name", default="", help="what the device will be called")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--here", action="store_true", help="a link for a browser on this computer, without asking")
    what.add_argument("--confirm", metavar="ID", help="let the device that waits in")
    what.add_argument("--deny", metavar="ID", help="do not let it in")
    parser.add_argument("--no-qr", action="store_true", help="no QR code")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Opens a pairing and waits for its device."""
    from ekiden.cli.pairing import answer, link_for_here, pair

    with door(options) as client:
        if options.here:
            return link_for_here(client, as_json=options.json)
        if options.confirm or options.deny:
            return answer(client, options.confirm or options.deny, yes=bool(options.confirm), as_json=options.json)
        return pair(client, name=options.name, qr=not options.no_qr, as_json=options.json)
