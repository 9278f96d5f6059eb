"""What waits for somebody in channels, on the terminal."""

from ekiden.cli.message_text import print_message
from ekiden.cli.reading import opened_data
from ekiden.cli.screen import Screen, line_of
from ekiden.client.member import Member
from ekiden.relay.wire import Mentions


async def print_mentions(member: Member, screen: Screen, found: Mentions, *, as_json: bool) -> None:
    """Prints mentions, opened and checked, and what is unread in channels."""
    for hit, delivery in zip(found.mentions, found.deliveries, strict=False):
        opened = await member.open(hit.message.channel_id, hit.message)
        if as_json:
            screen.data({"channel": hit.channel, **opened_data(hit.message, opened), "delivery": delivery})
            continue
        again = f", offered {delivery.attempt} times" if delivery.attempt > 1 else ""
        screen.say(screen.style(f"{line_of(hit.channel)}  {line_of(delivery.state)}{again}", "dim"))
        print_message(screen, hit.message, opened)
    if as_json:
        screen.data({"channels": found.channels, "more": found.more, "next": found.next, "cursor": found.cursor})
        return
    if found.more:
        screen.say(screen.style(f"{found.more} more mentions wait.", "dim"))
    for one in found.channels:
        if one.unread:
            screen.say(f"{screen.style(line_of(one.channel), 'cyan')}  {one.unread} unread, from #{one.oldest}")
    if not found.mentions and not any(one.unread for one in found.channels):
        screen.say("Nothing waits for you.")
