"""From what a person types to places in a channel, for commands that need no member keys."""

from ekiden.client.plain import PlainClient
from ekiden.client.requests import path_of
from ekiden.kernel.errors import NotFound
from ekiden.relay.wire import Messages


def channel_path(channel: str, rest: str = "") -> str:
    """The path of a channel at the door. A name may be typed with the `#` before it."""
    return path_of("/v1/channels/{channel}", channel=channel.removeprefix("#")) + rest


def message_id_of(client: PlainClient, channel: str, name: str) -> str:
    """The id of the message that a person names by its id or its number (`12`, `#12`).

    Raises:
        NotFound: if there is none of that number.
    """
    number = number_of(name)
    if number is None:
        return name
    page = client.get(channel_path(channel, "/messages"), type=Messages, before=number + 1, limit=1)
    return the_message(page, channel, number)


def number_of(name: str) -> int | None:
    """The number that a message is named by, None if it is named by its id."""
    text = name.removeprefix("#")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def the_message(page: Messages, channel: str, number: int) -> str:
    """The id of the one message of a page, if it has that number.

    Raises:
        NotFound: if it has not.
    """
    if not page.messages or page.messages[0].number != number:
        raise NotFound(f"There is no message #{number} in {channel}.")
    return page.messages[0].message_id
