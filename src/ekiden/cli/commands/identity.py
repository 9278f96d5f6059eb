"""Your member keys: the one of this computer, and others of yours that the directory has.

examples:
  ekiden identity
  ekiden identity vouch mky_4f…    another computer of yours is good: its key is trusted where this one is
  ekiden identity end mky_4f…      it is lost, or not used any more
"""

import argparse

from ekiden.cli.place import add_door_options


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("what", nargs="?", choices=["show", "vouch", "end"], default="show")
    parser.add_argument("key", nargs="?", default="", help="of vouch and end: the id of a member key of yours")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Shows, vouches or ends."""
    from ekiden.cli import trusting
    from ekiden.cli.speaking import speak

    return speak(options, lambda member, screen: trusting.identity(member, screen, options))
