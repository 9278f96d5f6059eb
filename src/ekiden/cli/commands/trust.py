"""Whose keys are trusted here. Names show a code that both sides see alike if each has the other's true keys:
compare it by voice or in person, then accept.

examples:
  ekiden trust
  ekiden trust ben
  ekiden trust ben --accept mky_4f…
  ekiden trust --hub-key KEY        the hub's key has changed, and who runs it says so
"""

import argparse

from ekiden.cli.place import add_door_options


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("name", nargs="?", default="", help="a member: name or id")
    parser.add_argument(
        "--accept", default="", metavar="KEY", help="trust this member key (mky_…) after comparing"
    )
    parser.add_argument("--hub-key", default="", metavar="KEY", help="trust this key of the hub from now on")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Shows or accepts."""
    from ekiden.cli import trusting
    from ekiden.cli.speaking import speak

    if options.hub_key:
        return speak(options, lambda member, screen: trusting.accept_hub(member, screen, options))
    return speak(options, lambda member, screen: trusting.trust(member, screen, options))
