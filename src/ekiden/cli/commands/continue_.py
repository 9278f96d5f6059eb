"""Continue a session here and talk to it. Shows the answer as it grows, asks you what it asks, and ends with the
turn. Ctrl-C stops the turn.

Without TEXT on a terminal it goes on asking for the next message until Ctrl-D; from a pipe it reads one message.
A session that a live process outside Ekiden writes is not touched: `fork` and `quote` are offered instead.

examples:
  ekiden continue "retry loop" "now add a test for it"
  echo "and the docs" | ekiden continue ses_8k3m
"""

import argparse

from ekiden.cli.place import add_door_options, door


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("session", help="id, beginning of an id, or part of a title")
    parser.add_argument("text", nargs="*", help="the message")
    parser.add_argument("--steer", action="store_true", help="add it to the running turn, where the vendor can")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Takes the session over and talks."""
    from ekiden.cli.names import session_id_of, session_path, view_of
    from ekiden.sessions.wire import Carried, Rung

    with door(options) as client:
        view = view_of(client, session_id_of(client, options.session))
        session_id = view.session.report.session_id
        if view.session.report.rung is not Rung.OWNED:
            carried = client.post(session_path(session_id, "/continue"), type=Carried)
            view = view_of(client, carried.session_id)
        from ekiden.cli.talk import talk

        return talk(client, view, " ".join(options.text), steer=options.steer, as_json=options.json)
