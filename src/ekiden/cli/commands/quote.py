"""Start a new session that begins with an attributed extract of this one. The old one stays as it is.

examples:
  ekiden quote "retry loop" --vendor codex "review this"
  ekiden quote ses_8k3m --vendor claude --items itm_4f,itm_9a "is this right?"
"""

import argparse

from ekiden.cli.place import add_door_options, door


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("session", help="id, beginning of an id, or part of a title")
    parser.add_argument("text", nargs="*", help="put after the extract")
    parser.add_argument("--vendor", required=True, help="claude, codex or demo")
    parser.add_argument("--items", default="", metavar="ID,ID", help="item ids (default: the newest that fit)")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Quotes it."""
    from ekiden.cli.carried import print_carried
    from ekiden.cli.names import session_id_of, session_path
    from ekiden.cli.screen import Screen
    from ekiden.sessions.wire import Carried, Quote

    items = tuple(item for item in options.items.split(",") if item)
    with door(options) as client:
        body = Quote(vendor=options.vendor, message=" ".join(options.text), items=items)
        path = session_path(session_id_of(client, options.session), "/quote")
        print_carried(Screen(), client.post(path, body, type=Carried), as_json=options.json)
    return 0
