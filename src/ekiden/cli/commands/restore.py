"""Put a backup in the place of the data. Ekiden must not run on it. What was there is kept beside it, under a name
with the time.

Clients that followed the old log notice by themselves that this is another one, and read everything anew.
"""

import argparse
from pathlib import Path

from ekiden.cli.place import add_database_option, add_home_option, database_url, home_of


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("file", type=Path, help="made by `ekiden backup`")
    add_home_option(parser)
    add_database_option(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Restores."""
    from ekiden.cli.keeping import restore
    from ekiden.cli.screen import Screen

    screen = Screen()
    done = restore(home_of(options), options.file.expanduser().absolute(), database_url(options))
    if options.json:
        screen.data(done)
        return 0
    screen.say(f"{done.home} now holds the backup.")
    if done.kept:
        screen.say(f"What was there before is in {done.kept}.")
    return 0
