"""Delete messages of a channel for good, up to a number or a time. A note that the hub signs says which range went
and how many; what they said is gone from the log.

examples:
  ekiden purge build --before-number 100 --yes
  ekiden purge build --before 2030-01-01T00:00:00Z --yes
  ekiden purge build                        the notes of purges so far
"""

import argparse

from ekiden.cli.place import add_door_options, door


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("channel")
    parser.add_argument("--before-number", type=int, default=0, metavar="N", help="everything before this message")
    parser.add_argument("--before", default="", metavar="TIME", help="everything before this time, as RFC 3339")
    parser.add_argument("--yes", action="store_true", help="do it: it cannot be undone")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Purges, or lists the notes."""
    from ekiden.cli.screen import Screen, line_of
    from ekiden.cli.talk_places import channel_path
    from ekiden.kernel.errors import Invalid
    from ekiden.relay.wire_state import Purge, Purged, Purges

    screen = Screen()
    with door(options) as client:
        if not (options.before_number or options.before):
            path, after, purged = channel_path(options.channel, "/purges"), "", 0
            while True:
                page = client.get(path, type=Purges, after=after)
                for note in page.purges:
                    purged += 1
                    if options.json:
                        screen.data(note)
                        continue
                    screen.say(
                        f"#{note.first} to #{note.last}  {note.messages} messages  {line_of(note.at)}"
                        f"  by {line_of(note.by)}"
                    )
                after = page.next
                if not after:
                    break
            if not purged and not options.json:
                screen.say("Nothing was purged.")
            return 0
        if not options.yes:
            raise Invalid("This cannot be undone.", hint="Say it again with --yes.")
        body = Purge(options.before_number, options.before)
        notes: list[Purged] = []
        while True:
            done = client.post(channel_path(options.channel, "/purge"), body, type=Purges)
            notes += done.purges
            if not done.left or not done.purges:
                break
    if options.json:
        screen.data(Purges(tuple(notes), left=done.left))
    elif notes:
        gone = sum(note.messages for note in notes)
        screen.say(f"#{notes[0].first} to #{notes[-1].last} are gone: {gone} messages.")
    else:
        screen.say("There was nothing to purge.")
    return 0
