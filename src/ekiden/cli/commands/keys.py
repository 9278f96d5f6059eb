"""List, make and revoke keys. A new key is shown once. A revoked key's streams end within a second.

examples:
  ekiden keys
  ekiden keys make "nightly job" --kind agent --allow "session:*=read,steer"
  ekiden keys revoke key_4f9a
"""

import argparse

from ekiden.cli.place import add_door_options, door


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("what", nargs="?", choices=["list", "make", "revoke"], default="list")
    parser.add_argument("name", nargs="?", default="", help="of the new key; or id or name of the one to revoke")
    parser.add_argument(
        "--kind", default="agent", choices=["person", "agent", "device", "service", "host"], help="of the new key"
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="RESOURCE=VERB,VERB",
        help="what it may do (default: what is usual for its kind)",
    )
    parser.add_argument("--expires-at", default="", metavar="TIME", help="when it ends, as RFC 3339")
    parser.add_argument("--all", action="store_true", help="also keys that have ended")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Does it."""
    from ekiden.cli import key_list
    from ekiden.cli.screen import Screen

    screen = Screen()
    with door(options) as client:
        match options.what:
            case "make":
                return key_list.make(client, screen, options)
            case "revoke":
                return key_list.revoke(client, screen, options.name, as_json=options.json)
            case _:
                return key_list.show(client, screen, everything=options.all, as_json=options.json)
