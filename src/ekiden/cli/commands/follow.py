"""Show a session live: its newest items, then everything that comes, text as it grows. Ctrl-C ends it.

With --json each frame of the stream is a line.
"""

import argparse

from ekiden.cli.place import add_door_options, door


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("session", help="id, beginning of an id, or part of a title")
    parser.add_argument(
        "--limit", type=int, default=5, metavar="N", help="items before now (default 5, 0 for none)"
    )
    parser.add_argument("--until-idle", action="store_true", help="end with the running turn")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Follows until Ctrl-C, or until the turn ends."""
    from ekiden.cli.exit_codes import BREAK, OK
    from ekiden.cli.live import LivePrinter, print_approval
    from ekiden.cli.names import session_path, view_of
    from ekiden.cli.screen import Screen
    from ekiden.cli.session_header import print_header
    from ekiden.sessions.wire import ItemPage, SessionState

    screen = Screen()
    with door(options) as client:
        view = view_of(client, options.session)
        session_id = view.session.report.session_id
        printer = LivePrinter(screen)
        if not options.json:
            print_header(screen, view)
            if options.limit > 0:
                page = client.get(session_path(session_id, "/items"), type=ItemPage, limit=options.limit)
                for item in page.items:
                    printer.item(item)
            for approval in view.approvals:
                if approval.state == "open":
                    print_approval(screen, approval)
        busy = view.session.state in (SessionState.RUNNING, SessionState.WAITING)
        if options.until_idle and not busy:
            return OK
        try:
            for frame in client.stream((f"session:{session_id}",), view.cursor):
                if options.json:
                    screen.data(frame)
                else:
                    printer.take(frame)
                if options.until_idle and frame.kind == "turn.changed" and b'"running"' not in bytes(frame.body):
                    return OK
        except KeyboardInterrupt:
            screen.say()
            return BREAK
    return OK
