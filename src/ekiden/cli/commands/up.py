"""Start the hub and this computer's host in one process, and print a link that opens the page signed in, once.

Everything stays on this computer: the hub listens on 127.0.0.1 only. With --lan it listens for other devices in
your network as well. Ctrl-C ends it; sessions and what waits are kept.

examples:
  ekiden up
  ekiden up --lan            with a QR code for a phone
  ekiden up --port 8000
  EKIDEN_DATABASE_URL=postgresql://ekiden@db/ekiden ekiden up
"""

import argparse

from ekiden.cli.place import add_database_option, add_home_option


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    add_home_option(parser)
    parser.add_argument("--port", type=int, metavar="N", help="port of the page (default 7433, or a free one)")
    parser.add_argument("--lan", action="store_true", help="listen for devices in the local network too")
    parser.add_argument("--url", default="", metavar="URL", help="what people open, if a proxy stands before it")
    add_database_option(parser)
    parser.add_argument("--no-host", action="store_true", help="the hub only; hosts connect from elsewhere")
    parser.add_argument(
        "--open", action=argparse.BooleanOptionalAction, help="open the page in a browser (default: on a terminal)"
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON when ready")


def run(options: argparse.Namespace) -> int:
    """Runs until Ctrl-C."""
    from ekiden.cli.running import run_up

    return run_up(options)
