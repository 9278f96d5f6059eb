"""The keys of encrypted channels, on a member's side: opened with the own member key, made for the others.

A key is used for posting only if the statement of its epoch is signed by a key that is trusted here and follows
from what was seen before. Members without a trusted key get none; who has shown only keys that are not trusted
stops the making of a new epoch, loudly.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from ekiden.client.client import Client
from ekiden.client.pins import Pins
from ekiden.client.requests import path_of
from ekiden.crypto import epochs, keys
from ekiden.crypto.directory import KeyNotTrusted
from ekiden.crypto.epochs import Epoch, Epochs, EpochView, Share
from ekiden.crypto.keys import MemberKeys, PublicKeys
from ekiden.crypto.sealing import SealBroken
from ekiden.kernel.clock import iso
from ekiden.kernel.errors import EkidenError
from ekiden.kernel.limits import CLIENT_TRIES_MAX, MEMBER_LOOKS_AGAIN_S, PAGE_ROWS_MAX
from ekiden.relay.wire import Channel, Members


@dataclass(frozen=True, slots=True)
class EpochKey:
    """The key that is posted with now. `notices`: what a person should know of it."""

    epoch: int
    key: bytes
    notices: tuple[str, ...] = ()


@dataclass(slots=True)
class _Known:
    """One channel's epochs as they were last seen."""

    keys: dict[int, bytes] = field(default_factory=dict[int, bytes])
    now: EpochKey | None = None
    members: int = -1
    directory: int = -1
    looked_at: float = 0.0


