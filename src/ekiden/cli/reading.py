"""Reading channels on the terminal."""

import argparse
from typing import Any

import msgspec

from ekiden.cli.message_text import print_message
from ekiden.cli.screen import Screen, line_of
from ekiden.cli.speaking import message_named
from ekiden.cli.talk_places import channel_path
from ekiden.client.member import Member, Opened
from ekiden.client.own_files import write_own
from ekiden.client.stream import Reconnect
from ekiden.kernel.errors import Invalid, NotFound
from ekiden.relay.wire import Message, Messages


async def show(member: Member, screen: Screen, options: argparse.Namespace) -> int:
    """Prints the messages that the options mean."""
    channel: str = options.channel.removeprefix("#")
    if options.message:
        message_id = await message_named(member, channel, options.message)
        message = await member.client.get(channel_path(channel, f"/messages/{message_id}"), type=Message)
        await print_all(member, screen, channel, (message,), as_json=options.json)
        return 0
    page = await member.client.get(
        channel_path(channel, "/messages"),
        type=Messages,
        thread=await message_named(member, channel, options.thread) if options.thread else "",
        unread="1" if options.unread else "",
        mentions="me" if options.mentions else "",
        after=options.after.removeprefix("#"),
        before=options.before.removeprefix("#"),
        limit=options.limit,
    )
    await print_all(member, screen, channel, page.messages, as_json=options.json)
    if options.follow:
        return await follow(member, screen, channel, page.cursor, as_json=options.json)
    if options.json:
        return 0
    if page.missing:
        screen.say(screen.style(f"{page.missing} messages of this part were purged.", "yellow"))
    if not page.messages:
        screen.say("Nothing there.")
    elif options.unread and page.total_unread:
        left = page.total_unread - len(page.messages)
        said = f"{left} more are unread. " if left > 0 else ""
        number = page.messages[-1].number
        screen.say(screen.style(f"{said}Took note? ekiden ack {line_of(channel)} --upto {number}", "dim"))
    return 0


_SPOKEN = frozenset({"message.posted", "message.edited", "message.deleted"})


async def follow(member: Member, screen: Screen, channel: str, cursor: str, *, as_json: bool) -> int:
    """Prints what is said after a cursor, as it comes. What was missed is said."""
    place = await member.channel(channel)
    async with member.client.stream(place.resource, cursor, reconnect=Reconnect()) as stream:
        async for frame in stream:
            if frame.kind in _SPOKEN:
                await print_all(member, screen, channel, (frame.read(Message),), as_json=as_json)
            elif frame.kind in ("stream.gap", "stream.reset") and not as_json:
                screen.say(screen.style("Something was missed here: read the channel again.", "yellow"))
            elif frame.kind == "stream.end":
                screen.say(
                    screen.style(f"The hub has ended this: {line_of(bytes(frame.body).decode())}", "yellow")
                )
    return 0


async def print_all(
    member: Member, screen: Screen, channel: str, messages: tuple[Message, ...], *, as_json: bool
) -> None:
    """Prints messages, opened and checked."""
    for message in messages:
        opened = await member.open(channel, message)
        if as_json:
            screen.data(opened_data(message, opened))
        else:
            print_message(screen, message, opened)


def opened_data(message: Message, opened: Opened) -> dict[str, Any]:
    """A message in the door's own shape, with what a member found: the opened text, title and attachments,
    `proof`, and `note` where it does not open."""
    return {
        **msgspec.to_builtins(message),
        "text": opened.text,
        "title": opened.title,
        "attachments": msgspec.to_builtins(opened.attachments),
        "proof": opened.proof.value,
        "note": opened.note,
    }


async def save_attachment(member: Member, screen: Screen, options: argparse.Namespace) -> int:
    """Writes an attachment of one message to a file.

    Raises:
        Invalid: if no message or no file is named.
        NotFound: if the message has no such attachment.
    """
    if not options.message or options.out is None:
        raise Invalid(
            "Of which message, and where to?", hint="ekiden read CHANNEL MESSAGE --attachment NAME --out FILE"
        )
    channel: str = options.channel.removeprefix("#")
    message_id = await message_named(member, channel, options.message)
    message = await member.client.get(channel_path(channel, f"/messages/{message_id}"), type=Message)
    opened = await member.open(channel, message)
    found = [one for one in opened.attachments if options.attachment in (one.name, one.sha256)]
    if not found:
        raise NotFound(
            "The message has no such attachment.", candidates=[line_of(one.name) for one in opened.attachments]
        )
    bytes_of = await member.detach(channel, found[0].sha256, message)
    write_own(options.out.absolute(), bytes_of.data)
    if options.json:
        screen.data({"file": str(options.out), "size": len(bytes_of.data), "media_type": bytes_of.media_type})
    else:
        screen.say(f"{len(bytes_of.data)} bytes in {line_of(str(options.out))}")
    return 0
