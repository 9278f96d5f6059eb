"""Connect this computer to a hub that runs elsewhere: its sessions are found, followed and carried on from there.

The key comes from EKIDEN_KEY, or from `host.key` in the data folder; make one at the hub with
`ekiden keys make NAME --kind host`.
"""

import argparse

from ekiden.cli.place import add_home_option


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("url", metavar="URL", help="the hub's address")
    parser.add_argument(
        "--host-id", default="", metavar="ID", help="this computer's id at the hub, the first time"
    )
    parser.add_argument("--name", default="", help="what this computer is called (default: its host name)")
    add_home_option(parser)


def run(options: argparse.Namespace) -> int:
    """Runs until Ctrl-C."""
    from ekiden.cli.running import run_host

    return run_host(options)
