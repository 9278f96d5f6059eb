"""Write a channel or a thread to a file that `ekiden verify` checks with no hub: one page of JSON a line.

Of an encrypted channel the texts stay sealed in it.

examples:
  ekiden export build --out build.export
  ekiden export build --thread 12 --out thread.export
"""

import argparse
from pathlib import Path

from ekiden.cli.place import add_door_options


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("channel")
    parser.add_argument("--thread", default="", metavar="MESSAGE", help="only this thread")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where it goes (default: standard output)")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Exports."""
    from ekiden.cli import exports
    from ekiden.cli.place import door

    with door(options) as client:
        return exports.write(client, options)
