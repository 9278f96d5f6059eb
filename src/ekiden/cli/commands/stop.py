"""Interrupt the turn that runs in a session. A turn that began since is left alone."""

import argparse

from ekiden.cli.place import add_door_options, door


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("session", help="id, beginning of an id, or part of a title")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Asks the turn to stop."""
    from ekiden.cli.names import session_path, view_of
    from ekiden.cli.screen import Screen
    from ekiden.kernel.errors import Conflict
    from ekiden.sessions.wire import Interrupt, SessionState

    screen = Screen()
    with door(options) as client:
        session = view_of(client, options.session).session
        turn_id = session.report.turn_id
        if session.state not in (SessionState.RUNNING, SessionState.WAITING) or not turn_id:
            raise Conflict("No turn runs in this session.", state=str(session.state))
        client.post(session_path(session.report.session_id, "/interrupt"), Interrupt(turn_id))
        if options.json:
            screen.data({"session_id": session.report.session_id, "turn_id": turn_id})
        else:
            screen.say("The turn is asked to stop.")
    return 0
