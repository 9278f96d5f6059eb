"""Say something in a channel. It is signed with this computer's member key, and sealed in an encrypted channel.

`@name`, `@role:reviewer` and `@all` in the text call somebody; the answer says how each will get it.

examples:
  ekiden post build "The release is ready, @ben" --asks answer
  git log -1 | ekiden post build -
  ekiden post build "Here it is" --thread 12 --attach report.pdf
"""

import argparse
import sys
from pathlib import Path

from ekiden.cli.place import add_door_options


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("channel")
    parser.add_argument("text", nargs="*", help="the text; `-` reads it from standard input")
    parser.add_argument(
        "--thread", default="", metavar="MESSAGE", help="in the thread that begins with this message"
    )
    parser.add_argument("--answers", default="", metavar="MESSAGE", help="answers this message")
    parser.add_argument("--asks", default="", choices=["", "ack", "answer"], help="what is wanted of those called")
    parser.add_argument(
        "--expires-s", type=int, default=0, metavar="S", help="what is asked expires after so long"
    )
    parser.add_argument(
        "--mention", action="append", default=[], metavar="NAME", help="calls somebody beside the text"
    )
    parser.add_argument("--title", default="", help="begins a thread with this title")
    parser.add_argument(
        "--attach", action="append", default=[], type=Path, metavar="FILE", help="a file that goes along"
    )
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Posts."""
    from ekiden.cli.screen import Screen
    from ekiden.cli.speaking import message_named, speak
    from ekiden.client.member import Member
    from ekiden.relay.wire import Asks, Post

    text = sys.stdin.read().rstrip("\n") if options.text == ["-"] else " ".join(options.text)

    async def post(member: Member, screen: Screen) -> int:
        import mimetypes

        from ekiden.cli.message_text import notice_text, print_deliveries

        channel: str = options.channel.removeprefix("#")
        attachments = [
            await member.attach(
                channel,
                path.name,
                path.read_bytes(),
                mimetypes.guess_type(path.name)[0] or "application/octet-stream",
            )
            for path in options.attach
        ]
        posted = await member.post(
            channel,
            Post(
                text=text,
                thread_id=await message_named(member, channel, options.thread) if options.thread else "",
                answers=await message_named(member, channel, options.answers) if options.answers else "",
                asks=Asks(options.asks),
                expires_s=options.expires_s,
                mentions=tuple(name.removeprefix("@") for name in options.mention),
                title=options.title,
                attachments=tuple(attachments),
            ),
        )
        if options.json:
            screen.data(posted)
            return 0
        screen.say(f"#{posted.message.number} {posted.message.message_id}")
        print_deliveries(screen, posted.deliveries, posted.unplaced)
        if posted.notice:
            screen.say(screen.style(f"  nobody is woken: {notice_text(posted.notice)}", "yellow"))
        return 0

    return speak(options, post)
