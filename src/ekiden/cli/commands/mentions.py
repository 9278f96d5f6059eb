"""What waits for you in channels: mentions, what was asked first; and what is unread.

examples:
  ekiden mentions
"""

import argparse

from ekiden.cli.place import add_door_options


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="how many (default 20)")
    parser.add_argument("--after", default="", metavar="CURSOR", help="`next` of the page before")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Prints them."""
    from ekiden.cli.screen import Screen
    from ekiden.cli.speaking import speak
    from ekiden.client.member import Member
    from ekiden.relay.wire import Mentions

    async def show(member: Member, screen: Screen) -> int:
        from ekiden.cli.mention_list import print_mentions

        found = await member.client.get("/v1/mentions", type=Mentions, limit=options.limit, after=options.after)
        await print_mentions(member, screen, found, as_json=options.json)
        return 0

    return speak(options, show)
