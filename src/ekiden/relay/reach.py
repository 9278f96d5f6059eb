"""What state is about: the channel of a path, who acts on it, and whether they may."""

from ekiden.kernel.door import Call
from ekiden.log.port import Actor, Reading
from ekiden.relay.keeping import HUB, Caller, channel_for, channel_of
from ekiden.relay.port import Ports
from ekiden.relay.rules import authority_of, refuse_unwritable
from ekiden.relay.status_rules import Writer
from ekiden.relay.wire import Authority, Channel

HUB_WRITER = Writer(HUB.principal_id, HUB.name, Authority.SYSTEM)


async def writer_of(reading: Reading, actor: Actor) -> Writer:
    """Who acts, with the authority that its kind of principal has."""
    if actor == HUB:
        return HUB_WRITER
    row = await reading.row("relay.state_kind", team_id=reading.team_id, principal_id=actor.principal_id)
    authority = authority_of(row["kind"]) if row is not None else Authority.AGENT
    return Writer(actor.principal_id, actor.name, authority)


async def any_channel(reading: Reading, channel_id: str) -> Channel:
    """A channel that is known to be there, also if it is deleted."""
    row = await reading.row("relay.channel_by_id", team_id=reading.team_id, ref=channel_id)
    assert row is not None
    return channel_of(row).channel


class Reach:
    """The channels of paths, as one who calls may reach them."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    def caller(self, call: Call) -> Caller:
        """Who calls."""
        return Caller(call.actor, call.may, self._ports, call.hub.log_id)

    async def channel(self, call: Call, reading: Reading, verb: str = "read") -> Channel:
        """The channel of the path, if the caller may do `verb` there.

        Raises:
            NotFound, Forbidden: see `keeping.channel_for`.
        """
        return (await channel_for(reading, self.caller(call), call.parameters["channel"], verb)).channel

    async def to_write(self, call: Call, reading: Reading, verb: str) -> Channel:
        """As `channel`, for what changes the channel's state.

        Raises:
            Conflict: if it is read only.
        """
        channel = await self.channel(call, reading, verb)
        refuse_unwritable(channel)
        return channel
