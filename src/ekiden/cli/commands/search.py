"""Search in the messages of channels, and in the text of all sessions.

Of an encrypted channel the hub has no text, so nothing is found there. Messages are looked through newest first,
as far back as one request looks; what was not looked at is said.

examples:
  ekiden search "retry loop"
  ekiden search deploy --channel build
"""

import argparse

from ekiden.cli.place import add_door_options


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("text", nargs="+", help="words that a message or session must hold")
    parser.add_argument("--channel", default="", help="only in this channel")
    parser.add_argument("--in", choices=["all", "channels", "sessions"], default="all", dest="where")
    parser.add_argument("--after", default="", metavar="CURSOR", help="in channels: further back, from here")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="how many (default 20)")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Searches."""
    from ekiden.cli.place import door
    from ekiden.cli.screen import Screen
    from ekiden.cli.speaking import speak
    from ekiden.client.member import Member
    from ekiden.relay.wire import RelaySearch

    text = " ".join(options.text)

    async def in_channels(member: Member, screen: Screen) -> int:
        from ekiden.cli.message_text import print_message
        from ekiden.cli.reading import opened_data
        from ekiden.cli.screen import line_of

        found = await member.client.get(
            "/v1/relay/search",
            type=RelaySearch,
            text=text,
            channel=options.channel.removeprefix("#"),
            after=options.after,
            limit=options.limit,
        )
        for hit in found.hits:
            opened = await member.open(hit.message.channel_id, hit.message)
            if options.json:
                screen.data({"channel": hit.channel, **opened_data(hit.message, opened)})
            else:
                screen.say(screen.style(line_of(hit.channel), "dim"))
                print_message(screen, hit.message, opened)
        if options.json:
            return 0
        if not found.hits:
            screen.say("No message of a channel holds that.")
        if found.next:
            back = f"Looked back to {line_of(found.searched_to)}; further: --after {line_of(found.next)}"
            screen.say(screen.style(back, "dim"))
        return 0

    if options.where != "sessions":
        speak(options, in_channels)
    if options.where == "channels" or options.channel:
        return 0
    from ekiden.cli.session_list import search

    with door(options) as client:
        return search(client, Screen(), text, limit=options.limit, as_json=options.json)
