"""Member keys, epochs and the hub's own key at the door."""

from typing import Any

from ekiden.crypto.chain import Checkpoints, HubKey
from ekiden.crypto.directory import DirectoryPage, Entry, NewEntry
from ekiden.crypto.epochs import Epochs, EpochView, NewEpoch, Share
from ekiden.kernel.door import Call, Endpoint
from ekiden.kernel.errors import Invalid, NotFound
from ekiden.kernel.limits import EPOCHS_PAGE_MAX, PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX
from ekiden.log.port import Reading, Transaction
from ekiden.relay import directory, epochs, log_chain
from ekiden.relay.port import Ports
from ekiden.relay.reach import Reach
from ekiden.relay.team_key import TeamKey, known_team_key, team_key


def _number(call: Call, name: str, default: int, most: int) -> int:
    text = call.query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 18 and int(text) <= most):
        raise Invalid(f"`{name}` is a number up to {most}.", max=most)
    return int(text)


_PLACE_MAX = 1 << 53


class Trust:
    """The endpoints, with what the room was given from outside."""

    def __init__(self, ports: Ports) -> None:
        self._reach = Reach(ports)

    # The directory

    async def read_directory(self, call: Call) -> DirectoryPage:
        after = _number(call, "after", 0, _PLACE_MAX)
        limit = max(1, _number(call, "limit", PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX))
        principal_id = call.query.get("principal", "")
        return await call.ask(
            lambda reading: directory.read_directory(reading, after=after, limit=limit, principal_id=principal_id)
        )

    async def add_entry(self, call: Call, body: NewEntry) -> Any:
        administers = call.may("admin", "access")
        return await call.write(
            lambda tx: directory.add_entry(tx, body, actor=call.actor, administers=administers)
        )

    # Epochs

    async def read_epochs(self, call: Call) -> Epochs:
        before = _number(call, "after", 0, _PLACE_MAX)
        limit = max(1, _number(call, "limit", EPOCHS_PAGE_MAX, EPOCHS_PAGE_MAX))

        async def question(reading: Reading) -> Epochs:
            channel = await self._reach.channel(call, reading)
            return await epochs.read_epochs(reading, channel, call.actor.principal_id, before=before, limit=limit)

        return await call.ask(question)

    async def open_epoch(self, call: Call, body: NewEpoch) -> Any:
        async def question(reading: Reading) -> None:
            channel = await self._reach.to_write(call, reading, "post")
            signer = await epochs.signer_of(reading, channel, body.epoch.signer, call.actor)
            # As many signatures as there are member keys: outside of the log's one writer.
            epochs.refuse_unsigned_epoch(reading.team_id, channel.channel_id, body, signer)

        await call.ask(question)

        async def verb(tx: Transaction) -> EpochView:
            channel = await self._reach.to_write(call, tx, "post")
            return await epochs.open_epoch(tx, channel, body, actor=call.actor)

        return await call.write(verb)

    async def share_epoch(self, call: Call, body: Share) -> Any:
        epoch = _epoch_of(call)

        async def question(reading: Reading) -> None:
            channel = await self._reach.to_write(call, reading, "post")
            for name in {wrap.signer for wrap in body.wraps}:
                signer = await epochs.signer_of(reading, channel, name, call.actor)
                wraps = [wrap for wrap in body.wraps if wrap.signer == name]
                epochs.refuse_unsigned_wraps(reading.team_id, channel.channel_id, epoch, wraps, signer)

        await call.ask(question)

        async def verb(tx: Transaction) -> EpochView:
            channel = await self._reach.to_write(call, tx, "post")
            return await epochs.share_epoch(tx, channel, epoch, body, actor=call.actor)

        return await call.write(verb)

    # The hub's own word

    async def hub_key(self, call: Call) -> HubKey:
        key: TeamKey | None = await call.ask(known_team_key)
        if key is None:

            async def verb(tx: Transaction) -> None:
                await team_key(tx)

            await call.write(verb)
            key = await call.ask(known_team_key)
            assert key is not None
        return HubKey(call.team_id, key.public_key, key.made_at)

    async def list_checkpoints(self, call: Call) -> Checkpoints:
        before = _number(call, "after", 0, _PLACE_MAX)
        limit = max(1, _number(call, "limit", PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX))
        return await call.ask(lambda reading: log_chain.list_checkpoints(reading, before=before, limit=limit))

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The places."""
        epochs_of = "/v1/channels/{channel}/epochs"
        page = (("after", "`next` of the page before"), ("limit", "how many at most"))
        return (
            Endpoint(
                "GET",
                "/v1/directory",
                self.read_directory,
                "Whose member keys are whose: signed entries in order",
                answer=DirectoryPage,
                query=(("principal", "only of this principal"), *page),
            ),
            Endpoint(
                "POST",
                "/v1/directory",
                self.add_entry,
                "Add, vouch for or end a member key",
                body=NewEntry,
                answer=Entry,
                status=201,
            ),
            Endpoint(
                "GET",
                epochs_of,
                self.read_epochs,
                "Epochs of an encrypted channel, with the wraps to own keys",
                answer=Epochs,
                query=page,
            ),
            Endpoint(
                "POST",
                epochs_of,
                self.open_epoch,
                "Open an epoch: its key wrapped to every member",
                body=NewEpoch,
                answer=EpochView,
                status=201,
            ),
            Endpoint(
                "POST",
                f"{epochs_of}/{{epoch}}/keys",
                self.share_epoch,
                "Give the newest epoch's key to members that came later",
                body=Share,
                answer=EpochView,
            ),
            Endpoint("GET", "/v1/hub-key", self.hub_key, "The hub's signing key of this team", answer=HubKey),
            Endpoint(
                "GET",
                "/v1/checkpoints",
                self.list_checkpoints,
                "Where the log's hash chain stood, signed; newest first",
                answer=Checkpoints,
                query=page,
            ),
        )


def _epoch_of(call: Call) -> int:
    text = call.parameters["epoch"]
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise NotFound
    return int(text)
