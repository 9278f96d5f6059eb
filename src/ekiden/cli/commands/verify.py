"""Check an export with no hub: who signed what, in which order, whether anything is missing, edited or purged.

The hub's key is the one that is pinned on this computer for the team, or --hub-key. Exit code 15 if something is
not as it was said. What was withheld after the last message that is shown cannot be seen.

examples:
  ekiden verify build.export
  ekiden verify build.export --hub-key KEY --json
"""

import argparse
from pathlib import Path

from ekiden.cli.place import add_home_option


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("file", type=Path, help="what `ekiden export` wrote")
    parser.add_argument("--hub-key", default="", metavar="KEY", help="the hub's key, base64url")
    parser.add_argument("--json", action="store_true", help="print JSON, one value to a line")
    add_home_option(parser)


def run(options: argparse.Namespace) -> int:
    """Checks."""
    from ekiden.cli import exports

    return exports.check(options)
