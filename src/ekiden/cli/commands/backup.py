"""Write a consistent copy of Ekiden's data into a new file, also while it runs.

The file holds the hub's database and this computer's (its index, and copies of what vendors deleted). The native
session files of Claude Code and Codex are theirs and are not in it. Keys are in it as hashes only; keep it private
all the same, since it holds text of your sessions.
"""

import argparse
from pathlib import Path

from ekiden.cli.place import add_database_option, add_home_option, database_url, home_of


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("file", type=Path, help="must not exist yet")
    add_home_option(parser)
    add_database_option(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Backs up."""
    from ekiden.cli.keeping import back_up
    from ekiden.cli.screen import Screen

    screen = Screen()
    made = back_up(home_of(options), options.file.expanduser().absolute(), database_url(options))
    if options.json:
        screen.data(made)
    else:
        screen.say(f"{made.file}: {made.size / 1e6:.1f} MB, {', '.join(made.holds)}")
    return 0
