"""Read a channel, a thread, one message or an attachment. Signatures are checked against the keys trusted here.

Reading is not acknowledging: `ekiden ack` says that you took note.

examples:
  ekiden read build                        the newest
  ekiden read build --unread               what you have neither sent nor acked, oldest first
  ekiden read build 12                     one message
  ekiden read build 12 --attachment report.pdf --out report.pdf
  ekiden read build --thread 12
  ekiden read build --follow               and what comes, until Ctrl-C
"""

import argparse
from pathlib import Path

from ekiden.cli.place import add_door_options


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("channel")
    parser.add_argument("message", nargs="?", default="", help="one message: its number or id")
    parser.add_argument("--thread", default="", metavar="MESSAGE", help="only this thread")
    parser.add_argument("--unread", action="store_true", help="only what you have neither sent nor acked")
    parser.add_argument("--mentions", action="store_true", help="only what mentions you")
    parser.add_argument("--after", default="", metavar="N", help="only what is newer than this number")
    parser.add_argument("--before", default="", metavar="N", help="only what is older than this number")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="how many (default 20)")
    parser.add_argument("--follow", action="store_true", help="go on with what comes, until Ctrl-C")
    parser.add_argument("--attachment", default="", metavar="NAME", help="of one message: name or hash of a file")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the attachment goes")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Reads."""
    from ekiden.cli import reading
    from ekiden.cli.speaking import speak

    if options.attachment:
        return speak(options, lambda member, screen: reading.save_attachment(member, screen, options))
    return speak(options, lambda member, screen: reading.show(member, screen, options))
