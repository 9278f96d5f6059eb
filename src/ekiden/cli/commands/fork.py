"""Make a new session with the history of this one. The old one stays as it is."""

import argparse

from ekiden.cli.place import add_door_options, door


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("session", help="id, beginning of an id, or part of a title")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Forks it."""
    from ekiden.cli.carried import print_carried
    from ekiden.cli.names import session_id_of, session_path
    from ekiden.cli.screen import Screen
    from ekiden.sessions.wire import Carried

    with door(options) as client:
        carried = client.post(session_path(session_id_of(client, options.session), "/fork"), type=Carried)
        print_carried(Screen(), carried, as_json=options.json)
    return 0
