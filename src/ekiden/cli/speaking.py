"""Commands that speak as a member of the team: signed, sealed where a channel is, with the pins of this
computer."""

import argparse
import asyncio
import platform
import sys
from collections.abc import Awaitable, Callable

from ekiden.cli.place import address_and_key, home_of
from ekiden.cli.screen import Screen, line_of
from ekiden.cli.talk_places import channel_path, number_of, the_message
from ekiden.client.client import Client
from ekiden.client.member import Member
from ekiden.crypto.invites import Invite

Speaker = Callable[[Member, Screen], Awaitable[int]]


def speak(options: argparse.Namespace, run: Speaker, *, guest_of: Invite | None = None) -> int:
    """Runs `run` as the member that the options mean, and says afterwards what a person should know."""
    url, key = address_and_key(options)

    async def all_of_it() -> int:
        label = f"{platform.node()} command line"
        async with (
            Client(url, key) as client,
            Member(client, home_of(options), label=label, guest_of=guest_of) as one,
        ):
            try:
                return await run(one, Screen())
            finally:
                for notice in one.take_notices():
                    print(f"ekiden: {line_of(notice)}", file=sys.stderr)

    return asyncio.run(all_of_it())


async def message_named(member: Member, channel: str, name: str) -> str:
    """The id of the message that a person names by its id or its number (`12`, `#12`).

    Raises:
        NotFound: if there is none of that number.
    """
    from ekiden.relay.wire import Messages

    number = number_of(name)
    if number is None:
        return name
    page = await member.client.get(channel_path(channel, "/messages"), type=Messages, before=number + 1, limit=1)
    return the_message(page, channel, number)
