"""Who was given, refused or lost which right: keys, pairings, invites, refusals. Newest first.

examples:
  ekiden audit
  ekiden audit --limit 200 --json
"""

import argparse

from ekiden.cli.place import add_door_options, door


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("--limit", type=int, default=40, metavar="N", help="how many (default 40)")
    parser.add_argument("--before", default="", metavar="CURSOR", help="older than this")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Prints them."""
    from ekiden.access.routes import Audit
    from ekiden.cli.screen import Screen, line_of
    from ekiden.cli.session_list import age_of

    screen = Screen()
    with door(options) as client:
        page = client.get("/v1/audit", type=Audit, limit=options.limit, before=options.before)
    if options.json:
        for line in page.lines:
            screen.data(line)
        return 0
    screen.table(
        [
            (
                age_of(line.at),
                line_of(line.kind),
                line_of(line.actor.get("name") or line.actor.get("id") or "the hub"),
                line_of(_words(bytes(line.body))),
            )
            for line in page.lines
        ],
        styles=[("dim",), ("cyan",), ("bold",), ()],
    )
    if page.next:
        screen.say(screen.style(f"older: --before {line_of(page.next)}", "dim"))
    return 0


def _words(body: bytes) -> str:
    """A line's body as words; it is shown, never interpreted."""
    import msgspec

    named = msgspec.json.decode(body, type=dict[str, object])
    return ", ".join(f"{name}: {value}" for name, value in named.items() if value not in ("", None, [], {}))
