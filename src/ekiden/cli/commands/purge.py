"""Delete messages of a channel for good, up to a number or a time. A note that the hub signs says which range went
and how many; what they said is gone from the log.

examples:
  ekiden purge build --before-number 100 --yes
  ekiden purge build --before 2030-01-01T00:00:00Z --yes
  ekiden purge build                        the notes of purges so far
"""

import argparse
from typing import TYPE_CHECKING

from ekiden.cli.place import add_door_options, door

if TYPE_CHECKING:
    from ekiden.relay.wire_state import Purged


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("channel")
    parser.add_argument("--before-number", type=int, default=0, metavar="N", help="everything before this message")
    parser.add_argument("--before", default="", metavar="TIME", help="everything before this time, as RFC 3339")
    parser.add_argument("--yes", action="store_true", help="do it: it cannot be undone")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Purges, or lists the notes."""
    from ekiden.cli.screen import Screen
    from ekiden.cli.talk_places import channel_path
    from ekiden.kernel.errors import Invalid
    from ekiden.relay.wire_state import Purge, Purges

    screen = Screen()
    with door(options) as client:
        if not (options.before_number or options.before):
            notes = client.get(channel_path(options.channel, "/purges"), type=Purges).purges
            if not notes and not options.json:
                screen.say("Nothing was purged.")
            for note in notes:
                if options.json:
                    screen.data(note)
                else:
                    screen.say(_line(note))
            return 0
        if not options.yes:
            raise Invalid("This cannot be undone.", hint="Say it again with --yes.")
        body = Purge(options.before_number, options.before)
        while True:
            # Each piece has a note of its own; a large purge takes several requests.
            done = client.post(channel_path(options.channel, "/purge"), body, type=Purges)
            for note in done.purges:
                if options.json:
                    screen.data(note)
                else:
                    screen.say(_line(note))
            if not done.left or not done.purges:
                return 0


def _line(note: "Purged") -> str:
    """A note of a purge."""
    from ekiden.cli.screen import line_of

    count = f"{note.messages} message{'s' * (note.messages != 1)}"
    return f"#{note.first} to #{note.last} are gone: {count}, {line_of(note.at)}, by {line_of(note.by)}"
