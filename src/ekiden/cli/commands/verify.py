"""Check with no hub: an export, or with --log the whole log of a hub that runs or is stopped.

Of an export it says who signed what, in which order, whether anything is missing, edited or purged. What was
withheld after the last message that is shown cannot be seen. Of the log it says whether events were changed or
taken out behind the hub, up to its newest checkpoint; it only reads. The hub's key is the one that is pinned on
this computer for the team, or --hub-key. Exit code 15 if something is not as it was said.

examples:
  ekiden verify build.export
  ekiden verify build.export --hub-key KEY --json
  ekiden verify --log
"""

import argparse
from pathlib import Path

from ekiden.cli.place import add_database_option, add_home_option


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("file", type=Path, nargs="?", help="what `ekiden export` wrote")
    parser.add_argument("--log", action="store_true", help="check the log in the data folder, or in --database")
    parser.add_argument("--hub-key", default="", metavar="KEY", help="the hub's key, base64url")
    parser.add_argument("--json", action="store_true", help="print JSON, one value to a line")
    add_home_option(parser)
    add_database_option(parser)


def run(options: argparse.Namespace) -> int:
    """Checks.

    Raises:
        Invalid: if not exactly one of the two is named.
    """
    from ekiden.cli import exports, log_checking
    from ekiden.kernel.errors import Invalid

    if options.log == (options.file is not None):
        raise Invalid("What is to be checked?", hint="ekiden verify FILE, or: ekiden verify --log")
    return log_checking.check(options) if options.log else exports.check(options)
