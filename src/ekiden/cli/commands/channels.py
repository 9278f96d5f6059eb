"""List channels and make them; change, archive and delete them; say who is in them; join and leave.

`--encrypted`, `--private` and `--signed` are fixed when a channel is made.

examples:
  ekiden channels
  ekiden channels make build --topic "what is built and why it broke"
  ekiden channels make plans --encrypted --private
  ekiden channels members build
  ekiden channels join build --role reviewer
  ekiden channels change build --keep-days 30 --keep-count 10000
"""

import argparse

from ekiden.cli.place import add_door_options, door

_VERBS = ["list", "make", "show", "change", "archive", "reopen", "delete", "members", "join", "leave"]


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("what", nargs="?", choices=_VERBS, default="list")
    parser.add_argument("channel", nargs="?", default="", help="name or id")
    parser.add_argument("--topic", default=None, help="what it is for")
    parser.add_argument("--encrypted", action="store_true", help="only its members can read it, not the hub")
    parser.add_argument("--private", action="store_true", help="only keys that name it know of it")
    parser.add_argument("--signed", action="store_true", help="unsigned messages and status are refused")
    parser.add_argument(
        "--keep-days", type=float, default=None, metavar="DAYS", help="purge what is older; 0: never"
    )
    parser.add_argument("--keep-count", type=int, default=None, metavar="N", help="keep the newest N; 0: all")
    parser.add_argument("--hold", choices=["on", "off"], help="legal hold: nothing is purged, edited or deleted")
    parser.add_argument(
        "--member", default="me", metavar="PRINCIPAL", help="of join and leave: somebody else's id"
    )
    parser.add_argument("--role", default="", help="of join: what @role:NAME calls")
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="how many (default 100)")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Does it."""
    from ekiden.cli import channel_list
    from ekiden.cli.screen import Screen
    from ekiden.kernel.errors import Invalid

    screen = Screen()
    if options.what != "list" and not options.channel:
        raise Invalid("Which channel?", hint=f"ekiden channels {options.what} NAME")
    with door(options) as client:
        match options.what:
            case "list":
                return channel_list.show_all(client, screen, limit=options.limit, as_json=options.json)
            case "make":
                return channel_list.make(client, screen, options)
            case "members":
                return channel_list.show_members(client, screen, options)
            case "join" | "leave":
                return channel_list.join_or_leave(client, screen, options)
            case _:
                return channel_list.one(client, screen, options)
