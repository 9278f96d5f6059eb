"""The channels that guests are invited to, as the access room asks for them."""

from ekiden.access.port import May
from ekiden.kernel.errors import NotFound
from ekiden.log.port import Actor, Reading, Transaction
from ekiden.relay.keeping import HUB, Caller, KeptChannel, add_follower, channel_for
from ekiden.relay.port import Known, Ports
from ekiden.relay.wire import ChannelState


class RelayPlaces:
    """See `access.port.Places`."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def resource_of(self, reading: Reading, channel: str, may: May) -> str | None:
        """What permission maps call an open channel; None if there is none that may be read."""
        kept = await self._open(reading, channel, may)
        return kept.resource if kept is not None else None

    async def join(self, tx: Transaction, actor: Actor, kind: str, resource: str) -> None:
        """Makes a guest a member of the channel, if that is still there."""
        name = resource.partition(":")[2]
        kept = await self._open(tx, name, lambda _, asked: asked == resource)
        if kept is not None:
            known = Known(actor.principal_id, actor.name, kind)
            await add_follower(tx, kept, known, "", actor)

    async def _open(self, reading: Reading, channel: str, may: May) -> KeptChannel | None:
        caller = Caller(HUB, may, self._ports, "")
        try:
            kept = await channel_for(reading, caller, channel, "read")
        except NotFound:
            return None
        return kept if kept.channel.state is ChannelState.OPEN else None
