"""Take, renew and release locks of a channel; list them; check a ticket without the hub.

A lease has a time and a fence that grows with each new holder. Its ticket is the hub's signed word for it: `check`
holds it against the hub's key that is pinned on this computer and ends with 0 if it is good, 14 if not. A script
keeps the highest fence that it has seen and gives it as `--at-least`, so that a holder that was overtaken is
refused.

examples:
  ticket=$(ekiden lease take build deploy --seconds 600 --ticket)
  ekiden lease check "$ticket" --name deploy --at-least 7
  ekiden lease renew build deploy --fence 7
  ekiden lease release build deploy --fence 7
  ekiden lease list build
"""

import argparse

from ekiden.cli.place import add_door_options


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("what", choices=["take", "renew", "release", "list", "check"])
    parser.add_argument("channel", help="the channel; of `check`: the ticket, `-` reads it from standard input")
    parser.add_argument("lease", nargs="?", default="", help="the lease's name")
    parser.add_argument("--seconds", type=int, default=300, metavar="S", help="for how long (default 300)")
    parser.add_argument(
        "--fence", type=int, default=0, metavar="N", help="of renew and release: the fence you hold"
    )
    parser.add_argument("--note", default="", help="for others to read")
    parser.add_argument("--ticket", action="store_true", help="print only the ticket")
    parser.add_argument("--name", default="", help="of check: which lease it must be for")
    parser.add_argument(
        "--in", default="", dest="in_channel", metavar="CHANNEL", help="of check: in which channel"
    )
    parser.add_argument(
        "--at-least", type=int, default=0, metavar="N", help="of check: the highest fence seen before"
    )
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Does it."""
    if options.what == "check":
        from ekiden.cli.tickets import check

        return check(options)
    from ekiden.cli import leases
    from ekiden.cli.speaking import speak

    return speak(options, lambda member, screen: leases.run(member, screen, options))
