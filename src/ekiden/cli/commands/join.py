"""Come in by an invite: get a key, keep it on this computer, and meet the inviter's keys and the hub's.

The key goes into `local.key` of the data folder and the hub's address into `hub.url`, so that all commands find
them; a data folder that has a key already is left alone (name another with --home). `-` reads the invite from
standard input, where other processes do not see it.

examples:
  ekiden join eki1.… --name ben
  ekiden join - --home ~/guest
"""

import argparse

from ekiden.cli.place import add_home_option


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("invite", help="the string, or `-` to read it from standard input")
    parser.add_argument("--name", default="", help="what you are called, if the inviter has not said it")
    parser.add_argument("--url", default="", metavar="URL", help="another address of the hub than the invite's")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_home_option(parser)


def run(options: argparse.Namespace) -> int:
    """Joins."""
    from ekiden.cli.inviting import join

    return join(options)
