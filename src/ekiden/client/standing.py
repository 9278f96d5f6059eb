"""A member's standing in its team: its keys in the directory, the hub's key and the other members' against its
pins.

Keys, pins and chains lie in the member's folder under the data folder (`identity`, `pins`, `links`). Nothing of
them is made before it is needed.
"""

import math
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from ekiden.client.channel_keys import ChannelKeys
from ekiden.client.client import Client
from ekiden.client.identity import member_folder, own_identity
from ekiden.client.links import Links
from ekiden.client.pins import ChannelChanged, Pins
from ekiden.client.requests import path_of
from ekiden.crypto import directory
from ekiden.crypto.chain import HubKey
from ekiden.crypto.directory import DirectoryBroken, DirectoryPage, Trust
from ekiden.crypto.invites import Invite, proof
from ekiden.crypto.keys import MemberKeys
from ekiden.kernel.clock import iso
from ekiden.kernel.errors import Invalid
from ekiden.kernel.limits import DIRECTORY_LABEL_CHARS_MAX, MEMBER_CHANNELS_KEPT_MAX, PAGE_ROWS_MAX
from ekiden.relay.wire import Channel

T = TypeVar("T")


class Me(msgspec.Struct, frozen=True):
    """Of what `/v1/me` says, what a member needs."""

    principal_id: str
    name: str
    team_id: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Here:
    """What is there once the member has met the hub."""

    me: Me
    folder: Path
    keys: MemberKeys
    pins: Pins
    links: Links
    channel_keys: ChannelKeys


