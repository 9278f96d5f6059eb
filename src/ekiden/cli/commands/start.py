"""Start a new session in a folder.

examples:
  ekiden start . "list what is here" --vendor claude
  ekiden start /tmp "plan, then ask" --vendor demo
"""

import argparse
from pathlib import Path

from ekiden.cli.place import add_door_options, door


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("folder", help="where the agent works")
    parser.add_argument("text", nargs="*", help="the first message")
    parser.add_argument("--vendor", required=True, help="claude, codex or demo")
    parser.add_argument("--model", default="", help="the vendor's default if not given")
    parser.add_argument(
        "--host", default="", metavar="NAME", help="the computer to run it on, if there are several"
    )
    parser.add_argument("--no-wait", action="store_true", help="print the session's id and return at once")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Starts it, and shows its first turn."""
    from ekiden.cli.hosts import host_named
    from ekiden.cli.names import view_of
    from ekiden.cli.screen import Screen
    from ekiden.cli.talk import talk, text_from_input
    from ekiden.sessions.wire import Carried, StartSession

    text = text_from_input(" ".join(options.text)) if not options.no_wait else " ".join(options.text)
    with door(options) as client:
        host = host_named(client, options.host)
        # A folder of another computer is not looked up here: only `.` and `~` mean this one's.
        folder = (
            options.folder if options.folder.startswith("/") else str(Path(options.folder).expanduser().resolve())
        )
        first = text if options.no_wait else ""
        body = StartSession(
            host_id=host.host_id, vendor=options.vendor, cwd=folder, message=first, model=options.model
        )
        carried = client.post("/v1/sessions", body, type=Carried)
        if options.no_wait:
            screen = Screen()
            if options.json:
                screen.data(carried)
            else:
                screen.say(carried.session_id)
            return 0
        return talk(client, view_of(client, carried.session_id), text, steer=False, as_json=options.json)
