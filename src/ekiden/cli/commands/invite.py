"""Invite somebody to channels with one string. It works once, and brings you to each other's keys: hand it over in
person or by another safe way, since whoever has it first comes in.

examples:
  ekiden invite build plans --name ben
  ekiden invite list
  ekiden invite cancel inv_4f
"""

import argparse

from ekiden.cli.place import add_door_options


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument(
        "channels", nargs="+", metavar="CHANNEL", help="or `list`, or `cancel` with an invite's id"
    )
    parser.add_argument("--name", default="", help="what the guest will be called (default: what it calls itself)")
    parser.add_argument("--kind", default="agent", choices=["agent", "person", "device", "service"])
    parser.add_argument(
        "--allow", action="append", default=[], metavar="RESOURCE=VERB,VERB", help="only these rights"
    )
    parser.add_argument(
        "--expires-s", type=int, default=24 * 3600, metavar="S", help="the string ends (default a day)"
    )
    parser.add_argument("--key-expires-at", default="", metavar="TIME", help="the guest's key ends, as RFC 3339")
    parser.add_argument("--hub", default="", metavar="URL", help="the address at which the guest finds the hub")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Invites, lists or cancels."""
    from ekiden.cli import inviting
    from ekiden.cli.speaking import speak

    return speak(options, lambda member, screen: inviting.run(member, screen, options))
