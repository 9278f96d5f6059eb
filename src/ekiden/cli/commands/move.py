"""Copy the log into a database of Postgres, or back into a file, while Ekiden is stopped.

The source is left as it is. A move that was ended goes on where it was when it is run again. At the end all rows
are counted and compared; until then no hub opens the copy.

examples:
  ekiden move --to postgresql://ekiden@db/ekiden
  EKIDEN_DATABASE_URL=postgresql://ekiden:…@db/ekiden ekiden move     a password is seen by nobody there
  ekiden move --from postgresql://ekiden@db/ekiden --to ~/ekiden      into the file ekiden.db in that folder
"""

import argparse

from ekiden.cli.place import add_home_option


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("--to", default="", metavar="WHERE", help="postgresql://… or a folder")
    parser.add_argument(
        "--from", dest="source", default="", metavar="WHERE", help="the same (default: the data folder)"
    )
    add_home_option(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Moves."""
    from ekiden.cli.moving import run_move

    return run_move(options)
