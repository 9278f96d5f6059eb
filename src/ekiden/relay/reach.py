"""What state is about: a channel as its table holds it, who acts on it, and whether they may.

What a key may not read answers like what does not exist. `admin` on a channel implies all else there.
"""

import msgspec

from ekiden.kernel.door import Call
from ekiden.kernel.errors import Conflict, Forbidden, NotFound
from ekiden.log.appending import encoded
from ekiden.log.port import Actor, Reading, Row
from ekiden.relay.status_rules import Writer
from ekiden.relay.wire import Authority, Channel, ChannelState

HUB = Actor(principal_id="hub", name="hub")
"""Who acts when the hub itself notices something."""
HUB_WRITER = Writer(HUB.principal_id, HUB.name, Authority.SYSTEM)
_channel = msgspec.json.Decoder(Channel).decode
_PEOPLE = ("person", "device")


class Archived(Conflict):
    """The channel can only be read."""

    code = "archived"


def text_of(value: object) -> str:
    """`value` as JSON text for a column."""
    return encoded(value).decode()


def _channel_of(row: Row | None) -> Channel | None:
    if row is None:
        return None
    channel = _channel(row["channel"])
    return msgspec.structs.replace(
        channel,
        first_number=row["first_number"] or channel.first_number,
        last_number=row["last_number"] or channel.last_number,
    )


async def load_channel(reading: Reading, name_or_id: str) -> Channel | None:
    """The channel that a path names, or None; a deleted one is none."""
    return _channel_of(
        await reading.row("relay.state_channel", team_id=reading.team_id, channel=name_or_id.casefold())
    )


async def load_channel_by_id(reading: Reading, channel_id: str) -> Channel | None:
    """The channel with this id, also if it is deleted."""
    return _channel_of(
        await reading.row("relay.state_channel_by_id", team_id=reading.team_id, channel_id=channel_id)
    )


async def writer_of(reading: Reading, actor: Actor) -> Writer:
    """Who acts, with the authority that its kind of principal has."""
    row = await reading.row("relay.state_kind", team_id=reading.team_id, principal_id=actor.principal_id)
    authority = Authority.PERSON if row is not None and row["kind"] in _PEOPLE else Authority.AGENT
    return Writer(actor.principal_id, actor.name, authority)


def may(call: Call, verb: str, channel: Channel) -> bool:
    """Whether the caller's key allows `verb` on a channel."""
    return call.may(verb, channel.resource) or call.may("admin", channel.resource)


async def reached(call: Call, reading: Reading, verb: str = "read") -> Channel:
    """The channel of the path, if the caller may do `verb` there.

    Raises:
        NotFound: if there is none, or the caller may not even read it.
        Forbidden: if it may read it only.
    """
    channel = await load_channel(reading, call.parameters["channel"])
    if channel is None:
        raise NotFound
    if may(call, verb, channel):
        return channel
    if not may(call, "read", channel):
        raise NotFound
    raise Forbidden("This key may read this channel, but not do that.", verb=verb, resource=channel.resource)


async def reached_to_write(call: Call, reading: Reading, verb: str) -> Channel:
    """As `reached`, for what changes the channel's state.

    Raises:
        Archived: if it is read only.
    """
    channel = await reached(call, reading, verb)
    refuse_archived(channel)
    return channel


def refuse_archived(channel: Channel) -> None:
    """Raises:
    Archived: if the channel is read only.
    """
    if channel.state is not ChannelState.OPEN:
        raise Archived(f"The channel {channel.name!r} is {channel.state}.", state=channel.state.value)