class ChannelKeys:
    """Opens, makes and shares epochs. `read_directory` brings the directory of `pins` up to date."""

    def __init__(
        self,
        client: Client,
        pins: Pins,
        member: MemberKeys,
        team: str,
        read_directory: Callable[[], Awaitable[None]],
    ) -> None:
        self._client = client
        self._read_directory = read_directory
        self._pins = pins
        self._member = member
        self._team = team
        self._known: dict[str, _Known] = {}

    async def to_post(self, channel: Channel, *, anew: bool = False) -> EpochKey:
        """The key to seal with now: the newest epoch's, a new one where there is none or somebody left. Members
        that came since are given it. `anew`: whatever was known before.

        Raises:
            KeyNotTrusted: if a member has shown only keys that are not trusted here.
            SealBroken: if the epoch's key is not for this member, or not as its statement says.
        """
        known = self._known.setdefault(channel.channel_id, _Known())
        fresh = time.monotonic() - known.looked_at < MEMBER_LOOKS_AGAIN_S
        seen = (channel.members, self._pins.directory.position)
        unchanged = (
            known.now is not None and channel.epoch == known.now.epoch and seen == (known.members, known.directory)
        )
        if known.now is not None and unchanged and fresh and not channel.epoch_stale and not anew:
            return known.now
        for _ in range(CLIENT_TRIES_MAX):
            page = await self._epochs(channel.channel_id)
            members = await self._members(channel.channel_id)
            try:
                known.now = await self._current(channel.channel_id, known, page, members)
            except EkidenError as error:
                # Somebody else was faster, or somebody came while this was made.
                if not {"stale_epoch", "epoch_incomplete"} & {error.code, error.details.get("code")}:
                    raise
                await self._read_directory()
                continue
            known.members, known.directory = seen
            known.looked_at = time.monotonic()
            self._pins.save()
            return known.now
        raise SealBroken("The channel's key changes all the time.", hint="Try again.")

    async def to_open(self, channel_id: str, epoch: int) -> bytes:
        """The key of one epoch.

        Raises:
            SealBroken: if it is not wrapped to this member, or not as its statement says.
        """
        known = self._known.setdefault(channel_id, _Known())
        if epoch not in known.keys:
            page = await self._epochs(channel_id, upto=epoch)
            view = next((view for view in page.epochs if view.epoch.epoch == epoch), None)
            if view is None:
                raise SealBroken(f"The hub has no epoch {epoch} of this channel.")
            known.keys[epoch] = await self._opened(view)
        return known.keys[epoch]

    async def _current(
        self, channel_id: str, known: _Known, page: Epochs, members: Sequence[tuple[str, str]]
    ) -> EpochKey:
        newest = page.epochs[0] if page.epochs else None
        if newest is not None:
            self._pins.see_epoch(channel_id, newest.epoch.epoch, newest.epoch.digest(self._team))
        if newest is None or page.stale or not newest.wraps:
            return await self._open_new(channel_id, known, newest.epoch if newest else None, members)
        number = newest.epoch.epoch
        key = known.keys[number] = await self._opened(newest)
        wanted, notices = self._trusted(members, strict=False)
        holders = {*newest.holders, *(name for _, name in newest.epoch.members)}
        late = [(principal, public) for principal, public in wanted if public.member_key_id not in holders]
        if late:
            wraps = epochs.wrap_all(
                self._member,
                key,
                team=self._team,
                channel=channel_id,
                epoch=number,
                members=late,
                at=iso(time.time()),
            )
            path = path_of("/v1/channels/{channel}/epochs/{epoch}/keys", channel=channel_id, epoch=str(number))
            await self._client.post(path, Share(wraps))
        return EpochKey(number, key, notices)

    async def _open_new(
        self, channel_id: str, known: _Known, before: Epoch | None, members: Sequence[tuple[str, str]]
    ) -> EpochKey:
        wanted, notices = self._trusted(members, strict=True)
        key = epochs.new_key()
        number = before.epoch + 1 if before is not None else 1
        new = epochs.open_epoch(
            self._member,
            key,
            team=self._team,
            channel=channel_id,
            epoch=number,
            members=wanted,
            previous=before.digest(self._team) if before is not None else "",
            at=iso(time.time()),
        )
        await self._client.post(_epochs_path(channel_id), new, type=EpochView)
        self._pins.see_epoch(channel_id, number, new.epoch.digest(self._team))
        known.keys[number] = key
        return EpochKey(number, key, notices)

    def _trusted(
        self, members: Sequence[tuple[str, str]], *, strict: bool
    ) -> tuple[list[tuple[str, PublicKeys]], tuple[str, ...]]:
        """Whom the key is for, and what is to be said of the others. `strict`: who has only untrusted keys
        stops it."""
        wanted: list[tuple[str, PublicKeys]] = []
        notices: list[str] = []
        for principal, name in members:
            try:
                wanted += [(principal, key.public) for key in self._pins.trusted(principal)]
            except KeyNotTrusted as error:
                if strict:
                    raise
                notices.append(error.message)
                continue
            doubted = self._pins.doubted(principal)
            notices += [
                f"{name} has another member key that nobody vouches for: {key.public.fingerprint}. It was"
                " given nothing."
                for key in doubted
            ]
            if not self._pins.directory.of(principal):
                notices.append(f"{name} has no member key yet and cannot read this.")
        return wanted, tuple(notices)

    async def _opened(self, view: EpochView) -> bytes:
        epoch = view.epoch
        if epoch.signer not in self._pins.directory.keys:
            await self._read_directory()
        signer = self._pins.directory.keys.get(epoch.signer)
        by = self._pins.speaks_for(signer.principal_id, epoch.signer) if signer is not None else None
        if by is None or not keys.signed_by(by.public.sign, epoch.signature, epoch.statement(self._team)):
            raise SealBroken(
                f"Epoch {epoch.epoch} of the channel was not opened by a member key that is trusted here.",
                epoch=epoch.epoch,
            )
        own = next((wrap for wrap in view.wraps if wrap.member_key == self._member.member_key_id), None)
        if own is None:
            raise SealBroken(
                "This member key has no key to that part of the channel.",
                hint="It was said before this member came, or the next member that posts will hand the key over.",
                epoch=epoch.epoch,
            )
        return epochs.unwrap(self._member, own.wrapped, team=self._team, epoch=epoch)

    async def _epochs(self, channel_id: str, upto: int = 0) -> Epochs:
        after = str(upto + 1) if upto else ""
        return await self._client.get(
            _epochs_path(channel_id), type=Epochs, after=after, limit=1 if upto else None
        )

    async def _members(self, channel_id: str) -> list[tuple[str, str]]:
        """(principal id, name) of every member."""
        found: list[tuple[str, str]] = []
        after = ""
        while True:
            path = path_of("/v1/channels/{channel}/members", channel=channel_id)
            page = await self._client.get(path, type=Members, limit=PAGE_ROWS_MAX, after=after)
            found += [(member.principal_id, member.name) for member in page.members]
            after = page.next
            if not after:
                return found


def _epochs_path(channel_id: str) -> str:
    return path_of("/v1/channels/{channel}/epochs", channel=channel_id)
