"""Show a session's items, the newest at the end.

examples:
  ekiden show ses_8k3m              the newest items
  ekiden show "retry loop" --all    the whole session
  ekiden show ses_8k3m --raw        lines of the native file as they are
"""

import argparse

from ekiden.cli.place import add_door_options, door


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("session", help="id, beginning of an id, or part of a title")
    parser.add_argument("--limit", type=int, default=30, metavar="N", help="how many items (default 30)")
    parser.add_argument("--all", action="store_true", help="from the beginning")
    parser.add_argument("--whole", action="store_true", help="do not shorten tool output")
    parser.add_argument("--injected", action="store_true", help="also what the program put in by itself")
    parser.add_argument("--raw", action="store_true", help="lines of the native file")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Prints the items."""
    from ekiden.cli.items_text import print_item
    from ekiden.cli.names import session_path, view_of
    from ekiden.cli.screen import Screen, line_of, visible
    from ekiden.cli.session_header import print_header
    from ekiden.kernel.limits import PAGE_ROWS_MAX
    from ekiden.sessions.wire import ItemPage, RawPage
    from ekiden.transcript.items import Item

    screen = Screen()
    with door(options) as client:
        view = view_of(client, options.session)
        path = session_path(view.session.report.session_id)
        if options.raw:
            page = client.get(path + "/raw", type=RawPage, limit=options.limit)
            for line in page.lines:
                if options.json:
                    screen.data(line)
                else:
                    cut = f" … {line.cut_bytes} more bytes" if line.cut_bytes else ""
                    screen.say(f"{line.line or line.start:>8}  {visible(line.text, lines=False)}{cut}")
            return 0
        items: list[Item] = []
        before = ""
        while True:
            rows = PAGE_ROWS_MAX if options.all else max(1, min(options.limit - len(items), PAGE_ROWS_MAX))
            page = client.get(path + "/items", type=ItemPage, limit=rows, before=before)
            items[:0] = page.items
            before = page.before
            if not before or (len(items) >= options.limit and not options.all):
                break
        shown = [item for item in items if options.injected or not item.injected]
        if options.json:
            for item in shown:
                screen.data(item)
            return 0
        print_header(screen, view)
        if before:
            screen.say(screen.style("… there is more before this; --all shows it\n", "dim"))
        for item in shown:
            print_item(screen, item, whole=options.whole)
        for notice in page.notices:
            screen.say(screen.style(line_of(notice), "yellow"))
        if page.from_copy:
            screen.say(
                screen.style("The native file is gone; this is the copy that this computer kept.", "yellow")
            )
    return 0
