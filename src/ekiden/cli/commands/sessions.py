"""List sessions, or search in all of them.

examples:
  ekiden sessions                       the newest
  ekiden sessions --project .           those of this folder
  ekiden sessions search "retry loop"   in the text of all sessions
"""

import argparse
from pathlib import Path

from ekiden.cli.place import add_door_options, door


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument(
        "what", nargs="?", choices=["list", "search"], default="list", help="list (default) or search"
    )
    parser.add_argument(
        "text", nargs="*", help="words: to find in a title, folder or first prompt; or to search for"
    )
    parser.add_argument("--vendor", help="only sessions of this vendor: claude, codex, demo")
    parser.add_argument("--project", metavar="FOLDER", help="only sessions of this folder")
    parser.add_argument("--state", help="only sessions in this state: idle, running, waiting, lost, gone")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="how many (default 20)")
    parser.add_argument("--all", action="store_true", help="all of them, page after page")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Lists or searches."""
    from ekiden.cli.screen import Screen

    text = " ".join(options.text)
    screen = Screen()
    with door(options) as client:
        if options.what == "search":
            from ekiden.cli.session_list import search

            return search(client, screen, text, limit=options.limit, as_json=options.json)
        from ekiden.cli.session_list import list_sessions

        project = str(Path(options.project).expanduser().absolute()) if options.project else ""
        wanted = {"vendor": options.vendor, "project": project, "state": options.state, "text": text}
        return list_sessions(
            client, screen, wanted, limit=options.limit, everything=options.all, as_json=options.json
        )
