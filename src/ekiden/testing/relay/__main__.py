"""The kit on the command line: a line for each check, and exit code 1 if any fails."""

import argparse
import sys
from pathlib import Path

from ekiden.testing.relay import CHECKS, run


def main() -> int:
    """Runs the kit as the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m ekiden.testing.relay", description=__doc__)
    parser.add_argument("url", nargs="?", help="the relay's address, like http://127.0.0.1:7433")
    parser.add_argument("--key-file", type=Path, help="a file with an owner's key")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="only this check; may be repeated"
    )
    parser.add_argument("--list", action="store_true", help="say what is checked, and check nothing")
    told = parser.parse_args()
    if told.list:
        for check in CHECKS:
            sys.stdout.write(f"{check.name}\n    {check.promise}\n")
        return 0
    if not told.url or not told.key_file:
        parser.error("an address and --key-file are needed")
    tried = failed = 0
    for outcome in run(told.url, told.key_file.read_text().strip(), only=told.only):
        tried += 1
        sys.stdout.write(f"{'FAILED' if outcome.problem else 'ok    '} {outcome.check.name}\n")
        if outcome.problem:
            failed += 1
            sys.stdout.write(f"       {outcome.check.promise}\n       {outcome.problem}\n")
    sys.stdout.write(f"{failed} of {tried} failed\n" if failed else "All hold.\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
