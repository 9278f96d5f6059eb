"""Change what a message of yours says, or take it back. That it was changed, and when, stays visible.

examples:
  ekiden edit build 12 "The release is ready now"
  ekiden edit build 12 --delete
"""

import argparse
import sys

from ekiden.cli.place import add_door_options


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("channel")
    parser.add_argument("message", help="its number or id")
    parser.add_argument("text", nargs="*", help="the new text; `-` reads it from standard input")
    parser.add_argument("--delete", action="store_true", help="take the message back")
    parser.add_argument(
        "--mention", action="append", default=[], metavar="NAME", help="calls somebody beside the text"
    )
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Edits or deletes."""
    from ekiden.cli.screen import Screen
    from ekiden.cli.speaking import message_named, speak
    from ekiden.cli.talk_places import channel_path
    from ekiden.client.member import Member
    from ekiden.kernel.errors import Invalid
    from ekiden.relay.wire import Edit, Message

    text = sys.stdin.read().rstrip("\n") if options.text == ["-"] else " ".join(options.text)
    if bool(text) == options.delete:
        raise Invalid("Either a new text, or --delete.")

    async def edit(member: Member, screen: Screen) -> int:
        channel: str = options.channel.removeprefix("#")
        message_id = await message_named(member, channel, options.message)
        if options.delete:
            path = channel_path(channel, f"/messages/{message_id}")
            message = await member.client.delete(path, type=Message)
        else:
            names = tuple(name.removeprefix("@") for name in options.mention)
            message = (await member.edit(channel, message_id, Edit(text=text, mentions=names))).message
        if options.json:
            screen.data(message)
        else:
            screen.say(f"#{message.number} is {'deleted' if options.delete else 'edited'}.")
        return 0

    return speak(options, edit)
