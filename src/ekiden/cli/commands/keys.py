"""List, make, narrow, rotate and revoke keys; explain a refusal. A new key is shown once. A revoked key's streams
end within a second.

`narrow` makes a key for a sub-agent: at most your own rights, and it ends with your key. `revoke --since` also
marks what the key wrote after that time, and puts status values back to the last that a trusted key wrote.

examples:
  ekiden keys
  ekiden keys make "nightly job" --kind agent --allow "session:*=read,steer"
  ekiden keys narrow "reviewer" --allow "channel:build=read,post"
  ekiden keys permissions reviewer --allow "channel:build=read"
  ekiden keys explain reviewer post channel:build
  ekiden keys rotate key_4f9a --overlap-s 600
  ekiden keys revoke key_4f9a --since 2030-01-01T12:00:00Z
"""

import argparse

from ekiden.cli.place import add_door_options, door

_VERBS = ["list", "make", "narrow", "rotate", "revoke", "permissions", "explain"]


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("what", nargs="?", choices=_VERBS, default="list")
    parser.add_argument("name", nargs="?", default="", help="of the new key; or id or name of an old one")
    parser.add_argument("verb", nargs="?", default="", help="of explain: what it would do")
    parser.add_argument("resource", nargs="?", default="", help="of explain: on what")
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
    parser.add_argument("--allow-nothing", action="store_true", help="of permissions: the empty map")
    parser.add_argument(
        "--overlap-s", type=int, default=600, metavar="S", help="of rotate: the old key goes on so long"
    )
    parser.add_argument(
        "--since",
        default="",
        metavar="TIME",
        help="of revoke: distrust what it wrote since (RFC 3339, or `always`)",
    )
    parser.add_argument("--all", action="store_true", help="also keys that have ended")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Does it."""
    from ekiden.cli import key_list
    from ekiden.cli.screen import Screen

    screen = Screen()
    with door(options) as client:
        match options.what:
            case "make" | "narrow":
                return key_list.make(client, screen, options)
            case "revoke":
                return key_list.revoke(client, screen, options.name, since=options.since, as_json=options.json)
            case "rotate":
                return key_list.rotate(
                    client, screen, options.name, overlap_s=options.overlap_s, as_json=options.json
                )
            case "permissions":
                return key_list.change(client, screen, options)
            case "explain":
                return key_list.explain(client, screen, options)
            case _:
                return key_list.show(client, screen, everything=options.all, as_json=options.json)