class Standing:
    """One member of a team, over `client`, with its files under the data folder `home`. `label` says to the others
    which program or computer it is; `guest_of`: the invite that it came by, for the first time. Close it (`close`,
    or `async with`); the client is the caller's own to close.

    All methods raise `EkidenError`: what the door refuses with, `HubKeyChanged`, `DirectoryBroken`.
    """

    def __init__(self, client: Client, home: Path, *, label: str = "", guest_of: Invite | None = None) -> None:
        self.client = client
        self.home = home
        self._label = label[:DIRECTORY_LABEL_CHARS_MAX]
        self._guest_of = guest_of
        self._here: Here | None = None
        self._channels: OrderedDict[str, Channel] = OrderedDict()
        self._notices: list[str] = []

    async def close(self) -> None:
        """Keeps what was learned, and gives the chains back."""
        if self._here is not None:
            self._here.pins.save()
            self._here.links.close()
            self._here = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def take_notices(self) -> tuple[str, ...]:
        """What a person should know of what was done since this was asked last."""
        notices, self._notices = tuple(dict.fromkeys(self._notices)), []
        return notices

    # --- who is here

    async def meet(self) -> Here:
        """Meets the hub, once: who this is, the hub's key against its pin, the directory; puts the own key into
        it."""
        if self._here is not None:
            return self._here
        me = await self.client.get("/v1/me", type=Me)
        folder = member_folder(self.home, me.team_id, me.principal_id)
        pins = Pins(folder, me.team_id)
        guest_of = self._guest_of
        if guest_of is not None and guest_of.hub_key:
            pins.meet_hub(guest_of.hub_key)
        pins.meet_hub((await self.client.get("/v1/hub-key", type=HubKey)).public_key)
        if guest_of is not None and guest_of.inviter is not None:
            pins.pin(guest_of.principal, guest_of.inviter.member_key_id, Trust.INVITED)
        own = own_identity(folder)
        pins.pin(me.principal_id, own.member_key_id, Trust.COMPARED)
        channel_keys = ChannelKeys(self.client, pins, own, me.team_id, lambda: self._read_directory(pins))
        here = Here(me, folder, own, pins, Links(folder, own.member_key_id), channel_keys)
        await self._read_directory(pins)
        await self._register(here)
        pins.save()
        self._here = here
        return here

    async def _register(self, here: Here) -> None:
        """Puts the own key into the directory if it is not there."""
        held = here.pins.directory.keys.get(here.keys.member_key_id)
        if held is not None:
            if not held.live:
                self._notices.append("This program's member key has ended: others do not trust it any more.")
            return
        invite, shown = self._guest_of, ""
        if invite is not None and invite.secret:
            shown = proof(
                invite.secret,
                team=here.me.team_id,
                invite=invite.invite,
                principal=here.me.principal_id,
                public=here.keys.public,
            )
        entry = directory.add_entry(
            here.keys,
            team=here.me.team_id,
            principal=here.me.principal_id,
            label=self._label,
            at=now(),
            invite=invite.invite if invite is not None else "",
            proof=shown,
        )
        await self.client.post("/v1/directory", entry)
        await self._read_directory(here.pins)
        others = [key for key in here.pins.directory.of(here.me.principal_id) if key.position < _position(here)]
        if others:
            self._notices.append(
                f"{here.me.name} has another member key already. Others trust this one once it is vouched for"
                f" there: ekiden identity vouch {here.keys.member_key_id}"
            )

    async def _read_directory(self, pins: Pins) -> None:
        known = pins.directory
        before = known.position
        while True:
            page = await self.client.get(
                "/v1/directory", type=DirectoryPage, after=str(known.position), limit=PAGE_ROWS_MAX
            )
            known.take(page.entries)
            if page.head < known.position:
                raise DirectoryBroken(
                    f"The hub's directory of member keys ends at entry {page.head}, but entry {known.position} was"
                    " seen before.",
                    hint="Its data may be an older copy.",
                    position=page.head,
                )
            if not page.next or not page.entries:
                break
        if known.position != before:
            pins.remember_directory()

    async def look_again(self) -> None:
        """Reads what is new in the directory of member keys."""
        here = await self.meet()
        await self._read_directory(here.pins)
        here.pins.save()

    async def vouch(self, member_key: str) -> None:
        """Says with this key that another live key of the same principal is good.

        Raises:
            Invalid: if there is no such key.
        """
        here = await self.meet()
        await self.look_again()
        about = here.pins.directory.keys.get(member_key)
        if about is None or not about.live or about.principal_id != here.me.principal_id:
            raise Invalid("You have no such live member key.", hint="`ekiden identity` lists yours.")
        entry = directory.vouch_entry(
            here.keys, about.public, team=here.me.team_id, principal=here.me.principal_id, at=now()
        )
        await self.client.post("/v1/directory", entry)
        await self.look_again()

    async def end_key(self, member_key: str) -> None:
        """Says with this key that one of the same principal, perhaps itself, is not to be used any more."""
        here = await self.meet()
        entry = directory.end_entry(
            here.keys, member_key, team=here.me.team_id, principal=here.me.principal_id, at=now()
        )
        await self.client.post("/v1/directory", entry)
        await self.look_again()

    # --- channels

    async def channel(self, name: str, *, anew: bool = False) -> Channel:
        """A channel by its name or id; `anew`: as it is at this moment."""
        held = self._channels.get(name)
        if held is None or anew:
            held = await self.client.get(path_of("/v1/channels/{channel}", channel=name), type=Channel)
            for known_as in {name, held.channel_id}:
                keep(self._channels, known_as, held, MEMBER_CHANNELS_KEPT_MAX)
        return held

    async def place(self, name: str, *, anew: bool = False) -> Channel:
        """A channel to say something in: as `channel`, held against what was met before.

        Raises:
            ChannelChanged: if the hub shows another one, or a plain one where an encrypted was.
        """
        here = await self.meet()
        found = await self.channel(name, anew=anew)
        if name.casefold() not in (found.name, found.channel_id):
            raise ChannelChanged(
                f"The hub shows {found.name} where {name} was asked for.", hint="Nothing was sent."
            )
        here.pins.see_channel(found.name, found.channel_id, encrypted=found.encrypted)
        return found


def now() -> str:
    """The time of this computer, for what is signed."""
    return iso(time.time())


def seconds_until(at: str) -> int:
    """How long it is until a time (RFC 3339), in whole seconds; one at least."""
    return max(1, math.ceil(datetime.fromisoformat(at).timestamp() - time.time()))


def keep(kept: OrderedDict[str, T], name: str, value: T, most: int) -> None:
    """Remembers `value`, and forgets what is oldest over `most`."""
    kept[name] = value
    kept.move_to_end(name)
    while len(kept) > most:
        kept.popitem(last=False)


def _position(here: Here) -> int:
    own = here.pins.directory.keys.get(here.keys.member_key_id)
    return own.position if own is not None else 0
